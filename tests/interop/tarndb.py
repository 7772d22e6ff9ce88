"""Drives the real `tarndb` binary, as a user would: one process per call.

TARNDB_BIN names the binary; else the debug build in CARGO_TARGET_DIR, else in the target
folder that scripts/test.sh uses. Nothing here knows what is inside a database folder but the
locations of published tables.
"""

import csv
import io
import os
import subprocess
import tempfile
from pathlib import Path

TIMEOUT_S = 300


def binary():
    """The path of the binary under test."""
    target = os.environ.get("CARGO_TARGET_DIR") or str(Path.home() / ".cache/tarndb/target")
    path = os.environ.get("TARNDB_BIN") or str(Path(target) / "debug/tarndb")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"no tarndb binary at {path}: run `cargo build --workspace`, or set TARNDB_BIN")
    return path


class Failed(AssertionError):
    """A call of the binary that ended with another exit code than the caller allowed."""


class Outcome:
    """What one process answered."""

    def __init__(self, args, done):
        self.args, self.code, self.stdout, self.stderr = args, done.returncode, done.stdout, done.stderr

    def __str__(self):
        return f"$ tarndb {' '.join(self.args)}\nexit {self.code}\n{self.stdout[-3000:]}{self.stderr[-3000:]}"


class Tarn:
    """One database, addressed by its folder or URL."""

    def __init__(self, db, init=False):
        self.db = str(db)
        if init:
            self.run("init")

    def command(self, *args):
        """The argument vector of a call, for callers that start the process themselves."""
        return [binary(), "--db", self.db, *map(str, args)]

    def run(self, *args, stdin=None, ok=(0,), env=None, cwd=None, timeout=TIMEOUT_S):
        """One call; `ok=None` allows every exit code."""
        done = subprocess.run(self.command(*args), input=stdin, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})}, cwd=cwd)
        outcome = Outcome(list(map(str, args)), done)
        crashed = "panicked at" in done.stderr or done.returncode < 0
        if crashed or (ok is not None and done.returncode not in ok):
            raise Failed(str(outcome))
        return outcome

    def sql(self, text, *options, **more):
        """Runs statements in one session, given on standard input."""
        return self.run(*options, "sql", "-", stdin=text, **more)

    def rows(self, query, **more):
        """The rows of one query as lists of texts, NULL as ''."""
        out = self.run("--format", "csv", "sql", query, **more).stdout
        return list(csv.reader(io.StringIO(out)))[1:]

    def value(self, query):
        """The only cell of one query's answer."""
        rows = self.rows(query)
        assert len(rows) == 1 and len(rows[0]) == 1, f"one cell expected from {query}: {rows}"
        return rows[0][0]

    def arrow(self, query):
        """One query's answer with exact values and types, through a Parquet file."""
        return self.arrows([query])[0]

    def arrows(self, queries):
        """Several queries in one session, each as an Arrow table."""
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory(prefix="tarndb-copy-") as folder:
            paths = [str(Path(folder) / f"{n}.parquet") for n in range(len(queries))]
            self.sql("".join(f"COPY ({q}) TO '{p}';\n" for q, p in zip(queries, paths)))
            return [parquet.ParquetFile(p).read() for p in paths]

    def check(self, *options):
        """`tarndb check`, which must find nothing."""
        return self.run("check", *options)

    def table_path(self, location):
        """The folder of a published table, for foreign clients."""
        return str(Path(self.db) / location)
