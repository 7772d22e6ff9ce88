#!/usr/bin/env python3
"""Processes that update a table while another compacts it in a loop: nobody fails, nothing is lost.

usage: compaction_race.py [processes=8] [updates=25] [rewrites=5]

Each process updates rows of its own, which lie in files that all share, one explicit transaction
per update: it is not run again by itself, so a conflict would fail the process, and the only one
that could cause one is the compaction. A further process runs `tarndb optimize --all`, which
writes every file anew, whatever was deleted in it. All go on until every process made `updates`
updates and `rewrites` compactions were committed meanwhile.
"""

import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402
from tarndb import Tarn  # noqa: E402

ROWS_EACH = 10
FILES = 4
AT_ONCE = 25
ROUNDS_MAX = 200


class Writer(threading.Thread):
    """Updates its own rows, some transactions per process started."""

    def __init__(self, tarn, number, updates, enough):
        super().__init__()
        self.tarn, self.number, self.updates, self.enough = tarn, number, updates, enough
        self.done, self.error = 0, ""

    def statements(self):
        for n in range(self.done, self.done + AT_ONCE):
            row = self.number * ROWS_EACH + n % ROWS_EACH
            yield f"BEGIN; UPDATE t SET n = n + 1 WHERE id = {row}; COMMIT;\n"

    def run(self):
        try:
            for _ in range(ROUNDS_MAX):
                if self.done >= self.updates and self.enough.is_set():
                    return
                self.tarn.sql("".join(self.statements()))
                self.done += AT_ONCE
        except Exception as error:
            self.error = f"process {self.number} after {self.done} updates: {error}"


def compact(tarn, stop, enough, rewrites):
    """Compacts until told to stop; the reports of those that committed something."""
    reports = []
    while not stop.is_set():
        outcome = tarn.run("--format", "ndjson", "optimize", "t", "--all")
        told = json.loads(outcome.stdout.splitlines()[0])
        if told["versions"]:
            reports.append(told)
        if len(reports) >= rewrites:
            enough.set()
    return reports


def main():
    options = arguments(processes=8, updates=25, rewrites=5)
    processes, updates, rewrites = options["processes"], options["updates"], options["rewrites"]
    folder = Path(tempfile.mkdtemp(prefix="tarndb-compaction-"))
    tarn = Tarn(folder / "db", init=True)
    rows = processes * ROWS_EACH
    inserts = (", ".join(f"({id}, 0)" for id in range(file, rows, FILES)) for file in range(FILES))
    tarn.sql("CREATE TABLE t (id BIGINT, n BIGINT);" + "".join(f"INSERT INTO t VALUES {values};" for values in inserts))
    stop, enough, found = threading.Event(), threading.Event(), {}

    def compactor():
        try:
            found["reports"] = compact(tarn, stop, enough, rewrites)
        except Exception as error:
            found["error"] = str(error)
        finally:
            enough.set()

    writers = [Writer(tarn, number, updates, enough) for number in range(processes)]
    ninth = threading.Thread(target=compactor)
    started = time.monotonic()
    for thread in [ninth, *writers]:
        thread.start()
    for writer in writers:
        writer.join()
    took = time.monotonic() - started
    stop.set()
    ninth.join()
    failed = [writer.error for writer in writers if writer.error]
    assert not failed, f"{len(failed)} writers failed: {failed[0][-2000:]}"
    assert "error" not in found, f"the compaction failed: {found['error'][-2000:]}"
    reports = found["reports"]
    assert len(reports) >= rewrites, f"only {len(reports)} of {rewrites} compactions were committed"
    expected = {}
    for writer in writers:
        for n in range(writer.done):
            row = writer.number * ROWS_EACH + n % ROWS_EACH
            expected[row] = expected.get(row, 0) + 1
    found_rows = {int(id): int(n) for id, n in tarn.rows("SELECT id, n FROM t")}
    wanted = {id: expected.get(id, 0) for id in range(rows)}
    wrong = {id: (wanted.get(id), found_rows.get(id)) for id in wanted.keys() | found_rows.keys()
             if wanted.get(id) != found_rows.get(id)}
    assert not wrong, f"rows (expected, found): {dict(list(wrong.items())[:5])} and {max(len(wrong) - 5, 0)} more"
    assert int(tarn.value("SELECT count(*) FROM t")) == rows
    tarn.check("--deep")
    total = sum(writer.done for writer in writers)
    figure = lambda key: sum(told[key] for told in reports)  # noqa: E731
    partly = sum(1 for told in reports if told["rows_dropped"])
    print(f"{total} updates by {processes} processes in {took:.1f} s ({total / took:.1f}/s), none failed; "
          f"{len(reports)} compactions, {partly} of them of files with deleted rows, none failed: "
          f"{figure('rewritten')} files became {figure('written')}, {figure('rows_moved')} rows moved, "
          f"{figure('rows_dropped')} deleted rows dropped, {figure('retries')} retries, "
          f"{figure('skipped')} files skipped")
    shutil.rmtree(folder)
    return report("compaction race", 1, 0)


if __name__ == "__main__":
    sys.exit(main())
