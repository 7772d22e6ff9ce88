"""Table features that writers keep: foreign readers see the same rows, and what they can of the rest."""

import duckdb
from deltalake import DeltaTable

import readers
from tarndb import Failed, Tarn

ROWS = """
    INSERT INTO t SELECT v.value, v.value * 10, 'b' || v.value FROM generate_series(1, 60) AS v(value);
    UPDATE t SET a = a + 1 WHERE id % 3 = 0;
    DELETE FROM t WHERE id % 7 = 0;
    UPDATE t SET b = 'twice' WHERE id % 6 = 0;
"""


def table(folder, clause):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(f"CREATE TABLE t (id BIGINT, a BIGINT, b TEXT) {clause};")
    tarn.sql(ROWS)
    return tarn


def test_table_with_row_tracking_reads_the_same(folder):
    tarn = table(folder, "TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    ours = readers.all_agree(tarn, "t", "main/t", "with row tracking")
    assert ours.column_names == ["id", "a", "b"], "the columns of row ids are not part of the table"
    tarn.run("optimize", "t", "--all")
    readers.all_agree(tarn, "t", "main/t", "after compaction")
    tarn.check("--deep")


def test_change_feed_of_an_update_is_read_by_deltalake(folder):
    for vectors in ("on", "off"):
        tarn = Tarn(folder / f"db-{vectors}", init=True)
        tarn.sql(f"""
            CREATE TABLE t (id BIGINT, a BIGINT) WITH (deletion_vectors = '{vectors}', 'delta.enableChangeDataFeed' = 'true');
            INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
            UPDATE t SET a = 20 WHERE id = 2;
        """)
        readers.all_agree(tarn, "t", "main/t", "with a change feed")
        feed = DeltaTable(tarn.table_path("main/t")).load_cdf(starting_version=2, ending_version=2)
        rows = duckdb.from_arrow(feed.read_all()).query("f", "SELECT id, a, _change_type FROM f ORDER BY id, a").fetchall()
        assert rows == [(2, 2, "update_preimage"), (2, 20, "update_postimage")], rows
        tarn.check("--deep")


def test_clustered_table_with_other_codec_and_random_folders_reads_the_same(folder):
    tarn = table(folder, """CLUSTER BY (a) TBLPROPERTIES ('delta.parquet.compression.codec' = 'snappy',
        'delta.randomizeFilePrefixes' = 'true', 'delta.dataSkippingNumIndexedCols' = '0')""")
    readers.all_agree(tarn, "t", "main/t", "clustered")
    tarn.check("--deep")


def test_dropped_deletion_vectors_lower_the_protocol_for_every_reader(folder):
    tarn = table(folder, "")
    tarn.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    try:
        tarn.sql("ALTER TABLE t DROP FEATURE deletionVectors")
    except Failed as refused:
        assert "files with deleted rows" in str(refused), refused
    else:
        raise AssertionError("a feature in use was dropped")
    tarn.run("optimize", "t", "--all")
    tarn.sql("ALTER TABLE t DROP FEATURE deletionVectors; DELETE FROM t WHERE id = 1;")
    ours = readers.all_agree(tarn, "t", "main/t", "after the feature was dropped")
    assert DeltaTable(tarn.table_path("main/t")).protocol().min_reader_version == 1
    assert DeltaTable(tarn.table_path("main/t")).to_pyarrow_table().num_rows == ours.num_rows
    tarn.check("--deep")
