#!/usr/bin/env python3
"""Kills a writing process with SIGKILL at random moments and looks at what is left.

usage: kill_loop.py [kills=20] [seed=1] [each=0] [per_db=12] [accounts=8]
                    [base=URL]

A child runs one session of transactions over two tables: each takes an amount from a row of
`a`, adds it to a row of `b` and writes a row with the transaction's number into `b`; every third
also writes a large row into `c`, so that it has a data file that is stored before the record. It prints
COMMIT when one is acknowledged and, with `--log step`, a line per step on stderr. The parent
reads these steps, waits for one of the class it wants, and kills at once or a little later.

After each kill, in new processes:
  - the sum over both tables is what it was;
  - the numbers found are 1..m without a gap or a double, m >= the acknowledged ones, and at
    most one more than these (the one in flight);
  - `tarndb check` finds nothing;
  - and a last `check --deep` of each database.

Where each kill fell is judged by the steps the child had told before it died, and printed.
The databases are temporary folders, or lie below the URL `base` (credentials and endpoint come
from the environment). With each=N the loop goes on (up to 4 x kills) until every class has N.
"""

import collections
import os
import queue
import random
import signal
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

CLASSES = ["data file", "before the record", "after the record", "during publish", "publisher's file",
           "during checkpoint"]
# The step after which a kill of that class is tried, and the longest delay after it, in seconds.
AIMS = {
    "data file": ("data_file.begin", 0.002),
    "before the record": ("record.begin", 0.001),
    "after the record": ("record.end", 0.0),
    "during publish": ("publish.begin", 0.001),
    "publisher's file": ("inline_file.begin", 0.001),
    "during checkpoint": ("checkpoint.begin", 0.002),
}
# Random bytes of a row that makes its data file too large for the record: hex text, half of it when compressed.
LARGE_BYTES = 90_000
FUNDS = 1_000_000
LONGEST_S = 60


def transactions(rng, first, count, accounts):
    """The statements of one child, and the number of its last transaction."""
    lines = []
    for number in range(first, first + count):
        amount, source, target = rng.randint(1, 500), rng.randrange(accounts), rng.randrange(accounts)
        large = f"INSERT INTO c VALUES ({number}, '{rng.randbytes(LARGE_BYTES).hex()}'); " if number % 3 == 0 else ""
        lines.append(
            f"BEGIN; {large}UPDATE a SET amount = amount - {amount} WHERE id = {source}; "
            f"UPDATE b SET amount = amount + {amount} WHERE id = {target}; "
            f"INSERT INTO b VALUES ({1000 + number}, 0); COMMIT;")
    return "\n".join(lines) + "\n"


def step_of(line):
    """The step that a line of the log tells, or None."""
    for word in line.replace('"', " ").split():
        base, _, edge = word.strip(",;:()[]{}").rpartition(".")
        if edge in ("begin", "end") and base in ("data_file", "record", "publish", "inline_file", "checkpoint"):
            return f"{base}.{edge}"
    return None


def place(steps, acknowledged):
    """The class of a kill, from the steps told and the transactions acknowledged before it."""
    opened, last, records, published = collections.Counter(), None, 0, False
    for step in steps:
        base, _, edge = step.rpartition(".")
        opened[base] += 1 if edge == "begin" else -1
        records += step == "record.end"
        published = step == "publish.end" or published and step != "record.end"
        last = step if base in ("data_file", "record") else last
    if opened["checkpoint"] > 0:
        return "during checkpoint"
    if opened["record"] > 0:
        return "before the record"
    if opened["inline_file"] > 0:
        return "publisher's file"
    if opened["publish"] > 0:
        return "during publish"
    if opened["data_file"] > 0:
        return "data file"
    if records > acknowledged or last == "record.end" and not published:
        return "after the record"
    if last == "data_file.end":
        return "before the record"
    return "between transactions"


class Child:
    """One process that writes until it is killed."""

    def __init__(self, tarn, text, env):
        command = tarn.command("--log", "step", "sql", "-")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **env})
        self.steps, self.commits, self.other = queue.Queue(), 0, []
        self.threads = [threading.Thread(target=work, args=args, daemon=True) for work, args in (
            (self._feed, (text,)), (self._acknowledge, ()), (self._listen, ()))]
        for thread in self.threads:
            thread.start()

    def _feed(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.close()
        except (BrokenPipeError, OSError):
            pass

    def _acknowledge(self):
        for line in self.process.stdout:
            self.commits += line.strip().upper().startswith("COMMIT")

    def _listen(self):
        for line in self.process.stderr:
            step = step_of(line)
            self.steps.put(step) if step else self.other.append(line)
        self.steps.put(None)

    def run_until(self, step, occurrence, delay_s):
        """Kills after the wanted step was told so often; returns all steps, or None when it ended first."""
        told, seen, deadline = [], 0, time.monotonic() + LONGEST_S
        while seen < occurrence:
            try:
                now = self.steps.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                break
            if now is None:
                break
            told.append(now)
            seen += now == step
        if seen == occurrence and delay_s:
            time.sleep(delay_s)
        alive = self.process.poll() is None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for thread in self.threads:
            thread.join(timeout=10)
        while True:
            try:
                now = self.steps.get_nowait()
            except queue.Empty:
                break
            if now:
                told.append(now)
        killed = alive and self.process.returncode == -signal.SIGKILL
        if not killed and self.process.returncode != 0:
            raise AssertionError(f"the child failed by itself: {''.join(self.other)[-2000:]}")
        return told if killed else None


class Bank:
    """One database with its two tables, and what must be true of it."""

    def __init__(self, place, accounts):
        self.tarn, self.accounts, self.done = Tarn(place, init=True), accounts, 0
        rows = lambda amount: ", ".join(f"({n}, {amount})" for n in range(accounts))
        self.tarn.sql("CREATE TABLE a (id BIGINT, amount BIGINT); CREATE TABLE b (id BIGINT, amount BIGINT);"
                      "CREATE TABLE c (id BIGINT, s STRING);"
                      f"BEGIN; INSERT INTO a VALUES {rows(FUNDS)}; INSERT INTO b VALUES {rows(0)}; COMMIT;")

    def judge(self, acknowledged, sent):
        """Asserts the promises after a kill; returns how many unacknowledged ones were there."""
        found = self.tarn.rows("SELECT (SELECT sum(amount) FROM a) + (SELECT sum(amount) FROM b), "
                               "(SELECT count(*) FROM b WHERE id >= 1000), "
                               "(SELECT count(DISTINCT id) FROM b WHERE id >= 1000), "
                               "(SELECT coalesce(max(id), 1000) - 1000 FROM b WHERE id >= 1000)")[0]
        total, rows, distinct, highest = (int(float(v)) for v in found)
        large = int(self.tarn.value("SELECT count(*) FROM c"))
        assert total == FUNDS * self.accounts, f"the sum is {total}, not {FUNDS * self.accounts}"
        assert rows == distinct == highest, f"a transaction twice or missing: {rows=} {distinct=} {highest=}"
        assert large == highest // 3, f"{large} large rows of {highest} transactions"
        assert highest >= self.done + acknowledged, \
            f"{self.done + acknowledged} were acknowledged, {highest} are there"
        assert highest <= self.done + acknowledged + 1, \
            f"{highest} are there, only {self.done + acknowledged} were acknowledged"
        self.tarn.check()
        extra, self.done = highest - self.done - acknowledged, highest
        return extra


def wanted_class(rng, tally, kill):
    """The class to aim at: mostly the rarest so far, at times any."""
    if kill % 4 == 3:
        return rng.choice(CLASSES)
    fewest = min(tally[c] for c in CLASSES)
    return rng.choice([c for c in CLASSES if tally[c] == fewest])


def one_kill(bank, rng, aim, per_child):
    """Starts a child, kills it, judges. Returns (class, committed but unacknowledged) or None."""
    step, longest = AIMS[aim]
    text = transactions(rng, bank.done + 1, per_child, bank.accounts)
    child = Child(bank.tarn, text, {})
    most = {"during checkpoint": 2, "data file": 5}.get(aim, 12)
    delay = rng.uniform(0, longest) if rng.random() < 0.6 else 0
    steps = child.run_until(step, rng.randint(1, most), delay)
    extra = bank.judge(child.commits, per_child)
    return None if steps is None else (place(steps, child.commits), extra)


def main():
    options = arguments(kills=20, seed=1, each=0, per_db=12, accounts=8, base="")
    rng, tally, extras, kills, tries = random.Random(options["seed"]), collections.Counter(), 0, 0, 0
    started, acknowledged, bank, place = time.monotonic(), 0, None, None
    enough = lambda: all(tally[c] >= options["each"] for c in CLASSES)
    while kills < options["kills"] or (not enough() and kills < 4 * options["kills"]):
        tries += 1
        assert tries <= 10 * options["kills"] + 50, f"the children end before the kill: {dict(tally)}"
        if bank is None or kills // options["per_db"] != (kills - 1) // options["per_db"] and kills:
            if bank:
                bank.tarn.check("--deep")
                place.remove()
            place = Place("kill", options["base"])
            bank = Bank(place, options["accounts"])
        aim, before = wanted_class(rng, tally, kills), bank.done
        try:
            result = one_kill(bank, rng, aim, per_child=20)
        except AssertionError:
            print(f"kill {kills} (seed {options['seed']}, aimed {aim}) broke a promise; kept {place}", flush=True)
            raise
        acknowledged += bank.done - before
        if result is None:
            continue
        tally[result[0]] += 1
        extras, kills = extras + result[1], kills + 1
    bank.tarn.check("--deep")
    place.remove()
    print(f"{kills} kills, seed {options['seed']}, {time.monotonic() - started:.0f} s; {acknowledged} transactions "
          f"committed, {extras} of them before their acknowledgement could be read")
    for name in CLASSES + ["between transactions"]:
        print(f"  {name:<22} {tally[name]:>4}")
    missing = [c for c in CLASSES if tally[c] < options["each"]]
    if missing:
        print(f"too few kills fell at: {', '.join(missing)}")
    return report("kill loop", 0 if missing else 1, 1 if missing else 0)


if __name__ == "__main__":
    sys.exit(main())
