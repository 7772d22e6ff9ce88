//! Cases that other systems got wrong, through SQL: BC-14.
//!
//! Source: shared/cases/bug-cases.md (the ids).

use std::path::Path;

use tarndb_table::{DataType, Field};

use crate::support::*;

/// Statements that change nothing in a table without rows.
const EMPTY: [&str; 6] = [
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE p < 5",
    "UPDATE {t} SET id = id + 1",
    "INSERT INTO {t} SELECT 1, 1 WHERE false",
    "INSERT INTO {t} SELECT id, p FROM {t}",
    "DELETE FROM {t} WHERE id IN (SELECT id FROM {t})",
];

async fn versions(session: &mut tarndb_sql::Session, table: &str) -> String {
    rows(session, &format!("DESCRIBE HISTORY {table}")).await
}

#[tokio::test]
async fn bc_14_statements_on_tables_without_rows_succeed_and_add_no_version() {
    let mut session = setup(
        "CREATE TABLE never (id INT, p INT);
         CREATE TABLE emptied (id INT, p INT) PARTITIONED BY (p);
         CREATE TABLE cut (id INT, p INT);
         INSERT INTO emptied VALUES (1, 1), (2, 2);
         INSERT INTO cut VALUES (1, 1), (2, 2);
         DELETE FROM emptied;
         TRUNCATE TABLE cut",
    )
    .await;
    for table in ["never", "emptied", "cut"] {
        let before = versions(&mut session, table).await;
        for statement in EMPTY {
            let statement = statement.replace("{t}", table);
            assert_eq!(count(&mut session, &statement).await, 0, "{statement}");
        }
        assert_eq!(versions(&mut session, table).await, before, "{table}");
        let query = format!("SELECT count(*), sum(id) FROM {table}");
        assert_eq!(rows(&mut session, &query).await, "0|NULL");
        ok(&mut session, &format!("INSERT INTO {table} VALUES (7, 1)")).await;
        assert_eq!(rows(&mut session, &query).await, "1|7");
    }
}

/// Gives `p = 1` of a table a file of no rows and one of ten, as another writer might.
async fn foreign_with_an_empty_file(session: &mut tarndb_sql::Session, path: &str) {
    std::fs::create_dir_all(format!("{path}/p=1")).unwrap();
    let source = "SELECT CAST(value AS INT) AS id FROM generate_series(1, 10)";
    let copies = [
        ("empty", format!("{source} WHERE false")),
        ("ten", source.to_owned()),
    ];
    let mut lines = vec![r#"{"commitInfo":{"operation":"WRITE"}}"#.to_owned()];
    for (name, source) in copies {
        let file = format!("p=1/{name}.parquet");
        ok(session, &format!("COPY ({source}) TO '{path}/{file}'")).await;
        let size = std::fs::metadata(Path::new(path).join(&file))
            .unwrap()
            .len();
        lines.push(format!(
            r#"{{"add":{{"path":"{file}","partitionValues":{{"p":"1"}},"size":{size},"modificationTime":0,"dataChange":true}}}}"#
        ));
    }
    let commit = format!("{path}/_delta_log/00000000000000000001.json");
    std::fs::write(commit, lines.join("\n") + "\n").unwrap();
}

#[tokio::test]
async fn bc_14_a_partition_with_a_file_of_no_rows_is_deleted_whole() {
    for (statement, deleted, left) in [
        ("DELETE FROM {t} WHERE p = 1", 10, "0"),
        ("DELETE FROM {t} WHERE p = 1 AND id > 4", 6, "4"),
        ("UPDATE {t} SET id = 0 WHERE p = 1", 10, "10"),
        ("DELETE FROM {t}", 10, "0"),
    ] {
        let fields = ["id", "p"].map(|name| Field::new(name, DataType::Integer, true));
        let (_guard, path) = table_by_path(fields.into(), &["p"], &[]).await;
        let mut session = setup("").await;
        foreign_with_an_empty_file(&mut session, &path).await;
        let t = format!("delta.`{path}`");
        let query = format!("SELECT count(*) FROM {t} WHERE p = 1");
        assert_eq!(rows(&mut session, &query).await, "10");
        let statement = statement.replace("{t}", &t);
        assert_eq!(
            count(&mut session, &statement).await,
            deleted,
            "{statement}"
        );
        assert_eq!(rows(&mut session, &query).await, left, "{statement}");
        if left == "0" {
            let live = live_files(&path);
            assert_eq!(live, Vec::<String>::new(), "{statement}");
        }
    }
}

/// Paths that the commits of a log leave live, by a replay of its lines.
fn live_files(path: &str) -> Vec<String> {
    let mut live = std::collections::BTreeSet::new();
    for version in 0.. {
        let Ok(text) = std::fs::read_to_string(format!("{path}/_delta_log/{version:020}.json"))
        else {
            break;
        };
        for line in text.lines() {
            let action: serde_json::Value = serde_json::from_str(line).unwrap();
            let path_of = |kind: &str| action.get(kind)?.get("path")?.as_str();
            if let Some(path) = path_of("add") {
                live.insert(path.to_owned());
            }
            if let Some(path) = path_of("remove") {
                live.remove(path);
            }
        }
    }
    live.into_iter().collect()
}
