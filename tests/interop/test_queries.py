"""Random queries against DuckDB, short form; the long one is scripts/query_fuzz.py."""

import queries


def test_random_queries_answer_as_duckdb_with_pruning_on_and_off(folder):
    faults, figures = queries.compare(folder, seed=6, count=60)
    assert not faults, "\n".join(faults)
    assert figures["empty"] < 40 and figures["refused by both"] < 6, figures
    return ", ".join(f"{name} {count}" for name, count in figures.items())
