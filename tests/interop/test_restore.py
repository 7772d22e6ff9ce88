"""Tables taken back to earlier versions, read by everybody, in tables of a database and by path."""

import checksum
import readers
from deltalake import DeltaTable
from tarndb import Failed, Tarn

STEPS = [
    "INSERT INTO t SELECT v.value, 'v' || v.value, v.value * 10 FROM generate_series(1, 50) AS v(value)",
    "DELETE FROM t WHERE id % 5 = 0",
    "UPDATE t SET name = 'new' WHERE id < 10",
    "ALTER TABLE t ADD COLUMN extra DOUBLE",
    "INSERT INTO t VALUES (100, 'x', 1, 2.5)",
    "ALTER TABLE t RENAME COLUMN n TO amount",
    "ALTER TABLE t DROP COLUMN extra",
    "TRUNCATE TABLE t",
]


def test_every_version_comes_back_for_every_reader(folder):
    for with_options in ("", "WITH (deletion_vectors = 'off')", "WITH ('delta.enableRowTracking' = 'true')"):
        tarn = Tarn(folder / f"db{len(with_options)}", init=True)
        tarn.sql(f"CREATE TABLE t (id BIGINT, name TEXT, n BIGINT) {with_options}")
        wanted = [tarn.arrow("SELECT * FROM t")]
        for step in STEPS:
            tarn.sql(step)
            wanted.append(tarn.arrow("SELECT * FROM t"))
        for version in (2, 7, 0, 5, 3, 8, 1):
            tarn.sql(f"RESTORE TABLE t TO VERSION AS OF {version}")
            got = readers.all_agree(tarn, "t", "main/t", f"restored to {version} {with_options}")
            assert got.column_names == wanted[version].column_names, (version, got.column_names)
            assert checksum.digest(got) == checksum.digest(wanted[version]), f"version {version} {with_options}"
        tarn.sql("INSERT INTO t VALUES (7, 'after', 8)")
        tarn.run("optimize", "t", "--all")
        readers.all_agree(tarn, "t", "main/t", "after rows on top and compaction")
        history = DeltaTable(tarn.table_path("main/t")).history()
        restored = [entry for entry in history if entry["operation"] == "RESTORE"]
        assert len(restored) == 7, [entry["operation"] for entry in history]
        assert all("numRestoredFiles" in entry["operationMetrics"] for entry in restored), restored
        tarn.check("--deep")


def test_partitions_and_rules_come_back(folder):
    tarn = Tarn(folder / "db", init=True)
    # The partition column comes first: DuckDB reads NULL in one that comes after a renamed column.
    tarn.sql("""
        CREATE TABLE p (day DATE, id BIGINT, k TEXT, CHECK (id > 0)) PARTITIONED BY (day);
        INSERT INTO p VALUES (DATE '2024-01-01', 1, 'x'), (DATE '2024-01-02', 2, 'y/z'), (NULL, 3, NULL);
        DELETE FROM p WHERE id = 2;
        ALTER TABLE p RENAME COLUMN k TO key;
        INSERT INTO p VALUES (DATE '2024-01-01', 4, 'x');
        RESTORE p TO VERSION AS OF 1;
    """)
    readers.all_agree(tarn, "p", "main/p", "restored")
    assert tarn.value("SELECT count(*) FROM p WHERE k = 'y/z'") == "1"
    tarn.sql("RESTORE p TO VERSION AS OF 4; DELETE FROM p WHERE key = 'x' AND id = 1")
    readers.all_agree(tarn, "p", "main/p", "and on from there")
    try:
        tarn.sql("INSERT INTO p VALUES (DATE '2024-01-01', -1, 'x')")
    except Failed:
        pass
    else:
        raise AssertionError("a restored CHECK binds")
    tarn.check("--deep")


def test_a_table_that_deltalake_wrote_is_restored_by_both(folder):
    import pyarrow as pa
    from deltalake import write_deltalake

    path = str(folder / "native")
    write_deltalake(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    write_deltalake(path, pa.table({"id": [4], "name": ["d"]}), mode="append")
    DeltaTable(path).delete("id = 1")
    tarn = Tarn(folder / "db", init=True)
    table = f"delta.`{path}`"

    tarn.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    ours = tarn.arrow(f"SELECT * FROM {table}")
    assert sorted(ours["id"].to_pylist()) == [1, 2, 3], ours
    readers.agree(ours, path, what="restored by TarnDB")
    DeltaTable(path).restore(1)
    ours = tarn.arrow(f"SELECT * FROM {table}")
    assert sorted(ours["id"].to_pylist()) == [1, 2, 3, 4], ours
    readers.agree(ours, path, what="restored by deltalake")
    tarn.sql(f"RESTORE TABLE {table} TO VERSION AS OF 2")
    ours = tarn.arrow(f"SELECT * FROM {table}")
    assert sorted(ours["id"].to_pylist()) == [2, 3, 4], ours
    readers.agree(ours, path, what="restored after deltalake's restore")
