#!/usr/bin/env python3
"""Four processes that write one Delta table by path: two of TarnDB, two of deltalake.

usage: native_processes.py [commits=200] [seed=1] [vectors=0]

No database is involved: the table's own log decides. All four append rows with ids of their own;
TarnDB's also delete some of theirs and compact the table. Each tells every commit that stands. In
the end the log has one commit for each, each id that was appended and not deleted is there once,
and TarnDB, deltalake and DuckDB read the same rows. `vectors=1` turns deletion vectors on.

TarnDB's processes are the debug build of `tarndb-bench`; TARNDB_BENCH names its binary.
"""

import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/interop"))
from tally import report  # noqa: E402
from arguments import arguments  # noqa: E402

IDS_PER_PROCESS = 1_000_000


def bench():
    target = os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache/tarndb/target"
    return os.environ.get("TARNDB_BENCH") or str(Path(target) / "debug/tarndb-bench")


def tarndb(step, path, *words):
    return [bench(), "native", f"step={step}", f"url={path}", *words]


def deltalake_writer(path, process, commits, seed):
    """One deltalake process: appends, told one by one. Runs as `native_processes.py --writer ..`."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, write_deltalake
    from deltalake.exceptions import CommitFailedError
    pauses = random.Random(seed)
    number = int(process) * IDS_PER_PROCESS
    for _ in range(int(commits)):
        ids = list(range(number, number + 4))
        number += 4
        rows = pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([int(process)] * 4, pa.int64())})
        table = None
        while table is None:
            # Its appends fail when others delete or compact, and are right on the newer version.
            try:
                table = DeltaTable(path)
                properties = CommitProperties(max_commit_retries=1000)
                write_deltalake(table, rows, mode="append", commit_properties=properties)
            except CommitFailedError:
                table = None
        print(f"{table.version()} append {','.join(map(str, ids))}", flush=True)
        time.sleep(pauses.random() * 0.02)


def start(command, scratch, number):
    out, err = (scratch / f"{number}.{kind}" for kind in ("out", "err"))
    return subprocess.Popen(command, stdout=open(out, "w"), stderr=open(err, "w")), out, err


def work(path, options, scratch):
    """Runs the four; the commits that each told, as (version, what, ids)."""
    each = options["commits"] // 4
    writer = [sys.executable, __file__, "--writer", path]
    commands = [tarndb("work", path, f"process={n}", f"commits={each}") for n in (1, 2)]
    commands += [writer + [str(n), str(each), str(options["seed"] + n)] for n in (3, 4)]
    running = [start(command, scratch, n) for n, command in enumerate(commands)]
    told = []
    for process, out, err in running:
        code = process.wait()
        assert code == 0, f"a process ended with {code}: {err.read_text()[-3000:]}"
        lines = [line.split(" ") for line in out.read_text().splitlines()]
        assert len(lines) == each, f"{len(lines)} of {each} commits were told"
        told.append([(v, what, [int(i) for i in ids.split(",") if i]) for v, what, ids in lines])
    return told


def expected_ids(told):
    """The ids that must be there."""
    ids = set()
    for commits in told:
        for _, what, some in commits:
            ids = ids - set(some) if what == "delete" else ids | set(some)
    return sorted(ids)


def check_log(path, told):
    """One commit in the log for each that was told, and the first one."""
    names = sorted(p.name for p in (Path(path) / "_delta_log").glob("*.json") if len(p.name) == 25)
    assert names == [f"{n:020}.json" for n in range(len(names))], "gap in the log"
    made = [commit for commits in told for commit in commits if commit[0] != "-"]
    assert len(names) == 1 + len(made), f"{len(made)} commits were told, {len(names) - 1} are there"
    kinds = collections.Counter()
    for name in names:
        lines = (Path(path) / "_delta_log" / name).read_text().splitlines()
        infos = [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo')]
        engine = "tarndb" if any("TarnDB" in str(info.get("engineInfo")) for info in infos) else "deltalake"
        kinds[f"{engine} {infos[0].get('operation', '?')}" if infos else "unnamed"] += 1
    return kinds


def read_all(path):
    """The ids that each reader sees."""
    import readers
    lines = subprocess.run(tarndb("read", path), check=True, capture_output=True, text=True).stdout.splitlines()
    seen = {"tarndb": sorted(int(line) for line in lines[1:])}
    for name, read in (("duckdb", readers.read_duckdb), ("deltalake", readers.read_deltalake)):
        seen[name] = sorted(read(path).column("id").to_pylist())
    return seen


def main():
    if sys.argv[1:2] == ["--writer"]:
        return deltalake_writer(*sys.argv[2:5], seed=int(sys.argv[5]))
    options = arguments(commits=200, seed=1, vectors=0)
    scratch = Path(tempfile.mkdtemp(prefix="tarndb-native-"))
    path = str(scratch / "table")
    vectors = "true" if options["vectors"] else "false"
    subprocess.run(tarndb("create", path, f"vectors={vectors}"), check=True)
    started = time.monotonic()
    told = work(path, options, scratch)
    took = time.monotonic() - started
    kinds = check_log(path, told)
    wanted = expected_ids(told)
    for name, ids in read_all(path).items():
        twice = [i for i, times in collections.Counter(ids).items() if times > 1]
        lost, more = sorted(set(wanted) - set(ids)), sorted(set(ids) - set(wanted))
        assert not twice and not lost and not more, \
            f"{name}: twice {twice[:10]}, lost {lost[:10]}, deleted or unknown and there {more[:10]}"
    checkpoints = len(list((Path(path) / "_delta_log").glob("*.checkpoint.parquet")))
    print(f"{sum(kinds.values())} commits in {took:.1f} s, {len(wanted)} rows that tarndb, deltalake and duckdb agree "
          f"on, {checkpoints} checkpoints: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())), flush=True)
    shutil.rmtree(scratch)
    return report("native", 1, 0)


if __name__ == "__main__":
    sys.exit(main())
