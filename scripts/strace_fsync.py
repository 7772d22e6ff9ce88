#!/usr/bin/env python3
"""Watches the system calls of a writing process: nothing is acknowledged before it is on the disk.

usage: strace_fsync.py [transactions=12] [seed=1]

`tarndb sql` runs transactions over three tables under strace and prints COMMIT when one is
acknowledged; large rows make data files that are stored before the record. The trace tells in
which order calls ended and writes to standard output began. At each acknowledgement

  - as many records are durable as were committed;
  - so are all data files that these records name and do not hold themselves, and they were so
    before the record was shown.

A file is durable when its bytes were synced after the last write to it and before it was shown
under its name, its folder was synced after that, and so was the parent of every folder made for
it. The same run with `durability=none` must fail the judgement, else this script proves nothing.

strace also answers in place of the file system:
  - without hard links the run must hold the promise through renameat2;
  - without that too, `tarndb init` is refused with an error that names the path;
  - with a disk that fails to sync, no transaction is acknowledged, and those before are there.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402
from tarndb import Tarn  # noqa: E402

CALLS = ("write,pwrite64,pwritev,writev,fsync,fdatasync,sync,syncfs,link,linkat,rename,renameat,renameat2,"
         "unlink,unlinkat,mkdir,mkdirat,openat,sync_file_range")
# A row that makes its data file too large for the record.
LARGE_BYTES = 90_000
LINE = re.compile(r"^(\d+)\s+(.*)$")
CALL = re.compile(r"^(\w+)\((.*)\)\s+=\s+(-?\d+)(?:<.*>)?(?:\s.*)?$", re.S)
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$", re.S)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
FD_PATH = re.compile(r"^(\d+)<(.*?)>(?:,|$)")


def events(trace):
    """(edge, call, arguments) in the order of the trace: a write begins, every other call ends well."""
    open_calls = {}
    for line in trace.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        pid, text = found.groups()
        if text.endswith("<unfinished ...>"):
            begun = text[:-len("<unfinished ...>")].rstrip()
            open_calls[pid] = begun
            if begun.startswith(("write(", "writev(")):
                yield "begin", "write", begun.split("(", 1)[1]
            continue
        resumed = RESUMED.match(text)
        if resumed:
            text = open_calls.pop(pid, resumed.group(1) + "(") + resumed.group(2)
        call = CALL.match(text)
        if not call:
            continue
        name, args, result = call.groups()
        if not resumed and name in ("write", "writev"):
            yield "begin", "write", args
        if int(result) >= 0:
            yield "end", name, args


class Disk:
    """What the calls so far have made durable."""

    def __init__(self, root):
        self.root = root
        self.data = {}      # path -> its bytes are synced
        self.shown = {}     # path -> (bytes were synced when it was shown, the name is synced)
        self.folders = {}   # folder made -> its name is synced

    def wrote(self, path):
        self.data[path] = False

    def synced(self, path):
        if path in self.data:
            self.data[path] = True
            return
        for name, (whole, _) in list(self.shown.items()):
            if str(Path(name).parent) == path:
                self.shown[name] = (whole, True)
        for name in self.folders:
            if str(Path(name).parent) == path:
                self.folders[name] = True

    def named(self, old, new, moved):
        self.data[new] = self.data.get(old, True)
        if "/_tarndb/tmp/" not in new:
            self.shown[new] = (self.data[new], False)
        if moved:
            self.data.pop(old, None)

    def lack(self, key):
        """Why the object is not durable, or None."""
        path = f"{self.root}/{key}"
        if path not in self.shown:
            return "is not there"
        whole, named = self.shown[path]
        if not whole:
            return "was shown before its bytes were synced"
        if not named:
            return "has a name that was not synced"
        for folder in Path(path).parents:
            if self.folders.get(str(folder)) is False:
                return f"is in {folder}, which was not synced into its parent"
        return None


def paths(args, count):
    """The first paths among quoted arguments, each with the folder that its AT_FDCWD or fd names."""
    return [text.encode().decode("unicode_escape") for text in QUOTED.findall(args)][:count]


def data_files(record):
    """The (table, path) that a record names, and those of them that it holds itself."""
    named, held = [], []
    for line in record.splitlines():
        action, value = next(iter(json.loads(line).items()))
        if action == "delta":
            named += [(value["table"], a["add"]["path"]) for a in value.get("actions", []) if "add" in a]
            named += [(value["table"], value["staged"])] if "staged" in value else []
            held += [(value["table"], path) for path in value.get("files", {})]
    return named, held


def locations(root):
    """Where each table is, from the records that made them."""
    found = {}
    for record in sorted((root / "_tarndb/log").glob("*.json")):
        for line in record.read_text().splitlines():
            action, value = next(iter(json.loads(line).items()))
            if action == "createTable":
                found[value["id"]] = value["location"]
    return found


def needed(root, first_record):
    """The objects that each record from `first_record` on needs besides the log."""
    where, held_so_far, needs = locations(root), set(), {}
    for path in sorted((root / "_tarndb/log").glob("*.json")):
        named, held = data_files(path.read_text())
        held_so_far.update(held)
        if int(path.stem) < first_record:
            # Stored by a process before the traced one, or held by its record.
            held_so_far.update(named)
        needs[int(path.stem)] = [f"{where[table]}/{name}" for table, name in named
                                 if (table, name) not in held_so_far]
    return needs


def judge(root, trace, first_record, commits):
    """What breaks the promise, the acknowledgements seen and the objects looked at."""
    disk, needs, broken, acknowledged, looked = Disk(str(root)), needed(root, first_record), [], 0, set()

    def check(moment, keys):
        for key in keys:
            looked.add(key)
            lack = disk.lack(key)
            if lack:
                broken.append(f"{moment}: {key} {lack}")

    for edge, call, args in events(trace):
        if edge == "begin":
            if re.match(r"^1<[^>]*>, \"COMMIT", args):
                version = first_record + acknowledged
                acknowledged += 1
                check(f"acknowledgement {acknowledged}", [f"_tarndb/log/{version:020}.json", *needs[version]])
            continue
        fd = FD_PATH.match(args)
        if call in ("pwrite64", "pwritev", "write", "writev") and fd:
            disk.wrote(fd.group(2))
        elif call in ("fsync", "fdatasync") and fd:
            disk.synced(fd.group(2))
        elif call in ("link", "linkat", "rename", "renameat", "renameat2"):
            old, new = paths(args, 2)
            name = re.fullmatch(re.escape(str(root)) + r"/_tarndb/log/(\d{20})\.json", new)
            if name and int(name.group(1)) >= first_record:
                check(f"record {int(name.group(1))} is shown", needs[int(name.group(1))])
            disk.named(old, new, call.startswith("rename"))
        elif call in ("mkdir", "mkdirat"):
            disk.folders[paths(args, 1)[0]] = False
    if not any("_tarndb/log" not in key for key in looked):
        broken.append("no data file was looked at: the transactions are too small")
    if acknowledged != commits:
        broken.append(f"{acknowledged} acknowledgements in the trace, {commits} on standard output")
    return broken, acknowledged, looked


def statements(rng, count):
    """Transactions over three tables, every third with a large file, one with a table of its own."""
    lines = []
    for number in range(count):
        text = f"INSERT INTO a VALUES ({number}, 'x'); UPDATE b SET n = n + 1 WHERE id = {rng.randrange(4)}; "
        if number % 3 == 0:
            text += f"INSERT INTO c VALUES ({number}, '{rng.randbytes(LARGE_BYTES).hex()}'); "
        if number % 6 == 5:
            text += (f"CREATE TABLE d{number} (id BIGINT, s STRING); "
                     f"INSERT INTO d{number} VALUES (1, '{rng.randbytes(LARGE_BYTES).hex()}'); ")
        lines.append(f"BEGIN; {text}COMMIT;")
    return "\n".join(lines) + "\n"


def traced(trace, inject, command, text=""):
    """Runs a command under strace, which answers some calls itself."""
    options = [word for rule in inject for word in ("-e", f"inject={rule}")]
    return subprocess.run(["strace", "-f", "-y", "-s", "4096", "-e", f"trace={CALLS}", "-e", "signal=none",
                           *options, "-o", str(trace), *command],
                          input=text, capture_output=True, text=True, timeout=300)


def acknowledgements(done):
    return sum(line.strip().upper().startswith("COMMIT") for line in done.stdout.splitlines())


def run(folder, transactions, seed, durability, inject):
    """One traced run; the trace is judged against the folder that it left."""
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE a (id BIGINT, s STRING); CREATE TABLE b (id BIGINT, n BIGINT);"
             "CREATE TABLE c (id BIGINT, s STRING); INSERT INTO b VALUES (0, 0), (1, 0), (2, 0), (3, 0);")
    root = (folder / "db").resolve()
    first = len(list((root / "_tarndb/log").glob("*.json")))
    trace = folder / "trace"
    command = tarn.command("--storage-option", f"durability={durability}", "sql", "-")
    done = traced(trace, inject, command, statements(random.Random(seed), transactions))
    if done.returncode != 0:
        raise AssertionError(f"the traced process failed: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    commits = acknowledgements(done)
    assert commits == transactions, f"{commits} of {transactions} committed: {done.stdout[-1000:]}"
    return judge(root, trace.read_text(errors="replace"), first, commits)


def refused(folder):
    """A file system without hard links and without RENAME_NOREPLACE holds no database."""
    done = traced(folder / "trace", WITHOUT_LINKS + ["renameat2:error=EINVAL"], Tarn(folder / "db").command("init"))
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 101), f"exit {done.returncode}: {told}"
    for word in (str(folder / "db"), "RENAME_NOREPLACE", "use a folder on another"):
        assert word in told, f"{word!r} is not in the error: {told}"
    assert "panicked" not in told, told
    records = list((folder / "db/_tarndb").glob("log/*.json"))
    assert not records, f"a refused folder holds {records}"


def failing(folder, first_failure):
    """Syncs fail from one on: what was acknowledged before is there, and nothing after it is."""
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE a (id BIGINT)")
    text = "".join(f"INSERT INTO a VALUES ({number});\nSELECT 'done {number}' AS told;\n" for number in range(6))
    inject = [f"fsync:error=EIO:when={first_failure}+"]
    done = traced(folder / "trace", inject, tarn.command("--format", "csv", "sql", "-"), text)
    told = [line for line in done.stdout.splitlines() if line.startswith("done ")]
    assert done.returncode != 101 and "panicked" not in done.stderr, f"exit {done.returncode}: {done.stderr}"
    # strace counts by thread: none may come to the one that fails, or only after all is acknowledged, when
    # the tables' logs are published. That is told at the end, and takes nothing back.
    unpublished = "error: committed versions could not be published" in done.stderr
    expected = len(told) == 6 if done.returncode == 0 or unpublished else len(told) < 6
    assert expected, f"exit {done.returncode}, {len(told)} acknowledged: {done.stderr[-2000:]}"
    found = [int(row[0]) for row in tarn.rows("SELECT id FROM a ORDER BY id")]
    # The one in flight may be there or not.
    assert found in ([*range(len(told))], [*range(len(told) + 1)]), f"{len(told)} acknowledged, {found} are there"
    tarn.check()
    return len(told)


WITHOUT_LINKS = ["link,linkat:error=EPERM"]
# Of a thread's syncs. Each costs the minute for which a commit with an open outcome is pursued.
FIRST_FAILURES = (12,)
# name, durability, what strace answers, whether the promise must be found kept
RUNS = (("synced", "full", [], True), ("not synced", "none", [], False), ("without hard links", "full", WITHOUT_LINKS, True))


def main():
    options = arguments(transactions=12, seed=1)
    failed, passed = 0, 0
    with tempfile.TemporaryDirectory() as top:
        def place(name):
            folder = Path(top).resolve() / name.replace(" ", "-")
            folder.mkdir()
            return folder

        for name, durability, inject, kept in RUNS:
            broken, acknowledged, looked = run(place(name), options["transactions"], options["seed"], durability, inject)
            wrong = bool(broken) == kept
            failed, passed = failed + wrong, passed + (not wrong)
            print(f"{name}: {acknowledged} acknowledgements, {len(looked)} objects looked at, "
                  f"{len(broken)} not durable in time{': FAILED' if wrong else ''}")
            for text in broken[:10 if wrong else 2]:
                print(f"  {text}")
        refused(place("refused"))
        print("without hard links and RENAME_NOREPLACE: refused")
        told = [failing(place(f"failing {first_failure}"), first_failure) for first_failure in FIRST_FAILURES]
        print(f"syncs fail from the n-th on, n in {FIRST_FAILURES}: {told} of 6 acknowledged, and there")
        hit = any(count < 6 for count in told)
        passed, failed = passed + hit, failed + (not hit)
    return report("durability", passed + 1, failed)


if __name__ == "__main__":
    sys.exit(main())
