"""Random tables and random queries, each as TarnDB and as DuckDB take it.

Semantics that differ on purpose (docs/sql/types.md, "Numbers", and docs/guide/sql.md, "Queries") are
written so that both engines mean the same, or left out:
- the quotient of integers is an integer here and a double there: `//` there;
- dividing by zero is an error here and NULL there: every divisor goes through nullif(.., 0);
- integers are BIGINT and small: INT + INT is a BIGINT here and an INT there;
- `avg` of a decimal is a decimal here and a double there: its argument is cast to double;
- a date plus a number of days, not an interval, which makes a timestamp there;
- `date_trunc` of a date is a timestamp here and a date there: it is cast;
- LIKE has the escape character `\\` here and none there: no pattern holds one;
- aggregates with different ORDER BY in one SELECT are refused here (0A000): at most one has it;
- ORDER BY always says where NULLs go; rows that compare equal are never told apart by LIMIT.
Doubles are multiples of 1/4, so that sums do not depend on the order of the rows.
"""

import datetime

TEXTS = ["", "a", "A", "ab", "abc", "B", "b c", "it's", "\u00e9t\u00e9", "z" * 40, "10", "a%b", "x_y"]
GROUPS = ["north", "south", "North East", "a/b", "z=1"]
DAY0 = datetime.date(2023, 12, 20)
COLUMNS = [("id", "int"), ("k", "int"), ("n", "int"), ("g", "text"), ("s", "text"), ("d", "double"),
           ("p", "decimal"), ("dt", "date"), ("ts", "time"), ("b", "bool")]
TYPES = {"int": "BIGINT", "text": "TEXT", "double": "DOUBLE", "decimal": "DECIMAL(12,3)", "date": "DATE",
         "time": "TIMESTAMP", "bool": "BOOLEAN"}
SMALL = [("id", "int"), ("k", "int"), ("name", "text"), ("w", "decimal"), ("day", "date"), ("flag", "bool")]
TABLES = {"t": COLUMNS, "q": COLUMNS, "m": SMALL}


class Sql(str):
    """Text for TarnDB; `.duck` is the same for DuckDB."""

    def __new__(cls, tarn, duck=None):
        text = super().__new__(cls, tarn)
        text.duck = str(tarn) if duck is None else duck
        return text


def f(template, *parts, **named):
    """Fills a template for both engines."""
    def duck(part):
        return getattr(part, "duck", part)

    return Sql(template.format(*parts, **named),
               template.format(*map(duck, parts), **{k: duck(v) for k, v in named.items()}))


def join(separator, parts):
    return Sql(separator.join(parts), separator.join(getattr(p, "duck", p) for p in parts))


class Maker:
    """Makes statements from one source of randomness."""

    def __init__(self, rng):
        self.rng, self.number = rng, 0

    def value(self, kind, row=None):
        """A literal; with `row`, one that grows with the row, so that files have narrow bounds."""
        rng = self.rng
        if kind == "int":
            return str((row * 3 if row is not None and rng.random() < 0.7 else rng.randint(-20, 200)))
        if kind == "text":
            return "'" + rng.choice(TEXTS).replace("'", "''") + "'"
        if kind == "double":
            return f"CAST({rng.randint(-400, 400) / 4} AS DOUBLE)"
        if kind == "decimal":
            return f"CAST({rng.randint(-50000, 500000) / 1000:.3f} AS DECIMAL(12,3))"
        days = row // 4 if row is not None and rng.random() < 0.8 else rng.randint(0, 100)
        day = DAY0 + datetime.timedelta(days=days)
        if kind == "date":
            return f"DATE '{day}'"
        if kind == "time":
            return f"TIMESTAMP '{day} {rng.choice(['00:00:00', '12:30:00.5', '23:59:59.999999'])}'"
        return rng.choice(["true", "false"])

    def filling(self, columns, first, count):
        out = []
        for row in range(first, first + count):
            cells = []
            for name, kind in columns:
                if name == "id":
                    cells.append(str(row))
                elif name == "k":
                    cells.append("NULL" if self.rng.random() < 0.1 else str(self.rng.randint(0, 25)))
                elif name == "g":
                    cells.append("NULL" if self.rng.random() < 0.08 else f"'{self.rng.choice(GROUPS)}'")
                else:
                    cells.append("NULL" if self.rng.random() < 0.12 else self.value(kind, row))
            out.append("(" + ", ".join(cells) + ")")
        return ", ".join(out)

    def data(self, rows):
        """Statements that fill both databases: several files, deletion vectors, updated rows."""
        for name, columns in TABLES.items():
            ddl = ", ".join(f"{column} {TYPES[kind]}" for column, kind in columns)
            create = f"CREATE TABLE {name} ({ddl})"
            yield Sql(create + (" PARTITIONED BY (g)" if name == "q" else ""), create)
            count = rows if name != "m" else 30
            step = max(1, count // 4)
            for first in range(0, count, step):
                yield Sql(f"INSERT INTO {name} VALUES {self.filling(columns, first, min(step, count - first))}")
        for name in ("t", "q"):
            yield Sql(f"DELETE FROM {name} WHERE id % 11 = {self.rng.randint(0, 10)}")
            yield Sql(f"UPDATE {name} SET n = n + 1, s = 'new' WHERE k = {self.rng.randint(0, 25)}")
            yield Sql(f"UPDATE {name} SET g = 'south' WHERE id % 17 = {self.rng.randint(0, 16)}")
            yield Sql(f"DELETE FROM {name} WHERE dt < DATE '{DAY0 + datetime.timedelta(days=2)}'")

    # Expressions. A scope is a list of (reference, kind).

    def column(self, scope, kind):
        fitting = [name for name, of in scope if of == kind]
        return Sql(self.rng.choice(fitting)) if fitting else None

    def leaf(self, scope, kind):
        column = self.column(scope, kind)
        if column is not None and self.rng.random() < 0.8:
            return column
        if self.rng.random() < 0.05:
            return Sql(f"CAST(NULL AS {TYPES[kind]})")
        return Sql(self.value(kind))

    def expr(self, scope, kind, depth=2):
        rng = self.rng
        if depth == 0 or rng.random() < 0.35:
            return self.leaf(scope, kind)

        def sub(of=kind):
            return self.expr(scope, of, depth - 1)

        common = [
            lambda: f("CASE WHEN {} THEN {} ELSE {} END", sub("bool"), sub(), sub()),
            lambda: f("CASE WHEN {} THEN {} WHEN {} THEN {} END", sub("bool"), sub(), sub("bool"), sub()),
            lambda: f("coalesce({}, {})", sub(), sub()),
            lambda: f("nullif({}, {})", sub(), self.leaf(scope, kind)),
        ]
        own = {
            "int": [
                lambda: f("({} {} {})", sub(), rng.choice("+-"), sub()),
                lambda: f("({} * {})", self.leaf(scope, "int"), rng.randint(-3, 9)),
                lambda: f("({} % nullif({}, 0))", sub(), self.leaf(scope, "int")),
                lambda: self.quotient(sub(), self.leaf(scope, "int")),
                lambda: f("abs({})", sub()),
                lambda: f("CAST(length({}) AS BIGINT)", sub("text")),
                lambda: f("CAST(extract({} FROM {}) AS BIGINT)", rng.choice(["year", "month", "day"]),
                          sub(rng.choice(["date", "time"]))),
                lambda: f("CAST({} AS BIGINT)", sub("bool")),
            ],
            "double": [
                lambda: f("({} {} {})", sub(), rng.choice("+-"), sub()),
                lambda: f("({} / nullif({}, 0))", sub(), self.leaf(scope, "double")),
                lambda: f("CAST({} AS DOUBLE)", sub("int")),
                lambda: f("abs({})", sub()),
                lambda: f("floor({})", sub()),
            ],
            "decimal": [
                lambda: f("CAST({} {} {} AS DECIMAL(12,3))", self.leaf(scope, kind), rng.choice("+-"), self.leaf(scope, kind)),
                lambda: f("CAST(abs({}) AS DECIMAL(12,3))", sub()),
                lambda: f("CAST(CAST({} % 1000 AS DECIMAL(12,3)) AS DECIMAL(12,3))", self.leaf(scope, "int")),
            ],
            "text": [
                lambda: f("({} || {})", sub(), self.leaf(scope, "text")),
                lambda: f("{}({})", rng.choice(["upper", "lower", "trim", "reverse"]), sub()),
                lambda: f("substr({}, {}, {})", sub(), rng.randint(1, 3), rng.randint(0, 4)),
                lambda: f("replace({}, 'a', 'xy')", sub()),
                lambda: f("CAST({} AS TEXT)", self.leaf(scope, rng.choice(["int", "date", "decimal", "bool"]))),
            ],
            "date": [
                lambda: f("({} + {})", sub(), rng.randint(-40, 40)),
                lambda: f("CAST(date_trunc('{}', {}) AS DATE)", rng.choice(["month", "year", "week"]), sub()),
                lambda: f("CAST({} AS DATE)", sub("time")),
            ],
            "time": [
                lambda: f("({} + INTERVAL '{} hours')", sub(), rng.randint(-30, 30)),
                lambda: f("date_trunc('{}', {})", rng.choice(["day", "hour", "minute"]), sub()),
                lambda: f("CAST({} AS TIMESTAMP)", sub("date")),
            ],
            "bool": self.predicates(scope, sub),
        }[kind]
        return rng.choice(common + own * 2)()

    def quotient(self, left, right):
        return Sql(f"({left} / nullif({right}, 0))", f"({left.duck} // nullif({right.duck}, 0))")

    def predicates(self, scope, sub):
        rng = self.rng
        kind = rng.choice(["int", "int", "text", "double", "decimal", "date", "time"])

        def values(count):
            some = [Sql(self.value(kind)) for _ in range(count)]
            return join(", ", some + ([Sql("NULL")] if rng.random() < 0.15 else []))

        return [
            lambda: f("({} {} {})", sub(kind), rng.choice(["=", "<>", "<", "<=", ">", ">="]), sub(kind)),
            lambda: f("({} {} {})", self.leaf(scope, kind), rng.choice(["=", "<", ">="]), self.value(kind)),
            lambda: f("({} IS {}DISTINCT FROM {})", sub(kind), rng.choice(["", "NOT "]), self.leaf(scope, kind)),
            lambda: f("({} IS {}NULL)", sub(kind), rng.choice(["", "NOT "])),
            lambda: f("({} BETWEEN {} AND {})", self.leaf(scope, kind), self.value(kind), self.value(kind)),
            lambda: f("({} {}IN ({}))", self.leaf(scope, kind), rng.choice(["", "NOT "]), values(rng.randint(1, 4))),
            lambda: f("({} {}LIKE '{}')", sub("text"), rng.choice(["", "NOT "]),
                      rng.choice(["a%", "%b%", "_", "%", "x_y", "%''%"])),
            lambda: f("({} {} {})", sub("bool"), rng.choice(["AND", "OR"]), sub("bool")),
            lambda: f("(NOT {})", sub("bool")),
            lambda: f("({} {} {})", self.leaf(scope, "int"), rng.choice(["=", "<", ">"]), self.leaf(scope, "decimal")),
            lambda: f("({} {} {})", self.leaf(scope, "decimal"), rng.choice(["<", ">"]), self.leaf(scope, "double")),
        ]

    def subquery_predicate(self, scope):
        """IN, EXISTS and scalar subqueries over another table."""
        rng = self.rng
        table = rng.choice(list(TABLES))
        alias = self.alias()
        inner = [(f"{alias}.{name}", kind) for name, kind in TABLES[table]]
        where = self.expr(inner, "bool", 1)
        outer = self.column(scope, "int")
        key = self.column(inner, "int")
        choice = rng.randint(0, 4)
        if choice == 0:
            return f("({} {}IN (SELECT {} FROM {} {} WHERE {}))", outer, rng.choice(["", "NOT "]), key, table, alias, where)
        if choice == 1:
            return f("({}EXISTS (SELECT 1 FROM {} {} WHERE {} = {} AND {}))", rng.choice(["", "NOT "]), table, alias,
                     key, outer, where)
        if choice == 2:
            return f("({} {} (SELECT {}({}) FROM {} {} WHERE {}))", outer, rng.choice(["<", ">=", "="]),
                     rng.choice(["min", "max", "count"]), key, table, alias, where)
        if choice == 3:
            return f("({} > (SELECT count(*) FROM {} {} WHERE {} = {}))", outer, table, alias, key, outer)
        text, inner_text = self.column(scope, "text"), self.column(inner, "text")
        return f("({} {}IN (SELECT {} FROM {} {} WHERE {}))", text, rng.choice(["", "NOT "]), inner_text, table, alias, where)

    def alias(self):
        self.number += 1
        return f"a{self.number}"

    # FROM clauses: (text, scope, references that together name a row).

    def source(self):
        table, alias = self.rng.choice(["t", "q", "m", "t", "q"]), self.alias()
        scope = [(f"{alias}.{name}", kind) for name, kind in TABLES[table]]
        if self.rng.random() < 0.2:
            where = self.expr([(name, kind) for name, kind in TABLES[table]], "bool", 1)
            return f("(SELECT * FROM {} WHERE {}) AS {}", table, where, alias), scope, [f"{alias}.id"]
        return Sql(f"{table} AS {alias}"), scope, [f"{alias}.id"]

    def from_clause(self):
        text, scope, ids = self.source()
        for _ in range(self.rng.choice([0, 0, 1, 1, 1, 2])):
            other, added, more = self.source()
            kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
            by = self.rng.choice(["int", "int", "text", "date"])
            if by == "int":
                pick = lambda s: [n for n, k in s if k == "int" and n.split(".")[1] in ("k", "id")]  # noqa: E731
                on = Sql(f"{self.rng.choice(pick(scope))} = {self.rng.choice(pick(added))}")
            else:
                # Joins of many rows with many rows stay small because they go by the key as well.
                left, right = ([n for n, _ in s if n.endswith(".k")][0] for s in (scope, added))
                on = f("{} = {} AND {} = {}", left, right, self.column(scope, by), self.column(added, by))
            if self.rng.random() < 0.3 and kind != "FULL JOIN":
                on = f("{} AND {}", on, self.expr(scope + added, "bool", 1))
            text, scope, ids = f("{} {} {} ON {}", text, kind, other, on), scope + added, ids + more
        return text, scope, ids

    def where(self, scope):
        rng = self.rng
        parts = [self.expr(scope, "bool", 2) for _ in range(rng.choice([0, 1, 1, 2]))]
        if rng.random() < 0.3:
            parts.append(self.subquery_predicate(scope))
        if not parts:
            return Sql("")
        return f(" WHERE {}", join(rng.choice([" AND ", " AND ", " OR "]), parts))

    # Queries. Each is (text, whether the order of its rows is total).

    def query(self):
        kind = self.rng.choice(["rows", "rows", "groups", "groups", "windows", "sets", "with", "distinct"])
        return getattr(self, kind)()

    def order(self, names):
        """ORDER BY over names that together decide."""
        return ", ".join(f"{n} {self.rng.choice(['ASC', 'DESC'])} NULLS {self.rng.choice(['FIRST', 'LAST'])}" for n in names)

    def limit(self):
        if self.rng.random() < 0.6:
            return ""
        return f" LIMIT {self.rng.randint(0, 30)}" + (f" OFFSET {self.rng.randint(0, 5)}" if self.rng.random() < 0.4 else "")

    def kinds(self, count):
        return [self.rng.choice(["int", "int", "text", "double", "decimal", "date", "time", "bool"]) for _ in range(count)]

    def rows_query(self, kinds):
        text, scope, ids = self.from_clause()
        columns = join(", ", [f("{} AS c{}", self.expr(scope, kind), n) for n, kind in enumerate(kinds)])
        return columns, text, scope, ids

    def rows_(self, kinds):
        columns, text, scope, _ = self.rows_query(kinds)
        return f("SELECT {} FROM {}{}", columns, text, self.where(scope))

    def rows(self):
        columns, text, scope, ids = self.rows_query(self.kinds(self.rng.randint(1, 5)))
        query = f("SELECT {} FROM {}{}", columns, text, self.where(scope))
        if self.rng.random() < 0.5:
            return query, False
        return f("{} ORDER BY {}{}", query, self.order(ids), self.limit()), True

    def aggregate(self, scope):
        rng = self.rng
        kind = rng.choice(["int", "int", "decimal", "double", "text", "date", "time"])
        number = rng.choice(["int", "decimal", "double"])
        text = rng.choice([
            lambda: Sql("count(*)"),
            lambda: f("count({})", self.expr(scope, kind, 1)),
            lambda: f("count(DISTINCT {})", self.expr(scope, kind, 1)),
            lambda: f("sum({})", self.leaf(scope, number)),
            lambda: f("sum(DISTINCT {})", self.column(scope, "int")),
            lambda: f("{}({})", rng.choice(["min", "max"]), self.expr(scope, kind, 1)),
            lambda: f("avg(CAST({} AS DOUBLE))", self.leaf(scope, number)),
            lambda: f("string_agg({0}, '|' ORDER BY {0})", self.column(scope, "text")),
            lambda: f("{}({})", rng.choice(["bool_and", "bool_or"]), self.expr(scope, "bool", 1)),
            lambda: f("stddev_samp(CAST({} AS DOUBLE))", self.column(scope, "int")),
        ])()
        if rng.random() < 0.15:
            text = f("{} FILTER (WHERE {})", text, self.expr(scope, "bool", 1))
        return text

    def groups(self):
        rng = self.rng
        text, scope, _ = self.from_clause()
        keys = [self.expr(scope, rng.choice(["int", "text", "date", "bool"]), 1) for _ in range(rng.choice([0, 1, 1, 2]))]
        columns = [f("{} AS c{}", key, n) for n, key in enumerate(keys)]
        ordered = []
        for n in range(len(keys), len(keys) + rng.randint(1, 4)):
            aggregate = self.aggregate(scope)
            while "string_agg" in aggregate and ordered:
                aggregate = self.aggregate(scope)
            ordered += ["string_agg"] if "string_agg" in aggregate else []
            columns.append(f("{} AS c{}", aggregate, n))
        query = f("SELECT {} FROM {}{}", join(", ", columns), text, self.where(scope))
        if keys:
            positions = ", ".join(str(n + 1) for n in range(len(keys)))
            query = f("{} GROUP BY {}", query, positions)
        if rng.random() < 0.3:
            query = f("{} HAVING {} {} {}", query, rng.choice(["count(*)", "min(%s)" % self.column(scope, "int")]),
                      rng.choice([">", "<>", "<="]), rng.randint(0, 4))
        if keys and rng.random() < 0.4:
            names = [f"c{n}" for n in range(len(keys))]
            return f("{} ORDER BY {}{}", query, self.order(names), self.limit()), True
        return query, False

    def window(self, scope, ids):
        rng = self.rng
        by = rng.choice([["int"], ["date"], ["text"], []])
        partition = "PARTITION BY " + self.column(scope, rng.choice(["text", "bool", "int"])) if rng.random() < 0.7 else ""
        order = self.order([*(str(self.column(scope, kind)) for kind in by), *ids])
        frame = rng.choice(["", f" ROWS BETWEEN {rng.randint(0, 3)} PRECEDING AND {rng.randint(0, 3)} FOLLOWING",
                            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"])
        kind = rng.choice(["int", "text", "date", "decimal"])
        return rng.choice([
            lambda: f("row_number() OVER ({} ORDER BY {})", partition, order),
            lambda: f("{}() OVER ({} ORDER BY {} NULLS LAST)", rng.choice(["rank", "dense_rank"]), partition,
                      self.column(scope, "int")),
            lambda: f("{}({}) OVER ({} ORDER BY {})", rng.choice(["lag", "lead"]), self.column(scope, kind) or ids[0],
                      partition, order),
            lambda: f("{}({}) OVER ({} ORDER BY {}{})", rng.choice(["sum", "count", "min", "max"]),
                      self.leaf(scope, "int"), partition, order, frame),
            lambda: f("{}({}) OVER ({} ORDER BY {}{})", rng.choice(["first_value", "last_value"]),
                      self.column(scope, kind) or ids[0], partition, order, frame),
            lambda: f("{}({}) OVER ({})", rng.choice(["count", "min", "max"]), self.leaf(scope, kind), partition),
            lambda: f("sum({}) OVER ({} ORDER BY {} NULLS FIRST)", self.leaf(scope, "decimal"), partition,
                      self.column(scope, "int")),
        ])()

    def windows(self):
        text, scope, ids = self.from_clause()
        columns = [f("{} AS c{}", i, n) for n, i in enumerate(ids)]
        for _ in range(self.rng.randint(1, 3)):
            columns.append(f("{} AS c{}", self.window(scope, ids), len(columns)))
        query = f("SELECT {} FROM {}{}", join(", ", columns), text, self.where(scope))
        if self.rng.random() < 0.3:
            query = f("SELECT * FROM ({}) AS w WHERE c{} {} 3", query, self.rng.randrange(len(ids)), self.rng.choice("<>"))
        return query, False

    def sets(self):
        kinds = self.kinds(self.rng.randint(1, 3))
        operator = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        query = f("{} {} {}", self.rows_(kinds), operator, self.rows_(kinds))
        if operator != "UNION ALL" and self.rng.random() < 0.4:
            names = [f"c{n}" for n in range(len(kinds))]
            return f("{} ORDER BY {}{}", query, self.order(names), self.limit()), True
        return query, False

    def distinct(self):
        kinds = self.kinds(self.rng.randint(1, 3))
        query = self.rows_(kinds)
        query = Sql("SELECT DISTINCT" + query.removeprefix("SELECT"), "SELECT DISTINCT" + query.duck.removeprefix("SELECT"))
        if self.rng.random() < 0.4:
            names = [f"c{n}" for n in range(len(kinds))]
            return f("{} ORDER BY {}{}", query, self.order(names), self.limit()), True
        return query, False

    def with_(self):
        kinds = self.kinds(3)
        first, second = self.rows_(kinds), self.rows_(kinds)
        scope = [(f"x.c{n}", kind) for n, kind in enumerate(kinds)] + [(f"y.c{n}", kind) for n, kind in enumerate(kinds)]
        on = f("x.c0 {} y.c0", self.rng.choice(["=", "IS NOT DISTINCT FROM"]))
        columns = join(", ", [f("{} AS c{}", self.aggregate_of(scope), n) for n in range(2)])
        return f("WITH v AS ({}), w AS ({}) SELECT {} FROM v AS x {} (SELECT DISTINCT c0, c1, c2 FROM w) AS y ON {}",
                 first, second, columns, self.rng.choice(["JOIN", "LEFT JOIN"]), on), False

    def aggregate_of(self, scope):
        name, kind = self.rng.choice(scope)
        if kind == "int":
            return f("sum({})", name)
        return f("{}({})", self.rng.choice(["count", "min", "max"]) if kind != "bool" else "count", name)


# `with` is a word of Python.
setattr(Maker, "with", Maker.with_)
