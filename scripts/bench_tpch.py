#!/usr/bin/env python3
"""TPC-H: all queries over TarnDB's tables, beside the engine alone over their data files.

usage: bench_tpch.py [scale=1] [rounds=3] [folder=..] [settings=NAME:VALUE,..]

DuckDB's tpch extension makes the data, the queries and the right answers. Both sides run in one
process of the example `queries` of crates/tarndb-sql (the binary is TARNDB_QUERIES_BIN), in turns, the best of `rounds`
each; the engine alone reads the tables' own files as Parquet with its own settings. Then 1 % of the
rows of every large table are deleted and all runs again: the answers must be DuckDB's without
those rows, and the engine alone still reads all of them. One line of JSON each.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
import tpch  # noqa: E402
from arguments import arguments  # noqa: E402


def bench(*words):
    return subprocess.run([os.environ["TARNDB_QUERIES_BIN"], *map(str, words)], check=True)


def checked(folder, expected, name):
    """Ends the run unless the answers in the folder are the expected ones."""
    wrong = []
    for number, rows in expected.items():
        with open(folder / f"q{number:02}.csv", newline="") as file:
            found = [row or [""] for row in csv.reader(file, delimiter="|")]
        wrong += tpch.differences(rows, found, f"{name}, query {number}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{name}: all {len(expected)} answers are right", file=sys.stderr)


def run(options):
    place = Path(options["folder"] or tempfile.mkdtemp(prefix="tarndb-tpch-"))
    place.mkdir(exist_ok=True)
    data, asked, db = place / "parquet", place / "queries", place / "db"
    settings = [f"set.{'='.join(word.split(':', 1))}" for word in options["settings"].split(",") if word]
    connection = tpch.connect(options["scale"])
    if not data.exists():
        data.mkdir()
        tpch.export(connection, data)
        asked.mkdir()
        for number, text in tpch.queries(connection):
            (asked / f"q{number:02}.sql").write_text(text)
    if not db.exists():
        bench("load", db, data)
    given = [f"rounds={options['rounds']}", *settings]
    expected = tpch.answers(connection, options["scale"])
    (place / "whole").mkdir(exist_ok=True)
    bench("run", db, asked, *given, f"answers={place / 'whole'}")
    checked(place / "whole", expected, "whole")

    deleted = place / "deleted-db"
    if not deleted.exists():
        shutil.copytree(db, deleted)
        bench("sql", deleted, "; ".join(tpch.deletions()))
    for statement in tpch.deletions():
        connection.execute(statement)
    expected = {n: [list(row) for row in connection.execute(query).fetchall()] for n, query in tpch.queries(connection)}
    (place / "deleted").mkdir(exist_ok=True)
    bench("run", deleted, asked, *given, f"answers={place / 'deleted'}", "deleted=true")
    checked(place / "deleted", expected, "1 % deleted")
    if not options["folder"]:
        shutil.rmtree(place)


if __name__ == "__main__":
    run(arguments(scale=1.0, rounds=3, folder="", settings=""))
