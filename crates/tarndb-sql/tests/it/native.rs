//! delta.`<path>`: tables by path, read and changed by statements of their own.

use tarndb_table::{DataType, Field};

use crate::support::*;

/// A folder whose name needs its case, with an empty table.
async fn table(properties: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let fields = vec![
        Field::new("Id", DataType::Integer, false),
        Field::new("name", DataType::String, true),
    ];
    table_by_path(fields, &[], properties).await
}

#[tokio::test]
async fn statements_change_a_table_by_its_path_and_queries_read_it() {
    for properties in [&[][..], &[("delta.enableDeletionVectors", "true")][..]] {
        let (_guard, path) = table(properties).await;
        let mut session = setup("CREATE TABLE s (id INT, name TEXT)").await;
        let t = format!("delta.`{path}`");
        let insert = format!("INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)");
        assert_eq!(count(&mut session, &insert).await, 4);
        let update = format!("UPDATE {t} AS x SET NAME = x.name || id WHERE x.id >= 2");
        assert_eq!(count(&mut session, &update).await, 3);
        let delete = format!("DELETE FROM {t} WHERE ID = 2");
        assert_eq!(count(&mut session, &delete).await, 1);
        let query = format!("SELECT * FROM DELTA.\"{path}\" ORDER BY id");
        assert_eq!(rows(&mut session, &query).await, "1|a; 3|c3; 4|NULL");
        assert_eq!(columns(&mut session, &query).await, ["Id", "name"]);
        // Beside tables of the database, and from the table itself.
        ok(&mut session, &format!("INSERT INTO s SELECT * FROM {t}")).await;
        let both =
            format!("INSERT INTO {t} (id) SELECT s.id + 10 FROM s JOIN {t} t ON t.id = s.id");
        assert_eq!(count(&mut session, &both).await, 3);
        let many = format!("DELETE FROM {t} WHERE id > (SELECT avg(id) FROM {t})");
        assert_eq!(count(&mut session, &many).await, 3);
        let overwrite = format!("INSERT OVERWRITE {t} VALUES (9, 'z')");
        assert_eq!(count(&mut session, &overwrite).await, 1);
        assert_eq!(rows(&mut session, &query).await, "9|z");
        assert_eq!(count(&mut session, &format!("TRUNCATE TABLE {t}")).await, 1);
        assert_eq!(rows(&mut session, &query).await, "");
    }
}

#[tokio::test]
async fn not_null_is_checked_and_what_is_no_table_is_told_by_its_path() {
    let (_guard, path) = table(&[]).await;
    let mut session = setup("").await;
    let error = err(
        &mut session,
        &format!("INSERT INTO delta.`{path}` VALUES (NULL, 'a')"),
    )
    .await;
    assert_eq!(error.sqlstate(), "23502", "{error}");
    let error = err(
        &mut session,
        &format!("INSERT INTO delta.`{path}/no` VALUES (1, 'a')"),
    )
    .await;
    assert_eq!(error.sqlstate(), "58P01", "{error}");
    assert!(error.to_string().contains("My Table/no"), "{error}");
    let error = err(&mut session, &format!("DROP TABLE delta.`{path}`")).await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
}

#[tokio::test]
async fn transaction_reads_a_table_by_path_at_its_first_read_and_does_not_change_it() {
    let (_guard, path) = table(&[]).await;
    let mut session = setup("CREATE TABLE s (id INT)").await;
    let mut other = session_of_its_own(&session);
    let t = format!("delta.`{path}`");
    ok(&mut session, &format!("INSERT INTO {t} VALUES (1, 'a')")).await;
    ok(&mut session, "BEGIN").await;
    let query = format!("SELECT count(*) FROM {t}");
    assert_eq!(rows(&mut session, &query).await, "1");
    ok(&mut other, &format!("INSERT INTO {t} VALUES (2, 'b')")).await;
    assert_eq!(rows(&mut session, &query).await, "1");
    let error = err(&mut session, &format!("DELETE FROM {t}")).await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
    ok(&mut session, "ROLLBACK").await;
    assert_eq!(rows(&mut session, &query).await, "2");
    ok(&mut session, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    ok(&mut session, &format!("INSERT INTO s SELECT id FROM {t}")).await;
    let error = err(&mut session, "COMMIT").await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
    assert_eq!(rows(&mut session, "SELECT count(*) FROM s").await, "0");
}

fn session_of_its_own(session: &tarndb_sql::Session) -> tarndb_sql::Session {
    crate::support::session(session.database())
}

#[tokio::test]
async fn sessions_that_change_one_table_by_path_at_once_lose_nothing() {
    let (_guard, path) = table(&[]).await;
    let first = setup("").await;
    let t = format!("delta.`{path}`");
    let work = |number: i64| {
        let mut session = session_of_its_own(&first);
        let t = t.clone();
        async move {
            for round in 0..4 {
                let id = number * 100 + round;
                ok(
                    &mut session,
                    &format!("INSERT INTO {t} VALUES ({id}, 'x'), ({}, 'y')", id + 50),
                )
                .await;
                let update = format!("UPDATE {t} SET name = 'z' WHERE id = {id}");
                assert_eq!(count(&mut session, &update).await, 1);
                let delete = format!("DELETE FROM {t} WHERE id = {}", id + 50);
                assert_eq!(count(&mut session, &delete).await, 1);
            }
        }
    };
    futures::future::join_all((0..3).map(work)).await;
    let mut session = session_of_its_own(&first);
    let query = format!("SELECT count(*), count(DISTINCT id), min(name), max(name) FROM {t}");
    assert_eq!(rows(&mut session, &query).await, "12|12|z|z");
}

#[tokio::test]
async fn folder_of_parquet_files_is_converted_once_and_then_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut session = setup("CREATE TABLE s (id INT); INSERT INTO s VALUES (1), (2)").await;
    std::fs::create_dir_all(format!("{path}/day=2024-01-02")).unwrap();
    ok(
        &mut session,
        &format!("COPY s TO '{path}/day=2024-01-02/x.parquet'"),
    )
    .await;
    let convert = format!("CONVERT TO DELTA '{path}' PARTITIONED BY (day DATE)");
    ok(&mut session, &convert).await;
    assert!(session.take_notices()[0].contains("1 files and 2 rows"));
    ok(&mut session, &convert).await;
    assert!(session.take_notices()[0].contains("already"));
    let delete = format!("DELETE FROM delta.`{path}` WHERE id = 1 AND day = DATE '2024-01-02'");
    assert_eq!(count(&mut session, &delete).await, 1);
    let query = format!("SELECT * FROM delta.`{path}`");
    assert_eq!(rows(&mut session, &query).await, "2|2024-01-02");
    let error = err(&mut session, &format!("CONVERT TO DELTA '{path}/nothing'")).await;
    assert!(
        error.to_string().contains("no file ends in .parquet"),
        "{error}"
    );
    ok(&mut session, "BEGIN").await;
    let error = err(&mut session, &convert).await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
}

#[tokio::test]
async fn table_by_path_is_altered_by_the_statements_of_other_tables() {
    let (_guard, path) = table(&[]).await;
    let mut session = setup("").await;
    let t = format!("delta.`{path}`");
    ok(
        &mut session,
        &format!("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')"),
    )
    .await;
    for (statement, expected) in [
        (format!("ALTER TABLE {t} ADD COLUMN n INT"), ""),
        (
            format!("ALTER TABLE {t} ADD COLUMN IF NOT EXISTS N INT"),
            "",
        ),
        (
            format!("ALTER TABLE {t} RENAME COLUMN name TO label"),
            "columnMapping",
        ),
        (
            format!("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT"),
            "typeWidening",
        ),
        (
            format!("ALTER TABLE {t} ADD CONSTRAINT small CHECK (Id < 100)"),
            "",
        ),
        (
            format!("ALTER TABLE {t} ALTER COLUMN label SET DEFAULT 'none'"),
            "",
        ),
        (
            format!("ALTER TABLE {t} ALTER COLUMN label SET NOT NULL"),
            "",
        ),
        (
            format!("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"),
            "",
        ),
        (format!("COMMENT ON TABLE {t} IS 'by path'"), ""),
        (format!("ALTER TABLE {t} CLUSTER BY (n)"), ""),
        (format!("ALTER TABLE {t} CLUSTER BY NONE"), ""),
        (format!("ALTER TABLE {t} DROP FEATURE clustering"), ""),
        (
            format!("ALTER TABLE {t} DROP CONSTRAINT IF EXISTS other"),
            "",
        ),
        (
            format!("ALTER TABLE IF EXISTS delta.`{path}/no` ADD COLUMN x INT"),
            "does not exist",
        ),
    ] {
        ok(&mut session, &statement).await;
        let notices = session.take_notices().join("; ");
        assert_eq!(
            notices.is_empty(),
            expected.is_empty(),
            "{statement}: {notices}"
        );
        assert!(notices.contains(expected), "{statement}: {notices}");
    }
    ok(
        &mut session,
        &format!("INSERT INTO {t} (id, n) VALUES (3, 7)"),
    )
    .await;
    let update = format!("UPDATE {t} SET n = 8 WHERE id = 1");
    assert_eq!(count(&mut session, &update).await, 1);
    let query = format!("SELECT * FROM {t} ORDER BY id");
    assert_eq!(
        rows(&mut session, &query).await,
        "1|a|8; 2|b|NULL; 3|none|7"
    );
    for (statement, state) in [
        (format!("INSERT INTO {t} VALUES (100, 'x', 1)"), "23514"),
        (
            format!("ALTER TABLE {t} ADD CONSTRAINT few CHECK (Id < 3)"),
            "23514",
        ),
        (format!("ALTER TABLE {t} DROP COLUMN nothing"), "42703"),
        (format!("ALTER TABLE {t} RENAME TO u"), "0A000"),
    ] {
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {error}");
    }
    ok(
        &mut session,
        &format!("ALTER TABLE {t} DROP CONSTRAINT small"),
    )
    .await;
    ok(&mut session, &format!("ALTER TABLE {t} DROP COLUMN n")).await;
    assert_eq!(rows(&mut session, &query).await, "1|a; 2|b; 3|none");
    ok(&mut session, "BEGIN").await;
    let error = err(&mut session, &format!("ALTER TABLE {t} ADD COLUMN y INT")).await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
}

#[tokio::test]
async fn updates_of_a_table_by_path_tell_old_and_new_forms_in_its_feed() {
    let (_guard, path) = table(&[("delta.enableChangeDataFeed", "true")]).await;
    let mut session = setup("").await;
    let t = format!("delta.`{path}`");
    ok(
        &mut session,
        &format!("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')"),
    )
    .await;
    let update = format!("UPDATE {t} SET name = 'z' WHERE id = 2");
    assert_eq!(count(&mut session, &update).await, 1);
    let log = std::fs::read_to_string(format!("{path}/_delta_log/00000000000000000002.json"));
    let log = log.unwrap();
    assert_eq!(log.matches("{\"cdc\":").count(), 1, "{log}");
    let folder = std::fs::read_dir(format!("{path}/_change_data")).unwrap();
    let file = folder.map(|file| file.unwrap().path()).next().unwrap();
    let query = format!(
        "SELECT name, _change_type FROM read_parquet('{}') ORDER BY name",
        file.to_str().unwrap()
    );
    let expected = "b|update_preimage; z|update_postimage";
    assert_eq!(rows(&mut session, &query).await, expected);
}

#[tokio::test]
async fn a_table_by_path_is_restored_outside_of_transactions() {
    for properties in [&[][..], &[("delta.enableDeletionVectors", "true")][..]] {
        let (_guard, path) = table(properties).await;
        let mut session = setup("CREATE TABLE s (id INT)").await;
        let t = format!("delta.`{path}`");
        ok(
            &mut session,
            &format!("INSERT INTO {t} VALUES (1, 'a'), (2, 'b'); DELETE FROM {t} WHERE id = 1"),
        )
        .await;
        let query = format!("SELECT id FROM {t} ORDER BY id");
        for (version, expected) in [(1, "1; 2"), (2, "2"), (0, ""), (0, "")] {
            let restore = format!("RESTORE TABLE {t} TO VERSION AS OF {version}");
            let figures = rows(&mut session, &restore).await;
            assert_eq!(figures.split('|').count(), 6, "{figures}");
            assert_eq!(rows(&mut session, &query).await, expected, "{version}");
        }
        let gone = err(&mut session, &format!("RESTORE {t} TO VERSION AS OF 9")).await;
        assert!(chain(&gone).contains('9'), "{}", chain(&gone));
        let inside = format!("BEGIN; RESTORE {t} TO VERSION AS OF 1");
        let refused = err(&mut session, &inside).await;
        assert_eq!(refused.sqlstate(), "0A000", "{}", chain(&refused));
    }
}
