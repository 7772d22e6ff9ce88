"""Clones as other readers find them: deep ones by all, shallow ones by those that follow paths out of the table."""

from pathlib import Path

import checksum
import readers
from tarndb import Tarn

VALUES = ["a b", "a/b", "a%2Fb", "..", "x=y", "\u00fc", "q?#&+", "100%25"]


def source(folder):
    """A partitioned table with special values, some rows of which are deleted by a vector in a file."""
    tarn = Tarn(folder / "db", init=True)
    rows = ", ".join(f"({n}, '{value}')" for n, value in enumerate(VALUES))
    tarn.sql(f"CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p); INSERT INTO t VALUES {rows};"
             "INSERT INTO t SELECT t.id + 100 * n.value, t.p FROM t, generate_series(1, 4000) AS n;"
             "DELETE FROM t WHERE id % 3 = 0;")
    tarn.run("publish")
    return tarn


def data(tarn, location):
    return [p for p in Path(tarn.table_path(location)).rglob("*") if p.suffix in (".parquet", ".bin") and "_delta_log" not in p.parts]


def test_deep_clones_are_read_by_all(folder):
    tarn = source(folder)
    expected = checksum.digest(tarn.arrow("SELECT * FROM t"))
    tarn.sql("CREATE TABLE c DEEP CLONE t;")
    tarn.run("publish")
    found = readers.all_agree(tarn, "c", "main/c")
    assert checksum.digest(found) == expected
    tarn.sql("DELETE FROM c WHERE id % 7 = 0; INSERT INTO c VALUES (-1, 'new');")
    tarn.run("publish")
    readers.all_agree(tarn, "c", "main/c", "after changes")
    assert checksum.digest(readers.read_duckdb(tarn.table_path("main/t"))) == expected
    tarn.check("--deep")
    return f"{len(data(tarn, 'main/c'))} files"


def test_a_deltalake_table_is_copied_into_the_database(folder):
    import pyarrow as pa
    from deltalake import write_deltalake

    path = str(folder / "theirs")
    rows = pa.table({"id": pa.array(range(20), pa.int64()), "p": pa.array([["a b", "x=y", None, "\u00fc"][n % 4] for n in range(20)])})
    write_deltalake(path, rows, partition_by=["p"])
    write_deltalake(path, rows.slice(0, 4), mode="append")
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(f"CREATE TABLE c DEEP CLONE delta.`{path}`; CREATE TABLE first CLONE delta.`{path}` VERSION AS OF 0;")
    tarn.run("publish")
    assert checksum.digest(readers.all_agree(tarn, "c", "main/c")) == checksum.digest(readers.read_deltalake(path))
    assert checksum.digest(readers.all_agree(tarn, "first", "main/first")) == checksum.digest(rows)
    tarn.sql("DELETE FROM c WHERE id < 3; UPDATE c SET id = id + 100 WHERE p = 'x=y';")
    tarn.run("publish")
    readers.all_agree(tarn, "c", "main/c", "after changes")
    tarn.check("--deep")
    return "24 rows"


def test_shallow_clones_are_read_by_duckdb_and_by_deltalakes_sql(folder):
    tarn = source(folder)
    old = tarn.arrow("SELECT * FROM t")
    tarn.sql("CREATE TABLE c SHALLOW CLONE t; CREATE TABLE d SHALLOW CLONE c; DELETE FROM t WHERE id % 5 = 0;")
    tarn.run("publish")
    assert not [p for p in data(tarn, "main/c") if p.suffix == ".parquet"], "a shallow clone has data files of its own"
    for name in ("c", "d"):
        assert checksum.digest(tarn.arrow(f"SELECT * FROM {name}")) == checksum.digest(old)
        assert checksum.digest(readers.read_duckdb(tarn.table_path(f"main/{name}"))) == checksum.digest(old)
    assert checksum.digest(readers.read_deltalake(tarn.table_path("main/c"))) == checksum.digest(old)
    tarn.sql("DELETE FROM c WHERE id % 7 = 0; INSERT INTO c VALUES (-1, 'new');")
    tarn.run("publish")
    changed = tarn.arrow("SELECT * FROM c")
    assert checksum.digest(readers.read_duckdb(tarn.table_path("main/c"))) == checksum.digest(changed)
    tarn.check("--deep")
    # The database lies elsewhere now, and nothing in it knows.
    moved = Tarn(Path(tarn.db).rename(folder / "moved"))
    assert checksum.digest(moved.arrow("SELECT * FROM d")) == checksum.digest(old)
    assert checksum.digest(readers.read_duckdb(moved.table_path("main/c"))) == checksum.digest(changed)
    moved.check("--deep")
    return f"{old.num_rows} rows shared"
