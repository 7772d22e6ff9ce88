"""After a vacuum every reader finds every file: special partition values, vectors, compactions."""

from pathlib import Path

import readers
from tarndb import Tarn

VALUES = ["North East", "a/b", "/a/", "a%2Fb", "%", "a=b", "a:b", "a+b", "a#b", "a?b", "it''s", '"q"', ".", "..", "\u00fc",
          "\u65e5\u672c", "a\\b", "a b ", "100%25"]


def files(path):
    """Data files and vectors of a table's folder."""
    found = [p for p in Path(path).rglob("*") if p.is_file() and "_delta_log" not in p.parts]
    return {str(p.relative_to(path)) for p in found}


def test_vacuum_leaves_what_is_live_and_foreign_files(folder):
    tarn = Tarn(folder / "db", init=True)
    rows = ", ".join(f"({n}, '{value}')" for n, value in enumerate(VALUES))
    tarn.sql(f"CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p); INSERT INTO t VALUES {rows};"
             "INSERT INTO t SELECT id + 1000, p FROM t; DELETE FROM t WHERE id % 3 = 0; UPDATE t SET id = id + 1 WHERE id > 1000;")
    tarn.run("optimize", "t", "--all")
    tarn.run("publish")
    path = Path(tarn.table_path("main/t"))
    (path / "notes.parquet").write_text("not ours")
    before = files(path)
    dry = tarn.rows("VACUUM t DRY RUN")
    assert dry == [], "nothing is older than a week"
    assert tarn.run("vacuum", "--retain", "0s", ok=None).code != 0, "less than an hour needs --force"
    shown = tarn.run("--format", "csv", "vacuum", "--retain", "0s", "--force", "--dry-run").stdout.splitlines()
    assert files(path) == before
    done = tarn.run("--format", "csv", "vacuum", "--retain", "0s", "--force").stdout.splitlines()
    assert [line for line in shown if ",main/t/" in line] == [line for line in done if ",main/t/" in line]
    gone = before - files(path)
    assert gone and (path / "notes.parquet").exists()
    live = readers.all_agree(tarn, "t", "main/t", "after the vacuum").num_rows
    tarn.check("--deep")
    tarn.sql("INSERT INTO t SELECT id + 5000, p FROM t; DELETE FROM t WHERE id % 5 = 0;")
    tarn.run("publish")
    readers.all_agree(tarn, "t", "main/t", "written afterwards")
    return f"{len(gone)} of {len(before)} files went, {live} rows stay"
