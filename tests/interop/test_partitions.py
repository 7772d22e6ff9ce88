"""Partitioned tables: several key types, special characters, NULL and the empty string."""

import readers
from tarndb import Failed, Tarn

SPECIAL = ["plain", "with space", "a/b", "a=b", "100%", "per%20cent", "quo''te", 'dou"ble', "plus+",
           "hash#", "q?", "colon:", "star*", "back\\slash", "{brace}", "[bracket]", "^caret", "tilde~",
           "\u00fcml\u00e4ut", "\u6f22\u5b57", "..", ".", "-", "__HIVE_DEFAULT_PARTITION__x", "trailing ", " leading",
           "new\nline", "tab\there"]


def test_special_characters_in_string_partitions(folder):
    tarn = Tarn(folder / "db", init=True)
    values = ", ".join(f"({n}, '{text}')" for n, text in enumerate(SPECIAL))
    tarn.sql("CREATE TABLE p (id BIGINT, k STRING) PARTITIONED BY (k);"
             f"INSERT INTO p VALUES {values}, (1000, NULL);")
    ours = readers.all_agree(tarn, "p", "main/p")
    got = {row["id"]: row["k"] for row in ours.to_pylist()}
    wanted = {n: text.replace("''", "'") for n, text in enumerate(SPECIAL)} | {1000: None}
    assert got == wanted, {k: (got.get(k), wanted[k]) for k in wanted if got.get(k) != wanted[k]}
    tarn.sql("DELETE FROM p WHERE k = 'a/b'; UPDATE p SET id = id + 5000 WHERE k = '100%' OR k IS NULL;")
    ours = readers.all_agree(tarn, "p", "main/p", "after delete and update")
    assert ours.num_rows == len(SPECIAL)
    tarn.sql("UPDATE p SET k = 'moved/to' WHERE k = 'plain';")
    ours = readers.all_agree(tarn, "p", "main/p", "after moving a row to another partition")
    assert "moved/to" in ours["k"].to_pylist()
    tarn.check("--deep")


def test_empty_string_partition_is_null_and_said_once(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE e (id BIGINT, k STRING) PARTITIONED BY (k);")
    said = tarn.sql("INSERT INTO e VALUES (1, ''), (2, 'x');")
    assert "null" in (said.stderr + said.stdout).lower(), f"'' stored as NULL is said: {said}"
    ours = readers.all_agree(tarn, "e", "main/e")
    assert sorted((r["id"], r["k"]) for r in ours.to_pylist() if r["k"] is None) == [(1, None)]
    tarn.sql("CREATE TABLE strict (id BIGINT, k STRING NOT NULL) PARTITIONED BY (k);")
    try:
        tarn.sql("INSERT INTO strict VALUES (1, '');")
    except Failed as refused:
        assert "k" in str(refused) and "panicked" not in str(refused)
    else:
        raise AssertionError("'' into a NOT NULL string partition was accepted")
    assert tarn.value("SELECT count(*) FROM strict") == "0"
    tarn.check("--deep")


def test_partition_keys_of_several_types(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE k (id BIGINT, b BOOLEAN, i INT, l BIGINT, d DATE, c DECIMAL(8, 2), s STRING, f DOUBLE)
            PARTITIONED BY (b, i, l, d, c, s, f);
        INSERT INTO k VALUES
            (1, true, -5, 9223372036854775807, DATE '2024-02-29', 12.50, 'x', 1.5),
            (2, false, 2147483647, 0, DATE '1969-12-31', -0.01, 'y z', -2.25),
            (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        CREATE TABLE t (id BIGINT, at TIMESTAMPTZ) PARTITIONED BY (at);
        INSERT INTO t VALUES (1, TIMESTAMPTZ '2024-06-15T19:30:45.123456Z'), (2, NULL),
            (3, TIMESTAMPTZ '1969-12-31T23:59:59.999999Z');
        CREATE TABLE n (id BIGINT, at TIMESTAMP) PARTITIONED BY (at);
        INSERT INTO n VALUES (1, TIMESTAMP '2024-06-15 19:30:45.123456'), (2, NULL), (3, TIMESTAMP '2024-01-01 00:00:00');
    """)
    for table in ("k", "t", "n"):
        readers.all_agree(tarn, table, f"main/{table}")
    tarn.sql("DELETE FROM k WHERE d = DATE '1969-12-31'; UPDATE t SET id = 10 WHERE at IS NULL;"
             "DELETE FROM n WHERE at = TIMESTAMP '2024-01-01 00:00:00';")
    counts = [readers.all_agree(tarn, t, f"main/{t}", "after changes").num_rows for t in ("k", "t", "n")]
    assert counts == [2, 3, 2], counts
    tarn.check("--deep")
