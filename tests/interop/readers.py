"""The three readers of a published table, each giving an Arrow table.

TarnDB reads by name through its database; DuckDB's delta extension and deltalake's
QueryBuilder read the folder and know nothing of the database.
"""

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import checksum


def duckdb_connection():
    """A connection with the delta extension, in UTC."""
    connection = duckdb.connect()
    connection.execute("load delta")
    connection.execute("set timezone = 'UTC'")
    return connection


def read_duckdb(path, version=None):
    """All rows of the table at `path`, newest version unless given."""
    at = "" if version is None else f", version => {version}"
    return duckdb_connection().execute(f"select * from delta_scan('{_quoted(path)}'{at})").to_arrow_table()


def read_deltalake(path, version=None):
    """All rows of the table at `path`, newest version unless given."""
    table = DeltaTable(path) if version is None else DeltaTable(path, version=version)
    stream = QueryBuilder().register("t", table).execute("select * from t")
    return pa.table(stream.read_all())


def _quoted(path):
    return path.replace("'", "''")


def agree(expected, path, version=None, what=""):
    """Asserts that both foreign readers give the same rows as `expected`."""
    wanted = checksum.digest(expected)
    for name, read in (("duckdb", read_duckdb), ("deltalake", read_deltalake)):
        got = read(path, version)
        if checksum.digest(got) != wanted:
            raise AssertionError(
                f"{name} and TarnDB disagree on {path} version {version} {what}: "
                f"{wanted} expected, {checksum.digest(got)} read: {checksum.difference(expected, got)}")
    return wanted


def all_agree(tarn, table, location, what=""):
    """Asserts that TarnDB, DuckDB and deltalake read the same rows; returns them."""
    ours = tarn.arrow(f"SELECT * FROM {table}")
    agree(ours, tarn.table_path(location), what=what)
    return ours
