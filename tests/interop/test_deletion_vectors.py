"""Deletion vectors, inline and in files; checkpoints; time travel over all of it."""

import json
from pathlib import Path

import checksum
import readers
from tarndb import Tarn


def commits(path):
    """The published commits of a table, each as its list of actions."""
    logs = sorted((Path(path) / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in log.read_text().splitlines() if line] for log in logs]


def vectors(path):
    """The storage types of all deletion vectors that any commit added."""
    return {action["add"]["deletionVector"]["storageType"]
            for actions in commits(path) for action in actions
            if action.get("add", {}).get("deletionVector")}


def test_vectors_inline_and_in_files(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE v (id BIGINT, g BIGINT, s STRING);"
             "INSERT INTO v SELECT value, value % 7, 'r' || value FROM generate_series(1, 60000) AS q(value);")
    versions = [tarn.arrow("SELECT * FROM v")]
    for statement in ("DELETE FROM v WHERE id IN (5, 17, 59999)",
                      "DELETE FROM v WHERE (id * 2654435761) % 5 = 1",
                      "UPDATE v SET s = 'changed' WHERE (id * 40503) % 11 = 3",
                      "DELETE FROM v WHERE id <= 1000",
                      "DELETE FROM v WHERE s = 'changed'"):
        tarn.sql(statement + ";")
        versions.append(readers.all_agree(tarn, "v", "main/v", statement))
    path = tarn.table_path("main/v")
    kinds = vectors(path)
    assert "i" in kinds, f"a vector of three rows is inline: {kinds}"
    assert "u" in kinds, f"a vector of thousands of rows is a file: {kinds}"
    tarn.sql("DELETE FROM v;")
    assert readers.all_agree(tarn, "v", "main/v", "everything deleted").num_rows == 0
    tarn.check("--deep")
    for back, wanted in enumerate(versions):
        readers.agree(wanted, path, version=back + 1, what="time travel")
        ours = tarn.arrow(f"SELECT * FROM delta_scan('{path}', version => {back + 1})")
        assert checksum.digest(ours) == checksum.digest(wanted), f"delta_scan version {back + 1}"
    return f"{len(versions)} versions, vector kinds {sorted(kinds)}"


def test_checkpoints_are_read_by_all(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (id BIGINT, k STRING, v DOUBLE) PARTITIONED BY (k);")
    seen = []
    for n in range(26):
        tarn.sql(f"INSERT INTO c VALUES ({n}, 'k{n % 3}', {n}.5), ({n + 100}, NULL, NULL);"
                 if n % 3 or n == 0 else f"DELETE FROM c WHERE id = {n - 1};")
        seen.append(tarn.arrow("SELECT * FROM c"))
    tarn.run("checkpoint")
    path = tarn.table_path("main/c")
    files = sorted(p.name for p in (Path(path) / "_delta_log").glob("*.checkpoint.parquet"))
    wanted = {f"{version:020}.checkpoint.parquet" for version in (10, 20)}
    assert wanted <= set(files), f"a table checkpoint every 10 versions, each in a process of its own: {files}"
    readers.all_agree(tarn, "c", "main/c")
    for version, wanted in enumerate(seen, start=1):
        readers.agree(wanted, path, version=version, what="time travel")
    newest = int(files[-1].split(".")[0])
    for commit in (Path(path) / "_delta_log").glob("*.json"):
        if int(commit.stem) < newest:
            commit.unlink()
    readers.agree(seen[-1], path, what="from the checkpoint, older commits gone")
    tarn.sql("INSERT INTO c VALUES (999, 'z', 1.0);")
    readers.all_agree(tarn, "c", "main/c", "written after a cleanup by others")
    return f"{len(files)} checkpoints, newest at version {newest}"


def test_copy_on_write_table_has_no_vectors(folder):
    from deltalake import DeltaTable

    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE w (id BIGINT, v BIGINT) WITH (deletion_vectors = 'off');"
             "INSERT INTO w SELECT value, value FROM generate_series(1, 1000) AS q(value);"
             "DELETE FROM w WHERE id % 3 = 0; UPDATE w SET v = -v WHERE id % 2 = 0;")
    readers.all_agree(tarn, "w", "main/w")
    path = tarn.table_path("main/w")
    assert not vectors(path) and DeltaTable(path).protocol().min_reader_version == 1
    assert DeltaTable(path).to_pyarrow_table().num_rows == 667
    tarn.check("--deep")
