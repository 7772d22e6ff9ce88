"""Clustered and z-ordered tables as other engines read them."""

import json
from pathlib import Path

from deltalake import DeltaTable

import readers
from tarndb import Tarn


def newest_adds(path):
    """The adds of the newest published version."""
    log = sorted(Path(path).glob("_delta_log/*.json"))[-1]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["add"] for line in lines if "add" in line]


def test_a_clustered_table_reads_the_same_everywhere(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (x BIGINT, y STRING, s STRUCT<z: BIGINT>) CLUSTER BY (x, s.z) WITH (target_file_size = '16KB');"
             "INSERT INTO c SELECT v * 7919 % 1000, md5(v::text), named_struct('z', v % 37)"
             " FROM generate_series(1, 5000) g(v); DELETE FROM c WHERE x = 5;")
    path = tarn.table_path("main/c")
    before = readers.all_agree(tarn, "c", "main/c", "before")
    tarn.run("optimize", "c")
    adds = newest_adds(path)
    assert len(adds) >= 4 and all(add["clusteringProvider"] == "liquid" for add in adds), adds
    assert not any(add["dataChange"] for add in adds)
    after = readers.all_agree(tarn, "c", "main/c", "clustered")
    assert after.num_rows == before.num_rows
    entry = DeltaTable(path).history(1)[0]
    assert entry["operation"] == "OPTIMIZE" and "clusterBy" in entry["operationParameters"], entry
    tarn.sql("DELETE FROM c WHERE x BETWEEN 10 AND 20; INSERT INTO c VALUES (1, 'new', NULL); OPTIMIZE c; CHECKPOINT c;")
    readers.all_agree(tarn, "c", "main/c", "clustered again, from a checkpoint")
    tarn.check("--deep")
    return f"{len(adds)} files"


def test_a_z_ordered_partitioned_table_reads_the_same_everywhere(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (x BIGINT, y DOUBLE, p STRING) PARTITIONED BY (p);")
    for n in range(4):
        tarn.sql(f"INSERT INTO c SELECT v * 31 % 101 + {n}, v / 7.0, CASE v % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END"
                 " FROM generate_series(1, 300) g(v);")
    before = readers.all_agree(tarn, "c", "main/c", "before")
    tarn.sql("OPTIMIZE c WHERE p = 'a' ZORDER BY (x, y); OPTIMIZE c ZORDER BY (y);")
    assert readers.all_agree(tarn, "c", "main/c", "ordered").num_rows == before.num_rows
    assert all("clusteringProvider" not in add for add in newest_adds(tarn.table_path("main/c")))
    tarn.check("--deep")
