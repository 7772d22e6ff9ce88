"""INSERT OVERWRITE beside INSERT, DELETE and compaction of other processes."""

import json
import subprocess
from pathlib import Path

import pyarrow as pa

import checksum
import readers
from tarndb import Tarn

ROUNDS = 6
ROWS = 40


def commits(folder):
    """Version -> commitInfo of a published table."""
    found = {}
    for path in sorted((Path(folder) / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        info = [action["commitInfo"] for action in actions if "commitInfo" in action]
        found[int(path.stem)] = info[0]
    return found


def own_rows(mark):
    """What the overwrite of a round writes."""
    return pa.table({"id": pa.array(range(ROWS), pa.int64()), "mark": [mark] * ROWS})


def beside(tarn, mark):
    """One overwrite while three others are at work on the same table; all of them succeed."""
    values = ", ".join(f"({n}, '{mark}')" for n in range(ROWS))
    works = {
        "overwrite": ("sql", "-", f"INSERT OVERWRITE t VALUES {values};"),
        "insert": ("sql", "-", "".join(f"INSERT INTO t VALUES ({1000 + n}, 'inserted');\n" for n in range(6))),
        "delete": ("sql", "-", "".join(f"DELETE FROM t WHERE id % 7 = {n};\n" for n in range(6))),
        "optimize": ("optimize", "t", None),
    }
    running = {}
    for name, (command, argument, text) in works.items():
        running[name] = subprocess.Popen(tarn.command(command, argument), stdin=subprocess.PIPE, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running[name].stdin.write(text or "")
        running[name].stdin.close()
    for name, process in running.items():
        out, error = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, f"{name} failed: {out}{error}"


def test_an_overwrite_leaves_exactly_its_own_rows(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE t (id BIGINT, mark STRING);")
    for round_number in range(ROUNDS):
        tarn.sql("".join(f"INSERT INTO t VALUES ({n}, 'before'), ({n + 500}, 'before');\n" for n in range(5)))
        beside(tarn, f"round {round_number}")
    tarn.run("publish")
    path = tarn.table_path("main/t")
    overwrites, overtaken = [], 0
    for version, info in commits(path).items():
        if info["operation"] != "OVERWRITE":
            continue
        expected = own_rows(f"round {len(overwrites)}")
        readers.agree(expected, path, version=version, what="right after the overwrite")
        overwrites.append(version)
        overtaken += info["readVersion"] < version - 1
    assert len(overwrites) == ROUNDS, overwrites
    assert overtaken > 0, "no overwrite met a commit of another process: the test shows nothing"
    readers.all_agree(tarn, "t", "main/t", "at the end")
    tarn.check("--deep")
    return f"{ROUNDS} overwrites, {overtaken} of them over commits they had not seen"


def test_an_overwrite_that_reads_its_table_sees_every_row(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE c (n BIGINT); INSERT INTO c VALUES (0);")
    process_count, each = 4, 5
    text = "INSERT OVERWRITE c SELECT n + 1 FROM c;\n" * each
    processes = [subprocess.Popen(tarn.command("sql", "-"), stdin=subprocess.PIPE, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(process_count)]
    for process in processes:
        process.stdin.write(text)
        process.stdin.close()
    for process in processes:
        out, error = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0, f"{out}{error}"
    expected = pa.table({"n": pa.array([process_count * each], pa.int64())})
    assert checksum.digest(tarn.arrow("SELECT * FROM c")) == checksum.digest(expected)
    tarn.run("publish")
    readers.agree(expected, tarn.table_path("main/c"))
    return f"{process_count * each} overwrites from the table itself, none lost"
