"""Every type that Delta knows, written by TarnDB, read alike by all."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as parquet

import checksum
import readers
from tarndb import Tarn

D = decimal.Decimal
UTC = datetime.timezone.utc

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("flag", pa.bool_()),
    ("tiny", pa.int8()),
    ("small", pa.int16()),
    ("medium", pa.int32()),
    ("big", pa.int64()),
    ("real", pa.float32()),
    ("double", pa.float64()),
    ("price", pa.decimal128(10, 2)),
    ("wide", pa.decimal128(38, 10)),
    ("text", pa.string()),
    ("raw", pa.binary()),
    ("day", pa.date32()),
    ("instant", pa.timestamp("us", "UTC")),
    ("wall", pa.timestamp("us")),
    ("numbers", pa.list_(pa.int32())),
    ("counts", pa.map_(pa.string(), pa.int64())),
    ("point", pa.struct([("x", pa.float64()), ("label", pa.string())])),
    ("nested", pa.list_(pa.struct([("tags", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))]))),
])

NAN, INF = float("nan"), float("inf")


def sample():
    """Rows with the limits of each type, special floats, NULLs at every level, and odd texts."""
    rows = [
        [1, True, 127, 32767, 2**31 - 1, 2**63 - 1, 3.4028234663852886e38, 1.7976931348623157e308,
         D("99999999.99"), D("9999999999999999999999999999.9999999999"), "plain", b"\x00\xff\x7f",
         datetime.date(9999, 12, 31), datetime.datetime(2262, 4, 11, 23, 47, 16, 854775, UTC),
         datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), [1, None, -3], [("a", 1), ("b", None)],
         {"x": 1.5, "label": "p"}, [{"tags": ["u", None], "m": [("k", 1)]}, None]],
        [2, False, -128, -32768, -(2**31), -(2**63), -INF, INF, D("-99999999.99"),
         D("-0.0000000001"), "it's \"quoted\", with\nnew line\tand tab", b"", datetime.date(1, 1, 1),
         datetime.datetime(1970, 1, 1, 0, 0, 0, 1, UTC), datetime.datetime(1, 1, 1, 0, 0, 0), [], [],
         {"x": None, "label": None}, []],
        [3, None, 0, 0, 0, 0, NAN, NAN, D("0.00"), D("0"), "\u00fcn\u00efc\u00f6de \u6f22\u5b57 \U0001f600", b"text",
         datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
         datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None, None, None, None],
        [4, True, 1, 1, 1, 1, -0.0, -0.0, D("1.10"), D("1.1"), "", b"\n", datetime.date(1582, 10, 15),
         datetime.datetime(1900, 2, 28, 12, 0, 0, 0, UTC), datetime.datetime(1900, 3, 1), [0], [("", 0)],
         {"x": NAN, "label": ""}, [{"tags": [], "m": []}]],
        [5] + [None] * 18,
    ]
    return pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)],
                    schema=SCHEMA)


def test_all_types_through_a_parquet_file(folder):
    expected = sample()
    parquet.write_table(expected, folder / "types.parquet")
    tarn = Tarn(folder / "db", init=True)
    tarn.run("import", folder / "types.parquet", "--table", "types", "--create")
    ours = readers.all_agree(tarn, "types", "main/types")
    assert checksum.digest(ours) == checksum.digest(expected), checksum.difference(ours, expected)
    tarn.check("--deep")
    return f"{len(SCHEMA)} columns, {expected.num_rows} rows, checksum {checksum.rows_checksum(expected)}"


CREATE = """CREATE TABLE typed (
    id BIGINT NOT NULL, flag BOOLEAN, tiny TINYINT, small SMALLINT, medium INT, big BIGINT,
    "real" REAL, "double" DOUBLE, price DECIMAL(10, 2), text STRING, raw BYTEA, day DATE,
    instant TIMESTAMPTZ, wall TIMESTAMP, ntz TIMESTAMP_NTZ,
    numbers ARRAY<INT>, counts MAP<STRING, BIGINT>, point STRUCT<x DOUBLE, label STRING>);
"""

INSERTS = """
INSERT INTO typed VALUES (1, true, 127, 32767, 2147483647, 9223372036854775807,
    1.5, CAST('NaN' AS DOUBLE), 12345678.90, 'it''s', X'00ff10', DATE '2024-02-29',
    TIMESTAMPTZ '2024-06-15T19:30:45.123456Z', TIMESTAMP '2024-06-15 19:30:45.123456',
    TIMESTAMP '1969-12-31 23:59:59.999999', [1, 2, NULL], map(['k', 'l'], [1, NULL]),
    named_struct('x', 0.5, 'label', 'p'));
INSERT INTO typed VALUES (2, false, -128, -32768, -2147483648, -9223372036854775808,
    CAST('-inf' AS REAL), CAST('inf' AS DOUBLE), -0.01, '', X'', DATE '1969-12-31',
    TIMESTAMPTZ '1969-12-31T23:59:59.999999Z', TIMESTAMP '0001-01-01 00:00:00',
    TIMESTAMP '9999-12-31 23:59:59.999999', [], map([], []), named_struct('x', NULL, 'label', NULL));
INSERT INTO typed (id) VALUES (3);
"""


def test_all_types_through_sql(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(CREATE + INSERTS)
    ours = readers.all_agree(tarn, "typed", "main/typed")
    tarn.sql("UPDATE typed SET text = 'changed' WHERE id = 3; DELETE FROM typed WHERE id = 2;")
    ours = readers.all_agree(tarn, "typed", "main/typed", "after update and delete")
    assert ours.num_rows == 2
    wanted = {"flag": pa.bool_(), "tiny": pa.int8(), "small": pa.int16(), "medium": pa.int32(),
              "big": pa.int64(), "real": pa.float32(), "double": pa.float64(),
              "price": pa.decimal128(10, 2), "day": pa.date32(), "instant": pa.timestamp("us", "UTC"),
              "wall": pa.timestamp("us"), "ntz": pa.timestamp("us")}
    types = {name: ours.schema.field(name).type for name in wanted}
    assert types == wanted, f"types read back: {types}"
    row = next(r for r in ours.to_pylist() if r["id"] == 1)
    assert row["numbers"] == [1, 2, None] and row["counts"] == [("k", 1), ("l", None)], row
    assert row["raw"] == b"\x00\xff\x10" and row["price"] == D("12345678.90"), row
    tarn.check("--deep")


def test_files_are_zstd_and_name_no_view_types(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql(CREATE + INSERTS + "UPDATE typed SET raw = X'01', text = text || 'x' WHERE id = 1;"
             "CREATE TABLE copied AS SELECT text || 'y' AS t, raw AS r, numbers FROM typed;")
    paths = [p for name in ("typed", "copied") for p in (folder / f"db/main/{name}").rglob("*.parquet")
             if "_delta_log" not in p.parts]
    assert len(paths) >= 4, paths
    for path in paths:
        file = parquet.ParquetFile(path)
        views = [str(f) for f in file.schema_arrow if "view" in str(f.type)]
        assert not views, f"{path.name} names view types, which some readers refuse: {views}"
        codecs = {file.metadata.row_group(0).column(i).compression for i in range(file.metadata.num_columns)}
        assert codecs == {"ZSTD"}, f"{path.name}: {codecs}"
    return f"{len(paths)} files"


def test_reader_version_is_raised_only_by_features_in_use(folder):
    from deltalake import DeltaTable

    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE low (id BIGINT, at TIMESTAMPTZ); INSERT INTO low VALUES (1, NULL);"
             "CREATE TABLE ntz (id BIGINT, at TIMESTAMP); INSERT INTO ntz VALUES (1, NULL);")
    protocol = lambda name: DeltaTable(tarn.table_path(f"main/{name}")).protocol()
    assert protocol("low").min_reader_version == 1, protocol("low")
    assert protocol("ntz").min_reader_version == 3, protocol("ntz")
    assert "timestampNtz" in protocol("ntz").reader_features, protocol("ntz")
    assert "tarndbManaged" in protocol("low").writer_features, protocol("low")
    before = tarn.sql("INSERT INTO low SELECT value, NULL FROM generate_series(2, 9) AS s(value);").stderr
    assert "reader" not in before.lower(), f"an append raises nothing: {before}"
    said = tarn.sql("DELETE FROM low WHERE id = 3;")
    assert "reader" in (said.stderr + said.stdout).lower(), f"the raise is said once: {said}"
    raised = protocol("low")
    assert raised.min_reader_version == 3 and "deletionVectors" in raised.reader_features, raised
    again = tarn.sql("DELETE FROM low WHERE id = 4;")
    assert "reader" not in (again.stderr + again.stdout).lower(), f"it is said only once: {again}"
    readers.all_agree(tarn, "low", "main/low")
