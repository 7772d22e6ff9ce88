#!/usr/bin/env python3
"""Commits per second against what the disk can do, in the same minute.

usage: bench_commits.py [commits=100] [rounds=3] [writers=4] [folder=..]

In alternation, `rounds` times: a bare loop that makes durable files the way a commit does
(write a temporary file, fsync, link to the name, fsync the folder, unlink the temporary), and
one `tarndb` process that commits one-row INSERTs with fsync on. Then `writers` processes on one
table. Start-up is left out: the clock runs from the first acknowledgement to the last.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from arguments import arguments  # noqa: E402
from tarndb import Tarn, binary  # noqa: E402


def bare_loop(folder, count, size_bytes=900):
    """Durable put-if-absent files per second."""
    folder.mkdir(parents=True)
    directory, payload = os.open(folder, os.O_RDONLY), b"x" * size_bytes
    started = time.perf_counter()
    for number in range(count):
        temporary, final = str(folder / f"tmp{number}"), str(folder / f"{number:020}.json")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, payload)
        os.fsync(file)
        os.close(file)
        os.link(temporary, final)
        os.fsync(directory)
        os.unlink(temporary)
    took = time.perf_counter() - started
    os.close(directory)
    return count / took


class Writer:
    """A process that commits one-row INSERTs, and when it acknowledged each."""

    def __init__(self, tarn, table, first, count):
        text = "".join(f"INSERT INTO {table} VALUES ({n}, 'row {n}');\n" for n in range(first, first + count))
        self.process = subprocess.Popen(tarn.command("sql", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.process.stdin.write(text)
        self.process.stdin.close()

    def acknowledgements(self):
        """The moments of all acknowledgements; waits for the end of the process."""
        moments = [time.perf_counter() for line in self.process.stdout if line.upper().startswith("INSERT")]
        error = self.process.stderr.read()
        assert self.process.wait() == 0, error[-2000:]
        return moments


def one_writer(tarn, table, first, count):
    """Commits per second of one process."""
    moments = Writer(tarn, table, first, count).acknowledgements()
    assert len(moments) == count, f"{len(moments)} of {count} acknowledged"
    return (count - 1) / (moments[-1] - moments[0])


def many_writers(tarn, table, writers, count):
    """Commits per second of several processes on one table, together."""
    import threading

    everyone, moments = [Writer(tarn, table, (n + 1) * 1_000_000, count) for n in range(writers)], []
    threads = [threading.Thread(target=lambda w=w: moments.append(w.acknowledgements())) for w in everyone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flat = sorted(m for part in moments for m in part)
    assert len(flat) == writers * count, f"{len(flat)} of {writers * count} acknowledged"
    return (len(flat) - 1) / (flat[-1] - flat[0])


def main():
    options = arguments(commits=100, rounds=3, writers=4, folder=tempfile.gettempdir())
    count, root = options["commits"], Path(tempfile.mkdtemp(prefix="tarndb-bench-", dir=options["folder"]))
    profile = "release" if "/release/" in binary() else "development"
    print(f"{profile} profile, {os.cpu_count()} cores, fsync on, {count} one-row commits a round")
    tarn, bare, ours = Tarn(root / "db", init=True), [], []
    tarn.sql("CREATE TABLE one (id BIGINT, s STRING); CREATE TABLE many (id BIGINT, s STRING);")
    for number in range(options["rounds"]):
        bare.append(bare_loop(root / f"bare{number}", count))
        ours.append(one_writer(tarn, "one", number * count, count))
        print(f"  round {number + 1}: bare loop {bare[-1]:.0f} files/s, one writer {ours[-1]:.1f} commits/s", flush=True)
    together = many_writers(tarn, "many", options["writers"], count)
    middle = lambda values: sorted(values)[len(values) // 2]
    print(f"one writer: {middle(ours):.1f} commits/s, bare write+fsync+link+fsync folder: {middle(bare):.0f}/s "
          f"(a commit = a record, one such file, and two more when it is published: "
          f"{middle(ours) / middle(bare):.3f} of the bare rate)")
    print(f"{options['writers']} writers on one table: {together:.1f} commits/s together")
    rows = [int(tarn.value(f"SELECT count(*) FROM {t}")) for t in ("one", "many")]
    assert rows == [options["rounds"] * count, options["writers"] * count], rows
    tarn.check()
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
