"""TPC-H from DuckDB's extension: the data as Parquet files, the queries, the right answers."""

import csv
import io

import duckdb

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
KEYS = {"customer": "c_custkey", "lineitem": "l_orderkey * 7 + l_linenumber", "orders": "o_orderkey + o_custkey",
        "part": "p_partkey", "partsupp": "ps_partkey + ps_suppkey", "supplier": "s_suppkey"}


def connect(scale=None):
    """A connection with the extension; with the data of a scale when one is given."""
    connection = duckdb.connect()
    try:
        connection.execute("load tpch")
    except duckdb.Error:
        from duckdb_extensions import import_extension

        import_extension("tpch")
        connection.execute("load tpch")
    if scale is not None:
        connection.execute(f"call dbgen(sf={scale})")
    return connection


def export(connection, folder):
    """Writes each table to a Parquet file of its name."""
    for table in TABLES:
        connection.execute(f"copy {table} to '{folder}/{table}.parquet' (format parquet)")


def queries(connection):
    """Number and text of each query."""
    return [(number, text.strip().rstrip(";")) for number, text in
            connection.execute("select query_nr, query from tpch_queries() order by 1").fetchall()]


def answers(connection, scale):
    """The published answer of each query at a scale, as rows of texts."""
    found = connection.execute("select query_nr, answer from tpch_answers() where scale_factor = ?", [scale]).fetchall()
    # A row of one NULL is an empty line.
    return {number: [row or [""] for row in csv.reader(io.StringIO(text), delimiter="|")][1:] for number, text in found}


def deletions():
    """Statements that delete about 1 % of the rows of every large table, all over its files."""
    return [f"DELETE FROM {table} WHERE ({key}) % 100 = 37" for table, key in KEYS.items()]


def differences(expected, found, what):
    """Where two answers differ; numbers may differ by a hundredth, as the specification allows."""
    if len(expected) != len(found):
        return [f"{what}: {len(expected)} rows expected, {len(found)} found"]
    wrong = []
    for number, (wanted, given) in enumerate(zip(expected, found), 1):
        if len(wanted) != len(given) or not all(map(alike, wanted, given)):
            wrong.append(f"{what}, row {number}: {wanted} expected, {given} found")
    return wrong


def alike(wanted, given):
    wanted, given = ("" if value is None else str(value).strip() for value in (wanted, given))
    if wanted in ("NULL", "") and given in ("NULL", ""):
        return True
    try:
        return abs(float(wanted) - float(given)) <= max(0.01, abs(float(wanted)) * 1e-9)
    except ValueError:
        return wanted == given
