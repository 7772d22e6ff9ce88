#!/usr/bin/env python3
"""Delete, update and upsert on a large table, beside DuckLake, pylance and deltalake in one run.

usage: bench_dml.py [rows=10000000] [source=100000] [limit_mb=0] [rounds=1] [peers=tarndb,ducklake,pylance,deltalake] [folder=..]

A table of 8 columns, then: delete 1 % of the rows, scattered over all files; update another 1 %;
upsert `source` rows by key, half of them new. Every peer works in a process of its own, on one
table of the same rows that it wrote itself with its own defaults. TarnDB is the program TARNDB_BIN, started
anew for every statement, under `limit_mb` of memory (0: its default). Where the sums of the
rows at the end differ between peers, the run fails. One line of JSON per step: seconds, peak resident size in
MB (of the process since the step began; the rows that came in are gone by then), megabytes added.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from arguments import arguments  # noqa: E402

DELETED, UPDATED = "a % 100 = 7", "a % 100 = 8"
# Counts and sums of integers: no peer may differ in a digit.
CHECKED = ("SELECT count(*) AS n, sum(id) AS ids, sum(a) AS a, sum(CASE WHEN x >= 1 THEN 1 ELSE 0 END) AS updated, "
           "count(DISTINCT id) AS keys FROM {}")
PEERS = ("tarndb", "ducklake", "pylance", "deltalake")


def table(rows, seed):
    random = np.random.default_rng(seed)
    words = pa.array([f"word{number:04}" for number in range(1000)])
    return pa.table({
        "id": pa.array(np.arange(rows, dtype=np.int64)),
        "a": pa.array(random.integers(0, 1_000_000, rows, dtype=np.int64)),
        "b": pa.array(random.integers(0, 100, rows, dtype=np.int32)),
        "x": pa.array(random.random(rows)),
        "y": pa.array(np.round(random.random(rows) * 1000, 2)),
        "w": words.take(pa.array(random.integers(0, 1000, rows))),
        "s": pa.array(np.char.mod("%08x", random.integers(0, 1 << 32, rows, dtype=np.int64))),
        "t": pa.array(1_700_000_000_000_000 + np.arange(rows, dtype=np.int64) * 1000, pa.timestamp("us", "UTC")),
    })


def source(rows, count):
    half = count // 2
    keys = np.concatenate([np.arange(half, dtype=np.int64) * (rows // half), np.arange(rows, rows + count - half)])
    return table(count, seed=2).set_column(0, "id", pa.array(keys.astype(np.int64)))


def megabytes(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def peak_mb(pid="self"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("this system does not tell the peak of a process")


def emit(peer, what, **figures):
    rounded = {name: round(value, 2) if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps({"bench": "dml", "peer": peer, "what": what, **rounded}), flush=True)


class Steps:
    """Times the steps of a peer that runs inside this process."""

    def __init__(self, peer, folder):
        self.peer, self.folder = peer, folder

    def step(self, what, action):
        Path("/proc/self/clear_refs").write_text("5")
        base, before, started = peak_mb(), megabytes(self.folder), time.monotonic()
        action()
        took = time.monotonic() - started
        emit(self.peer, what, seconds=took, peak_mb=peak_mb(), base_mb=base, added_mb=megabytes(self.folder) - before)


def checked(peer, frame):
    """Tells the sums of the rows; the parent compares them."""
    emit(peer, "sums", **{name: int(values[0]) for name, values in frame.to_pydict().items()})


def duck():
    import duckdb
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def files(folder, rows, count, _):
    """What TarnDB reads: another program hands it files. In a process of its own, for a child counts its parent's peak."""
    pq.write_table(table(rows, seed=1), folder / "t.parquet")
    pq.write_table(source(rows, count), folder / "u.parquet")


def tarndb(folder, rows, count, limit_mb):
    from tarndb import Tarn
    made = folder.parent / "files"
    tarn = Tarn(folder / "db", init=True)
    options = ["--memory-limit", f"{limit_mb}MB"] if limit_mb else []

    def step(what, statement):
        before, started = megabytes(folder), time.monotonic()
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(tarn.command(*options, "sql", statement), stdout=subprocess.DEVNULL, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            took = time.monotonic() - started
            log.seek(0)
            if os.waitstatus_to_exitcode(status) != 0:
                raise SystemExit(f"{what}: {log.read()[-3000:]}")
        emit("tarndb", what, seconds=took, peak_mb=usage.ru_maxrss * 1024 / 1e6, base_mb=0.0, added_mb=megabytes(folder) - before)

    step("write", f"CREATE TABLE t AS SELECT * FROM '{made}/t.parquet'")
    step("delete", f"DELETE FROM t WHERE {DELETED}")
    step("update", f"UPDATE t SET x = x + 1 WHERE {UPDATED}")
    step("upsert", f"MERGE INTO t USING '{made}/u.parquet' AS s ON t.id = s.id "
                   "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    step("count", "SELECT count(*) FROM t")
    checked("tarndb", tarn.arrow(CHECKED.format("t")))


def ducklake(folder, rows, count, _):
    connection = duck()
    try:
        connection.execute("LOAD ducklake")
    except Exception:
        from duckdb_extensions import import_extension
        import_extension("ducklake")
        connection.execute("LOAD ducklake")
    # A name that a lambda does not hold is not found by the engine's search for variables.
    steps, data = Steps("ducklake", folder), table(rows, seed=1)
    connection.register("given", data)
    connection.execute(f"ATTACH 'ducklake:{folder}/catalog' AS l (DATA_PATH '{folder}/data/')")
    steps.step("write", lambda: connection.execute("CREATE TABLE l.t AS SELECT * FROM given"))
    connection.unregister("given")
    del data
    steps.step("delete", lambda: connection.execute(f"DELETE FROM l.t WHERE {DELETED}").fetchall())
    steps.step("update", lambda: connection.execute(f"UPDATE l.t SET x = x + 1 WHERE {UPDATED}").fetchall())
    connection.register("new", source(rows, count))
    steps.step("upsert", lambda: connection.execute(
        "MERGE INTO l.t AS t USING new AS s ON t.id = s.id WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT").fetchall())
    steps.step("count", lambda: connection.execute("SELECT count(*) FROM l.t").fetchall())
    checked("ducklake", connection.execute(CHECKED.format("l.t")).to_arrow_table())


def pylance(folder, rows, count, _):
    import lance
    steps, place, data = Steps("pylance", folder), str(folder / "t.lance"), table(rows, seed=1)
    steps.step("write", lambda: lance.write_dataset(data, place))
    del data
    steps.step("delete", lambda: lance.dataset(place).delete(DELETED))
    steps.step("update", lambda: lance.dataset(place).update({"x": "x + 1"}, where=UPDATED))
    new = source(rows, count)
    steps.step("upsert", lambda: lance.dataset(place).merge_insert("id").when_matched_update_all()
               .when_not_matched_insert_all().execute(new))
    steps.step("count", lambda: lance.dataset(place).count_rows())
    rows_now = lance.dataset(place).to_table(columns=["id", "a", "x"])
    checked("pylance", duck().execute(CHECKED.format("rows_now")).to_arrow_table())
    del rows_now


def deltalake(folder, rows, count, _):
    from deltalake import DeltaTable, write_deltalake
    steps, place, data = Steps("deltalake", folder), str(folder / "t"), table(rows, seed=1)
    steps.step("write", lambda: write_deltalake(place, data))
    del data
    steps.step("delete", lambda: DeltaTable(place).delete(DELETED))
    steps.step("update", lambda: DeltaTable(place).update(updates={"x": "x + 1"}, predicate=UPDATED))
    new = source(rows, count)
    steps.step("upsert", lambda: DeltaTable(place).merge(new, "t.id = s.id", source_alias="s", target_alias="t")
               .when_matched_update_all().when_not_matched_insert_all().execute())
    steps.step("count", lambda: DeltaTable(place).count())
    rows_now = DeltaTable(place).to_pyarrow_table(columns=["id", "a", "x"])
    checked("deltalake", duck().execute(CHECKED.format("rows_now")).to_arrow_table())
    del rows_now


def main():
    options = arguments(rows=10_000_000, source=100_000, limit_mb=0, rounds=1, peers=",".join(PEERS), folder="", only="")
    if options["only"]:
        globals()[options["only"]](Path(options["folder"]), options["rows"], options["source"], options["limit_mb"])
        return 0
    peers = options["peers"].split(",")
    if unknown := set(peers) - set(PEERS):
        raise SystemExit(f"unknown peers {sorted(unknown)}: choose from {', '.join(PEERS)}")
    top = Path(options["folder"] or tempfile.mkdtemp(prefix="tarndb-dml-"))
    words = [f"{name}={options[name]}" for name in ("rows", "source", "limit_mb")]

    def alone(what, folder):
        folder.mkdir(parents=True)
        out = subprocess.run([sys.executable, __file__, *words, f"only={what}", f"folder={folder}"],
                             stdout=subprocess.PIPE, text=True)
        print(out.stdout, end="", flush=True)
        if out.returncode != 0:
            raise SystemExit(f"{what} ended with {out.returncode}")
        return out.stdout

    alone("files", top / "files")
    sums = {}
    for number in range(options["rounds"]):
        # The order turns, so that no peer always meets the same neighbours.
        for peer in peers[number % len(peers):] + peers[:number % len(peers)]:
            folder = top / f"{peer}-{number}"
            out = alone(peer, folder)
            shutil.rmtree(folder)
            told = json.loads(out.splitlines()[-1])
            sums[peer] = {name: value for name, value in told.items() if name not in ("bench", "peer", "what")}
    if not options["folder"]:
        shutil.rmtree(top)
    if len({json.dumps(each, sort_keys=True) for each in sums.values()}) > 1:
        raise SystemExit(f"the peers hold different rows: {sums}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
