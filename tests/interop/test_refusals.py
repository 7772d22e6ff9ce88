"""Foreign writers are kept out of managed tables by the writer-only table feature."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import checksum
import readers
from tarndb import Tarn


def listing(folder):
    """Every file below a folder with its bytes, without what a read may leave behind."""
    from pathlib import Path

    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def refused(name, action):
    """The message of an action that must fail."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
    raise AssertionError(f"{name} was not refused")


def test_foreign_writes_are_refused_and_change_nothing(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE plain (id BIGINT, s STRING);"
             "INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (3, 'c');"
             "CREATE TABLE marked (id BIGINT, s STRING);"
             "INSERT INTO marked VALUES (1, 'a'), (2, 'b'), (3, 'c'); DELETE FROM marked WHERE id = 2;")
    said = []
    for name in ("plain", "marked"):
        path = tarn.table_path(f"main/{name}")
        before, rows = listing(path), readers.all_agree(tarn, name, f"main/{name}")
        row = pa.table({"id": pa.array([9], pa.int64()), "s": ["z"]})

        def duckdb_insert():
            connection = readers.duckdb_connection()
            connection.execute(f"attach '{path}' as d (type delta)")
            connection.execute("insert into d values (9, 'z')")

        def duckdb_statement(text):
            connection = readers.duckdb_connection()
            connection.execute(f"attach '{path}' as d (type delta)")
            connection.execute(text)

        said += [refused(f"{what} on {name}", action) for what, action in {
            "deltalake append": lambda: write_deltalake(path, row, mode="append"),
            "deltalake overwrite": lambda: write_deltalake(path, row, mode="overwrite"),
            "deltalake overwrite of the schema": lambda: write_deltalake(
                path, row, mode="overwrite", schema_mode="overwrite"),
            "deltalake delete": lambda: DeltaTable(path).delete("id = 1"),
            "deltalake update": lambda: DeltaTable(path).update({"s": "'z'"}, predicate="id = 1"),
            "deltalake merge": lambda: DeltaTable(path).merge(
                row, "t.id = s.id", source_alias="s", target_alias="t").when_not_matched_insert_all().execute(),
            "duckdb insert": duckdb_insert,
            "duckdb delete": lambda: duckdb_statement("delete from d where id = 1"),
            "duckdb update": lambda: duckdb_statement("update d set s = 'z' where id = 1"),
        }.items()]
        after = listing(path)
        log = lambda files: {n: b for n, b in files.items() if n.startswith("_delta_log")}
        assert log(after) == log(before), f"{name}: the log changed: {set(after) ^ set(before)}"
        assert all(after.get(n) == b for n, b in before.items()), f"{name}: a file changed or went"
        now = readers.all_agree(tarn, name, f"main/{name}", "after the refusals")
        assert checksum.digest(now) == checksum.digest(rows)
        tarn.sql(f"INSERT INTO {name} VALUES (4, 'ours');")
        assert readers.all_agree(tarn, name, f"main/{name}").num_rows == rows.num_rows + 1
    tarn.check("--deep")
    return f"{len(said)} refusals, such as {said[0]!r} and {said[6]!r}"
