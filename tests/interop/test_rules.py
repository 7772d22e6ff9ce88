"""Tables with CHECK constraints, defaults, generated and identity columns, read by others."""

import readers
from tarndb import Failed, Tarn


def test_rows_held_to_rules_are_read_by_all(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("""
        CREATE TABLE r (
            id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 10),
            v INT NOT NULL DEFAULT 42 CHECK (v > 0),
            twice INT GENERATED ALWAYS AS (v * 2),
            CONSTRAINT small CHECK (v < 1000));
        INSERT INTO r (v) VALUES (1), (2), (3);
        INSERT INTO r VALUES (DEFAULT, DEFAULT, DEFAULT);
        UPDATE r SET v = v + 100 WHERE id = 20;
        DELETE FROM r WHERE id = 30;
    """)
    ours = readers.all_agree(tarn, "r", "main/r", "after rows held to rules")
    rows = sorted(zip(*(ours[name].to_pylist() for name in ("id", "v", "twice"))))
    assert rows == [(10, 1, 2), (20, 102, 204), (40, 42, 84)], rows
    for statement in ("INSERT INTO r (v) VALUES (0)", "INSERT INTO r (v, twice) VALUES (1, 3)",
                      "UPDATE r SET v = 5000", "ALTER TABLE r ADD CONSTRAINT few CHECK (v < 50)"):
        try:
            tarn.sql(statement)
        except Failed:
            continue
        raise AssertionError(f"rows that break a rule came in: {statement}")
    tarn.run("optimize", "r", "--all")
    readers.all_agree(tarn, "r", "main/r", "after compaction")
    tarn.check("--deep")
