#!/usr/bin/env python3
"""Random queries against DuckDB, long form.

usage: query_fuzz.py [queries=500] [seed=1] [tables=100] [rows=200]

`tables` is the number of queries after which new tables are made. TARNDB_BIN names the binary.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
import queries  # noqa: E402
from arguments import arguments  # noqa: E402


def main():
    given = arguments(queries=500, seed=1, tables=100, rows=200)
    started, figures, faults = time.monotonic(), Counter(), []
    with tempfile.TemporaryDirectory(prefix="tarndb-fuzz-") as folder:
        for turn, first in enumerate(range(0, given["queries"], given["tables"])):
            count = min(given["tables"], given["queries"] - first)
            more, counted = queries.compare(folder, given["seed"] + turn, count, given["rows"])
            figures.update(counted)
            faults += more
            for fault in more:
                print(fault, flush=True)
    told = ", ".join(f"{name} {count}" for name, count in figures.items())
    print(f"{told}; {len(faults)} faults, {time.monotonic() - started:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
