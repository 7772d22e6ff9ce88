//! INSERT .. ON CONFLICT, and PRIMARY KEY, which it uses. BC-02 of shared/cases/bug-cases.md.

use crate::support::*;

const TABLE: &str = "
    CREATE TABLE t (id INT, v TEXT, n INT);
    INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', NULL)";
const ALL: &str = "SELECT * FROM t ORDER BY id, v";

#[tokio::test]
async fn rows_whose_key_is_there_change_it_and_others_are_inserted() {
    for (clause, rows_changed, after) in [
        (
            "VALUES (2, 'B', 20), (9, 'I', 90) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            2,
            "1|a|1; 2|B|2; 3|c|NULL; 9|I|90",
        ),
        (
            "VALUES (2, 'B', 20), (9, 'I', 90) ON CONFLICT (id) DO NOTHING",
            1,
            "1|a|1; 2|b|2; 3|c|NULL; 9|I|90",
        ),
        (
            "VALUES (2, 'B', 20), (1, 'A', 10) ON CONFLICT (id) DO UPDATE
             SET n = t.n + excluded.n, v = t.v || excluded.v WHERE t.n > 1",
            1,
            "1|a|1; 2|bB|22; 3|c|NULL",
        ),
        // WHERE is NULL: the row stays, and is not inserted either.
        (
            "VALUES (3, 'C', 30) ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE t.n > 1",
            0,
            "1|a|1; 2|b|2; 3|c|NULL",
        ),
        // What WHERE leaves out is not computed.
        (
            "VALUES (1, 'A', 0), (2, 'B', 2) ON CONFLICT (id) DO UPDATE
             SET n = 10 / excluded.n WHERE excluded.n <> 0",
            1,
            "1|a|1; 2|b|5; 3|c|NULL",
        ),
        // NULL keys never conflict.
        (
            "VALUES (NULL, 'x', 0), (NULL, 'y', 0) ON CONFLICT (id) DO UPDATE SET v = 'no'",
            2,
            "1|a|1; 2|b|2; 3|c|NULL; NULL|x|0; NULL|y|0",
        ),
        (
            "VALUES (7, 'first', 0), (7, 'second', 0) ON CONFLICT (id) DO NOTHING",
            1,
            "1|a|1; 2|b|2; 3|c|NULL; 7|first|0",
        ),
        // A composite key, the columns in any case and order.
        (
            "VALUES (2, 'b', 22), (2, 'z', 23) ON CONFLICT (V, Id) DO UPDATE SET n = excluded.n",
            2,
            "1|a|1; 2|b|22; 2|z|23; 3|c|NULL",
        ),
        // Columns left out, and a subquery.
        (
            "SELECT id + 1, upper(v) FROM t WHERE id < 4 ON CONFLICT (id) DO UPDATE
             SET v = excluded.v, n = (SELECT count(*) FROM t)",
            3,
            "1|a|1; 2|A|3; 3|B|3; 4|C|NULL",
        ),
        (
            "SELECT 1, 'x' WHERE false ON CONFLICT (id) DO NOTHING",
            0,
            "1|a|1; 2|b|2; 3|c|NULL",
        ),
    ] {
        let columns = match clause.starts_with("SELECT") {
            true => "(id, v)",
            false => "",
        };
        let statement = format!("INSERT INTO t {columns} {clause}");
        for in_transaction in [false, true] {
            let mut session = setup(TABLE).await;
            if in_transaction {
                ok(&mut session, "BEGIN").await;
            }
            assert_eq!(
                count(&mut session, &statement).await,
                rows_changed,
                "{statement}"
            );
            assert_eq!(rows(&mut session, ALL).await, after, "{statement}");
            if in_transaction {
                ok(&mut session, "COMMIT").await;
                assert_eq!(rows(&mut session, ALL).await, after, "{statement}");
            }
        }
    }
}

#[tokio::test]
async fn an_upsert_sees_what_its_transaction_did_before() {
    let mut session = setup(TABLE).await;
    ok(
        &mut session,
        "BEGIN;
         INSERT INTO t VALUES (4, 'd', 4);
         DELETE FROM t WHERE id = 1;
         INSERT INTO t VALUES (1, 'A', 1), (4, 'D', 1) ON CONFLICT (id)
             DO UPDATE SET v = excluded.v, n = t.n + 1;
         INSERT INTO t VALUES (1, 'AA', 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
         COMMIT",
    )
    .await;
    assert_eq!(
        rows(&mut session, ALL).await,
        "1|AA|1; 2|b|2; 3|c|NULL; 4|D|5"
    );
}

#[tokio::test]
async fn what_an_upsert_cannot_mean_is_an_error_and_changes_nothing() {
    for (statement, sqlstate, says) in [
        (
            "INSERT INTO t VALUES (8, 'x', 1), (8, 'y', 2) ON CONFLICT (id) DO UPDATE SET n = 1",
            "21000",
            "id = 8",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT DO NOTHING",
            "42P10",
            "no primary key",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT (idd) DO NOTHING",
            "42703",
            "idd",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT (id, ID) DO NOTHING",
            "42701",
            "twice",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET id = 5",
            "0A000",
            "key column",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET m = 5",
            "42703",
            "m",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET n = n + 1",
            "42702",
            "ambiguous",
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 0) ON CONFLICT (id) DO UPDATE SET n = 1 / excluded.n",
            "22012",
            "zero",
        ),
        (
            "INSERT OVERWRITE t VALUES (1, 'x', 0) ON CONFLICT (id) DO NOTHING",
            "42601",
            "OVERWRITE",
        ),
    ] {
        let mut session = setup(TABLE).await;
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), sqlstate, "{statement}: {}", chain(&error));
        assert!(
            chain(&error).contains(says),
            "{statement}: {}",
            chain(&error)
        );
        assert_eq!(rows(&mut session, ALL).await, "1|a|1; 2|b|2; 3|c|NULL");
    }
}

#[tokio::test]
async fn rules_fill_new_rows_and_follow_changed_ones() {
    let mut session = setup(
        "CREATE TABLE t (
             id INT NOT NULL PRIMARY KEY NOT ENFORCED,
             n INT DEFAULT 5,
             twice INT GENERATED ALWAYS AS (n * 2),
             no BIGINT GENERATED ALWAYS AS IDENTITY,
             CHECK (n < 100));
         INSERT INTO t (id) VALUES (1), (2)",
    )
    .await;
    let upsert = "INSERT INTO t (id) VALUES (2), (3) ON CONFLICT DO UPDATE
                  SET n = t.n + excluded.n";
    assert_eq!(count(&mut session, upsert).await, 2);
    let all = "SELECT id, n, twice, no FROM t ORDER BY id";
    assert_eq!(
        rows(&mut session, all).await,
        "1|5|10|1; 2|10|20|2; 3|5|10|3"
    );
    let reset = "INSERT INTO t (id, n) VALUES (2, 1) ON CONFLICT DO UPDATE SET n = DEFAULT";
    assert_eq!(count(&mut session, reset).await, 1);
    assert_eq!(
        rows(&mut session, all).await,
        "1|5|10|1; 2|5|10|2; 3|5|10|3"
    );
    for (statement, sqlstate) in [
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET n = 100",
            "23514",
        ),
        (
            "INSERT INTO t (id, n) VALUES (7, 100) ON CONFLICT DO NOTHING",
            "23514",
        ),
        (
            "INSERT INTO t (n) VALUES (7) ON CONFLICT DO NOTHING",
            "23502",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET twice = 1",
            "23514",
        ),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), sqlstate, "{statement}: {}", chain(&error));
    }
    assert_eq!(
        rows(&mut session, all).await,
        "1|5|10|1; 2|5|10|2; 3|5|10|3"
    );
}

#[tokio::test]
async fn upserts_work_whatever_the_table_is() {
    for options in [
        "",
        "PARTITIONED BY (n)",
        "WITH (deletion_vectors = 'off')",
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    ] {
        let mut session = setup(&format!(
            "CREATE TABLE t (id INT, v TEXT, n INT) {options};
             INSERT INTO t SELECT value, 'old', value % 3 FROM generate_series(1, 1000);
             DELETE FROM t WHERE id % 10 = 0"
        ))
        .await;
        let upsert = "INSERT INTO t SELECT value, 'new', value % 5 FROM generate_series(501, 1500)
                      ON CONFLICT (id) DO UPDATE SET v = excluded.v || t.v, n = excluded.n";
        assert_eq!(count(&mut session, upsert).await, 1000, "{options}");
        let summary = "SELECT v, count(*), sum(id), sum(n) FROM t GROUP BY v ORDER BY v";
        // 450 rows up to 500 stay; 450 of 501..1000 change; 50 that were deleted and 500 beyond
        // are new.
        let sum = |ids: &dyn Fn(u64) -> bool, of: u64| {
            let ids = (1..=1500_u64).filter(|id| ids(*id));
            ids.fold((0, 0, 0), |(n, sum, rest), id| {
                (n + 1, sum + id, rest + id % of)
            })
        };
        let new = sum(&|id| id > 1000 || (id > 500 && id % 10 == 0), 5);
        let changed = sum(&|id| (501..=1000).contains(&id) && id % 10 != 0, 5);
        let old = sum(&|id| id <= 500 && id % 10 != 0, 3);
        let line = |name: &str, (n, ids, rest): (u64, u64, u64)| format!("{name}|{n}|{ids}|{rest}");
        let expected = [line("new", new), line("newold", changed), line("old", old)];
        assert_eq!(
            rows(&mut session, summary).await,
            expected.join("; "),
            "{options}"
        );
    }
}

#[tokio::test]
async fn bc_02_upserts_of_one_new_key_from_one_snapshot_make_one_row() {
    for (key, first, second) in [
        ("(id)", "(9, 'x', 11)", "(9, 'y', 22)"),
        ("(v, id)", "(9, 'x', 11)", "(9, 'x', 22)"),
        ("(f)", "(1, 'x', 11)", "(2, 'y', 22)"),
    ] {
        let db = database().await;
        let mut one = session(&db);
        let mut two = session(&reopened(&db).await);
        let table = "CREATE TABLE t (id INT, v TEXT, n INT, f DOUBLE GENERATED ALWAYS AS (0.5))";
        ok(&mut one, &table.replace(" GENERATED ALWAYS AS (0.5)", "")).await;
        let upsert = |values: &str| {
            let values = values.replace(')', ", 0.5)");
            format!("INSERT INTO t VALUES {values} ON CONFLICT {key} DO UPDATE SET n = excluded.n")
        };
        // Both look before either commits: the second is told, and does it again by itself.
        ok(&mut two, "BEGIN").await;
        ok(&mut two, &upsert(second)).await;
        ok(&mut one, &upsert(first)).await;
        let error = err(&mut two, "COMMIT").await;
        assert_eq!(error.sqlstate(), "40001", "{}", chain(&error));
        assert_eq!(count(&mut two, &upsert(second)).await, 1);
        assert_eq!(
            rows(&mut two, "SELECT count(*), max(n) FROM t").await,
            "1|22",
            "{key}"
        );
        // A key that neither has is no conflict, in the same moment.
        ok(&mut one, "BEGIN").await;
        ok(&mut one, &upsert("(50, 'p', 1)").replace("0.5", "1.5")).await;
        ok(&mut two, &upsert("(51, 'q', 2)").replace("0.5", "2.5")).await;
        ok(&mut one, "COMMIT").await;
        assert_eq!(rows(&mut one, "SELECT count(*) FROM t").await, "3", "{key}");
    }
}

#[tokio::test]
async fn an_insert_of_others_meets_an_upsert_that_did_nothing_with_its_key() {
    let db = database().await;
    let mut one = session(&db);
    let mut two = session(&reopened(&db).await);
    ok(&mut one, TABLE).await;
    ok(&mut two, "BEGIN").await;
    let nothing = "INSERT INTO t VALUES (9, 'x', 1), (1, 'x', 1) ON CONFLICT (id) DO NOTHING";
    assert_eq!(count(&mut two, nothing).await, 1);
    ok(&mut one, "INSERT INTO t VALUES (9, 'other', 0)").await;
    let error = err(&mut two, "COMMIT").await;
    assert_eq!(error.sqlstate(), "40001", "{}", chain(&error));
    assert_eq!(count(&mut two, nothing).await, 0);
}

#[tokio::test]
async fn concurrent_upserts_count_every_one() {
    let db = database().await;
    let mut first = session(&db);
    ok(
        &mut first,
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, n INT)",
    )
    .await;
    let tasks = (0..8_u32).map(|_| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut session = session(&db);
            for id in 0..3 {
                let upsert =
                    format!("INSERT INTO t VALUES ({id}, 1) ON CONFLICT DO UPDATE SET n = t.n + 1");
                ok(&mut session, &upsert).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(
        rows(&mut first, "SELECT * FROM t ORDER BY id").await,
        "0|8; 1|8; 2|8"
    );
}

#[tokio::test]
async fn a_serializable_upsert_has_read_its_keys() {
    let db = database().await;
    let mut one = session(&db);
    let mut two = session(&reopened(&db).await);
    ok(&mut one, TABLE).await;
    ok(&mut two, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    let upsert = "INSERT INTO t VALUES (1, 'x', 1), (7, 'x', 1) ON CONFLICT (id) DO NOTHING";
    assert_eq!(count(&mut two, upsert).await, 1);
    ok(&mut one, "DELETE FROM t WHERE id = 1").await;
    let error = err(&mut two, "COMMIT").await;
    assert_eq!(error.sqlstate(), "40001", "{}", chain(&error));
}

/// What DESCRIBE says of the primary key.
async fn keys(session: &mut tarndb_sql::Session, table: &str) -> String {
    let text = rows(session, &format!("DESCRIBE {table}")).await;
    let key = text.split("; ").find(|line| line.contains("PRIMARY"));
    key.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_primary_key_is_kept_shown_and_followed() {
    let mut session = setup(
        "CREATE TABLE t (Id INT, v TEXT NOT NULL, n INT, PRIMARY KEY (Id, v) NOT ENFORCED);
         CREATE TABLE u (id INT CONSTRAINT u_key PRIMARY KEY NOT ENFORCED RELY, v TEXT);
         CREATE TABLE w (id INT, v INT NOT NULL)",
    )
    .await;
    assert_eq!(
        keys(&mut session, "t").await,
        "constraint t_pkey|NULL|NULL|NULL|NULL|PRIMARY KEY (Id, v) NOT ENFORCED"
    );
    assert!(keys(&mut session, "u").await.contains("u_key"));
    // Its columns are NOT NULL.
    let error = err(&mut session, "INSERT INTO t VALUES (NULL, 'x', 1)").await;
    assert_eq!(error.sqlstate(), "23502");
    ok(
        &mut session,
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
         ALTER TABLE t RENAME COLUMN id TO Key",
    )
    .await;
    assert!(keys(&mut session, "t").await.contains("(Key, v)"));
    for (statement, sqlstate) in [
        ("ALTER TABLE t DROP COLUMN key", "2BP01"),
        ("ALTER TABLE t ALTER COLUMN v DROP NOT NULL", "2BP01"),
        ("ALTER TABLE t ADD PRIMARY KEY (key) NOT ENFORCED", "42P16"),
        ("ALTER TABLE w ADD PRIMARY KEY (id) NOT ENFORCED", "42P16"),
        ("ALTER TABLE w ADD PRIMARY KEY (x) NOT ENFORCED", "42703"),
        ("ALTER TABLE w ADD PRIMARY KEY (v)", "0A000"),
        ("ALTER TABLE w DROP PRIMARY KEY", "22023"),
        ("CREATE TABLE x (id INT PRIMARY KEY)", "0A000"),
        (
            "CREATE TABLE x (id INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (id) NOT ENFORCED)",
            "42601",
        ),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), sqlstate, "{statement}: {}", chain(&error));
        assert!(error.hint().is_some() || sqlstate == "22023", "{statement}");
    }
    ok(
        &mut session,
        "ALTER TABLE w ADD CONSTRAINT k PRIMARY KEY (v) NOT ENFORCED;
         INSERT INTO w VALUES (1, 1);
         INSERT INTO w VALUES (2, 1) ON CONFLICT DO UPDATE SET id = excluded.id;
         ALTER TABLE w DROP CONSTRAINT k;
         ALTER TABLE w DROP PRIMARY KEY IF EXISTS;
         ALTER TABLE u DROP PRIMARY KEY;
         CREATE OR REPLACE TABLE t (id INT)",
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT * FROM w").await, "2|1");
    for table in ["t", "u", "w"] {
        assert_eq!(keys(&mut session, table).await, "", "{table}");
    }
}
