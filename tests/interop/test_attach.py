"""Tables of deltalake are attached, changed, read by all, and given back."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import checksum
import readers
from tarndb import Tarn


def rows(start, end):
    ids = range(start, end)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "k": pa.array([None if n % 5 == 0 else f"k {n % 3}/x" for n in ids]),
        "f": pa.array([float("nan") if n % 4 == 0 else n / 3 for n in ids], pa.float64()),
        "at": pa.array([n * 1_000_001 for n in ids], pa.timestamp("us", "UTC")),
        "l": pa.array([[n, None] if n % 2 else [] for n in ids], pa.list_(pa.int32())),
    })


def written(path, partition_by=None, checkpoint=False, versions=3):
    """A table of deltalake's, some versions long."""
    write_deltalake(path, rows(0, 40), partition_by=partition_by)
    DeltaTable(path).delete("id % 7 = 0")
    for n in range(versions):
        write_deltalake(path, rows(100 + n, 102 + n), mode="append")
    if checkpoint:
        DeltaTable(path).create_checkpoint()
        write_deltalake(path, rows(200, 203), mode="append")
    return DeltaTable(path).version()


def refused(path):
    """deltalake leaves an attached table alone."""
    try:
        write_deltalake(path, rows(900, 901), mode="append")
    except Exception as error:
        return str(error).splitlines()[0][:120]
    raise AssertionError("deltalake appended to an attached table")


def life(folder, path, tarn, newest):
    """From ATTACH to DETACH, all readers agreeing at each step."""
    before = [readers.read_deltalake(path, version) for version in range(newest + 1)]
    tarn.sql(f"ATTACH TABLE '{path}' AS taken;")
    agree(tarn, path, "attached")
    for version, expected in enumerate(before):
        ours = tarn.arrow(f"SELECT * FROM taken VERSION AS OF {version}")
        assert checksum.digest(ours) == checksum.digest(expected), f"version {version}"
    said = refused(path)
    tarn.sql("INSERT INTO taken SELECT id + 1000, k, f, at, l FROM taken WHERE id < 10;")
    agree(tarn, path, "inserted")
    tarn.sql("DELETE FROM taken WHERE id % 3 = 1; UPDATE taken SET f = -1.5, k = 'u' WHERE id > 20 AND id < 30;")
    agree(tarn, path, "deleted and updated")
    # NaN is above every number, also where a foreign file's bounds leave it out.
    wanted = sum(1 for value in tarn.arrow("SELECT f FROM taken").column("f").to_pylist() if value > 1e9 or value != value)
    assert int(tarn.value("SELECT count(*) FROM taken WHERE f > 1e9")) == wanted
    tarn.run("optimize", "taken")
    agree(tarn, path, "compacted")
    tarn.sql("ALTER TABLE taken ADD COLUMN more INT; INSERT INTO taken (id, more) VALUES (5000, 1);")
    agree(tarn, path, "widened")
    tarn.run("checkpoint")
    tarn.run("check", "--deep")
    tarn.sql("ALTER TABLE taken SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false');")
    tarn.run("optimize", "taken", "--all")
    last = agree(tarn, path, "without vectors")
    tarn.sql("DETACH TABLE taken; DETACH TABLE IF EXISTS taken;")
    readers.agree(last, path, what="detached")
    return said, last


def agree(tarn, path, what):
    ours = tarn.arrow("SELECT * FROM taken")
    readers.agree(ours, path, what=what)
    return ours


def test_table_outside_of_the_database(folder):
    path = str(folder / "lake" / "plain")
    newest = written(path)
    return life(folder, path, Tarn(folder / "db", init=True), newest)[0]


def test_table_in_the_folder_of_the_database(folder):
    tarn = Tarn(folder / "db", init=True)
    path = tarn.table_path("lake/plain")
    life(folder, path, tarn, written(path))


def test_partitioned_table_with_a_checkpoint_and_many_versions(folder):
    path = str(folder / "lake" / "parts")
    newest = written(path, partition_by=["k"], checkpoint=True, versions=12)
    life(folder, path, Tarn(folder / "db", init=True), newest)


def test_detached_table_takes_the_appends_of_deltalake_and_comes_back(folder):
    path = str(folder / "lake" / "plain")
    written(path)
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(f"ATTACH TABLE '{path}' AS taken; INSERT INTO taken (id) VALUES (1); DETACH TABLE taken;")
    write_deltalake(path, rows(300, 305), mode="append")
    tarn.sql(f"ATTACH TABLE '{path}' AS taken;")
    again = agree(tarn, path, "attached again")
    assert 304 in again.column("id").to_pylist()
    refused(path)
    tarn.run("check", "--deep")


def test_table_by_path_with_vectors_is_attached(folder):
    path = str(folder / "lake" / "own")
    write_deltalake(path, rows(0, 40), configuration={"delta.enableDeletionVectors": "true"})
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(f'DELETE FROM delta."{path}" WHERE id % 2 = 0;')
    tarn.sql(f"ATTACH TABLE '{path}' AS taken; DELETE FROM taken WHERE id % 3 = 0;")
    agree(tarn, path, "with vectors")
    tarn.run("check", "--deep")


def test_two_databases_do_not_share_a_table(folder):
    path = str(folder / "lake" / "plain")
    written(path)
    one, two = Tarn(folder / "one", init=True), Tarn(folder / "two", init=True)
    one.sql(f"ATTACH TABLE '{path}' AS taken;")
    refusal = two.sql(f"ATTACH TABLE '{path}' AS taken;", ok=None)
    assert refusal.code != 0 and "another TarnDB database" in refusal.stderr, refusal
    nothing = two.sql(f"ATTACH TABLE '{folder}/nothing' AS x;", ok=None)
    assert nothing.code != 0 and "no Delta table" in nothing.stderr, nothing
