"""Tables by path with every writer feature: TarnDB alters and changes them, others read the same rows."""

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import checksum
import readers
from tarndb import Tarn

FEATURES = {
    "row tracking": "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "change data feed": "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "deletion vectors": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "column mapping": "RENAME COLUMN k TO key",
    "clustering": "CLUSTER BY (n)",
    "constraint": "ADD CONSTRAINT c CHECK (id < 1000)",
    "in-commit timestamps": "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "default": "ALTER COLUMN n SET DEFAULT 7",
}


def foreign(path, partition_by=None):
    """A table that deltalake made."""
    rows = pa.table({
        "id": pa.array(range(40), pa.int64()),
        "k": pa.array([f"k {n % 3}" for n in range(40)]),
        "n": pa.array([n * 10 for n in range(40)], pa.int64()),
    })
    write_deltalake(path, rows.slice(0, 20), partition_by=partition_by)
    write_deltalake(path, rows.slice(20), mode="append")


def change(tarn, path):
    t = f'delta."{path}"'
    tarn.sql(f"""
        INSERT INTO {t} (id) VALUES (100), (101);
        UPDATE {t} SET n = 1 WHERE id % 3 = 0;
        DELETE FROM {t} WHERE id % 7 = 0;
        UPDATE {t} SET n = n + 1 WHERE id < 10;
        INSERT INTO {t} (id) SELECT id + 200 FROM {t} WHERE id > 30;
    """)
    ours = tarn.arrow(f"SELECT * FROM {t}")
    assert len(ours) > 0
    return ours


def test_each_feature_on_a_table_of_deltalake(folder):
    tarn = Tarn(folder / "db", init=True)
    for name, action in FEATURES.items():
        path = str(folder / name.replace(" ", "-"))
        foreign(path)
        tarn.sql(f'ALTER TABLE delta."{path}" {action}')
        ours = change(tarn, path)
        readers.agree(ours, path, what=f"with {name}")
    return f"{len(FEATURES)} features"


def test_all_features_at_once_partitioned(folder):
    tarn = Tarn(folder / "db", init=True)
    path = str(folder / "all")
    foreign(path, partition_by=["k"])
    for name, action in FEATURES.items():
        # A partitioned table is not clustered, and DuckDB loses a renamed partition column.
        if name not in ("clustering", "column mapping"):
            tarn.sql(f'ALTER TABLE delta."{path}" {action}')
    readers.agree(change(tarn, path), path, what="with all features")


def test_columns_evolve_by_metadata_alone(folder):
    tarn = Tarn(folder / "db", init=True)
    path = str(folder / "evolved")
    foreign(path)
    t = f'delta."{path}"'
    tarn.sql(f"""
        ALTER TABLE {t} RENAME COLUMN k TO label;
        ALTER TABLE {t} DROP COLUMN n;
        ALTER TABLE {t} ADD COLUMN n INT;
        UPDATE {t} SET n = 5 WHERE id < 5;
        DELETE FROM {t} WHERE id = 7;
    """)
    ours = tarn.arrow(f"SELECT * FROM {t}")
    assert ours.column_names == ["id", "label", "n"], ours.column_names
    assert sum(value is not None for value in ours["n"].to_pylist()) == 5
    readers.agree(ours, path, what="evolved")


def test_change_feed_is_read_by_deltalake(folder):
    tarn = Tarn(folder / "db", init=True)
    path = str(folder / "feed")
    foreign(path)
    t = f'delta."{path}"'
    tarn.sql(f"""
        ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
        UPDATE {t} SET n = 20 WHERE id = 2;
        DELETE FROM {t} WHERE id = 3;
    """)
    feed = DeltaTable(path).load_cdf(starting_version=3, ending_version=4)
    rows = duckdb.from_arrow(feed.read_all()).query("f", "SELECT id, n, _change_type FROM f ORDER BY 1, 2").fetchall()
    assert rows == [(2, 20, "update_postimage"), (2, 20, "update_preimage"), (3, 30, "delete")] \
        or rows == [(2, 20, "update_preimage"), (2, 20, "update_postimage"), (3, 30, "delete")], rows
    readers.agree(tarn.arrow(f"SELECT * FROM {t}"), path, what="with a feed")


def test_deltalake_appends_between_our_changes(folder):
    tarn = Tarn(folder / "db", init=True)
    path = str(folder / "both")
    foreign(path)
    t = f'delta."{path}"'
    for n in range(3):
        tarn.sql(f"UPDATE {t} SET n = {n} WHERE id % 4 = {n}")
        more = pa.table({"id": pa.array([500 + n], pa.int64()), "k": ["new"], "n": pa.array([n], pa.int64())})
        write_deltalake(path, more, mode="append")
    ours = tarn.arrow(f"SELECT * FROM {t}")
    assert len(ours) == 43
    assert checksum.digest(ours) == readers.agree(ours, path, what="written by two engines")
