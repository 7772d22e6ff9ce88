"""delta_scan in TarnDB over tables that deltalake wrote, at every version."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import checksum
import readers
from tarndb import Failed, Tarn


def rows(start, end):
    ids = range(start, end)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "k": pa.array([None if n % 5 == 0 else f"k {n % 3}/x" for n in ids]),
        "f": pa.array([float("nan") if n % 4 == 0 else n / 3 for n in ids], pa.float64()),
        "at": pa.array([n * 1_000_001 for n in ids], pa.timestamp("us", "UTC")),
        "l": pa.array([[n, None] if n % 2 else [] for n in ids], pa.list_(pa.int32())),
    })


def written(path, partition_by):
    """A table of nine versions: appends, a delete, an update, an overwrite, a checkpoint."""
    write_deltalake(path, rows(0, 20), partition_by=partition_by)
    write_deltalake(path, rows(20, 40), mode="append")
    DeltaTable(path).delete("id % 7 = 0")
    DeltaTable(path).update({"f": "-1.5"}, predicate="id > 30")
    DeltaTable(path).create_checkpoint()
    for n in range(3):
        write_deltalake(path, rows(100 + n, 102 + n), mode="append")
    write_deltalake(path, rows(500, 520), mode="overwrite")
    write_deltalake(path, rows(520, 521), mode="append")
    return DeltaTable(path).version()


def compare(folder, partition_by):
    path = str(folder / "foreign")
    newest = written(path, partition_by)
    tarn = Tarn(folder / "db", init=True)
    queries = [f"SELECT * FROM delta_scan('{path}', version => {v})" for v in range(newest + 1)]
    tables = tarn.arrows(queries + [f"SELECT * FROM delta_scan('{path}')"])
    for version, ours in enumerate(tables[:-1]):
        readers.agree(ours, path, version=version, what="written by deltalake")
    assert checksum.digest(tables[-1]) == checksum.digest(tables[-2])
    return f"{newest + 1} versions"


def test_plain_table_at_every_version(folder):
    return compare(folder, None)


def test_partitioned_table_at_every_version(folder):
    return compare(folder, ["k"])


def test_foreign_rows_go_into_a_managed_table(folder):
    path = str(folder / "foreign")
    written(path, None)
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(f"CREATE TABLE copy AS SELECT * FROM delta_scan('{path}');")
    ours = readers.all_agree(tarn, "copy", "main/copy")
    readers.agree(ours, path)


def test_a_missing_table_and_a_missing_version_are_errors(folder):
    path = str(folder / "foreign")
    newest = written(path, None)
    tarn = Tarn(folder / "db", init=True)
    for query, word in ((f"SELECT * FROM delta_scan('{path}', version => {newest + 5})", str(newest + 5)),
                        (f"SELECT * FROM delta_scan('{folder}/nothing-here')", "nothing-here")):
        try:
            tarn.run("sql", query)
        except Failed as refused:
            assert word in str(refused) and "panicked" not in str(refused), str(refused)
        else:
            raise AssertionError(f"not refused: {query}")
