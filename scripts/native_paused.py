#!/usr/bin/env python3
"""A process that writes a table by path and is stopped (SIGSTOP) before or after any object that it
puts or deletes, and woken when nothing is kept any more.

usage: native_paused.py [only=NAME] [most=0] [vectors=1]

Stopped are an append (at a version that gets a checkpoint), a deletion, a compaction, a vacuum, a
cleanup of the log and a CONVERT TO DELTA. Meanwhile others append, delete and compact, wait until the
retention is over, vacuum, clean the log up, and commit again. The stopped process is woken and ends.
What it did is there if and only if it told so (all or nothing where it tells that this is not known,
because its version was cleaned up), nothing that was told is lost, nothing comes back: right then, and after one more retention, vacuum and cleanup.

`most` stops of each work are made (0: all of them). The processes are the debug build of
`tarndb-bench`; TARNDB_BENCH names its binary.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402

RETENTION_S = 1
# Store times have whole seconds on some stores.
WAIT_S = RETENTION_S + 1.5
TIMEOUT_S = 60
WORK = ["append", "delete", "compact", "vacuum", "cleanup", "convert"]


def bench():
    target = os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache/tarndb/target"
    return os.environ.get("TARNDB_BENCH") or str(Path(target) / "debug/tarndb-bench")


class Scene:
    """One table and the ids that have to be in it."""

    def __init__(self, name, vectors):
        self.path = tempfile.mkdtemp(prefix="native-paused-")
        self.ids = set()
        self.next = 10
        if name == "convert":
            self.make_files()
            return
        self.run("create", f"vectors={'true' if vectors else 'false'}")
        # The version after the ninth is one that gets a checkpoint.
        self.work(1, 8)
        self.work(5, 1)
        if name in ("vacuum", "cleanup"):
            self.work(2, 12)
            Path(self.path, "part-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f.parquet").write_bytes(b"nobody's")
            time.sleep(WAIT_S)
            self.work(3, 1)

    def make_files(self):
        """A folder of Parquet files and nothing else."""
        self.run("create", "vectors=false")
        for process in (1, 2):
            self.work(process, 1)
        shutil.rmtree(Path(self.path, "_delta_log"))

    def command(self, step, *words):
        return [bench(), "native", f"step={step}", f"url={self.path}", *words]

    def run(self, step, *words):
        done = subprocess.run(self.command(step, *words), capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, f"{step} {words}: {done.stdout}{done.stderr[-2000:]}"
        return done

    def told(self, out):
        """Takes over what commits told."""
        for line in out.splitlines():
            words = line.split(" ")
            if len(words) == 3 and words[2] and words[1] in ("append", "delete"):
                ids = set(map(int, words[2].split(",")))
                self.ids = self.ids | ids if words[1] == "append" else self.ids - ids

    def work(self, process, commits):
        self.told(self.run("work", f"process={process}", f"commits={commits}").stdout)

    def once(self, what, process=1):
        return self.command("once", f"once={what}", f"process={process}", f"retention_ms={RETENTION_S * 1000}")

    def retain(self):
        for what in ("vacuum", "cleanup"):
            done = subprocess.run(self.once(what), capture_output=True, text=True, timeout=TIMEOUT_S)
            assert done.returncode == 0, f"{what}: {done.stdout}{done.stderr[-2000:]}"

    def go_on(self):
        """What the others do until nothing of before is kept."""
        self.next += 3
        self.work(self.next, 12)
        time.sleep(WAIT_S)
        self.work(self.next + 1, 1)
        self.retain()
        self.work(self.next + 2, 1)

    def found(self):
        return sorted(map(int, self.run("read").stdout.splitlines()[1:]))

    def outcome(self, name):
        """What a process would have told whose log was cleaned up meanwhile: all or nothing."""
        first = process(name) * 1_000_000
        ids = set(range(first, first + (4 if name == "append" else 2)))
        there = ids & set(self.found())
        assert there in (set(), ids), f"{name}: half of it: {sorted(there)}"
        is_done = bool(there) == (name == "append")
        return f"0 {name} {','.join(map(str, ids))}" if is_done else ""

    def assert_sound(self, context):
        found = self.found()
        assert found == sorted(self.ids), f"{context}: lost {sorted(self.ids - set(found))[:9]}, " \
                                          f"too many {sorted(set(found) - self.ids)[:9]}, {len(found)} of {len(self.ids)}"


def count_writes(name, vectors):
    scene = Scene(name, vectors)
    done = subprocess.run(scene.once(name, process(name)), capture_output=True, text=True, timeout=TIMEOUT_S)
    shutil.rmtree(scene.path)
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr[-2000:]}"
    return int(done.stderr.split("writes ")[1].split()[0])


def process(name):
    """Whose ids it appends or deletes."""
    return 900 if name == "append" else 5


def stopped(command, at):
    """Starts the process and waits until it has stopped."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TARNDB_TEST_STOP_AT": at})
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        state = Path(f"/proc/{running.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "T":
            return running
        if state == "Z":
            break
        time.sleep(0.01)
    out, err = running.communicate(timeout=TIMEOUT_S)
    raise AssertionError(f"did not stop at {at}: exit {running.returncode}\n{out}{err[-2000:]}")


def run(name, at, vectors):
    scene = Scene(name, vectors)
    context = f"{name} stopped at {at}"
    before = set(scene.ids)
    running = stopped(scene.once(name, process(name)), at)
    try:
        if name == "convert":
            scene.run("convert")
        scene.go_on()
    finally:
        running.send_signal(signal.SIGCONT)
    out, err = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode >= 0 and "panicked" not in err, f"{context}: {out}{err[-3000:]}"
    told = "" if running.returncode else out
    if "outcome not known" in err:
        told = scene.outcome(name)
    if name == "delete":
        assert running.returncode or before & {5_000_000, 5_000_001}, f"{context}: nothing to delete"
    scene.told(told)
    scene.assert_sound(context)
    scene.work(990, 2)
    time.sleep(WAIT_S)
    scene.retain()
    scene.assert_sound(f"{context}, later")
    shutil.rmtree(scene.path)
    words = [line for line in err.strip().splitlines() if not line.startswith("writes ")]
    end = "ended well" if running.returncode == 0 else "was refused: " + (words[-1] if words else "")
    print(f"{context}: {end}; {len(scene.ids)} rows, sound", flush=True)


def main():
    options = arguments(only="", most=0, vectors=1)
    passed = failed = 0
    for name in WORK:
        if options["only"] not in ("", name):
            continue
        writes = count_writes(name, options["vectors"])
        stops = [f"{n}.{edge}" for n in range(1, writes + 1) for edge in ("begin", "end")]
        for at in stops[: options["most"] or None]:
            try:
                run(name, at, options["vectors"])
                passed += 1
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED {name} at {at}: {error}", flush=True)
    return report("native paused processes", passed, failed)


if __name__ == "__main__":
    sys.exit(main())
