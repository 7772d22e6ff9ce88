#!/usr/bin/env python3
"""Processes that upsert the same new keys at the same time: each key is there once.

usage: upsert_race.py [processes=16] [keys=4]

For each kind of key (integer, string, float, composite; none declared) all processes upsert the
same keys into an empty table, each key in a transaction of its own that runs again after a
conflict. The processes are the example `upsert_race` of the crate `tarndb`; UPSERT_RACE_BIN
names its binary, else it is the debug build of scripts/test.sh.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402
from tarndb import Tarn  # noqa: E402

TABLES = {
    "integers": "id BIGINT",
    "strings": "s TEXT",
    "floats": "f DOUBLE",
    "composites": "id BIGINT, s TEXT, f DOUBLE",
}
TIMEOUT_S = 600


def example():
    target = os.environ.get("CARGO_TARGET_DIR") or str(Path.home() / ".cache/tarndb/target")
    return os.environ.get("UPSERT_RACE_BIN") or str(Path(target) / "debug/examples/upsert_race")


def race(tarn, table, processes, keys):
    """Runs all processes on one table; asserts that each key is there once."""
    started = time.monotonic()
    running = [subprocess.Popen([example(), tarn.db, table, str(n), str(keys)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for n in range(processes)]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    conflicts = 0
    for number, process in enumerate(running):
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, f"{table}: process {number} ended with {process.returncode}: {stderr[-2000:]}"
        words = stdout.split()
        assert words[:2] == ["upserted", str(keys)], f"{table}: process {number} said {stdout!r}"
        conflicts += int(words[3])
    rows = int(tarn.value(f"SELECT count(*) FROM {table}"))
    assert rows == keys, f"{table}: {rows} rows for {keys} keys"
    took = time.monotonic() - started
    print(f"{table}: {processes} processes, {keys} keys, {rows} rows, {conflicts} conflicts, {took:.1f} s", flush=True)


def main():
    options = arguments(processes=16, keys=4)
    folder = Path(tempfile.mkdtemp(prefix="tarndb-upserts-"))
    tarn = Tarn(folder / "db", init=True)
    for table, columns in TABLES.items():
        tarn.sql(f"CREATE TABLE {table} ({columns}, writer BIGINT)")
    for table in TABLES:
        race(tarn, table, options["processes"], options["keys"])
    tarn.check("--deep")
    shutil.rmtree(folder)
    print("each key is there once, check --deep is clean")
    return report("upserts", len(TABLES), 0)


if __name__ == "__main__":
    sys.exit(main())
