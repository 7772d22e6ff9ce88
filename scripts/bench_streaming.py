#!/usr/bin/env python3
"""A stream of small transactions, beside DuckLake in the same minutes.

usage: bench_streaming.py [transactions=30000] [rounds=6] [tasks=8] [rows=10] [publish=async]
                          [peer=30000] [peer_threads=1] [folder=..]

In turns, `rounds` times: a bare loop that makes durable files (what the disk can do), a share of
`transactions` inserts of `rows` rows of 8 columns by `tarndb-bench stream` (one process, `tasks`
tasks on one handle, fsync on), and a share of `peer` such inserts by DuckLake (one process,
`peer_threads` cursors, a DuckDB file as its catalog, small inserts kept inside the catalog, as is
its default). Then the same aggregate over both tables, before and after each one's own
maintenance: by the harness's reader, by DuckDB's delta_scan over the published table, and by
DuckLake. The binary is TARNDB_BENCH_BIN. One line of JSON per measurement.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from arguments import arguments  # noqa: E402
from bench_commits import bare_loop  # noqa: E402

KINDS = ["view", "click", "cart", "order", "return"]
AGGREGATE = "SELECT kind, count(*), sum(id), sum(quantity), sum(price) FROM {} GROUP BY kind ORDER BY kind"
QUERIES = 3


def emit(**values):
    print(json.dumps({"bench": "streaming", **values}), flush=True)


def four(value):
    return float(f"{value:.4g}")


class Tarn:
    """`tarndb-bench stream`, told its steps one by one."""

    def __init__(self, folder, options):
        self.folder = folder
        command = [os.environ["TARNDB_BENCH_BIN"], "stream", f"folder={folder}", f"tasks={options['tasks']}",
                   f"rows={options['rows']}", f"publish={options['publish']}", "steps=-"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self, text, **more):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"tarndb-bench ended with {self.process.wait()} at {text}")
        seen = json.loads(line)
        del seen["bench"]
        emit(system="tarndb", **seen, **more)
        return seen

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0, "tarndb-bench failed at its end"


class DuckLake:
    """DuckLake with a DuckDB file as its catalog."""

    def __init__(self, folder, options):
        folder.mkdir(parents=True)
        self.rows, self.threads, self.next = options["rows"], options["peer_threads"], 0
        self.connection = duckdb.connect()
        self.connection.execute("load ducklake")
        self.connection.execute(f"attach 'ducklake:{folder}/catalog.ducklake' as lake (data_path '{folder}/data/')")
        self.connection.execute("create table lake.events (id bigint, ts bigint, device integer, kind varchar, "
                                "price double, quantity bigint, score double, note varchar)")
        self.lock, self.retries = threading.Lock(), 0

    def statement(self, number):
        """The rows of tarndb-bench, as literals: the quicker of the ways to hand them over."""
        rows = range(number * self.rows, (number + 1) * self.rows)
        return "insert into lake.events values " + ",".join(
            f"({n},{1_764_500_000_000 + n * 3},{n * 7919 % 1000},'{KINDS[n % 5]}',{n % 4000 / 4},{n % 7},"
            f"{n % 1009 / 1009},'note {n % 97}')" for n in rows)

    def work(self, end, took):
        cursor = self.connection.cursor()
        while True:
            with self.lock:
                number, self.next = self.next, self.next + 1
            if number >= end:
                return
            statement, begun = self.statement(number), time.perf_counter()
            while True:
                try:
                    cursor.execute(statement)
                    break
                except duckdb.TransactionException:
                    self.retries += 1
            took.append(time.perf_counter() - begun)

    def append(self, count):
        end, took, before = self.next + count, [], self.retries
        threads = [threading.Thread(target=self.work, args=(end, took)) for _ in range(self.threads)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, self.next = time.perf_counter() - begun, end
        assert len(took) == count, f"{len(took)} of {count} acknowledged"
        took.sort()
        emit(system="ducklake", step="append", transactions=count, seconds=four(seconds),
             transactions_per_second=four(count / seconds), rows_per_second=four(count * self.rows / seconds),
             p50_ms=four(1e3 * took[len(took) // 2]), p99_ms=four(1e3 * took[len(took) * 99 // 100]),
             reexecutions=self.retries - before)
        return count / seconds

    def optimize(self):
        begun = time.perf_counter()
        self.connection.execute("call ducklake_flush_inlined_data('lake')")
        self.connection.execute("call ducklake_merge_adjacent_files('lake')")
        emit(system="ducklake", step="compact", seconds=four(time.perf_counter() - begun))


def expected(rows):
    """What the aggregate must give over the first `rows` rows."""
    sums = {kind: [0, 0, 0, 0.0] for kind in KINDS}
    for n in range(rows):
        one = sums[KINDS[n % 5]]
        one[0] += 1
        one[1] += n
        one[2] += n % 7
        one[3] += n % 4000 / 4
    return [(kind, *sums[kind]) for kind in sorted(KINDS)]


def query(system, when, connection, source, rows):
    """The aggregate, several times over; its result is compared."""
    took = []
    for _ in range(QUERIES):
        begun = time.perf_counter()
        found = connection.execute(AGGREGATE.format(source)).fetchall()
        took.append(time.perf_counter() - begun)
        assert found == expected(rows), f"{system}: {found}"
    emit(system=system, step="query", when=when, query_seconds=four(sorted(took)[len(took) // 2]),
         first_seconds=four(took[0]))


def delta_scan(when, tarn, rows):
    connection = duckdb.connect()
    connection.execute("load delta")
    query("duckdb over tarndb's table", when, connection, f"delta_scan('{tarn.folder}/main/events')", rows)


def queries(when, tarn, lake, options):
    ours, theirs = options["transactions"] * options["rows"], lake.next * lake.rows
    tarn.step("cold-query", when=when)
    tarn.step("query", when=when)
    delta_scan(when, tarn, ours)
    query("ducklake", when, lake.connection, "lake.events", theirs)


def main():
    options = arguments(transactions=30000, rounds=6, tasks=8, rows=10, publish="async", peer=30000, peer_threads=1,
                        folder=tempfile.gettempdir())
    root = Path(tempfile.mkdtemp(prefix="tarndb-streaming-", dir=options["folder"]))
    tarn, lake = Tarn(root / "tarndb", options), DuckLake(root / "ducklake", options)
    rounds, ratios = options["rounds"], []
    for number in range(rounds):
        bare = bare_loop(root / f"bare{number}", 200)
        emit(system="bare loop", step="append", files_per_second=four(bare), load=os.getloadavg()[0])
        share = options["transactions"] // rounds
        ours = tarn.step(f"append:{share}")["transactions_per_second"]
        ratios.append(ours / lake.append(options["peer"] // rounds))
    options["transactions"] = options["transactions"] // rounds * rounds
    emit(step="ratio", per_round=[four(ratio) for ratio in ratios], middle=four(sorted(ratios)[rounds // 2]))
    tarn.step("publish")
    queries("before optimize", tarn, lake, options)
    tarn.step("compact")
    tarn.step("publish")
    lake.optimize()
    queries("after optimize", tarn, lake, options)
    tarn.end()
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
