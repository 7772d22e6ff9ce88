"""All queries of TPC-H at a small scale, with DuckDB's answers, and again with deleted rows."""

import tpch
from tarndb import Tarn

SCALE = 0.01


def test_all_queries_have_the_published_answers_also_with_deleted_rows(folder):
    connection = tpch.connect(SCALE)
    tpch.export(connection, folder)
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("".join(f"CREATE TABLE {t} AS SELECT * FROM '{folder}/{t}.parquet';\n" for t in tpch.TABLES))
    queries, answers = tpch.queries(connection), tpch.answers(connection, SCALE)
    assert len(queries) == 22 and len(answers) == 22
    wrong = compare(tarn, queries, answers)
    deletions = tpch.deletions()
    tarn.sql(";\n".join(deletions))
    for statement in deletions:
        connection.execute(statement)
    expected = {number: [list(row) for row in connection.execute(query).fetchall()] for number, query in queries}
    wrong += compare(tarn, queries, expected)
    assert not wrong, "\n".join(wrong)
    return "22 queries, twice"


def compare(tarn, queries, expected):
    found = tarn.arrows([query for _, query in queries])
    wrong = []
    for (number, _), table in zip(queries, found):
        rows = [list(row.values()) for row in table.to_pylist()]
        wrong += tpch.differences(expected[number], rows, f"query {number}")
    return wrong
