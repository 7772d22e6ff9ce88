"""Runs the interop suites: every function `test_*` of every module `test_*.py` beside this file.

usage: run.py [WORD ..]      only tests whose `module.name` holds one of the words

Each test gets an empty folder. Prints one line per test, what it measured, the text of each
failure, and last a line `N passed, N failed`; the exit code is 1 when one failed.
"""

import importlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import tally  # noqa: E402


def discover(words):
    """(name, function) of the wanted tests, in the order of the files."""
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(path.stem)
        for name, function in list(vars(module).items()):
            full = f"{path.stem.removeprefix('test_')}.{name.removeprefix('test_')}"
            if name.startswith("test_") and callable(function) and function.__module__ == path.stem:
                if not words or any(word in full for word in words):
                    yield full, function


def run_one(name, function):
    """Whether the test passed; its folder stays when it did not and TARNDB_KEEP is set."""
    folder = Path(tempfile.mkdtemp(prefix="tarndb-interop-"))
    started = time.monotonic()
    try:
        said = function(folder)
        note = f": {said}" if said else ""
        print(f"ok      {name} ({time.monotonic() - started:.1f} s){note}", flush=True)
        return True
    except Exception:
        print(f"FAILED  {name} ({time.monotonic() - started:.1f} s)", flush=True)
        print("".join(f"        {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
        return False
    finally:
        if not os.environ.get("TARNDB_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.exists():
            print(f"        kept {folder}", flush=True)


def main():
    outcomes = [run_one(name, function) for name, function in discover(sys.argv[1:])]
    return tally.report("interop", outcomes.count(True), outcomes.count(False) + (not outcomes))


if __name__ == "__main__":
    sys.exit(main())
