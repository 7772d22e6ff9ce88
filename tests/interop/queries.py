"""Runs random queries through TarnDB, with file pruning on and off, and through DuckDB.

Answers are compared as values: integers, decimals, texts, dates and times exactly; doubles with a
relative difference of at most 1e-9, because parts of a sum are added in another order.
"""

import datetime
import decimal
import math
import random
import tempfile
from pathlib import Path

import duckdb
import pyarrow.parquet as parquet

from query_maker import Maker, TABLES, Sql
from tarndb import Tarn

SIDES = ("on", "off")


def plain(value):
    """One spelling for what is equal."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else value.normalize()
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    return value


def equal(one, two):
    if isinstance(one, float) or isinstance(two, float):
        if one is None or two is None:
            return one is two
        one, two = float(one), float(two)
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9) or (one != one and two != two)
    return type(one) is type(two) and one == two


def sortable(row):
    """A key that puts almost equal doubles at the same place."""
    def key(value):
        if value is None:
            return (0, "")
        if isinstance(value, bool):
            return (1, str(value))
        if isinstance(value, float):
            return (2, f"{value + 0.0:.6g}")
        return (3, str(value))

    return [key(value) for value in row]


def difference(found, wanted, ordered):
    """What is different, as text; `None` when nothing is."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, {len(wanted)} expected"
    if not ordered:
        found, wanted = sorted(found, key=sortable), sorted(wanted, key=sortable)
    for one, two in zip(found, wanted):
        if len(one) != len(two) or not all(map(equal, one, two)):
            return f"{one}, expected {two}"
    return None


def tarn_answers(db, queries, pruning):
    """Rows of each query, or the error it ended with."""
    answers = []
    with tempfile.TemporaryDirectory(prefix="tarndb-queries-") as folder:
        while len(answers) < len(queries):
            paths = {n: str(Path(folder) / f"{n}.parquet") for n in range(len(answers), len(queries))}
            script = "".join(f"COPY ({queries[n]}) TO '{path}';\n" for n, path in paths.items())
            outcome = db.sql(f"SET tarndb.pruning = '{pruning}';\n{script}", ok=None)
            for path in paths.values():
                if not Path(path).exists():
                    break
                try:
                    table = parquet.ParquetFile(path).read()
                except Exception:
                    break
                columns = [column.to_pylist() for column in table.columns]
                answers.append([[plain(value) for value in row] for row in zip(*columns)])
            if outcome.code == 0:
                break
            answers.append(outcome.stderr.strip())
    return answers


def duck_answer(duck, query):
    try:
        return [[plain(value) for value in row] for row in duck.execute(query).fetchall()]
    except duckdb.Error as error:
        return str(error)


def compare(folder, seed, count, rows=200):
    """Makes one set of tables and `count` queries over them; gives the faults and the figures."""
    rng = random.Random(seed)
    maker = Maker(rng)
    db, duck = Tarn(Path(folder) / f"db{seed}", init=True), duckdb.connect()
    duck.execute("SET threads = 1")
    statements = list(maker.data(rows))
    db.sql("".join(f"{statement};\n" for statement in statements))
    for statement in statements:
        duck.execute(statement.duck)
    queries = [(Sql(f"SELECT * FROM {name}"), False) for name in TABLES]
    queries += [maker.query() for _ in range(count)]
    answers = {side: tarn_answers(db, [query for query, _ in queries], side) for side in SIDES}
    faults, figures = [], {"queries": count, "rows": 0, "empty": 0, "refused by both": 0}
    for number, (query, ordered) in enumerate(queries):
        wanted = duck_answer(duck, query.duck)
        for side in SIDES:
            found = answers[side][number]
            if isinstance(found, str) and isinstance(wanted, str):
                figures["refused by both"] += 1
                continue
            if isinstance(found, str) or isinstance(wanted, str):
                told = f"TarnDB: {found if isinstance(found, str) else 'answered'}; DuckDB: " \
                       f"{wanted if isinstance(wanted, str) else 'answered'}"
            else:
                told = difference(found, wanted, ordered)
            if told:
                faults.append(f"seed={seed} query={number} pruning={side}: {told}\n  {query}\n  DuckDB: {query.duck}")
        if not isinstance(wanted, str):
            figures["rows"] += len(wanted)
            figures["empty"] += not wanted
    return faults, figures
