//! What a scan leaves out: never a row that a query asks for.

use crate::support::*;

/// Rows with NaN beside others in the same file and row group.
pub(crate) const NANS: &str = "
    CREATE TABLE nz (id INT, d DOUBLE, r REAL, s STRUCT<f DOUBLE>);
    INSERT INTO nz VALUES (1, 1e0, 1, named_struct('f', 1.5)),
      (2, 'NaN', 'NaN', named_struct('f', CAST('NaN' AS DOUBLE))), (3, 'inf', -2, NULL);
    INSERT INTO nz VALUES (4, 2.5, 2.5, NULL), (5, NULL, NULL, NULL);
    INSERT INTO nz VALUES (6, 'NaN', 'NaN', NULL)";

const NAN_QUERIES: &[(&str, &str)] = &[
    ("WHERE d > CAST('-inf' AS DOUBLE)", "1; 2; 3; 4; 6"),
    ("WHERE d <> -1", "1; 2; 3; 4; 6"),
    ("WHERE d = CAST('NaN' AS DOUBLE)", "2; 6"),
    ("WHERE d > 1e308", "2; 3; 6"),
    ("WHERE d >= 2.5 AND id < 5", "2; 3; 4"),
    ("WHERE NOT (d <= 2.5)", "2; 3; 6"),
    ("WHERE r > 100", "2; 6"),
    ("WHERE r IN (CAST('NaN' AS REAL), 2.5)", "2; 4; 6"),
    ("WHERE d BETWEEN 2 AND CAST('NaN' AS DOUBLE)", "2; 3; 4; 6"),
];

#[tokio::test]
async fn rows_with_nan_are_found() {
    let mut session = setup(NANS).await;
    for (filter, expected) in NAN_QUERIES {
        let query = format!("SELECT id FROM nz {filter} ORDER BY id");
        assert_eq!(rows(&mut session, &query).await, *expected, "{query}");
    }
    for (query, expected) in [
        (
            "SELECT id FROM nz WHERE id < 4 ORDER BY d DESC LIMIT 1",
            "2",
        ),
        (
            "SELECT d FROM nz ORDER BY d DESC NULLS LAST LIMIT 2",
            "NaN; NaN",
        ),
        ("SELECT id FROM nz ORDER BY r LIMIT 1", "3"),
        ("SELECT max(d), min(d), max(r) FROM nz", "NaN|1.0|NaN"),
        (
            "SELECT a.id, b.id FROM nz a JOIN nz b ON a.d = b.d WHERE a.id = 6 ORDER BY 2",
            "6|2; 6|6",
        ),
        (
            "SELECT count(*) FROM nz a JOIN nz b ON a.r = b.r AND a.id = b.id",
            "5",
        ),
        ("SELECT id FROM nz WHERE s['f'] > 1e9", "2"),
        (
            "SELECT id FROM nz WHERE d IN (SELECT d FROM nz WHERE id = 6) ORDER BY id",
            "2; 6",
        ),
    ] {
        assert_eq!(rows(&mut session, query).await, expected, "{query}");
    }
    assert_eq!(
        count(&mut session, "DELETE FROM nz WHERE d > 1e308").await,
        3
    );
}

#[tokio::test]
async fn bounds_of_other_writers_do_not_hide_nan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut session = setup(NANS).await;
    ok(
        &mut session,
        &format!("COPY (SELECT id, d, r FROM nz ORDER BY id) TO '{path}/part.parquet'"),
    )
    .await;
    let size = std::fs::metadata(format!("{path}/part.parquet"))
        .unwrap()
        .len();
    std::fs::create_dir(format!("{path}/_delta_log")).unwrap();
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}},{\"name\":\"d\",\"type\":\"double\",\"nullable\":true,\"metadata\":{}},{\"name\":\"r\",\"type\":\"float\",\"nullable\":true,\"metadata\":{}}]}"#;
    let stats = r#"{\"numRecords\":6,\"minValues\":{\"id\":1,\"d\":1.0,\"r\":-2.0},\"maxValues\":{\"id\":6,\"d\":2.5,\"r\":2.5},\"nullCount\":{\"id\":0,\"d\":1,\"r\":1}}"#;
    let log = format!(
        r#"{{"protocol":{{"minReaderVersion":1,"minWriterVersion":2}}}}
{{"metaData":{{"id":"9c3b2a10-0000-4000-8000-000000000001","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}
{{"add":{{"path":"part.parquet","partitionValues":{{}},"size":{size},"modificationTime":1700000000000,"dataChange":true,"stats":"{stats}"}}}}
"#
    );
    std::fs::write(format!("{path}/_delta_log/00000000000000000000.json"), log).unwrap();
    for table in [
        format!("delta_scan('{path}')"),
        format!("'{path}/part.parquet'"),
    ] {
        for (filter, expected) in NAN_QUERIES {
            let query = format!("SELECT id FROM {table} AS nz {filter} ORDER BY id");
            assert_eq!(rows(&mut session, &query).await, *expected, "{query}");
        }
        let query = format!("SELECT max(d), max(r), count(*) FROM {table}");
        assert_eq!(rows(&mut session, &query).await, "NaN|NaN|6");
        let query = format!("SELECT id FROM {table} WHERE id < 4 ORDER BY d DESC LIMIT 1");
        assert_eq!(rows(&mut session, &query).await, "2");
    }
}

#[tokio::test]
async fn settings_that_would_trust_footers_are_fixed() {
    let mut session = setup("").await;
    for name in ["parquet.pushdown_filters", "collect_statistics"] {
        let statement = format!("SET datafusion.execution.{name} = true");
        assert_eq!(err(&mut session, &statement).await.sqlstate(), "22023");
    }
}

#[tokio::test]
async fn tables_of_one_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let url = format!("file://{path}/db");
    let store = tarndb_storage::open(
        &url,
        &tarndb_storage::StoreOptions::default(),
        tarndb_storage::Context::seeded(3),
    )
    .unwrap();
    let options = tarndb_db::DbOptions {
        publish: tarndb_db::PublishMode::Sync,
        ..tarndb_db::DbOptions::default()
    };
    let db = tarndb_db::Database::create(store, options).await.unwrap();
    let mut session = session(&db);
    ok(
        &mut session,
        "CREATE TABLE a (x INT); CREATE TABLE b (x INT)",
    )
    .await;
    ok(
        &mut session,
        "INSERT INTO a VALUES (1), (2), (3); INSERT INTO b VALUES (7)",
    )
    .await;
    db.publish().await.unwrap();
    let (a, b) = (format!("{url}/main/a"), format!("{url}/main/b"));
    std::fs::write(format!("{path}/x.csv"), "v\n1\n2\n").unwrap();
    std::fs::write(format!("{path}/y.csv"), "v\n5\n").unwrap();
    for (query, expected) in [
        (
            format!(
                "SELECT (SELECT count(*) FROM delta_scan('{a}')), (SELECT count(*) FROM delta_scan('{b}'))"
            ),
            "3|1",
        ),
        (
            format!(
                "SELECT (SELECT count(*) FROM delta_scan('{a}')), (SELECT count(*) FROM delta_scan('{a}', version => 0))"
            ),
            "3|0",
        ),
        (
            format!(
                "SELECT (SELECT max(x) FROM delta_scan('{a}')), (SELECT max(x) FROM delta_scan('{b}')), (SELECT max(x) FROM a), (SELECT max(x) FROM b)"
            ),
            "3|7|3|7",
        ),
        (
            format!(
                "SELECT delta_scan.x, d.x FROM delta_scan('{b}') JOIN delta_scan('{a}') d ON d.x < delta_scan.x ORDER BY 2"
            ),
            "7|1; 7|2; 7|3",
        ),
        (
            format!(
                "SELECT (SELECT sum(v) FROM '{path}/x.csv'), (SELECT sum(v) FROM '{path}/y.csv')"
            ),
            "3|5",
        ),
        (
            format!(
                "SELECT (SELECT count(*) FROM read_csv('{path}/x.csv')), (SELECT count(*) FROM read_csv('{path}/x.csv', header => false))"
            ),
            "2|3",
        ),
        (
            format!(
                "SELECT (SELECT count(*) FROM '{path}/x.csv'), (SELECT count(*) FROM '{path}/x.csv')"
            ),
            "2|2",
        ),
    ] {
        assert_eq!(rows(&mut session, &query).await, expected, "{query}");
    }
    let update = "UPDATE a SET x = x + (SELECT count(*) FROM a) WHERE x = (SELECT max(x) FROM a)";
    assert_eq!(count(&mut session, update).await, 1);
    assert_eq!(
        rows(&mut session, "SELECT x FROM a ORDER BY x").await,
        "1; 2; 6"
    );
    let update = "UPDATE main.a AS q SET x = (SELECT max(x) FROM a) WHERE main.a.x = 1";
    assert!(session.sql(update).await.is_err());
    let delete = "DELETE FROM main.a WHERE a.x < (SELECT max(a.x) FROM a) AND main.a.x > 1";
    assert_eq!(count(&mut session, delete).await, 1);
    assert_eq!(
        rows(&mut session, "SELECT x FROM a ORDER BY x").await,
        "1; 6"
    );
}

/// Columns and, for each, literals around the values in the table.
pub(crate) const COLUMNS: &[(&str, &[&str])] = &[
    ("b", &["true", "false"]),
    ("i", &["-1", "0", "7", "7.5", "30", "99999999999"]),
    (
        "l",
        &[
            "-9223372036854775808",
            "0",
            "7000000000",
            "7e9",
            "'7000000000'",
        ],
    ),
    ("r", &["-0.5", "0.0", "1.5", "1e30", "CAST('NaN' AS REAL)"]),
    (
        "d",
        &[
            "-0.5",
            "0.0",
            "1.5",
            "1e300",
            "0.7",
            "CAST('NaN' AS DOUBLE)",
            "CAST('-inf' AS DOUBLE)",
        ],
    ),
    ("x", &["-1.5", "0.0", "1.25", "7", "7.001", "3e0"]),
    ("s", &["''", "'k'", "'k07'", "'k1'", "'zz'", "'k7\u{e9}'"]),
    ("y", &["X'00'", "X'07'", "X'ff'"]),
    (
        "t",
        &["DATE '2023-12-31'", "DATE '2024-01-08'", "'2024-01-08'"],
    ),
    (
        "ts",
        &[
            "TIMESTAMPTZ '2024-01-01 07:00:00.000001Z'",
            "TIMESTAMPTZ '1969-01-01 00:00:00Z'",
        ],
    ),
    (
        "tn",
        &["TIMESTAMP '2024-01-01 07:00:00'", "DATE '2024-01-01'"],
    ),
    ("p", &["0", "1", "5"]),
];

/// A table of many small files, with NULLs, NaN and deleted rows.
pub(crate) async fn many_files() -> tarndb_sql::Session {
    let mut session = setup(
        "CREATE TABLE m (id INT, b BOOLEAN, i INT, l BIGINT, r REAL, d DOUBLE, x DECIMAL(10, 3),
           s TEXT, y BYTEA, t DATE, ts TIMESTAMPTZ, tn TIMESTAMP, p INT) PARTITIONED BY (p)",
    )
    .await;
    let mut script = String::from("BEGIN;");
    for file in 0..12 {
        let row = |k: i32| {
            let id = file * 3 + k;
            let d = match id {
                4 | 20 => "'NaN'".to_owned(),
                11 => "'inf'".to_owned(),
                13 => "'-inf'".to_owned(),
                _ => format!("{}", f64::from(id) / 10.0 - 0.5),
            };
            if id % 7 == 5 {
                return format!(
                    "({id}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
                );
            }
            format!(
                "({id}, {}, {id}, {id} * 1000000000, {d}, {d}, {id}.25 - 2, 'k{id:02}', X'{id:02x}', DATE '2024-01-01' + {id}, TIMESTAMPTZ '2024-01-01 00:00:00.000001Z' + INTERVAL '{id} hours', TIMESTAMP '2024-01-01 00:00:00' + INTERVAL '{id} hours', {})",
                id % 2 == 0,
                file % 3,
            )
        };
        script.push_str(&format!(
            "INSERT INTO m VALUES {}, {}, {};",
            row(0),
            row(1),
            row(2)
        ));
    }
    script.push_str("COMMIT; DELETE FROM m WHERE id IN (0, 8, 35)");
    ok(&mut session, &script).await;
    session
}

#[tokio::test]
async fn pruning_changes_no_answer() {
    let mut session = many_files().await;
    let mut empty = 0;
    for (column, literals) in COLUMNS {
        let mut filters = vec![
            format!("{column} IS NULL"),
            format!("{column} IS NOT NULL AND id > 10"),
            format!("{column} IN ({})", literals.join(", ")),
            format!("{column} NOT IN ({})", literals.join(", ")),
            format!("{column} NOT IN ({}, NULL)", literals.join(", ")),
        ];
        for literal in *literals {
            for operator in ["=", "<>", "<", ">="] {
                filters.push(format!("{column} {operator} {literal}"));
            }
            filters.push(format!("NOT ({literal} < {column})"));
            filters.push(format!("{column} BETWEEN {literal} AND {}", literals[0]));
            filters.push(format!("({column} IS DISTINCT FROM {literal}) OR id = 3"));
        }
        // Computed beside each row instead of filtered by, they prune nothing.
        let computed = format!("SELECT id, {} FROM m ORDER BY id", filters.join(", "));
        let computed = rows(&mut session, &computed).await;
        let table = computed
            .split("; ")
            .map(|row| row.split('|').collect::<Vec<_>>());
        let table = table.collect::<Vec<_>>();
        for (index, filter) in filters.iter().enumerate() {
            let expected = table.iter().filter(|row| row[index + 1] == "true");
            let expected = expected.map(|row| row[0]).collect::<Vec<_>>().join("; ");
            let query = format!("SELECT id FROM m WHERE {filter} ORDER BY id");
            assert_eq!(rows(&mut session, &query).await, expected, "{filter}");
            empty += usize::from(expected.is_empty());
        }
        for order in [
            format!("{column} NULLS LAST, id"),
            format!("{column} DESC NULLS LAST, id"),
            format!("{column} DESC, id"),
        ] {
            let all = rows(&mut session, &format!("SELECT id FROM m ORDER BY {order}")).await;
            let all = all.split("; ").take(3).collect::<Vec<_>>().join("; ");
            let query = format!("SELECT id FROM m ORDER BY {order} LIMIT 3");
            assert_eq!(rows(&mut session, &query).await, all, "{query}");
        }
        let join =
            format!("SELECT count(*) FROM m a JOIN m c ON a.{column} = c.{column} WHERE c.id > 18");
        let plain = format!(
            "SELECT count(*) FROM m a, m c WHERE c.id > 18 AND CASE WHEN random() < 2 THEN a.{column} = c.{column} ELSE false END"
        );
        assert_eq!(
            rows(&mut session, &join).await,
            rows(&mut session, &plain).await,
            "{join}"
        );
    }
    assert!(empty > 0);
}
