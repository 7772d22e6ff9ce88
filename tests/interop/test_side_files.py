"""Checksums, log compactions and checkpoints with statistics as columns: others read the same."""

import json
from pathlib import Path

import pyarrow.parquet as parquet
from deltalake import DeltaTable

import readers
from tarndb import Tarn


def grow(tarn, versions):
    for n in range(versions):
        tarn.sql(f"INSERT INTO t VALUES ({n}, 'k{n % 3}', {n}.5, DATE '2024-01-{n % 27 + 1:02d}');"
                 if n % 4 != 3 else f"DELETE FROM t WHERE id = {n - 2};")


def table(folder, name, properties):
    tarn = Tarn(folder / name, init=True)
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    tarn.sql(f"CREATE TABLE t (id BIGINT, k STRING, v DOUBLE, d DATE) PARTITIONED BY (k) TBLPROPERTIES ({clause});")
    return tarn


def test_checkpoints_with_statistics_as_columns_are_read_by_all(folder):
    for policy in ("classic", "v2"):
        for text in ("true", "false"):
            tarn = table(folder, f"{policy}-{text}", {
                "delta.checkpoint.writeStatsAsStruct": "true",
                "delta.checkpoint.writeStatsAsJson": text,
                "delta.checkpointPolicy": policy,
                "delta.checkpointInterval": "5",
            })
            grow(tarn, 11)
            path = tarn.table_path("main/t")
            log = Path(path) / "_delta_log"
            newest = sorted(log.glob("*.checkpoint.parquet"))[-1]
            holders = sorted((log / "_sidecars").glob("*.parquet")) if policy == "v2" else [newest]
            add = parquet.read_schema(holders[-1]).field("add").type
            names = {add.field(n).name for n in range(add.num_fields)}
            assert {"stats_parsed", "partitionValues_parsed"} <= names, names
            assert ("stats" in names) == (text == "true"), names
            for commit in log.glob("*.json"):
                if int(commit.name.split(".")[0]) < int(newest.name.split(".")[0]):
                    commit.unlink()
            readers.all_agree(tarn, "t", "main/t", f"{policy} {text}")
            for query, wanted in (("SELECT id FROM t WHERE v > 8", 3), ("SELECT id FROM t WHERE d = DATE '2024-01-05'", 1)):
                rows = tarn.arrow(query)
                foreign = readers.duckdb_connection().execute(query.replace(" t ", f" delta_scan('{path}') ")).to_arrow_table()
                assert rows.num_rows == foreign.num_rows == wanted, (query, rows.num_rows, foreign.num_rows)


def test_checksums_and_compactions_stand_beside_published_versions(folder):
    tarn = table(folder, "db", {"tarndb.logCompactionInterval": "4", "delta.checkpointInterval": "1000"})
    grow(tarn, 13)
    path = tarn.table_path("main/t")
    log = Path(path) / "_delta_log"
    sums = sorted(log.glob("*.crc"))
    assert sums, "a checksum is published"
    for file in sums:
        stated = json.loads(file.read_text())
        opened = DeltaTable(path, version=int(file.stem))
        assert stated["numFiles"] == len(opened.file_uris()), file.name
        assert stated["metadata"]["id"] == opened.metadata().id
    compacted = sorted(log.glob("*.compacted.json"))
    assert compacted, "compactions are written"
    readers.all_agree(tarn, "t", "main/t", "with compactions")
    tarn.check("--deep")
