"""Columns renamed, dropped, added again and anywhere, with rows written, deleted and moved in between."""

import checksum
import readers
from tarndb import Failed, Tarn


def test_flat_table_through_every_change_of_columns(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE t (id BIGINT, a INT, b TEXT, gone TEXT);
        INSERT INTO t SELECT v.value, v.value * 10, 'b' || v.value, 'g' || v.value
            FROM generate_series(1, 100) AS v(value);
    """)
    said = tarn.sql("ALTER TABLE t RENAME COLUMN a TO amount; ALTER TABLE t DROP COLUMN gone;")
    assert "columnMapping" in said.stderr + said.stdout, f"a raised feature is said: {said}"
    readers.all_agree(tarn, "t", "main/t", "after rename and drop")
    tarn.sql("""
        ALTER TABLE t ADD COLUMN gone BIGINT FIRST;
        ALTER TABLE t ADD COLUMN "odd name, (x)=1" TEXT AFTER id;
        INSERT INTO t (id, amount, b, gone, "odd name, (x)=1") VALUES (101, 7, 'new', 1, 'odd');
        DELETE FROM t WHERE id % 7 = 0;
        UPDATE t SET amount = amount + 1 WHERE id < 20;
    """)
    ours = readers.all_agree(tarn, "t", "main/t", "after rows on the changed columns")
    assert ours.column_names == ["gone", "id", "odd name, (x)=1", "amount", "b"], ours.column_names
    assert [row for row in ours["gone"].to_pylist() if row is not None] == [1], "dropped values stay gone"
    assert tarn.value("SELECT count(*) FROM t WHERE amount = 30 OR b = 'b50'") == "1"
    tarn.run("optimize", "t", "--all")
    readers.all_agree(tarn, "t", "main/t", "after compaction")
    tarn.check("--deep")


def test_partition_column_is_renamed_and_not_dropped(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE p (id BIGINT, k TEXT, day DATE) PARTITIONED BY (day, k);
        INSERT INTO p VALUES (1, 'x', DATE '2024-01-01'), (2, 'y/z', DATE '2024-01-02'), (3, NULL, NULL);
        ALTER TABLE p RENAME COLUMN k TO key;
        INSERT INTO p VALUES (4, 'x', DATE '2024-01-01'), (5, 'new', DATE '2025-01-01');
        DELETE FROM p WHERE key = 'y/z';
    """)
    readers.all_agree(tarn, "p", "main/p", "after a renamed partition column")
    assert tarn.value("SELECT count(*) FROM p WHERE key = 'x'") == "2"
    try:
        tarn.sql("ALTER TABLE p DROP COLUMN day")
    except Failed as refused:
        assert "partition" in str(refused), refused
    else:
        raise AssertionError("a partition column was dropped")
    tarn.run("optimize", "p", "--all")
    readers.all_agree(tarn, "p", "main/p", "after compaction")
    tarn.check("--deep")


def test_fields_of_structs_change_like_columns(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE n (id BIGINT, s STRUCT<x INT, y TEXT, z STRUCT<u INT, v INT>>);
        INSERT INTO n SELECT 1, named_struct('x', 1, 'y', 'a', 'z', named_struct('u', 10, 'v', 20));
        INSERT INTO n VALUES (2, NULL);
        ALTER TABLE n RENAME COLUMN s.x TO count;
        ALTER TABLE n DROP COLUMN s.z.u;
        ALTER TABLE n ADD COLUMN s.z.w BIGINT FIRST;
        INSERT INTO n SELECT 3, named_struct('count', 3, 'y', 'c', 'z', named_struct('w', CAST(5 AS BIGINT), 'v', 6));
    """)
    ours = readers.all_agree(tarn, "n", "main/n", "after changes inside of a struct")
    by_id = {row["id"]: row["s"] for row in ours.to_pylist()}
    assert by_id[1] == {"count": 1, "y": "a", "z": {"w": None, "v": 20}}, by_id[1]
    assert by_id[3] == {"count": 3, "y": "c", "z": {"w": 5, "v": 6}}, by_id[3]
    tarn.sql("DELETE FROM n WHERE id = 2;")
    tarn.run("optimize", "n", "--all")
    readers.all_agree(tarn, "n", "main/n", "after compaction")
    tarn.check("--deep")


def test_new_tables_map_their_columns_by_name_and_by_id(folder):
    # DuckDB 1.5.5 reads NULL for a partition column right after a column whose physical name is another.
    tarn = Tarn(folder / "db", init=True)
    for mode in ("name", "id"):
        tarn.sql(f"""
            CREATE TABLE {mode}s (p TEXT, a INT, b TEXT) PARTITIONED BY (p)
                WITH ('delta.columnMapping.mode' = '{mode}');
            INSERT INTO {mode}s VALUES ('u', 1, 'x'), ('v', 2, 'y');
            ALTER TABLE {mode}s RENAME COLUMN a TO b2;
            ALTER TABLE {mode}s DROP COLUMN b;
            ALTER TABLE {mode}s ADD COLUMN a INT;
            INSERT INTO {mode}s VALUES ('w', 3, 30);
            UPDATE {mode}s SET a = 20 WHERE b2 = 2;
        """)
        readers.all_agree(tarn, f"{mode}s", f"main/{mode}s")
        tarn.run("optimize", f"{mode}s", "--all")
        readers.all_agree(tarn, f"{mode}s", f"main/{mode}s", "after compaction")
    tarn.check("--deep")


def test_not_null_comes_and_goes(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE r (id BIGINT, a INT); INSERT INTO r VALUES (1, 1), (2, NULL);")
    try:
        tarn.sql("ALTER TABLE r ALTER COLUMN a SET NOT NULL")
    except Failed as refused:
        assert "NULL" in str(refused), refused
    else:
        raise AssertionError("NOT NULL beside a NULL was accepted")
    tarn.sql("DELETE FROM r WHERE a IS NULL;")
    tarn.run("optimize", "r", "--all")
    tarn.sql("ALTER TABLE r ALTER COLUMN a SET NOT NULL;")
    try:
        tarn.sql("INSERT INTO r VALUES (3, NULL)")
    except Failed:
        pass
    else:
        raise AssertionError("NULL in a NOT NULL column was accepted")
    readers.all_agree(tarn, "r", "main/r")
    tarn.sql("ALTER TABLE r ALTER COLUMN a DROP NOT NULL; INSERT INTO r VALUES (4, NULL);")
    readers.all_agree(tarn, "r", "main/r")
    tarn.check("--deep")


def test_widened_columns_are_read_by_duckdb(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE w (id BIGINT, i INT, f REAL, d DECIMAL(6, 2), p INT) PARTITIONED BY (p);
        INSERT INTO w VALUES (1, 2147483647, 1.5, 1234.56, 1), (2, -1, -0.25, -0.01, 2);
    """)
    said = tarn.sql("ALTER TABLE w ALTER COLUMN i TYPE BIGINT;")
    assert "typeWidening" in said.stderr + said.stdout, f"a raised feature is said: {said}"
    tarn.sql("""
        ALTER TABLE w ALTER COLUMN f TYPE DOUBLE;
        ALTER TABLE w ALTER COLUMN d TYPE DECIMAL(12, 4);
        ALTER TABLE w ALTER COLUMN p TYPE BIGINT;
        INSERT INTO w VALUES (3, 9223372036854775807, 1e300, 12345678.1234, 9223372036854775807);
        DELETE FROM w WHERE id = 2;
    """)
    for what in ("", "after compaction"):
        ours = tarn.arrow("SELECT * FROM w")
        assert sorted(ours["i"].to_pylist()) == [2147483647, 9223372036854775807]
        theirs = readers.read_duckdb(tarn.table_path("main/w"))
        assert checksum.digest(theirs) == checksum.digest(ours), checksum.difference(ours, theirs)
        assert tarn.value("SELECT count(*) FROM w WHERE i > 2147483647") == "1", what
        tarn.run("optimize", "w", "--all")
    tarn.check("--deep")
