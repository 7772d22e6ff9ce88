"""Order-independent checksums of Arrow data, by type.

Each cell becomes a text that names its type and exact value; NULL is `~`. h(x) is the first
8 bytes of SHA-256, big-endian. The checksum of a table is the sum of h over its rows modulo
2^64, a row being its cells in schema order joined by U+001F. Sums make it independent of the
order of rows, and -0.0 counts as +0.0, every NaN as one NaN.
"""

import hashlib
import struct

import pyarrow as pa
import pyarrow.types as pt

NULL = "~"


def _float(value, width):
    if value != value:
        return "f7fc00000" if width == 4 else "g7ff8000000000000"
    value = value + 0.0 if value else 0.0
    return "f" + struct.pack(">f", value).hex() if width == 4 else "g" + struct.pack(">d", value).hex()


def _decimal(value, scale):
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    return f"d{'-' if sign and unscaled else ''}{unscaled}/{scale}"


def _plain(array, encode):
    return [NULL if v is None else encode(v) for v in array.to_pylist()]


def _timestamps(array, letter):
    unit = {"s": 1_000_000, "ms": 1000, "us": 1}.get(array.type.unit)
    if unit is None:
        raise TypeError("nanosecond timestamps are not a Delta type")
    return _plain(array.cast(pa.int64()), lambda v: f"{letter}{v * unit}")


def _runs(array):
    """(start, end) of the values of each row, None where the row is NULL."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [(offsets[i], offsets[i + 1]) if valid[i] else None for i in range(len(array))]


def _list(array):
    values = encode(array.values)
    return [NULL if run is None else "[" + ",".join(values[run[0]:run[1]]) + "]" for run in _runs(array)]


def _map(array):
    entries = [f"{k}:{v}" for k, v in zip(encode(array.keys), encode(array.items))]
    return [NULL if run is None else "<" + ";".join(sorted(entries[run[0]:run[1]])) + ">"
            for run in _runs(array)]


def _struct(array):
    fields = [array.type.field(i) for i in range(array.type.num_fields)]
    columns = [encode(array.field(i)) for i in range(len(fields))]
    valid = array.is_valid().to_pylist()
    return ["{" + ",".join(f"{f.name}={c[row]}" for f, c in zip(fields, columns)) + "}" if valid[row]
            else NULL for row in range(len(array))]


def encode(array):
    """The texts of an Arrow array's cells."""
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in encode(chunk)]
    kind = array.type
    if pt.is_dictionary(kind):
        return encode(array.dictionary_decode())
    if pt.is_map(kind):
        return _map(array)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _list(array)
    if pt.is_struct(kind):
        return _struct(array)
    if pt.is_boolean(kind):
        return _plain(array, lambda v: "b1" if v else "b0")
    if pt.is_signed_integer(kind):
        return _plain(array, lambda v: f"i{v}")
    if pt.is_float32(kind):
        return _plain(array, lambda v: _float(v, 4))
    if pt.is_float64(kind):
        return _plain(array, lambda v: _float(v, 8))
    if pt.is_decimal(kind):
        return _plain(array, lambda v: _decimal(v, kind.scale))
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return _plain(array, lambda v: f"s{v}")
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return _plain(array, lambda v: f"x{v.hex()}")
    if pt.is_date32(kind):
        return _plain(array.cast(pa.int32()), lambda v: f"D{v}")
    if pt.is_timestamp(kind):
        return _timestamps(array, "N" if kind.tz is None else "T")
    if pt.is_null(kind):
        return [NULL] * len(array)
    raise TypeError(f"no encoding for {kind}")


def _hash(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def row_texts(table):
    """One text per row, cells joined by U+001F."""
    columns = [encode(column) for column in table.columns]
    return ["\x1f".join(cells) for cells in zip(*columns)] if columns else [""] * table.num_rows


def rows_checksum(table):
    """The checksum of all rows together, 16 hex digits."""
    return f"{sum(map(_hash, row_texts(table))) % 2**64:016x}"


def digest(table):
    """(rows, checksum): what must agree between two readers of one table."""
    return table.num_rows, rows_checksum(table)


def difference(left, right, limit=5):
    """The rows that only one of two tables has, in words."""
    if left.schema.names != right.schema.names:
        return f"columns differ: {left.schema.names} against {right.schema.names}"
    ours, theirs = sorted(row_texts(left)), sorted(row_texts(right))
    only_left, only_right = list(ours), []
    for text in theirs:
        only_left.remove(text) if text in only_left else only_right.append(text)
    show = lambda rows: [r.replace("\x1f", " | ") for r in rows[:limit]]
    return f"{len(only_left)} rows only left {show(only_left)}; {len(only_right)} only right {show(only_right)}"
