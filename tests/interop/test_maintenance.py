"""What deltalake does not refuse on a managed table: its own checkpoint and log cleanup."""

import time
from pathlib import Path

from deltalake import DeltaTable

import readers
from tarndb import Tarn


def test_foreign_checkpoint_and_cleanup_are_tolerated(folder):
    tarn = Tarn(folder / "db", init=True)
    tarn.sql("CREATE TABLE m (id BIGINT, s STRING) WITH ('delta.logRetentionDuration' = 'interval 0 seconds');")
    for n in range(8):
        tarn.sql(f"INSERT INTO m VALUES ({n}, 's{n}'), ({n + 100}, NULL);"
                 if n != 5 else "DELETE FROM m WHERE id IN (1, 103);")
    path = Path(tarn.table_path("main/m"))
    log = path / "_delta_log"
    before = {p.name for p in log.iterdir()}
    DeltaTable(path).create_checkpoint()
    time.sleep(0.05)
    DeltaTable(path).cleanup_metadata()
    after = {p.name for p in log.iterdir()}
    assert any("checkpoint" in name for name in after - before) or "_last_checkpoint" in after, after
    removed = sorted(before - after)
    readers.all_agree(tarn, "m", "main/m", "after the foreign maintenance")
    tarn.check("--deep")
    tarn.sql("INSERT INTO m VALUES (1000, 'after'); UPDATE m SET s = 'u' WHERE id = 2; DELETE FROM m WHERE id = 3;")
    tarn.run("publish")
    assert readers.all_agree(tarn, "m", "main/m", "written afterwards").num_rows == 12
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).cleanup_metadata()
    tarn.sql("INSERT INTO m SELECT id + 5000, s FROM m;")
    tarn.run("checkpoint")
    assert readers.all_agree(tarn, "m", "main/m", "after a second round").num_rows == 24
    tarn.check("--deep")
    return f"{len(removed)} log files removed by the foreign cleanup"
