//! MERGE: its clauses, rules, conflicts, and cases by their ids.

use crate::support::*;

const TABLES: &str = "
    CREATE TABLE t (id INT, v TEXT);
    CREATE TABLE s (id INT, v TEXT);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL);
    INSERT INTO s VALUES (2, 'B'), (3, 'C'), (9, 'I')";
const ALL: &str = "SELECT * FROM t ORDER BY id";
const UPSERT: &str = "MERGE INTO t USING s ON t.id = s.id \
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";

/// Affected, updated, deleted and inserted rows.
async fn figures(session: &mut tarndb_sql::Session, statement: &str) -> String {
    let all = rows(session, statement).await;
    all.split('|').take(4).collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn clauses_change_exactly_their_rows() {
    for (clauses, done, left) in [
        (
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
            "3|2|0|1",
            "1|a; 2|B; 3|C; 4|NULL; 9|I",
        ),
        ("WHEN MATCHED THEN DELETE", "2|0|2|0", "1|a; 4|NULL"),
        (
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            "2|0|2|0",
            "2|b; 3|c",
        ),
        (
            "WHEN MATCHED AND s.id = 2 THEN UPDATE SET v = 'two' \
             WHEN MATCHED AND t.v = 'c' THEN DELETE \
             WHEN NOT MATCHED BY TARGET AND s.id > 100 THEN INSERT * \
             WHEN NOT MATCHED BY SOURCE AND t.v IS NULL THEN UPDATE SET v = 'null'",
            "3|2|1|0",
            "1|a; 2|two; 4|null",
        ),
        (
            "WHEN MATCHED AND s.id = 2 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET id = s.id * 10",
            "1|1|0|0",
            "1|a; 2|b; 4|NULL; 30|c",
        ),
        // Bare names mean the side that is there.
        (
            "WHEN NOT MATCHED AND id = 9 THEN INSERT (v, id) VALUES (v, id + 1) \
             WHEN NOT MATCHED BY SOURCE AND id = 1 THEN UPDATE SET v = v || '!'",
            "2|1|0|1",
            "1|a!; 2|b; 3|c; 4|NULL; 10|I",
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id + (SELECT max(id) FROM t))",
            "1|0|0|1",
            "1|a; 2|b; 3|c; 4|NULL; 13|NULL",
        ),
    ] {
        for deletion_vectors in ["on", "off"] {
            let mut session = setup(TABLES).await;
            if deletion_vectors == "off" {
                let script =
                    "DROP TABLE t; CREATE TABLE t (id INT, v TEXT) WITH (deletion_vectors = 'off');
                    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)";
                ok(&mut session, script).await;
            }
            let statement = format!("MERGE INTO t USING s ON t.id = s.id {clauses}");
            assert_eq!(
                figures(&mut session, &statement).await,
                done,
                "{statement} {deletion_vectors}"
            );
            assert_eq!(
                rows(&mut session, ALL).await,
                left,
                "{statement} {deletion_vectors}"
            );
        }
    }
}

#[tokio::test]
async fn sources_are_tables_queries_and_values() {
    for source in [
        "s",
        "main.s",
        "s AS q",
        "(SELECT * FROM s WHERE id < 9) AS q",
        "(SELECT id, v FROM s) q",
        "(VALUES (2, 'B'), (3, 'C')) AS q (id, v)",
        "(VALUES ('2', 'B'), ('3', 'C')) AS q (id, v)",
    ] {
        let mut session = setup(TABLES).await;
        let name = if source.contains('q') { "q" } else { "s" };
        let statement = format!(
            "MERGE INTO main.t AS x USING {source} ON {name}.id = x.id WHEN MATCHED THEN UPDATE SET v = {name}.v"
        );
        assert_eq!(
            figures(&mut session, &statement).await,
            "2|2|0|0",
            "{source}"
        );
        assert_eq!(
            rows(&mut session, ALL).await,
            "1|a; 2|B; 3|C; 4|NULL",
            "{source}"
        );
    }
}

#[tokio::test]
async fn what_means_nothing_is_refused_by_name() {
    let mut session = setup(TABLES).await;
    for (statement, state) in [
        ("MERGE INTO t USING s ON t.id = s.id", "42601"),
        (
            "MERGE INTO t USING (SELECT 1 AS id) ON true WHEN MATCHED THEN DELETE",
            "42601",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN INSERT *",
            "42601",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN DELETE",
            "42601",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
            "42601",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
            "42601",
        ),
        (
            "MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE",
            "42712",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nope = 1",
            "42703",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v, V = s.v",
            "42701",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = v",
            "42702",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id)",
            "42601",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED AND t.id = 1 THEN INSERT *",
            "42703",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND s.id = 1 THEN DELETE",
            "42703",
        ),
        (
            "MERGE INTO t USING (SELECT id FROM s) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "42703",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND max(s.id) > 1 THEN DELETE",
            "0A000",
        ),
        (
            "MERGE INTO nope USING s ON true WHEN MATCHED THEN DELETE",
            "42P01",
        ),
        (
            "MERGE INTO delta.`/nope/x` USING s ON true WHEN MATCHED THEN DELETE",
            "0A000",
        ),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
    }
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|b; 3|c; 4|NULL");
}

#[tokio::test]
async fn rules_of_the_table_hold_for_rows_that_are_written() {
    let mut session = setup(
        "CREATE TABLE t (
            id INT NOT NULL CHECK (id > 0), d INT DEFAULT 7, g INT GENERATED ALWAYS AS (d * 2),
            n BIGINT GENERATED ALWAYS AS IDENTITY);
         INSERT INTO t (id, d) VALUES (1, 1);
         CREATE TABLE s (id INT, d INT); INSERT INTO s VALUES (1, 5), (2, 6)",
    )
    .await;
    let statement = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET d = s.d \
        WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)";
    assert_eq!(figures(&mut session, statement).await, "2|1|0|1");
    let all = "SELECT * FROM t ORDER BY id";
    assert_eq!(rows(&mut session, all).await, "1|5|10|1; 2|7|14|2");
    let by_default = "MERGE INTO t USING s ON t.id = s.id AND s.id = 1 \
        WHEN MATCHED THEN UPDATE SET d = DEFAULT \
        WHEN NOT MATCHED AND s.id = 2 THEN INSERT (id, d, g) VALUES (3, DEFAULT, DEFAULT)";
    assert_eq!(figures(&mut session, by_default).await, "2|1|0|1");
    assert_eq!(
        rows(&mut session, all).await,
        "1|7|14|1; 2|7|14|2; 3|7|14|3"
    );
    for (action, state) in [
        ("MATCHED THEN UPDATE SET id = -1", "23514"),
        ("MATCHED THEN UPDATE SET id = NULL", "23502"),
        ("MATCHED THEN UPDATE SET g = 3", "23514"),
        ("MATCHED THEN UPDATE SET n = 3", "428C9"),
        ("MATCHED THEN UPDATE SET id = 'x'", "22P02"),
        (
            "NOT MATCHED BY SOURCE THEN UPDATE SET id = 3000000000",
            "22003",
        ),
        ("NOT MATCHED THEN INSERT (d) VALUES (1)", "23502"),
    ] {
        let statement = format!(
            "MERGE INTO t USING (SELECT * FROM s WHERE id = 1) s ON t.id = s.id WHEN {action}"
        );
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
    }
    assert_eq!(
        rows(&mut session, all).await,
        "1|7|14|1; 2|7|14|2; 3|7|14|3"
    );
}

#[tokio::test]
async fn schema_evolution_adds_the_columns_of_the_source() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "CREATE TABLE w (ID INT, Extra DOUBLE); INSERT INTO w VALUES (1, 1.5), (7, 7.5)",
    )
    .await;
    let clauses = "INTO t USING w ON t.id = w.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
    let error = err(&mut session, &format!("MERGE {clauses}")).await;
    assert_eq!(error.sqlstate(), "42703");
    let statement = format!("MERGE WITH SCHEMA EVOLUTION {clauses}");
    assert_eq!(figures(&mut session, &statement).await, "2|1|0|1");
    let all = rows(&mut session, ALL).await;
    assert_eq!(all, "1|a|1.5; 2|b|NULL; 3|c|NULL; 4|NULL|NULL; 7|NULL|7.5");
    assert_eq!(columns(&mut session, ALL).await, ["id", "v", "Extra"]);
}

#[tokio::test]
async fn a_transaction_sees_its_own_merges_and_forgets_them() {
    let mut session = setup(TABLES).await;
    ok(
        &mut session,
        "BEGIN; INSERT INTO s VALUES (4, 'D'); INSERT INTO t VALUES (5, 'e')",
    )
    .await;
    assert_eq!(figures(&mut session, UPSERT).await, "4|3|0|1");
    ok(
        &mut session,
        "INSERT INTO s VALUES (5, 'E'), (10, 'J'); DELETE FROM s WHERE id = 2",
    )
    .await;
    assert_eq!(figures(&mut session, UPSERT).await, "5|4|0|1");
    let seen = "1|a; 2|B; 3|C; 4|D; 5|E; 9|I; 10|J";
    assert_eq!(rows(&mut session, ALL).await, seen);
    ok(&mut session, "ROLLBACK").await;
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|b; 3|c; 4|NULL");
    ok(&mut session, "BEGIN").await;
    ok(&mut session, UPSERT).await;
    ok(
        &mut session,
        "UPDATE t SET v = 'u' WHERE id = 9; DELETE FROM t WHERE id = 2; COMMIT",
    )
    .await;
    assert_eq!(rows(&mut session, ALL).await, "1|a; 3|C; 4|NULL; 9|u");
}

#[tokio::test]
async fn the_change_feed_and_the_history_tell_what_happened() {
    for vectors in ["on", "off"] {
        let mut session = setup("").await;
        let script = format!(
            "CREATE TABLE t (id INT, v TEXT) WITH ('delta.enableChangeDataFeed' = 'true', deletion_vectors = '{vectors}');
             INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')"
        );
        ok(&mut session, &script).await;
        let statement = "MERGE INTO t USING (VALUES (2, 'B'), (3, 'C'), (9, 'I')) AS s (id, v) ON t.id = s.id \
            WHEN MATCHED AND s.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET * \
            WHEN NOT MATCHED THEN INSERT *";
        assert_eq!(figures(&mut session, statement).await, "3|1|1|1");
        let feed = "SELECT _change_type, id, v FROM table_changes('t', 2) ORDER BY 1, 2";
        assert_eq!(
            rows(&mut session, feed).await,
            "delete|3|c; insert|9|I; update_postimage|2|B; update_preimage|2|b",
            "{vectors}"
        );
        let history = rows(&mut session, "DESCRIBE HISTORY t LIMIT 1").await;
        let copied = if vectors == "on" { 0 } else { 2 };
        for figure in [
            "|MERGE|".to_owned(),
            r#""numSourceRows":"3""#.to_owned(),
            r#""numTargetRowsInserted":"1""#.to_owned(),
            r#""numTargetRowsUpdated":"1""#.to_owned(),
            r#""numTargetRowsDeleted":"1""#.to_owned(),
            format!(r#""numTargetRowsCopied":"{copied}""#),
        ] {
            assert!(history.contains(&figure), "{figure} {vectors}: {history}");
        }
    }
}

#[tokio::test]
async fn a_small_merge_reads_only_the_files_that_can_hold_its_keys() {
    let mut session = setup("CREATE TABLE t (id BIGINT, name TEXT, v INT)").await;
    for file in 0..20 {
        let first = file * 100;
        let insert = format!(
            "INSERT INTO t SELECT value, 'n' || (100000 + value), 0 FROM generate_series({first}, {}) AS g",
            first + 99
        );
        ok(&mut session, &insert).await;
    }
    // Affected, added, removed, scanned, skipped.
    for (source, on, expected) in [
        ("(VALUES (5), (1999)) AS s (k)", "t.id = s.k", "2|1|0|2|18"),
        (
            "(VALUES (5), (1999), (9999)) AS s (k)",
            "s.k = t.id",
            "2|1|0|2|18",
        ),
        (
            "(VALUES (205, 'n100205')) AS s (k, n)",
            "t.name = s.n",
            "1|1|0|1|19",
        ),
        ("(VALUES (-1), (3000)) AS s (k)", "t.id = s.k", "0|0|0|0|20"),
        (
            "(SELECT CAST(NULL AS INT) AS k) AS s",
            "t.id = s.k",
            "0|0|0|0|20",
        ),
        // No key: everything is read.
        ("(VALUES (205)) AS s (k)", "t.id + 0 = s.k", "1|1|0|20|0"),
    ] {
        ok(&mut session, "BEGIN").await;
        let statement =
            format!("MERGE INTO t USING {source} ON {on} WHEN MATCHED THEN UPDATE SET v = 1");
        let all = rows(&mut session, &statement).await;
        let all: Vec<&str> = all.split('|').collect();
        let picked = [0, 5, 6, 7, 8].map(|at: usize| *all.get(at).unwrap());
        assert_eq!(picked.join("|"), expected, "{statement}");
        ok(&mut session, "ROLLBACK").await;
    }
    let insert = "MERGE INTO t USING (VALUES (5), (5000)) AS s (k) ON t.id = s.k \
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.k)";
    assert_eq!(rows(&mut session, insert).await, "2|0|1|1|0|1|0|1|19");
    let by_source = "MERGE INTO t USING (VALUES (5)) AS s (k) ON t.id = s.k \
        WHEN NOT MATCHED BY SOURCE AND t.id >= 5000 THEN DELETE";
    assert!(rows(&mut session, by_source).await.ends_with("|21|0"));
}

#[tokio::test]
async fn explain_shows_the_join_and_changes_nothing() {
    let mut session = setup(TABLES).await;
    let plan = rows(&mut session, &format!("EXPLAIN {UPSERT}")).await;
    for part in [
        "Merge: table=main.t",
        "MergeExec",
        "HashJoinExec",
        "deletion vectors",
    ] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|b; 3|c; 4|NULL");
    let ran = rows(&mut session, &format!("EXPLAIN ANALYZE {UPSERT}")).await;
    assert!(ran.contains("Executed: MERGE rows=3"), "{ran}");
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|B; 3|C; 4|NULL; 9|I");
}

/// Two transactions at once, each with a script; what the second commit says.
async fn second_commit(tables: &str, one: &str, two: &str) -> Result<(), String> {
    let db = database().await;
    let (mut first, mut second) = (session(&db), session(&db));
    ok(&mut first, tables).await;
    for (session, script) in [(&mut first, one), (&mut second, two)] {
        ok(session, "BEGIN").await;
        ok(session, script).await;
    }
    ok(&mut first, "COMMIT").await;
    match second.sql("COMMIT").await {
        Ok(_) => Ok(()),
        Err(error) => {
            assert_eq!(error.sqlstate(), "40001", "{}", chain(&error));
            Err(chain(&error))
        }
    }
}

fn upsert(values: &str, on: &str) -> String {
    format!(
        "MERGE INTO t USING (VALUES {values}) AS s (id, k, v) ON {on} \
         WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
}

#[tokio::test]
async fn bc_02_two_merges_never_insert_the_same_key() {
    let table = "CREATE TABLE t (id INT, k TEXT, v DOUBLE); INSERT INTO t VALUES (1, 'a', 1)";
    let (nine, other) = ("(9, 'x', 1.5)", "(8, 'y', 1.5)");
    let both = "t.id = s.id AND t.k = s.k";
    for (on, one, two, conflict) in [
        ("t.id = s.id", nine, nine, true),
        ("t.id = s.id", nine, other, false),
        ("s.k = t.k", nine, nine, true),
        ("s.k = t.k", nine, other, false),
        ("t.v = s.v", nine, other, true),
        (both, nine, nine, true),
        (both, nine, "(9, 'z', 2)", false),
        // Without columns to look by, any new row may be the one.
        ("t.id IS NOT DISTINCT FROM s.id", nine, nine, true),
        ("t.id + 0 = s.id", nine, nine, true),
        ("t.id = s.id OR t.k = s.k", nine, nine, true),
        // The looked-for key counts, also where another one is written.
        ("t.id = s.id + 1", "(9, 'x', 1)", "(8, 'y', 1)", true),
    ] {
        let done = second_commit(table, &upsert(one, on), &upsert(two, on)).await;
        assert_eq!(done.is_err(), conflict, "{on} {one} {two}: {done:?}");
    }
    // A plain INSERT that comes first counts too; one that comes second promises nothing.
    let insert = "INSERT INTO t VALUES (9, 'q', 0)";
    let merge = upsert(nine, "t.id = s.id");
    second_commit(table, insert, &merge).await.unwrap_err();
    second_commit(table, &merge, insert).await.unwrap();
    // Only changed rows: what others add is nothing to it.
    let update = "MERGE INTO t USING (VALUES (1)) AS s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 2";
    second_commit(table, insert, update).await.unwrap();
    // The same row by both.
    second_commit(table, update, update).await.unwrap_err();
}

#[tokio::test]
async fn bc_02_many_writers_leave_one_row() {
    let db = database().await;
    ok(
        &mut session(&db),
        "CREATE TABLE t (id INT, k TEXT, v DOUBLE)",
    )
    .await;
    let writers = (0..6).map(|writer| {
        let db = db.clone();
        async move {
            let statement = upsert(&format!("(9, 'x', {writer})"), "t.id = s.id");
            ok(&mut session(&db), &statement).await;
        }
    });
    futures::future::join_all(writers).await;
    let mut session = session(&db);
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "1");
}

#[tokio::test]
async fn bc_08_an_upsert_is_idempotent_for_any_partition_value() {
    let groups = [
        "North East",
        "a/b",
        "50%",
        "a:b",
        "a+b",
        "a=b",
        "a#b",
        "a?b",
        "it''s",
        "\"q\"",
        "Z\u{fc}rich",
        "",
    ];
    let mut session = setup("CREATE TABLE t (grp TEXT, id INT, v INT) PARTITIONED BY (grp)").await;
    let values = groups.iter().enumerate();
    let values = values.map(|(id, group)| format!("('{group}', {id}, 1)"));
    let values = values.collect::<Vec<_>>().join(", ");
    let statement = format!(
        "MERGE INTO t USING (VALUES {values}) AS s (grp, id, v) ON t.id = s.id \
         WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    );
    assert_eq!(figures(&mut session, &statement).await, "12|0|0|12");
    let before = rows(&mut session, "SELECT * FROM t ORDER BY id").await;
    for _ in 0..2 {
        let all = rows(&mut session, &statement).await;
        assert!(all.starts_with("12|12|0|0|0|12|12|12|"), "{all}");
        assert_eq!(
            rows(&mut session, "SELECT * FROM t ORDER BY id").await,
            before
        );
    }
}

#[tokio::test]
async fn bc_09_null_keys_match_nothing_and_a_notice_says_so() {
    let script = "CREATE TABLE t (k1 INT, k2 INT, v TEXT); INSERT INTO t VALUES (1, NULL, 'a')";
    let source = "MERGE INTO t USING (SELECT 1 AS k1, CAST(NULL AS INT) AS k2, 'b' AS v) s ON t.k1 = s.k1 AND";
    let clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
    let mut session = setup(script).await;
    for inserted in [2, 3] {
        ok(&mut session, &format!("{source} t.k2 = s.k2 {clauses}")).await;
        let notices = session.take_notices();
        assert!(
            notices.iter().any(|n| n.contains("NULL for k2")),
            "{notices:?}"
        );
        assert_eq!(
            rows(&mut session, "SELECT count(*) FROM t").await,
            inserted.to_string()
        );
    }
    let mut session = setup(script).await;
    for _ in 0..2 {
        ok(
            &mut session,
            &format!("{source} t.k2 IS NOT DISTINCT FROM s.k2 {clauses}"),
        )
        .await;
        assert_eq!(rows(&mut session, "SELECT * FROM t").await, "1|NULL|b");
    }
}

#[tokio::test]
async fn bc_11_not_null_is_asked_of_written_rows_and_names_ignore_case() {
    for evolution in ["", "WITH SCHEMA EVOLUTION"] {
        let mut session = setup(
            "CREATE TABLE t (createdAt BIGINT NOT NULL, id TEXT, n INT);
             INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2);
             CREATE TABLE s (CREATEDAT BIGINT, Id TEXT, N INT);
             INSERT INTO s VALUES (5, 'b', 20), (6, 'c', 30)",
        )
        .await;
        let clauses = "INTO t USING s ON T.Id = S.iD WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
        let statement = format!("MERGE {evolution} {clauses}");
        assert_eq!(figures(&mut session, &statement).await, "2|1|0|1");
        for name in ["createdat", "CREATEDAT", "\"createdAt\""] {
            let query = format!("SELECT {name}, id, n FROM t ORDER BY id");
            assert_eq!(
                rows(&mut session, &query).await,
                "1|a|1; 5|b|20; 6|c|30",
                "{name}"
            );
        }
        ok(&mut session, "INSERT INTO s VALUES (NULL, 'd', 4)").await;
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), "23502");
        assert!(error.to_string().contains("createdAt"), "{error}");
    }
}

#[tokio::test]
async fn ex_04_a_row_matched_twice_is_an_error_where_both_would_change_it() {
    let merge =
        "MERGE INTO t USING (VALUES (2, 'x'), (2, 'y'), (3, 'z')) AS s (id, v) ON t.id = s.id";
    for (clauses, expected) in [
        ("WHEN MATCHED THEN UPDATE SET v = s.v", None),
        (
            "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = 'u' WHEN MATCHED THEN DELETE",
            None,
        ),
        ("WHEN MATCHED AND s.v < 'z' THEN DELETE", None),
        (
            "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = s.v",
            Some("1|a; 2|x; 3|c; 4|NULL"),
        ),
        (
            "WHEN MATCHED AND s.v = 'y' THEN DO NOTHING WHEN MATCHED THEN UPDATE SET v = s.v",
            Some("1|a; 2|x; 3|z; 4|NULL"),
        ),
        ("WHEN MATCHED THEN DELETE", Some("1|a; 4|NULL")),
    ] {
        let mut session = setup(TABLES).await;
        let statement = format!("{merge} {clauses}");
        match expected {
            Some(left) => {
                ok(&mut session, &statement).await;
                assert_eq!(rows(&mut session, ALL).await, left, "{clauses}");
            }
            None => {
                let error = err(&mut session, &statement).await;
                assert_eq!(error.sqlstate(), "21000", "{clauses}");
                assert!(error.to_string().contains("main.t"), "{error}");
                assert_eq!(
                    rows(&mut session, ALL).await,
                    "1|a; 2|b; 3|c; 4|NULL",
                    "{clauses}"
                );
            }
        }
    }
}
