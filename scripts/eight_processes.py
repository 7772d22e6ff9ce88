#!/usr/bin/env python3
"""Processes that update one table at the same time: nothing lost, nothing failed.

usage: eight_processes.py [processes=8] [updates=25] [base=URL]

Round one: each process updates its own row, all rows being in one shared file, with autocommit
statements. Round two: all update the same counter row. Every statement must be acknowledged and
every one must be there; the longest wait for one acknowledgement is printed. Each process is one
`tarndb sql -` that is given a statement only after it acknowledged the one before, so a wait is
the time from giving a statement to reading its answer. The database is a temporary folder, or lies
below the URL `base` (credentials and endpoint come from the environment).
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402
from places import Place  # noqa: E402
from tarndb import Tarn  # noqa: E402


def acknowledges(line):
    """Whether an output line is the tag of an update of one row."""
    words = line.strip().upper().split()
    return words[:1] == ["UPDATE"] and words[-1:] == ["1"]


class Worker(threading.Thread):
    """One process and the thread that talks to it."""

    def __init__(self, tarn, number, updates, statement):
        super().__init__()
        self.tarn, self.number, self.updates, self.statement = tarn, number, updates, statement
        self.waits, self.error = [], ""

    def run(self):
        lines = [self.statement(self.number, n) for n in range(self.updates)]
        process = subprocess.Popen(self.tarn.command("sql", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        listener = threading.Thread(target=lambda: self.__setattr__("error", process.stderr.read()))
        listener.start()
        process.stdin.write("".join(line + ";\n" for line in lines))
        process.stdin.close()
        before = time.monotonic()
        for line in process.stdout:
            now = time.monotonic()
            if acknowledges(line):
                self.waits.append(now - before)
                before = now
        process.wait()
        listener.join()
        if process.returncode:
            self.error = f"process {self.number} ended with {process.returncode}: {self.error[-1500:]}"


def round_of(tarn, processes, updates, statement, title):
    """Runs all processes of one round; asserts that each statement was acknowledged."""
    workers = [Worker(tarn, n, updates, statement) for n in range(processes)]
    started = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.monotonic() - started
    waits = sorted(w for worker in workers for w in worker.waits)
    failed = [w for w in workers if len(w.waits) != updates]
    assert not failed, f"{title}: {len(failed)} processes did not get all answers: {failed[0].error[-2000:]}"
    print(f"{title}: {len(waits)} of {processes * updates} acknowledged in {took:.1f} s "
          f"({len(waits) / took:.1f}/s), wait median {waits[len(waits) // 2] * 1000:.0f} ms, "
          f"longest {waits[-1] * 1000:.0f} ms", flush=True)


def main():
    options = arguments(processes=8, updates=25, base="")
    processes, updates = options["processes"], options["updates"]
    place = Place("processes", options["base"])
    tarn = Tarn(place, init=True)
    rows = ", ".join(f"({n}, 0)" for n in range(processes))
    tarn.sql(f"CREATE TABLE own (id BIGINT, n BIGINT); INSERT INTO own VALUES {rows};"
             "CREATE TABLE c (n BIGINT); INSERT INTO c VALUES (0);")
    round_of(tarn, processes, updates, lambda me, n: f"UPDATE own SET n = n + 1 WHERE id = {me}", "own rows")
    found = sorted(tuple(map(int, row)) for row in tarn.rows("SELECT id, n FROM own"))
    assert found == [(n, updates) for n in range(processes)], f"updates lost: {found}"
    round_of(tarn, processes, updates, lambda me, n: "UPDATE c SET n = n + 1", "one counter")
    total = int(tarn.value("SELECT n FROM c"))
    assert total == processes * updates, f"the counter is {total}, not {processes * updates}"
    tarn.check("--deep")
    place.remove()
    print(f"all {2 * processes * updates} updates are there, check --deep is clean")
    return report("processes", 2, 0)


if __name__ == "__main__":
    sys.exit(main())
