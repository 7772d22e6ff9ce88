#!/usr/bin/env python3
"""Processes that commit over a store that misbehaves: every outcome is definite and true.

usage: fault_processes.py [processes=4] [transactions=1000] [url=] [options=] [seed=1] [least=30]

Answers are lost for 20 % of all PUTs, 5 % of all requests fail, and every other kind of fault
happens too (docs/guide/faults.md). Each process tells how each of its transactions ended. Then,
over the store as it really is: what was acknowledged is there, once, in both tables; what was
aborted is not; nothing is unknown; `check` is clean; each kind of fault happened at least
`least` times, added up over all processes.

The processes are the debug build of `tarndb-bench`; TARNDB_BENCH names its binary. Without
`url` the database is a new folder. `options` are storage options of a cloud, `name=value`,
separated by spaces.
"""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402

TIMEOUT_S = 1800
FAULTS = {
    "fault.put.lost_answer": 0.20,
    "fault.error_before": 0.025,
    "fault.error_after": 0.025,
    "fault.self_conflict": 0.05,
    "fault.phantom_conflict": 0.05,
    "fault.late_effect": 0.05,
    "fault.duplicate": 0.05,
    "fault.stall": 0.02,
    "fault.partial_read": 0.05,
    "fault.stale_list": 0.6,
    # A stalled request is given up after this; a real one gets 10 s.
    "retry.attempt_ms": 250,
}
KINDS = ("error_before", "error_after", "lost_answer", "self_conflict", "phantom_conflict", "late_effect",
         "duplicate", "stall", "partial_read", "stale_list")


def bench():
    target = os.environ.get("CARGO_TARGET_DIR") or str(Path.home() / ".cache/tarndb/target")
    return os.environ.get("TARNDB_BENCH") or str(Path(target) / "debug/tarndb-bench")


def command(place, step, **more):
    words = [f"{name}={value}" for name, value in more.items()]
    return [bench(), "faults", f"step={step}", *place, *words]


def run(place, step):
    done = subprocess.run(command(place, step), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{step} ended with {done.returncode}: {done.stderr[-3000:]}"
    return done.stdout.splitlines()


def work(place, options, scratch):
    """Runs all processes; what each transaction's line says, by its id."""
    faults = [f"option.{name}={value}" for name, value in FAULTS.items()]
    faults += [f"option.fault.report={scratch / 'faults.jsonl'}", "option.fault.seed=1"]
    each = options["transactions"] // options["processes"]
    running = []
    for number in range(options["processes"]):
        outputs = [open(scratch / f"{number}.{name}", "w+") for name in ("out", "err")]
        words = command(place + faults, "work", process=number, transactions=each, seed=options["seed"])
        running.append((subprocess.Popen(words, stdout=outputs[0], stderr=outputs[1]), *outputs))
    ended = {}
    for number, (process, out, err) in enumerate(running):
        process.wait(timeout=TIMEOUT_S)
        out.seek(0), err.seek(0)
        lines = [line.split(maxsplit=1) for line in out.read().splitlines()]
        assert process.returncode == 0, f"process {number}: {process.returncode}: {err.read()[-3000:]} {lines[-5:]}"
        told = [(int(words[0]), words[1]) for words in lines if words[0] != "#"]
        assert len(told) == each, f"process {number} told of {len(told)} of {each} transactions"
        assert len(dict(told)) == each, f"process {number} told of a transaction twice"
        ended.update(told)
    return ended


def compare(ended, lines):
    """What is there against what was told; the numbers of each."""
    acknowledged = {number for number, how in ended.items() if how == "acknowledged"}
    aborted = {number: how for number, how in ended.items() if how.startswith("aborted")}
    unknown = {number: how for number, how in ended.items() if how.startswith("unknown")}
    assert not unknown, f"unknown: {unknown}"
    assert len(acknowledged) + len(aborted) == len(ended), "a transaction ended in no known way"
    findings = [line for line in lines if line.startswith("finding")]
    assert not findings, f"check: {findings[:5]}"
    rows = [line.split() for line in lines if line.startswith("row ")]
    for table in ("t", "u"):
        found = collections.Counter(int(row[2]) for row in rows if row[1] == table)
        twice = sorted(number for number, times in found.items() if times > 1)
        lost = sorted(acknowledged - set(found))
        there = sorted(set(found) - acknowledged)
        assert not twice, f"{table}: there more than once: {twice[:10]}"
        assert not lost, f"{table}: acknowledged and not there: {lost[:10]}"
        assert not there, f"{table}: there though {[(n, ended.get(n)) for n in there[:10]]}"
    shared = [row for row in rows if row[1] == "c"]
    assert len(shared) == 1 and int(shared[0][3]) in acknowledged | {-1}, f"the shared row: {shared}"
    return acknowledged, aborted


def main():
    options = arguments(processes=4, transactions=1000, url="", options="", seed=1, least=30)
    scratch = Path(tempfile.mkdtemp(prefix="tarndb-faults-"))
    url = options["url"] or str(scratch / "db")
    place = [f"url={url}"] + [f"option.{word}" for word in options["options"].split()]
    run(place, "create")
    started = time.monotonic()
    ended = work(place, options, scratch)
    took = time.monotonic() - started
    lines = run(place, "read")
    acknowledged, aborted = compare(ended, lines)
    reasons = collections.Counter(" ".join(how.split()[1:4]) for how in aborted.values())
    print(f"{len(ended)} transactions of {options['processes']} processes in {took:.1f} s: {len(acknowledged)} "
          f"acknowledged and there, {len(aborted)} aborted and not there, 0 unknown; {lines[-1]}", flush=True)
    for reason, times in reasons.most_common():
        print(f"  {times:5} {reason} ..")
    with open(scratch / "faults.jsonl") as file:
        counts = collections.Counter(json.loads(line)["fault"] for line in file)
    print("faults: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS), flush=True)
    rare = [kind for kind in KINDS if counts[kind] < options["least"]]
    assert not rare, f"these happened less than {options['least']} times: {rare}"
    shutil.rmtree(scratch)
    return report("faults", 1, 0)


if __name__ == "__main__":
    sys.exit(main())
