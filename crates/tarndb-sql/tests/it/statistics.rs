//! Answers from the log's statistics: the same as from the files, with fewer files read.

use crate::pruning::{COLUMNS, NANS, many_files};
use crate::support::*;

/// Asks for counts and bounds of each column, by the log where it can answer and by reading every
/// row: the filter keeps all rows, which no statistics know.
async fn log_and_files_agree(session: &mut tarndb_sql::Session, table: &str, columns: &[&str]) {
    let aggregates = |column: &&str| format!("count({column}), min({column}), max({column})");
    let asked = columns.iter().map(aggregates).collect::<Vec<_>>();
    let every = format!("SELECT count(*), {} FROM {table}", asked.join(", "));
    let by_rows = rows(session, &format!("{every} WHERE random() < 2")).await;
    assert_eq!(rows(session, &every).await, by_rows, "{every}");
    let cells = by_rows.split('|').collect::<Vec<_>>();
    let count = rows(session, &format!("SELECT count(*) FROM {table}")).await;
    let (counted, bounds) = cells.split_first().unwrap();
    assert_eq!(&count, counted, "{table}");
    for (asked, expected) in asked.iter().zip(bounds.chunks(3)) {
        let query = format!("SELECT {asked} FROM {table}");
        assert_eq!(rows(session, &query).await, expected.join("|"), "{query}");
    }
}

async fn explained(session: &mut tarndb_sql::Session, query: &str) -> String {
    rows(session, &format!("EXPLAIN {query}")).await
}

#[tokio::test]
async fn the_log_and_the_files_give_one_answer() {
    let mut session = many_files().await;
    let columns = COLUMNS.iter().map(|(column, _)| *column);
    let columns = columns.chain(["id"]).collect::<Vec<_>>();
    log_and_files_agree(&mut session, "m", &columns).await;
    for change in [
        "UPDATE m SET i = i + 1 WHERE id IN (7, 8, 30)",
        "DELETE FROM m WHERE p = 0",
        "DELETE FROM m WHERE i IS NOT NULL AND id < 12",
        "INSERT INTO m (id, s, ts) VALUES (99, 'a string of more than thirty-two characters, cut',
           TIMESTAMPTZ '2030-01-01 00:00:00.999999Z')",
        "DELETE FROM m WHERE id > 98",
        "DELETE FROM m",
    ] {
        ok(&mut session, change).await;
        log_and_files_agree(&mut session, "m", &columns).await;
        // The same within a transaction that has changed the table.
        ok(
            &mut session,
            "BEGIN; INSERT INTO m (id, i) VALUES (-5, NULL); DELETE FROM m WHERE id = 20",
        )
        .await;
        log_and_files_agree(&mut session, "m", &["id", "i", "p"]).await;
        ok(&mut session, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn floats_and_changed_schemas_are_answered_by_the_files() {
    let mut session = setup(NANS).await;
    log_and_files_agree(&mut session, "nz", &["id", "d", "r"]).await;
    ok(
        &mut session,
        "CREATE TABLE z (d DOUBLE); INSERT INTO z VALUES (-0.0), (0.0);
         CREATE TABLE e (a INT, b TEXT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name',
           'delta.enableTypeWidening' = 'true');
         INSERT INTO e VALUES (1, 'x'), (2, NULL);
         ALTER TABLE e ADD COLUMN c INT",
    )
    .await;
    log_and_files_agree(&mut session, "z", &["d"]).await;
    log_and_files_agree(&mut session, "e", &["a", "b", "c"]).await;
    for change in [
        "INSERT INTO e VALUES (7, 'y', 5)",
        "ALTER TABLE e RENAME COLUMN a TO k; ALTER TABLE e RENAME COLUMN b TO a;
         ALTER TABLE e RENAME COLUMN k TO b",
        "INSERT INTO e VALUES (NULL, 'm', -3)",
        "ALTER TABLE e DROP COLUMN c; ALTER TABLE e ADD COLUMN c INT",
        "INSERT INTO e VALUES (100, 'zz', 1)",
        "ALTER TABLE e ALTER COLUMN b TYPE BIGINT",
        "INSERT INTO e VALUES (5000000000, 'zzz', 1)",
    ] {
        ok(&mut session, change).await;
        log_and_files_agree(&mut session, "e", &["a", "b", "c"]).await;
    }
}

#[tokio::test]
async fn counts_and_exact_bounds_read_no_file() {
    let mut session = setup(
        "CREATE TABLE t (id INT, s TEXT, ts TIMESTAMPTZ, p INT) PARTITIONED BY (p);
         INSERT INTO t SELECT x, 'k' || x, TIMESTAMPTZ '2024-01-01 00:00:00Z', x % 3
           FROM generate_series(1, 100) g (x)",
    )
    .await;
    let all = "SELECT count(*), count(id), min(id), max(id), min(s), max(s), min(p), max(p) FROM t";
    assert!(
        !explained(&mut session, all)
            .await
            .contains("DataSourceExec")
    );
    assert_eq!(rows(&mut session, all).await, "100|100|1|100|k1|k99|0|2");
    // Of milliseconds only.
    let ts = explained(&mut session, "SELECT max(ts) FROM t").await;
    assert!(ts.contains("DataSourceExec"), "{ts}");

    ok(&mut session, "DELETE FROM t WHERE id IN (1, 100)").await;
    for (query, answer) in [
        ("SELECT count(*) FROM t", "98"),
        ("SELECT max(p) FROM t", "2"),
    ] {
        let plan = explained(&mut session, query).await;
        assert!(!plan.contains("DataSourceExec"), "{plan}");
        assert_eq!(rows(&mut session, query).await, answer);
    }
    let bounds = "SELECT min(id), max(id) FROM t";
    assert!(
        explained(&mut session, bounds)
            .await
            .contains("DataSourceExec")
    );
    assert_eq!(rows(&mut session, bounds).await, "2|99");
    // Every other query that needs no column.
    assert_eq!(
        rows(
            &mut session,
            "SELECT count(*) FROM t a, t b, (SELECT 1 FROM t LIMIT 3)"
        )
        .await,
        (98 * 98 * 3).to_string()
    );
}

#[tokio::test]
async fn a_join_and_a_top_n_leave_out_files_by_the_log() {
    let mut session = setup("CREATE TABLE big (id INT, v INT); CREATE TABLE few (id INT)").await;
    for file in 0..8 {
        let insert = format!(
            "INSERT INTO big SELECT x, x FROM generate_series({}, {}) g (x)",
            file * 100,
            file * 100 + 99
        );
        ok(&mut session, &insert).await;
    }
    ok(&mut session, "INSERT INTO few VALUES (310), (320)").await;
    for (query, answer) in [
        (
            "SELECT big.v FROM few JOIN big ON few.id = big.id ORDER BY 1",
            "310; 320",
        ),
        ("SELECT v FROM big ORDER BY id DESC LIMIT 2", "799; 798"),
    ] {
        assert_eq!(rows(&mut session, query).await, answer, "{query}");
        let metrics = rows(&mut session, &format!("EXPLAIN ANALYZE {query}")).await;
        let pruned = metrics.split("files_ranges_pruned_statistics=8 total");
        let pruned = pruned.last().unwrap_or_default();
        assert!(pruned.starts_with(" \u{2192} 1 matched"), "{metrics}");
    }
    let limited = explained(&mut session, "SELECT id FROM big LIMIT 150").await;
    assert!(limited.contains("2 group"), "{limited}");
    let limited = rows(
        &mut session,
        "SELECT count(*) FROM (SELECT v FROM big LIMIT 150)",
    )
    .await;
    assert_eq!(limited, "150");
}

/// A table by path whose log tells bounds that contain the values, and are not values.
#[tokio::test]
async fn bounds_of_other_writers_are_no_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut session = setup("").await;
    ok(
        &mut session,
        &format!("COPY (SELECT x AS id, 'k' AS s FROM generate_series(1, 6) g (x)) TO '{path}/part.parquet'"),
    )
    .await;
    let size = std::fs::metadata(format!("{path}/part.parquet"))
        .unwrap()
        .len();
    std::fs::create_dir(format!("{path}/_delta_log")).unwrap();
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"s\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}"#;
    let stats = r#"{\"numRecords\":6,\"minValues\":{\"id\":0,\"s\":\"a\"},\"maxValues\":{\"id\":100,\"s\":\"z\"},\"nullCount\":{\"id\":1,\"s\":0}}"#;
    let log = format!(
        r#"{{"protocol":{{"minReaderVersion":1,"minWriterVersion":2}}}}
{{"metaData":{{"id":"9c3b2a10-0000-4000-8000-000000000002","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}
{{"add":{{"path":"part.parquet","partitionValues":{{}},"size":{size},"modificationTime":1700000000000,"dataChange":true,"stats":"{stats}"}}}}
"#
    );
    std::fs::write(format!("{path}/_delta_log/00000000000000000000.json"), log).unwrap();
    let query = format!(
        "SELECT count(*), count(id), min(id), max(id), min(s), max(s) FROM delta_scan('{path}')"
    );
    assert_eq!(rows(&mut session, &query).await, "6|6|1|6|k|k");
}
