"""Random statements, judged after each by three readers and a model in Python.

TARNDB_INTEROP_SEED and TARNDB_INTEROP_STATEMENTS change the run; both are printed.
"""

import os
import random

import checksum
import pyarrow as pa
import readers
from tarndb import Tarn


class Model:
    """The rows that two tables must hold: id -> (g, v, s)."""

    def __init__(self):
        self.tables = {"a": {}, "b": {}}
        self.next_id = 1

    def arrow(self, name):
        rows = sorted(self.tables[name].items())
        columns = [[i for i, _ in rows]] + [[r[c] for _, r in rows] for c in range(3)]
        types = (pa.int64(), pa.string(), pa.int64(), pa.string())
        return pa.table([pa.array(c, t) for c, t in zip(columns, types)], names=["id", "g", "v", "s"])


def literal(value):
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def insert(rng, model, name):
    rows = []
    for _ in range(rng.randint(1, 30)):
        row = (rng.choice(["x", "y/z", "w 1", None]), rng.randint(-1000, 1000), rng.choice([None, "", "t", "\u00fc"]))
        model.tables[name][model.next_id] = row
        rows.append(f"({model.next_id}, {', '.join(map(literal, row))})")
        model.next_id += 1
    return f"INSERT INTO {name} VALUES {', '.join(rows)};"


def update(rng, model, name):
    m, r, k = rng.randint(2, 9), rng.randint(0, 8), rng.randint(-50, 50)
    for i, (g, v, s) in model.tables[name].items():
        if i % m == r:
            model.tables[name][i] = (g, v + k, "u")
    return f"UPDATE {name} SET v = v + {k}, s = 'u' WHERE id % {m} = {r};"


def repartition(rng, model, name):
    low = rng.randint(0, model.next_id)
    for i, (g, v, s) in model.tables[name].items():
        if low <= i < low + 15:
            model.tables[name][i] = ("moved", v, s)
    return f"UPDATE {name} SET g = 'moved' WHERE id >= {low} AND id < {low + 15};"


def delete(rng, model, name):
    low, width = rng.randint(0, model.next_id), rng.randint(1, 20)
    model.tables[name] = {i: r for i, r in model.tables[name].items() if not low <= i < low + width}
    return f"DELETE FROM {name} WHERE id BETWEEN {low} AND {low + width - 1};"


def delete_by_subquery(rng, model, name):
    other = "b" if name == "a" else "a"
    bound = rng.randint(700, 1000)
    values = {r[1] for r in model.tables[other].values() if r[1] > bound}
    model.tables[name] = {i: r for i, r in model.tables[name].items() if r[1] not in values}
    return f"DELETE FROM {name} WHERE v IN (SELECT v FROM {other} WHERE v > {bound});"


def truncate(_rng, model, name):
    model.tables[name] = {}
    return f"TRUNCATE {name};"


def copy_over(rng, model, name):
    other = "b" if name == "a" else "a"
    shift = 100_000 * rng.randint(1, 500) + model.next_id
    m = rng.randint(5, 15)
    picked = {i + shift: r for i, r in model.tables[other].items() if i % m == 0}
    if set(picked) & set(model.tables[name]):
        return insert(rng, model, name)
    model.tables[name].update(picked)
    return f"INSERT INTO {name} SELECT id + {shift}, g, v, s FROM {other} WHERE id % {m} = 0;"


SINGLE = [(insert, 34), (update, 22), (delete, 14), (repartition, 8), (copy_over, 6),
          (delete_by_subquery, 5), (truncate, 2)]


def one(rng, model):
    kind = rng.choices([k for k, _ in SINGLE], [w for _, w in SINGLE])[0]
    return kind(rng, model, rng.choice("ab"))


def statement(rng, model):
    """A statement or a whole transaction, applied to the model."""
    if rng.random() < 0.75:
        return one(rng, model)
    body = " ".join(one(rng, model) for _ in range(rng.randint(2, 4)))
    return f"BEGIN; {body} COMMIT;"


def rolled_back(rng, model):
    """A transaction that changes nothing in the end."""
    shadow = Model()
    shadow.tables = {n: dict(t) for n, t in model.tables.items()}
    shadow.next_id = model.next_id
    body = " ".join(one(rng, shadow) for _ in range(2))
    model.next_id = shadow.next_id
    return f"BEGIN; {body} ROLLBACK;"


def test_random_statements_agree_everywhere(folder):
    seed = int(os.environ.get("TARNDB_INTEROP_SEED", "20240229"))
    count = int(os.environ.get("TARNDB_INTEROP_STATEMENTS", "100"))
    rng, model = random.Random(seed), Model()
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE a (id BIGINT, g STRING, v BIGINT, s STRING) PARTITIONED BY (g);"
             "CREATE TABLE b (id BIGINT, g STRING, v BIGINT, s STRING);")
    for step in range(count):
        text = rolled_back(rng, model) if rng.random() < 0.06 else statement(rng, model)
        tarn.sql(text)
        tables = tarn.arrows(["SELECT * FROM a", "SELECT * FROM b"])
        for name, ours in zip("ab", tables):
            what = f"seed {seed} step {step}: {text}"
            wanted = model.arrow(name)
            assert checksum.digest(ours) == checksum.digest(wanted), \
                f"TarnDB against the model on {name}, {what}: {checksum.difference(ours, wanted)}"
            readers.agree(ours, tarn.table_path(f"main/{name}"), what=what)
    tarn.check("--deep")
    return f"seed {seed}, {count} statements, {2 * count} comparisons of 4 voices"
