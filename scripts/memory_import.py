#!/usr/bin/env python3
"""Peak memory of an import that is ten times the memory limit.

usage: memory_import.py [limit_mb=64] [times=10] [partitions=1000] [allowance_mb=150]

Makes a CSV file of `times` x the limit, imports it with `--memory-limit` into a plain table and
into one with many partitions, and asserts that the peak resident size of the process is at most
the limit + the allowance. Prints the peaks and MB/s.
"""

import os
import random
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

WORDS = "amber birch cedar delta ember fjord grove heath islet juniper knoll lagoon".split()


def make_csv(path, size_bytes, partitions):
    """Rows in no order of the partition key; returns the number of rows."""
    rng, rows, written = random.Random(7), 0, 0
    noise = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=40)) for _ in range(4096)]
    with open(path, "w") as file:
        file.write("id,part,amount,rate,day,word,note\n")
        while written < size_bytes:
            block = "".join(
                f"{n},{(n * 7919) % partitions},{n * 31 % 100003},{n / 7:.6f},"
                f"20{n % 30:02}-{n % 12 + 1:02}-{n % 28 + 1:02},{WORDS[n % 12]},{noise[n * 13 % 4096]}{n}\n"
                for n in range(rows, rows + 20_000))
            file.write(block)
            written, rows = written + len(block), rows + 20_000
    return rows


def peak_mb(process):
    """Waits for the process; its peak resident size in MB."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * 1024 / 1e6


def measured_import(tarn, table, csv, limit_mb, rows, errors):
    """Imports, and returns (peak MB, seconds)."""
    started = time.monotonic()
    with open(errors, "w") as log:
        process = subprocess.Popen(
            tarn.command("--memory-limit", f"{limit_mb}MB", "import", csv, "--table", table),
            stdout=log, stderr=log)
        peak = peak_mb(process)
    took = time.monotonic() - started
    assert process.returncode == 0, Path(errors).read_text()[-3000:]
    found = int(tarn.value(f"SELECT count(*) FROM {table}"))
    assert found == rows, f"{found} of {rows} rows in {table}"
    return peak, took


def main():
    options = arguments(limit_mb=64, times=10, partitions=1000, allowance_mb=150)
    limit, partitions = options["limit_mb"], options["partitions"]
    folder = Path(tempfile.mkdtemp(prefix="tarndb-memory-"))
    csv, failed = folder / "rows.csv", 0
    rows = make_csv(csv, options["times"] * limit * 1_000_000, partitions)
    size_mb = csv.stat().st_size / 1e6
    print(f"CSV of {size_mb:.0f} MB, {rows} rows; memory limit {limit} MB, allowance {options['allowance_mb']} MB")
    tarn = Tarn(folder / "db", init=True)
    columns = ("(id BIGINT, part INT, amount BIGINT, rate DOUBLE, day DATE, word STRING, note STRING)")
    tarn.sql(f"CREATE TABLE plain {columns}; CREATE TABLE parted {columns} PARTITIONED BY (part);")
    sums = []
    for table, what in (("plain", "one table"), ("parted", f"{partitions} partitions")):
        peak, took = measured_import(tarn, table, csv, limit, rows, folder / "log")
        within = peak <= limit + options["allowance_mb"]
        failed += not within
        files = sum(1 for _ in Path(tarn.table_path(f"main/{table}")).rglob("*.parquet"))
        sums.append(tarn.rows(f"SELECT count(*), sum(id), sum(amount), count(DISTINCT part) FROM {table}"))
        print(f"{what}: peak {peak:.0f} MB ({'within' if within else 'ABOVE'} {limit + options['allowance_mb']}), "
              f"{took:.1f} s, {size_mb / took:.1f} MB/s, {files} files", flush=True)
    assert sums[0] == sums[1] and sums[0][0][3] == str(partitions), sums
    tarn.check()
    shutil.rmtree(folder)
    return report("memory", 2 - failed, failed)


if __name__ == "__main__":
    sys.exit(main())
