#!/usr/bin/env python3
"""A process that is stopped (SIGSTOP) at a step and woken when nothing is kept any more.

usage: paused_processes.py [base=URL] [only=NAME] [most=0]

At each step of a commit, of publishing, of a checkpoint, of a vacuum and of a cleanup of the log the
process is stopped right there (`TARNDB_TEST_STOP_AT` of debug builds). Then others commit, compact,
publish, write checkpoints, wait until the retention is over, vacuum and clean up, and commit again. The
stopped process is woken and ends. Nothing that was acknowledged is lost, nothing comes back, what the
process did is there if and only if it says so, and `check --deep` is clean: right then, and after
one more retention, vacuum and cleanup.

`most` stops of each work are made (0: all of them; a stop takes about 15 seconds).

The retention is scaled to seconds for all processes (`TARNDB_TEST_HEAD_EXPIRY_MS` of debug builds: a
quarter of it).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402
from places import Place  # noqa: E402
from tarndb import Failed, Tarn  # noqa: E402

EXPIRY_MS = 500
RETENTION_S = 2
# Store times have whole seconds on some stores.
WAIT_S = RETENTION_S + 1.5
TIMEOUT_S = 120
OURS = range(100_000, 130_000)

COMMIT = ("sql", f"INSERT INTO t SELECT value, value FROM generate_series({OURS.start}, {OURS.stop - 1}) AS s(value)")
SMALL = ("sql", f"INSERT INTO t VALUES ({OURS.start}, 0)")
# name, command, steps that it must stop at (`step:n`, the n-th time)
WORK = [
    ("commit", COMMIT, ["record.begin", "record.end"]),
    ("small commit", SMALL, ["record.begin", "record.end", "publish.begin", "inline_file.begin",
                             "inline_file.end", "publish.end"]),
    # What it finds was published by those who committed it; whole publications are stopped above.
    ("publish", ("publish",), ["publish.begin", "publish.end"]),
    ("checkpoint", ("checkpoint",), ["checkpoint.begin", "checkpoint.end"]),
    ("vacuum", ("vacuum", "--retain", f"{RETENTION_S}s"),
     ["record.begin", "record.end", "vacuum_file.begin", "vacuum_file.end", "vacuum_file.begin:3",
      "vacuum_log.begin", "vacuum_log.end", "vacuum_log.begin:3"]),
    ("cleanup", ("cleanup", "--retain", f"{RETENTION_S}s"),
     ["cleanup.begin", "cleanup.end", "cleanup.begin:4", "cleanup.end:4"]),
]


class Scene:
    """One database and what has to be in its table."""

    def __init__(self, base):
        os.environ["TARNDB_TEST_HEAD_EXPIRY_MS"] = str(EXPIRY_MS)
        self.place = Place("paused", base)
        self.tarn = Tarn(self.place, init=True)
        self.ids = set()
        self.tarn.sql("CREATE TABLE t (id BIGINT, n BIGINT); CREATE TABLE gone (id BIGINT);"
                      "INSERT INTO gone VALUES (1); DROP TABLE gone;")
        for n in range(12):
            self.insert(n)
        self.tarn.sql("UPDATE t SET n = n + 1 WHERE id < 6")
        self.maintain()
        time.sleep(WAIT_S)
        self.insert(50)
        self.insert(51)

    def insert(self, *ids):
        self.tarn.sql("INSERT INTO t VALUES " + ", ".join(f"({i}, 0)" for i in ids))
        self.ids |= set(ids)

    def maintain(self):
        self.tarn.run("optimize", "t", "--all")
        self.tarn.run("publish")
        self.tarn.run("checkpoint")

    def go_on(self, first):
        """What the others do until nothing of before is kept."""
        self.insert(first, first + 1)
        self.maintain()
        time.sleep(WAIT_S)
        self.insert(first + 2)
        self.insert(first + 3)
        self.retain("vacuum")
        self.retain("cleanup")
        self.insert(first + 4)

    def retain(self, command):
        self.tarn.run(command, "--retain", f"{RETENTION_S}s")

    def assert_sound(self, ids, context):
        found = sorted(int(row[0]) for row in self.tarn.rows("SELECT id FROM t"))
        assert found == sorted(ids), f"{context}: lost {sorted(set(ids) - set(found))[:9]}, " \
                                     f"too many {sorted(set(found) - set(ids))[:9]}, {len(found)} of {len(ids)}"
        self.tarn.check("--deep")


def stopped(tarn, command, step):
    """Starts the process and waits until it has stopped; `None` when it ended instead."""
    process = subprocess.Popen(tarn.command("--log", "step", *command), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TARNDB_TEST_STOP_AT": step})
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        state = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "T":
            return process
        if state == "Z":
            break
        time.sleep(0.01)
    out, err = process.communicate(timeout=TIMEOUT_S)
    raise AssertionError(f"{command} did not stop at {step}: exit {process.returncode}\n{out}{err[-2000:]}")


def run(base, name, command, step):
    scene = Scene(base)
    context = f"{name} stopped at {step}"
    process = stopped(scene.tarn, command, step)
    try:
        scene.go_on(200)
        if name == "cleanup":
            scene.go_on(300)
    finally:
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode >= 0 and "panicked" not in err, f"{context}: {out}{err[-3000:]}"
    ids = set(scene.ids)
    acknowledged = process.returncode == 0
    if name.endswith("commit") and acknowledged:
        ids |= set(OURS) if command is COMMIT else {OURS.start}
    scene.assert_sound(ids, context)
    scene.maintain()
    time.sleep(WAIT_S)
    scene.retain("vacuum")
    scene.retain("cleanup")
    scene.assert_sound(ids, f"{context}, later")
    scene.place.remove()
    end = "ended well" if acknowledged else "was refused: " + err.strip().splitlines()[-1]
    print(f"{context}: {end}; {len(ids)} rows, sound", flush=True)


def main():
    options = arguments(base="", only="", most=0)
    passed = failed = 0
    for name, command, steps in WORK:
        for step in steps[: options["most"] or None]:
            if options["only"] not in ("", name, step):
                continue
            try:
                run(options["base"], name, command, step)
                passed += 1
            except (AssertionError, Failed) as error:
                failed += 1
                print(f"FAILED {name} at {step}: {error}", flush=True)
    return report("paused processes", passed, failed)


if __name__ == "__main__":
    sys.exit(main())
