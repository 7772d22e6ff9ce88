#!/usr/bin/env python3
"""Opening Delta tables of many commits and of many files, beside deltalake and DuckDB.

usage: bench_open.py [rounds=3] [folder=..] [tables=commits,checkpointed,100k,1m]

The tables have log files only, no data: 10,000 commits of one file without and with a checkpoint,
and 100,000 and 1,000,000 files in one checkpoint. In turns, `rounds` times and each in a process of
its own with a warm page cache: TarnDB (`tarndb-bench open`, the binary is TARNDB_BENCH_BIN), which
also finds the files of one id, applies one more commit and writes a checkpoint; deltalake
(`DeltaTable(..)`, then its `file_uris()`); DuckDB (`delta_list_files`). One line of JSON each:
times in milliseconds, the peak memory of the process in MB.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from arguments import arguments  # noqa: E402

COLUMNS = ["id", "amount", "created", "name"]
TYPES = ["long", "double", "timestamp", "string"]
START = 1_700_000_000_000


def add(number):
    low, high = number * 1000, number * 1000 + 999
    bounds = {
        "minValues": {"id": low, "amount": 0.5, "created": "2024-01-01T00:00:00.000Z", "name": f"a{number % 977:04d}"},
        "maxValues": {"id": high, "amount": 99.5, "created": "2024-12-31T23:59:59.999Z", "name": f"z{number % 977:04d}"},
        "nullCount": {"id": 0, "amount": 0, "created": 0, "name": number % 5},
    }
    path = f"part-{number:08d}-6f1d{number * 2654435761 % 2**32:08x}-4c7e-9a3b-c000.snappy.parquet"
    return {"path": path, "partitionValues": {}, "size": 90_000 + number % 1000, "modificationTime": START + number,
            "dataChange": True, "stats": json.dumps({"numRecords": 1000, **bounds}, separators=(",", ":"))}


def head():
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in zip(COLUMNS, TYPES)]
    return [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "5f0c2c1e-0000-4000-8000-000000000000", "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": [],
                      "configuration": {}, "createdTime": START}},
    ]


def write_commits(folder, commits, files_each):
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version in range(commits):
        actions = [{"commitInfo": {"timestamp": START + version, "operation": "WRITE"}}] + (head() if version == 0 else [])
        numbers = range(version * files_each, (version + 1) * files_each)
        lines = actions + [{"add": add(number)} for number in numbers]
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        (log / f"{version:020d}.json").write_text(text + "\n")


def make(folder, name):
    commits, files_each, checkpointed = {
        "commits": (10_000, 1, False),
        "checkpointed": (10_000, 1, True),
        "100k": (10, 10_000, True),
        "1m": (20, 50_000, True),
    }[name]
    write_commits(folder, commits, files_each)
    if checkpointed:
        from deltalake import DeltaTable

        DeltaTable(str(folder)).create_checkpoint()
        for version in range(commits - 1):
            (folder / f"_delta_log/{version:020d}.json").unlink()


def peer(name, table):
    """Opens the table in this process and prints what it took."""
    begun = time.perf_counter()
    if name == "deltalake":
        import deltalake

        begun = time.perf_counter()
        opened = deltalake.DeltaTable(table)
        first = time.perf_counter()
        files = len(opened.file_uris())
    else:
        import duckdb

        connection = duckdb.connect()
        connection.execute("LOAD delta")
        begun = time.perf_counter()
        files = connection.execute(f"SELECT count(*) FROM delta_list_files('{table}')").fetchone()[0]
        first = time.perf_counter()
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"bench": "open", "peer": name, "table": table, "files": files,
                      "first_ms": round((first - begun) * 1000), "list_ms": round((done - first) * 1000),
                      "peak_mb": peak}), flush=True)


def run(options):
    place = Path(options["folder"] or tempfile.mkdtemp(prefix="tarndb-open-"))
    for name in options["tables"].split(","):
        table = place / name
        if not table.exists():
            # In a process of its own: the generator's memory is none of the figures.
            subprocess.run([sys.executable, __file__, "make", str(table), name], check=True)
        for _ in range(options["rounds"]):
            scratch = tempfile.mkdtemp(prefix="tarndb-checkpoint-")
            binary = os.environ["TARNDB_BENCH_BIN"]
            subprocess.run([binary, "open", f"table={table}", "find=5000"], check=True)
            subprocess.run([binary, "open", f"table={table}", "find=5000", f"checkpoint={scratch}"], check=True)
            shutil.rmtree(scratch)
            for other in ("deltalake", "duckdb"):
                done = subprocess.run([sys.executable, __file__, "peer", other, str(table)], check=False)
                if done.returncode:
                    print(json.dumps({"bench": "open", "peer": other, "table": str(table), "failed": done.returncode}))
    if not options["folder"]:
        shutil.rmtree(place)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        peer(*sys.argv[2:])
    elif sys.argv[1:2] == ["make"]:
        make(Path(sys.argv[2]), sys.argv[3])
    else:
        run(arguments(rounds=3, folder="", tables="commits,checkpointed,100k,1m"))
