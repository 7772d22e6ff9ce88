#!/usr/bin/env python3
"""MERGE of a small source into a large table under a memory limit.

usage: bench_merge.py [rows=10000000] [source=100000] [files=50] [limit_mb=128] [allowance_mb=150] [folder=..]

Fills a table of `files` files whose keys ascend, and merges `source` rows into it, a tenth of which are
new, each time from the same beginning: with keys side by side (clustered), with keys all over the table
(scattered), and from a source that is too large to hold. One line of JSON each: seconds, the peak
resident size of the process in MB, rows, files and megabytes written. Fails when a peak is above the
limit + the allowance, when a clustered merge looks into more than a tenth of the files, or when a
figure is not what it must be. The binary is TARNDB_BIN; a debug build is slow and else the same.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from arguments import arguments  # noqa: E402
from tarndb import Tarn  # noqa: E402

VALUES = "'name-' || (value % 1000), value * 31 % 100003, value / 7.0"


def folder_mb(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) / 1e6


def fill(tarn, rows, files):
    tarn.sql("CREATE TABLE t (id BIGINT, name TEXT, amount BIGINT, rate DOUBLE)")
    each = rows // files
    for first in range(0, rows, each):
        last = min(first + each, rows) - 1
        tarn.sql(f"INSERT INTO t SELECT value, {VALUES} FROM generate_series({first}, {last}) AS g", timeout=None)


def measured(tarn, statement, limit_mb):
    """Runs the statement; seconds, peak MB and its row of figures."""
    started = time.monotonic()
    command = tarn.command("--memory-limit", f"{limit_mb}MB", "--format", "csv", "sql", statement)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=out, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - started
        out.seek(0)
        log.seek(0)
        assert os.waitstatus_to_exitcode(status) == 0, log.read()[-3000:]
        names, figures = list(csv.reader(io.StringIO(out.read())))[:2]
    return took, usage.ru_maxrss * 1024 / 1e6, dict(zip(names, map(int, figures)))


def main():
    options = arguments(rows=10_000_000, source=100_000, files=50, limit_mb=128, allowance_mb=150, folder="")
    rows, source = options["rows"], options["source"]
    folder = Path(options["folder"] or tempfile.mkdtemp(prefix="tarndb-merge-"))
    tarn = Tarn(folder / "db", init=True)
    fill(tarn, rows, options["files"])
    new = source // 10
    old = source - new
    keys = {
        "clustered": f"SELECT {rows} - {old} + value AS id, {VALUES} FROM generate_series(0, {source - 1}) AS g",
        "scattered": f"SELECT CASE WHEN value < {old} THEN value * {rows // old} ELSE {rows} + value END AS id, {VALUES} "
                     f"FROM generate_series(0, {source - 1}) AS g",
        "too large to hold": f"SELECT CASE WHEN value < {old} THEN value * {rows // old} ELSE {rows} + value END AS id, "
                             f"{VALUES}, repeat('x', 1000) AS note FROM generate_series(0, {source - 1}) AS g",
    }
    names = ("id", "name", "amount", "rate")
    failed = 0
    for what, query in keys.items():
        columns = ", ".join(names)
        on_update = ", ".join(f"{name} = s.{name}" for name in names[1:])
        text = (f"MERGE INTO t USING (SELECT * FROM ({query}) AS q ({columns}{', note' if 'note' in query else ''})) AS s "
                f"ON t.id = s.id WHEN MATCHED THEN UPDATE SET {on_update} "
                f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({', '.join('s.' + name for name in names)})")
        before = folder_mb(folder)
        took, peak, figures = measured(tarn, text, options["limit_mb"])
        written = folder_mb(folder) - before
        good = figures["num_updated_rows"] == old and figures["num_inserted_rows"] == new
        good &= figures["num_copied_rows"] == 0 and peak <= options["limit_mb"] + options["allowance_mb"]
        looked, all_files = figures["num_files_scanned"], figures["num_files_scanned"] + figures["num_files_skipped"]
        good &= what != "clustered" or looked * 10 <= all_files
        good &= int(tarn.value("SELECT count(*) FROM t")) == rows + new
        failed += not good
        print(json.dumps({"merge": what, "rows": rows, "source": source, "limit_mb": options["limit_mb"],
                          "seconds": round(took, 2), "peak_mb": round(peak), "written_mb": round(written, 1),
                          "good": bool(good), **figures}), flush=True)
        tarn.sql(f"RESTORE TABLE t TO VERSION AS OF {options['files']}")
    tarn.check()
    if not options["folder"]:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
