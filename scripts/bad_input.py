#!/usr/bin/env python3
"""Bad input and damage, made on purpose: the error names what and where, and nothing is lost.

usage: bad_input.py [WORD ..]      only cases whose name holds one of the words

Each case copies a healthy database, damages the copy, and asks the real binary. After every
case all files are still there byte for byte, but the damaged ones that the case itself changed:
an error never makes the damage worse. Cases that need a small tmpfs or another user are skipped
loudly where the machine does not allow it.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from tarndb import Tarn, binary  # noqa: E402

FOUND, USAGE, INVALID, NOT_FOUND, UNSUPPORTED, CORRUPT, DIVERGED = 1, 2, 3, 4, 8, 9, 10
UNAVAILABLE, EXHAUSTED, READ_ONLY = 11, 14, 15
# Kinds of findings that `check` was seen to tell, such as `file.missing`.
KIND = r"\b(?:log|checkpoint|hint|inline|staged|published|table|file|vector|stats|tag)\.[a-z]+\b(?!\.)"
SEEN = set()
ROWS = "SELECT count(*), sum(id), count(DISTINCT s) FROM orders"


class Skipped(Exception):
    """A case that this machine does not allow."""


# ---------------------------------------------------------------- healthy databases and their files


def young(folder):
    """A database of a few records and no checkpoint; deletion vectors inline and in a file."""
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE orders (id BIGINT, s STRING);"
             "INSERT INTO orders SELECT value, 'row ' || value FROM generate_series(1, 30000) AS q(value);"
             "DELETE FROM orders WHERE id IN (11, 12, 29000);"
             "CREATE TABLE stock (id BIGINT, n BIGINT); INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30);"
             "DELETE FROM orders WHERE (id * 2654435761) % 5 = 1;"
             "INSERT INTO orders VALUES (100001, 'a'), (100002, 'b');")
    return tarn


def old(folder):
    """A database with a catalog checkpoint and a table checkpoint, and records after them."""
    tarn = young(folder)
    for n in range(24):
        tarn.sql(f"INSERT INTO stock VALUES ({n + 100}, {n});")
    tarn.run("checkpoint")
    tarn.sql("INSERT INTO orders VALUES (100003, 'c');")
    return tarn


def records(tarn):
    """The records of the log, ascending."""
    return sorted((Path(tarn.db) / "_tarndb/log").glob("*.json"))


def newest_with(tarn, text):
    """The newest record that holds a text."""
    return next(path for path in reversed(records(tarn)) if text in path.read_text())


def catalog_checkpoint(tarn):
    return sorted((Path(tarn.db) / "_tarndb/checkpoints").glob("*.json.zst"))[-1]


def version_of(path):
    return int(path.name.split(".")[0])


def edit(path, pattern, replacement, most=1):
    """Replaces the first matches of a pattern in a text file."""
    text = path.read_text()
    changed, count = re.subn(pattern, replacement, text, count=most)
    assert count, f"{pattern} is not in {path.name}: {text[:600]}"
    path.write_text(changed)


def edit_everywhere(tarn, table, pattern, replacement):
    """Changes an entry in its record and in the published commit alike; returns the record."""
    record = next(p for p in reversed(records(tarn)) if re.search(pattern, p.read_text()))
    edit(record, pattern, replacement, most=0)
    for commit in reversed(sorted((Path(tarn.db) / table / "_delta_log").glob("*.json"))):
        if re.search(pattern, commit.read_text()):
            edit(commit, pattern, replacement, most=0)
            return record
    raise AssertionError(f"{pattern} is not in any published commit of {table}")


def unpack(data):
    import pyarrow as pa

    return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()


def pack(data):
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


def edit_checkpoint(path, change):
    """Rewrites a catalog checkpoint with a right checksum, so that only its content lies."""
    lines = unpack(path.read_bytes()).decode().splitlines(keepends=True)
    body = "".join(change(line) for line in lines[:-1])
    summed = body + json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest()}) + "\n"
    path.write_bytes(pack(summed.encode()))


# ---------------------------------------------------------------- what is asked of the binary


def says(outcome, codes, *words):
    """Asserts the exit code and that every word is in the message, case ignored."""
    text = (outcome.stdout + outcome.stderr).lower()
    assert outcome.code in (codes if isinstance(codes, tuple) else (codes,)), \
        f"exit code {outcome.code}, not {codes}: {outcome}"
    missing = [w for w in words if str(w).lower() not in text]
    assert not missing, f"the message does not name {missing}: {outcome}"
    # Lines of the log name their module at the end.
    errors = [line for line in outcome.stderr.splitlines()
              if line.startswith("error:") and not re.search(r"\(tarndb[a-z_:]*\)$", line)]
    assert outcome.code in (0, FOUND) or len(errors) == 1, f"not exactly one error line: {outcome}"
    assert "backtrace" not in text, f"a backtrace: {outcome}"


def read(tarn, query=ROWS, **more):
    return tarn.run("sql", query, ok=None, **more)


def write(tarn, **more):
    return tarn.run("sql", "INSERT INTO orders VALUES (7, 'new')", ok=None, **more)


def check(tarn, *options):
    """A check, whose kinds of findings are noted for the last case."""
    outcome = tarn.run("check", *options, ok=None)
    SEEN.update(re.findall(KIND, outcome.stdout + outcome.stderr))
    return outcome


def files(tarn):
    """Every file of a database with its bytes' hash, but hints."""
    return {str(p.relative_to(tarn.db)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in Path(tarn.db).rglob("*") if p.is_file() and p.name != "_last_checkpoint"}


# ---------------------------------------------------------------- cases: the log


def case_newest_record_is_torn(make):
    tarn = make(young)
    path = records(tarn)[-1]
    healthy = path.read_bytes()
    before = files(tarn)
    path.write_bytes(healthy[:len(healthy) // 2])
    before[str(path.relative_to(tarn.db))] = hashlib.sha256(path.read_bytes()).hexdigest()
    says(read(tarn), CORRUPT, str(version_of(path)))
    says(write(tarn), CORRUPT, str(version_of(path)))
    says(check(tarn), (FOUND, CORRUPT), str(version_of(path)))
    kept(before, tarn)
    path.write_bytes(healthy)
    assert tarn.rows(ROWS)[0][0] == tarn.rows(ROWS)[0][0]
    tarn.check("--deep")


def case_record_is_empty(make):
    tarn = make(young)
    path = records(tarn)[-1]
    path.write_bytes(b"")
    says(read(tarn), CORRUPT, str(version_of(path)))
    says(check(tarn), (FOUND, CORRUPT), str(version_of(path)))


def case_record_is_not_json(make):
    tarn = make(young)
    path = records(tarn)[3]
    path.write_text("{\"record\":{\"version\":oops}}\n")
    says(read(tarn), CORRUPT, str(version_of(path)), "line")
    says(check(tarn), (FOUND, CORRUPT), str(version_of(path)))


def case_hole_in_the_log(make):
    tarn = make(young)
    path = records(tarn)[3]
    saved = path.read_bytes()
    path.unlink()
    before = files(tarn)
    says(read(tarn), CORRUPT, str(version_of(path)))
    says(write(tarn), CORRUPT, str(version_of(path)))
    says(check(tarn), (FOUND, CORRUPT), str(version_of(path)))
    kept(before, tarn)
    assert not path.exists(), "the hole was filled"
    path.write_bytes(saved)
    tarn.check("--deep")


def case_hole_below_a_checkpoint_is_found_by_check(make):
    tarn = make(old)
    path = records(tarn)[5]
    path.unlink()
    says(read(tarn), 0)
    says(check(tarn), FOUND, str(version_of(path)))


def case_torn_record_below_a_checkpoint_is_found_by_check(make):
    tarn = make(old)
    path = records(tarn)[5]
    path.write_bytes(path.read_bytes()[:-20])
    says(read(tarn), 0)
    says(check(tarn), FOUND, str(version_of(path)))


def case_record_states_another_version(make):
    tarn = make(young)
    path = records(tarn)[-1]
    edit(path, r'"version":\d+', '"version":77')
    says(read(tarn), CORRUPT, "77", str(version_of(path)))
    says(check(tarn), (FOUND, CORRUPT), str(version_of(path)))


def case_record_contradicts_those_before_it(make):
    tarn = make(old)
    path = records(tarn)[5]
    timestamp = re.search(r'"timestamp":(\d+)', path.read_text()).group(1)
    path.write_text(path.read_text().replace(timestamp, str(int(timestamp) - 10**9)))
    says(read(tarn), 0)
    says(check(tarn), FOUND, str(version_of(path)))


def case_path_leaves_the_root(make):
    tarn = make(young)
    outside = Path(tarn.db).parent / "outside.parquet"
    shutil.copy(next((Path(tarn.db) / "main/orders").glob("*.parquet")), outside)
    edit_everywhere(tarn, "main/orders", r'"path":"[^"]+\.parquet"', '"path":"../../../outside.parquet"')
    says(check(tarn), FOUND, "outside.parquet")
    says(read(tarn), CORRUPT, "outside.parquet", "orders")


def case_absolute_path_leaves_the_root(make):
    tarn = make(young)
    outside = Path(tarn.db).parent / "outside.parquet"
    shutil.copy(next((Path(tarn.db) / "main/orders").glob("*.parquet")), outside)
    edit_everywhere(tarn, "main/orders", r'"path":"[^"]+\.parquet"', f'"path":"file://{outside}"')
    says(read(tarn), (CORRUPT, UNSUPPORTED), "outside.parquet", "orders")


def case_location_leaves_the_root(make):
    tarn = make(young)
    path = newest_with(tarn, '"createTable"')
    edit(path, r'"location":"[^"]+"', '"location":"../elsewhere"')
    says(read(tarn), CORRUPT, "../elsewhere", str(version_of(path)))
    says(check(tarn), (FOUND, CORRUPT), "../elsewhere")


def case_unknown_reader_feature_of_the_log(make):
    tarn = make(young)
    path = records(tarn)[-1]
    edit(path, r'"readerFeatures":\[[^\]]*\]', '"readerFeatures":["fromTomorrow"]')
    says(read(tarn), UNSUPPORTED, "fromTomorrow", str(version_of(path)))
    says(write(tarn), UNSUPPORTED, "fromTomorrow")


def case_unknown_writer_feature_of_the_log(make):
    tarn = make(young)
    path = records(tarn)[-1]
    edit(path, r'"writerFeatures":\[[^\]]*\]', '"writerFeatures":["fromTomorrow"]')
    before = files(tarn)
    says(read(tarn), 0)
    says(write(tarn), UNSUPPORTED, "fromTomorrow")
    says(tarn.run("checkpoint", ok=None), UNSUPPORTED, "fromTomorrow")
    kept(before, tarn)


def case_unknown_action_of_the_log(make):
    tarn = make(young)
    path = records(tarn)[-1]
    path.write_text(path.read_text() + '{"createIndex":{"schema":"main","name":"v"}}\n')
    says(read(tarn), 0)
    says(write(tarn), UNSUPPORTED, "createIndex")


def case_data_file_in_a_record_is_shorter_than_its_entry_says(make):
    tarn = make(young)
    path = newest_with(tarn, '"files":{')
    edit(path, r'("files":\{"[^"]+":")[A-Za-z0-9+/]{4}', r'\1')
    says(check(tarn), FOUND, "inline.differs", "stated", str(version_of(path)))


# ---------------------------------------------------------------- cases: checkpoints


def case_checkpoint_is_torn(make):
    tarn = make(old)
    wanted = tarn.rows(ROWS)
    path = catalog_checkpoint(tarn)
    path.write_bytes(path.read_bytes()[:40])
    assert tarn.rows(ROWS) == wanted, "the records were not used in its place"
    says(check(tarn), FOUND, path.name)


def case_checkpoint_lies_about_a_table_version(make):
    tarn = make(old)
    path = catalog_checkpoint(tarn)

    def lie(line):
        if '"name":"orders"' not in line:
            return line
        table = json.loads(line)["table"]
        table["version"] -= 1
        table["unpublished"] = [pair for pair in table["unpublished"] if pair[0] <= table["version"]]
        table["published"] = min(table["published"] or 0, table["version"])
        return json.dumps({"table": table}, separators=(",", ":")) + "\n"

    edit_checkpoint(path, lie)
    before = files(tarn)
    says(read(tarn), CORRUPT, str(version_of(path) + 1))
    says(write(tarn), CORRUPT, str(version_of(path) + 1))
    says(check(tarn), (FOUND, CORRUPT))
    kept(before, tarn)
    path.unlink()
    assert int(tarn.rows(ROWS)[0][0]) == int(make(old).rows(ROWS)[0][0]), "the records alone do not suffice"


def case_checkpoint_of_a_tag_is_gone(make):
    tarn = make(old)
    tarn.sql("CREATE TAG kept")
    catalog_checkpoint(tarn).unlink()
    says(check(tarn), FOUND, "tag.checkpoint", "kept")


def case_checkpoint_hides_a_table(make):
    tarn = make(old)
    path = catalog_checkpoint(tarn)
    edit_checkpoint(path, lambda line: "" if '"name":"stock"' in line else line)
    says(check(tarn), FOUND, path.name)


def case_checkpoint_lies_about_publishing(make):
    tarn = make(old)
    path = catalog_checkpoint(tarn)
    tarn.sql("INSERT INTO orders VALUES (5, 'x');")

    def lie(line):
        if '"name":"orders"' not in line:
            return line
        table = json.loads(line)["table"]
        table.update(version=table["version"] + 40, published=table["version"] + 40, unpublished=[])
        return json.dumps({"table": table}, separators=(",", ":")) + "\n"

    edit_checkpoint(path, lie)
    says(read(tarn), CORRUPT, str(version_of(path) + 1))
    says(check(tarn), (FOUND, CORRUPT))


def case_checkpoint_of_another_version(make):
    tarn = make(old)
    first = catalog_checkpoint(tarn)
    tarn.sql("INSERT INTO stock VALUES (6, 6);")
    wanted = tarn.rows(ROWS)
    second = first.with_name(f"{version_of(records(tarn)[-1]):020}.json.zst")
    second.write_bytes(first.read_bytes())
    (first.parent.parent / "_last_checkpoint").write_text(json.dumps({"version": version_of(second)}))
    assert tarn.rows(ROWS) == wanted
    says(check(tarn), FOUND, second.name)


def case_hint_is_garbage(make):
    for content in (b"", b"{", b"\xff\x00", b'{"version":99999}', b'{"version":-1}', b"[]", b'{"version":1}'):
        tarn = make(old)
        wanted = tarn.rows(ROWS)
        (Path(tarn.db) / "_tarndb/_last_checkpoint").write_bytes(content)
        assert tarn.rows(ROWS) == wanted, f"hint {content!r} changed the answer"
        says(write(tarn), 0)
        says(check(tarn), FOUND, "_last_checkpoint")


def case_table_checkpoint_lies(make):
    tarn = make(old)
    log = Path(tarn.db) / "main/stock/_delta_log"
    path = sorted(log.glob("*.checkpoint.parquet"))[-1]
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    adds = table["add"].to_pylist()
    keep = [row is None or index != max(i for i, r in enumerate(adds) if r) for index, row in enumerate(adds)]
    parquet.write_table(table.filter(pa.array(keep)), path)
    says(check(tarn), FOUND, "stock")


# ---------------------------------------------------------------- cases: published commits and files


def case_published_commit_was_changed(make):
    tarn = make(old)
    commit = sorted((Path(tarn.db) / "main/stock/_delta_log").glob("*.json"))[-1]
    commit.write_text(commit.read_text().replace("INSERT", "insert").replace("WRITE", "write") + "\n")
    says(check(tarn), FOUND, "stock", str(version_of(commit)))


def case_published_commit_is_missing(make):
    tarn = make(young)
    commit = sorted((Path(tarn.db) / "main/orders/_delta_log").glob("*.json"))[1]
    commit.unlink()
    says(check(tarn), FOUND, "orders", str(version_of(commit)))
    says(read(tarn), (0, CORRUPT), *([] if read(tarn).code == 0 else ["orders", str(version_of(commit))]))


def case_staged_entry_is_damaged(make):
    tarn = make(young)
    tarn.run("--storage-option", "durability=none", "sql",
             "CREATE TABLE wide (id BIGINT, k STRING) PARTITIONED BY (k)")
    record = Path(tarn.db) / f"_tarndb/log/{version_of(records(tarn)[-1]) + 1:020}.json"
    tarn.run("--storage-option", "durability=none", "sql",
             "INSERT INTO wide SELECT value, 'a rather long name of a partition ' || value "
             "FROM generate_series(1, 3500) AS q(value)")
    assert '"staged"' in record.read_text(), f"an entry of {record.stat().st_size} bytes was not staged"
    assert tarn.value("SELECT count(*) FROM wide") == "3500"
    tarn.check()
    staged = next((Path(tarn.db) / "main/wide/_delta_log/_staged_commits").glob("*.json"))
    published = Path(tarn.db) / f"main/wide/_delta_log/{1:020}.json"
    assert staged.read_bytes() == published.read_bytes(), "published bytes are not those of the staged entry"
    staged.write_bytes(staged.read_bytes()[:-50])
    assert tarn.value("SELECT count(*) FROM wide") == "3500", "the published version was not used in its place"
    published.unlink()
    says(read(tarn, "SELECT count(*) FROM wide"), CORRUPT, "wide", staged.name)
    says(check(tarn), FOUND, "wide", staged.name)


def case_foreign_commit_on_a_managed_table(make):
    tarn = make(young)
    log = Path(tarn.db) / "main/orders/_delta_log"
    version = version_of(sorted(log.glob("*.json"))[-1]) + 1
    foreign = log / f"{version:020}.json"
    foreign.write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"elsewhere"}}\n')
    says(check(tarn), FOUND, "orders", str(version))
    wanted = int(tarn.rows(ROWS)[0][0])
    content = foreign.read_bytes()
    outcome = write(tarn)
    says(outcome, (0, DIVERGED))
    says(tarn.run("publish", ok=None), DIVERGED, "orders", str(version))
    assert foreign.read_bytes() == content, "the foreign commit was overwritten"
    found = int(tarn.rows(ROWS)[0][0])
    assert found in (wanted, wanted + 1) and (outcome.code != 0 or found == wanted + 1), f"{wanted} then {found}"
    says(check(tarn), FOUND, "orders", str(version))
    says(tarn.run("sql", "INSERT INTO stock VALUES (50, 50)", ok=None), (0, DIVERGED))
    assert tarn.value("SELECT count(*) FROM stock WHERE id = 50") == "1", "the intrusion holds back another table"
    stock = [json.loads(line) for path in (Path(tarn.db) / "main/stock/_delta_log").glob("*.json")
             for line in path.read_text().splitlines()]
    assert sum("add" in action for action in stock) == 2, "the other table was not published"


def case_data_file_is_missing(make):
    tarn = make(old)
    path = max((Path(tarn.db) / "main/orders").glob("*.parquet"), key=lambda p: p.stat().st_size)
    path.unlink()
    says(check(tarn), FOUND, path.name, "orders")
    says(read(tarn, "SELECT sum(id) FROM orders"), CORRUPT, path.name, "orders")


def case_data_file_is_truncated(make):
    tarn = make(old)
    path = max((Path(tarn.db) / "main/orders").glob("*.parquet"), key=lambda p: p.stat().st_size)
    path.write_bytes(path.read_bytes()[:-100])
    says(check(tarn), FOUND, path.name, "orders")
    says(read(tarn, "SELECT sum(id) FROM orders"), CORRUPT, path.name, "orders")


def case_data_file_holds_other_bytes(make):
    tarn = make(old)
    path = max((Path(tarn.db) / "main/orders").glob("*.parquet"), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    for at in range(len(data) - 300, len(data) - 8):
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))
    says(check(tarn), 0)
    says(check(tarn, "--deep"), FOUND, path.name, "orders")
    says(read(tarn, "SELECT sum(id), count(s), min(s), max(s) FROM orders"), CORRUPT, path.name, "orders")


def case_data_page_is_damaged(make):
    tarn = make(old)
    path = max((Path(tarn.db) / "main/orders").glob("*.parquet"), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    for at in range(4, 60):
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))
    says(check(tarn, "--deep"), FOUND, path.name, "orders")
    says(read(tarn, "SELECT sum(id), count(s), min(s), max(s) FROM orders"), CORRUPT, path.name, "orders")


def case_vector_file_is_missing(make):
    tarn = make(old)
    path = next((Path(tarn.db) / "main/orders").glob("**/deletion_vector_*.bin"))
    path.unlink()
    says(check(tarn), FOUND, path.name, "orders")
    says(read(tarn), CORRUPT, path.name, "orders")


def case_vector_file_is_damaged(make):
    tarn = make(old)
    path = next((Path(tarn.db) / "main/orders").glob("**/deletion_vector_*.bin"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    says(read(tarn), CORRUPT, path.name)
    says(check(tarn, "--deep"), FOUND, path.name)


def case_vector_cardinality_lies(make):
    tarn = make(young)
    edit_everywhere(tarn, "main/orders", r'"cardinality":(\d)', r'"cardinality":9\1')
    says(check(tarn, "--deep"), FOUND, "rows, the log says 9", "orders")


def case_number_of_rows_lies(make):
    tarn = make(young)
    edit_everywhere(tarn, "main/stock", r'\\"numRecords\\":3,', r'\\"numRecords\\":4,')
    says(check(tarn, "--deep"), FOUND, "stock")


def case_vector_deletes_rows_that_are_not_there(make):
    tarn = make(young)
    edit_everywhere(tarn, "main/orders", r'\\"numRecords\\":30000', r'\\"numRecords\\":20000')
    says(check(tarn), FOUND, "orders")


def case_null_count_lies(make):
    tarn = make(young)
    edit_everywhere(tarn, "main/stock", r'\\"nullCount\\":\{\\"id\\":0', r'\\"nullCount\\":{\\"id\\":1')
    says(check(tarn, "--deep"), FOUND, "stock", "id")


def case_statistics_lie(make):
    tarn = make(young)
    edit_everywhere(tarn, "main/stock", r'\\"maxValues\\":\{\\"id\\":3,', r'\\"maxValues\\":{\\"id\\":2,')
    says(check(tarn, "--deep"), FOUND, "stock", "id")


# ---------------------------------------------------------------- cases: places


def case_prefix_is_empty(make):
    tarn = Tarn(make.folder / "nothing")
    for command in (["sql", "SELECT 1"], ["log"], ["status"], ["publish"], ["checkpoint"], ["check"],
                    ["txn", "0-00000000-0000-7000-8000-000000000000"], ["import", __file__, "--table", "t"]):
        says(tarn.run(*command, ok=None), NOT_FOUND, "nothing", "init")
    assert not Path(tarn.db).exists() or not any(Path(tarn.db).iterdir()), "a mistyped URL made something"
    says(Tarn(make.folder).run("sql", "SELECT 1", ok=None), NOT_FOUND, "init")


def case_database_exists_already(make):
    tarn = make(young)
    wanted, before = tarn.rows(ROWS), files(tarn)
    says(tarn.run("init", ok=None), 5, tarn.db)
    kept(before, tarn)
    assert tarn.rows(ROWS) == wanted


def case_url_is_not_one(make):
    for url in ("s4://bucket/db", "http://", "s3://", "s3:/bucket/db", "s3:bucket", "gs:", "file:/x", "://x", ""):
        tarn = Tarn(url)
        for command in (["init"], ["sql", "SELECT 1"]):
            outcome = tarn.run(*command, ok=None, env={"HOME": str(make.folder)}, cwd=make.folder)
            says(outcome, (USAGE, INVALID, NOT_FOUND, UNSUPPORTED))
            assert url in outcome.stderr or not url, f"the URL is not named: {outcome}"
    assert not [p for p in make.folder.iterdir() if p.name not in ("db",)], list(make.folder.iterdir())


def case_place_is_a_file(make):
    path = make.folder / "a-file"
    path.write_text("not a folder")
    for command in (["init"], ["sql", "SELECT 1"]):
        outcome = Tarn(path).run(*command, ok=None)
        assert outcome.code not in (0, 70), outcome
        assert "a-file" in outcome.stderr, outcome
    assert path.read_text() == "not a folder"


def case_full_disk(make):
    mount = make.folder / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", mount], capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        tarn = Tarn(mount / "db", init=True)
        tarn.sql("CREATE TABLE orders (id BIGINT, s STRING); INSERT INTO orders VALUES (1, 'a'), (2, 'b');"
                 "CREATE TABLE stock (id BIGINT, n BIGINT); INSERT INTO stock VALUES (1, 10);")
        acknowledged = 2
        noise = "INSERT INTO orders SELECT value, md5(CAST(value * 7919 AS STRING)) FROM generate_series(1, 400000) AS q(value);"
        says(tarn.run("sql", noise, ok=None), EXHAUSTED, str(mount))
        full = mount / "ballast"
        ballast = os.open(full, os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(ballast, b"\0" * 4096):
                pass
        except OSError:
            pass
        finally:
            os.close(ballast)
        outcome = write(tarn)
        says(outcome, EXHAUSTED, str(mount))
        outcome = tarn.run("sql", "BEGIN; INSERT INTO orders VALUES (8, 'x'); INSERT INTO stock VALUES (2, 5); COMMIT", ok=None)
        says(outcome, EXHAUSTED)
        assert int(tarn.rows(ROWS)[0][0]) == acknowledged, "rows after the failed writes"
        full.unlink()
        tarn.check("--deep")
        subprocess.run(["mount", "-o", "remount,size=64m", mount], check=True)
        says(tarn.run("sql", noise, ok=None), 0)
        says(write(tarn), 0)
        assert int(tarn.rows(ROWS)[0][0]) == acknowledged + 400001
        tarn.check("--deep")
    finally:
        subprocess.run(["umount", mount], check=False)


def unprivileged(make, tarn, *command):
    """One call as the user nobody."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("needs root and setpriv to become another user")
    bin_folder = make.folder / "bin"
    if not bin_folder.exists():
        bin_folder.mkdir()
        shutil.copy(binary(), bin_folder / "tarndb")
        os.chmod(bin_folder / "tarndb", 0o755)
        for folder in (make.folder, bin_folder):
            os.chmod(folder, 0o755)
    arguments = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", bin_folder / "tarndb",
                 "--db", tarn.db, *command]
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=120,
                          env={**os.environ, "HOME": "/nonexistent"}, cwd="/")
    from tarndb import Outcome

    return Outcome(list(command), done)


def case_folder_may_not_be_written(make):
    tarn = make(young)
    before, wanted = files(tarn), int(tarn.rows(ROWS)[0][0])
    outcome = unprivileged(make, tarn, "--format", "csv", "sql", "SELECT count(*) FROM orders")
    says(outcome, 0, str(wanted))
    says(unprivileged(make, tarn, "sql", "INSERT INTO orders VALUES (7, 'x')"), READ_ONLY, tarn.db)
    says(unprivileged(make, tarn, "sql", "DELETE FROM orders WHERE id < 100"), READ_ONLY, tarn.db)
    says(unprivileged(make, tarn, "sql", "CREATE TABLE t (id BIGINT)"), READ_ONLY, tarn.db)
    says(unprivileged(make, Tarn(make.folder / "new"), "init"), READ_ONLY, "new")
    says(unprivileged(make, tarn, "check"), 0)
    kept(before, tarn)
    assert int(tarn.rows(ROWS)[0][0]) == wanted


def case_folder_may_not_be_read(make):
    tarn = make(young)
    os.chmod(tarn.db, 0o700)
    outcome = unprivileged(make, tarn, "sql", "SELECT 1")
    assert outcome.code not in (0, NOT_FOUND, 70), f"unreadable is not the same as empty: {outcome}"
    assert tarn.db in outcome.stderr, f"the place is not named: {outcome}"


# ---------------------------------------------------------------- cases: statements and files of the user


def case_csv_value_does_not_fit(make):
    tarn = make(young)
    path = make.folder / "bad.csv"
    path.write_text("id,n\n1,2\n2,3\n3,abc\n4,5\n")
    wanted = tarn.value("SELECT count(*) FROM stock")
    says(tarn.run("import", path, "--table", "stock", ok=None), INVALID, "bad.csv", "4", "n")
    assert tarn.value("SELECT count(*) FROM stock") == wanted, "rows of a failed import"


def case_import_of_two_tables_is_one_commit(make):
    tarn = make(young)
    good, bad = make.folder / "good.csv", make.folder / "bad.csv"
    good.write_text("id,n\n1000,1\n")
    bad.write_text("id,s\n1,x\nnope,y\n")
    wanted = tarn.value("SELECT count(*) FROM stock")
    outcome = tarn.run("import", "--table", f"stock={good}", "--table", f"orders={bad}", ok=None)
    says(outcome, INVALID, "bad.csv", "3", "id")
    assert tarn.value("SELECT count(*) FROM stock") == wanted, "half of an import was committed"


def case_open_transaction_at_the_end_of_input(make):
    tarn = make(young)
    wanted = tarn.rows(ROWS)
    outcome = tarn.sql("BEGIN; INSERT INTO orders VALUES (1, 'x'); INSERT INTO stock VALUES (1, 1);", ok=None)
    assert outcome.code not in (0, 70), outcome
    says(outcome, outcome.code, "rolled back")
    outcome = tarn.sql("BEGIN; DELETE FROM orders; SELECT nothing FROM nowhere; COMMIT;", ok=None)
    assert outcome.code not in (0, 70), outcome
    assert tarn.rows(ROWS) == wanted, "an aborted transaction left something"


def case_unknown_reader_feature_of_a_foreign_table(make):
    tarn = make(young)
    path = make.folder / "foreign/_delta_log"
    path.mkdir(parents=True)
    (path / f"{0:020}.json").write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["com.example.future"],'
        '"writerFeatures":["com.example.future"]}}\n'
        '{"metaData":{"id":"0","format":{"provider":"parquet","options":{}},"schemaString":'
        '"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],"configuration":{}}}\n')
    says(read(tarn, f"SELECT * FROM delta_scan('{path.parent}')"), UNSUPPORTED, "com.example.future")


def case_zz_every_kind_of_finding_was_seen(make):
    source = (Path(__file__).resolve().parent.parent / "crates/tarndb-db/src/check/mod.rs").read_text()
    known = set(re.findall(r'pub const [A-Z_]+: &str = "([a-z.]+)";', source))
    if len(make.words):
        raise Skipped("only some cases were run")
    assert known, "no kinds were found in the source"
    assert known <= SEEN, f"kinds of damage that no case made: {sorted(known - SEEN)}"


# ---------------------------------------------------------------- the runner


def kept(before, tarn):
    """Asserts that every file from before is there with the same bytes."""
    now = files(tarn)
    gone = [name for name, content in before.items() if now.get(name) != content]
    assert not gone, f"changed or gone: {gone}"


class Maker:
    """Copies of healthy databases, each made once."""

    def __init__(self, root, words):
        self.root, self.words, self.made, self.folder, self.count = root, words, {}, None, 0

    def begin(self):
        self.count += 1
        self.folder = self.root / f"case{self.count}"
        self.folder.mkdir()

    def __call__(self, build):
        if build not in self.made:
            folder = self.root / build.__name__
            folder.mkdir()
            self.made[build] = build(folder).db
        target = self.folder / "db"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.made[build], target)
        return Tarn(target)


def main():
    words = sys.argv[1:]
    root = Path(tempfile.mkdtemp(prefix="tarndb-bad-"))
    os.chmod(root, 0o755)
    make, passed, failed, skipped = Maker(root, words), 0, 0, []
    for name, case in list(globals().items()):
        title = name.removeprefix("case_").removeprefix("zz_").replace("_", " ")
        if not name.startswith("case_") or (words and not any(w in name or w in title for w in words)):
            continue
        make.begin()
        try:
            case(make)
            passed += 1
            print(f"ok      {title}", flush=True)
        except Skipped as why:
            skipped.append(title)
            print(f"SKIPPED {title}: {why}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {title}: {type(error).__name__}: {error}", flush=True)
        if not os.environ.get("TARNDB_KEEP"):
            shutil.rmtree(make.folder, ignore_errors=True)
    if skipped:
        print(f"SKIPPED {len(skipped)} cases that this machine does not allow: {', '.join(skipped)}")
    shutil.rmtree(root, ignore_errors=True) if not os.environ.get("TARNDB_KEEP") else print(f"kept {root}")
    return report("bad input", passed, failed)


if __name__ == "__main__":
    sys.exit(main())
