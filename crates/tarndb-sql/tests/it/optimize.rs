//! OPTIMIZE in SQL: files are joined, put in order, left alone; rows stay what they are.

use tarndb_sql::{Session, SqlError};

use crate::support::*;

/// One value of the only row.
async fn figure(session: &mut Session, statement: &str, column: &str) -> String {
    let names = columns(session, "OPTIMIZE nothing_to_do").await;
    let at = names.iter().position(|name| name == column).unwrap();
    let row = rows(session, statement).await;
    row.split('|').nth(at).unwrap().to_owned()
}

/// A table of five small files and an empty one to ask for columns.
async fn small_files() -> Session {
    let mut session =
        setup("CREATE TABLE nothing_to_do (x BIGINT); CREATE TABLE t (a BIGINT, b TEXT)").await;
    for i in 0..5 {
        let insert = format!(
            "INSERT INTO t SELECT v * 7 % 100 + {i}, 'x' || v FROM generate_series(1, 50) g(v)"
        );
        ok(&mut session, &insert).await;
    }
    session
}

const DIGEST: &str = "SELECT count(*), sum(a), count(DISTINCT b), min(b), max(b) FROM t";

#[tokio::test]
async fn small_files_become_one_and_the_history_tells_it() {
    let mut session = small_files().await;
    let before = rows(&mut session, DIGEST).await;
    let row = rows(&mut session, "OPTIMIZE t").await;
    assert!(row.starts_with("5|1|"), "{row}");
    assert!(row.ends_with("|250|0|0|0|8|kept"), "{row}");
    assert_eq!(rows(&mut session, DIGEST).await, before);
    let again = rows(&mut session, "OPTIMIZE t").await;
    assert_eq!(again, "0|0|0|0|0|0|0|0|NULL|NULL");
    let full = rows(&mut session, "OPTIMIZE TABLE main.t FULL").await;
    assert!(full.starts_with("1|1|"), "{full}");
    let told = rows(&mut session, "DESCRIBE HISTORY t LIMIT 1").await;
    assert!(
        told.contains("OPTIMIZE") && told.contains("numRemovedFiles"),
        "{told}"
    );
}

#[tokio::test]
async fn where_leaves_files_alone_that_cannot_match() {
    let mut session = setup(
        "CREATE TABLE nothing_to_do (x BIGINT); CREATE TABLE t (a BIGINT, p TEXT) PARTITIONED BY (p)",
    )
    .await;
    for i in 0..6 {
        let p = ["x", "y"][i % 2];
        let insert =
            format!("INSERT INTO t SELECT {i} * 100 + v, '{p}' FROM generate_series(1, 10) g(v)");
        ok(&mut session, &insert).await;
    }
    let one = figure(
        &mut session,
        "OPTIMIZE t WHERE p = 'x' AND a < 350",
        "files_removed",
    )
    .await;
    assert_eq!(one, "2");
    let rest = figure(&mut session, "OPTIMIZE t WHERE p = 'y'", "files_removed").await;
    assert_eq!(rest, "3");
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(a) FROM t").await,
        "60|15330"
    );
    let error = err(&mut session, "OPTIMIZE t WHERE nope = 1").await;
    assert_eq!(error.sqlstate(), "42703");
}

#[tokio::test]
async fn zorder_makes_filters_on_each_column_read_few_files() {
    let mut session = setup(
        "CREATE TABLE t (x BIGINT, y BIGINT, pad TEXT) WITH ('tarndb.targetFileSize' = '32KB'); \
         INSERT INTO t SELECT v * 7919 % 100, v * 104729 % 101, md5(v::text) || md5((v * 3)::text) \
         FROM generate_series(1, 20000) g(v)",
    )
    .await;
    let sums = "SELECT count(*), sum(x), sum(y), sum(length(pad)), count(DISTINCT pad) FROM t";
    let before = rows(&mut session, sums).await;
    let row = rows(&mut session, "OPTIMIZE t ZORDER BY (x, y)").await;
    let files: u64 = row.split('|').nth(1).unwrap().parse().unwrap();
    assert!(files > 15, "{row}");
    assert_eq!(rows(&mut session, sums).await, before);
    for filter in ["x = 40", "y = 40"] {
        let plan = rows(
            &mut session,
            &format!("EXPLAIN SELECT * FROM t WHERE {filter}"),
        )
        .await;
        let read = plan.matches(".parquet").count() as u64;
        assert!(read * 2 < files, "{filter}: {read} of {files}\n{plan}");
    }
    for (filter, expected) in [("x = 40", "200"), ("x = 40 AND y = 40", "2")] {
        let count = format!("SELECT count(*) FROM t WHERE {filter}");
        assert_eq!(rows(&mut session, &count).await, expected);
    }
}

#[tokio::test]
async fn a_clustered_table_is_put_in_the_order_of_its_columns() {
    let mut session = small_files().await;
    ok(&mut session, "ALTER TABLE t CLUSTER BY (a)").await;
    let removed = figure(&mut session, "OPTIMIZE t", "files_removed").await;
    assert_eq!(removed, "5");
    assert_eq!(
        figure(&mut session, "OPTIMIZE t", "files_removed").await,
        "0"
    );
    let sorted = rows(&mut session, "SELECT a FROM t").await;
    let values: Vec<i64> = sorted.split("; ").map(|v| v.parse().unwrap()).collect();
    assert!(values.is_sorted(), "{sorted}");
    let told = rows(&mut session, "DESCRIBE HISTORY t LIMIT 1").await;
    assert!(told.contains("clusterBy"), "{told}");
    let refused = err(&mut session, "OPTIMIZE t ZORDER BY (b)").await;
    assert_eq!(refused.sqlstate(), "0A000");
    // The mark goes with the files through a deletion.
    ok(&mut session, "DELETE FROM t WHERE a = 50").await;
    assert_eq!(
        figure(&mut session, "OPTIMIZE t", "files_removed").await,
        "0"
    );
}

#[tokio::test]
async fn clustering_keeps_row_ids_nested_fields_and_renamed_columns() {
    let mut session = setup(
        "CREATE TABLE t (a BIGINT, s STRUCT<x: BIGINT, y: TEXT>) \
         WITH ('delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name'); \
         INSERT INTO t SELECT v, named_struct('x', 100 - v, 'y', 'v' || v) FROM generate_series(1, 50) g(v); \
         INSERT INTO t VALUES (0, NULL); ALTER TABLE t RENAME COLUMN a TO b; \
         ALTER TABLE t ADD COLUMN c BIGINT; INSERT INTO t VALUES (7, NULL, 3)",
    )
    .await;
    let digest =
        "SELECT count(*), sum(b), sum(s['x']), count(s), min(c), count(DISTINCT s['y']) FROM t";
    let before = rows(&mut session, digest).await;
    ok(&mut session, "ALTER TABLE t CLUSTER BY (s.x, b)").await;
    ok(&mut session, "OPTIMIZE t").await;
    assert_eq!(rows(&mut session, digest).await, before);
    ok(&mut session, "OPTIMIZE t FULL").await;
    assert_eq!(rows(&mut session, digest).await, before);
    let report = session.database().check(true, |_| {}).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[tokio::test]
async fn what_optimize_does_not_do_is_refused_by_name() {
    let mut session = small_files().await;
    for (statement, state) in [
        ("OPTIMIZE nope", "42P01"),
        ("OPTIMIZE t ZORDER BY (nope)", "22000"),
        ("OPTIMIZE t ZORDER BY ()", "42601"),
        ("OPTIMIZE t ZORDER (a)", "42601"),
        ("OPTIMIZE delta.`/nowhere/t`", "0A000"),
        ("BEGIN; OPTIMIZE t", "0A000"),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {error}");
        let _ = session.sql("ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_table_dropped_while_it_is_optimized_is_named() {
    let mut session = small_files().await;
    let id = {
        let snapshot = session.database().snapshot().await.unwrap();
        snapshot.find("main", "t").unwrap().id
    };
    ok(&mut session, "DROP TABLE t; CREATE TABLE t (a BIGINT)").await;
    let compacted = session.database().compact(id, &Default::default()).await;
    let error = SqlError::from(compacted.unwrap_err());
    assert_eq!(error.sqlstate(), "42P01");
    assert!(
        error.to_string().contains("main.t was dropped or replaced"),
        "{error}"
    );
}

#[tokio::test]
async fn a_sort_that_spills_gives_the_same_rows_and_leaves_no_files_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = setup("CREATE TABLE t (x BIGINT, y BIGINT, pad TEXT)").await;
    let limits = format!(
        "SET tarndb.temp_dir = '{}'; SET tarndb.memory_limit = '32MB'",
        folder.path().display()
    );
    ok(&mut session, &limits).await;
    ok(
        &mut session,
        "INSERT INTO t SELECT v * 7919 % 1000, v, repeat(md5(v::text), 8) FROM generate_series(1, 80000) g(v)",
    )
    .await;
    let digest = "SELECT count(*), sum(x), sum(y), sum(length(pad)), min(pad), max(pad) FROM t";
    let before = rows(&mut session, digest).await;
    ok(&mut session, "OPTIMIZE t ZORDER BY (x, y)").await;
    assert_eq!(rows(&mut session, digest).await, before);
    // The folder of the engine is there because it was needed, and empty.
    let folders = std::fs::read_dir(folder.path()).unwrap();
    let folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    assert!(!folders.is_empty(), "nothing was spilled");
    let left = folders
        .iter()
        .flat_map(|path| std::fs::read_dir(path).unwrap());
    assert_eq!(left.count(), 0);
}
