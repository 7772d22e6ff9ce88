"""Compacted tables as other engines read them, with deletions carried into the new files."""

from pathlib import Path

from deltalake import DeltaTable

import readers
from tarndb import Tarn


def operations(path):
    """What deltalake's history says was done, newest first."""
    return [entry["operation"] for entry in DeltaTable(path).history()]


def test_a_compacted_table_reads_the_same_everywhere(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (id BIGINT, s STRING, p STRING) PARTITIONED BY (p);")
    for n in range(6):
        tarn.sql(f"INSERT INTO c VALUES ({n}, 's{n}', 'a'), ({n + 100}, NULL, 'b'), ({n + 200}, 'x', NULL);")
    tarn.sql("DELETE FROM c WHERE id IN (1, 102, 204); UPDATE c SET s = 'u' WHERE id IN (3, 203);")
    path = Path(tarn.table_path("main/c"))
    before = readers.all_agree(tarn, "c", "main/c", "before")
    files = len(DeltaTable(path).file_uris())
    tarn.run("optimize", "c")
    after = readers.all_agree(tarn, "c", "main/c", "compacted")
    assert after.num_rows == before.num_rows == 15, (before.num_rows, after.num_rows)
    table = DeltaTable(path)
    assert len(table.file_uris()) == 3 < files, table.file_uris()
    assert operations(path)[0] == "OPTIMIZE", operations(path)
    tarn.sql("DELETE FROM c WHERE id = 5; INSERT INTO c VALUES (7, 's7', 'a');")
    tarn.run("optimize", "c", "--all")
    tarn.run("checkpoint")
    assert readers.all_agree(tarn, "c", "main/c", "again").num_rows == 15
    tarn.check("--deep")
    return f"{files} files became 3"


def test_a_large_row_map_file_is_invisible_to_others(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (id BIGINT); INSERT INTO c SELECT * FROM generate_series(1, 20000);"
             "DELETE FROM c WHERE id % 2 = 0;")
    tarn.run("optimize", "c")
    path = Path(tarn.table_path("main/c"))
    maps = list(path.glob("_tarndb/rowmap-*.json.zst"))
    assert len(maps) == 1, maps
    assert readers.all_agree(tarn, "c", "main/c", "with a row map file").num_rows == 10000
    # Files that no version names: the foreign cleaning must not take the map for one of them.
    stray = DeltaTable(path).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert not [name for name in stray if "rowmap" in name], stray
    tarn.check("--deep")
    return f"map of {maps[0].stat().st_size} bytes"
