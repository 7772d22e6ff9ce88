//! Foreign tables of many writers, counted through SQL: rows and NULLs of every column.
//!
//! The set is not part of this repository; without it the test says so and passes.

use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use serde_json::Value;

use crate::support::*;

#[expect(clippy::print_stdout, reason = "a test that is not run says so")]
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/delta");
    let Ok(entries) = std::fs::read_dir(&root) else {
        println!(
            "SKIPPED: the Delta acceptance set is not at {}",
            root.display()
        );
        return Vec::new();
    };
    let mut cases: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.join("expected.json").is_file());
    cases.sort();
    cases
}

/// `count(*)` and the count of each column.
fn query(table: &Path, columns: &[Value]) -> String {
    let mut counts = "SELECT count(*)".to_owned();
    for column in columns {
        let name = column["name"].as_str().unwrap().replace('"', "\"\"");
        counts.push_str(&format!(", count(\"{name}\")"));
    }
    format!("{counts} FROM delta_scan('{}')", table.display())
}

fn counts(batch: &RecordBatch) -> String {
    let count = |column: &ArrayRef| column.as_primitive::<Int64Type>().value(0).to_string();
    let counts: Vec<_> = batch.columns().iter().map(count).collect();
    counts.join("|")
}

#[tokio::test]
async fn rows_and_nulls_of_foreign_tables_are_counted_as_expected() {
    let mut session = setup("").await;
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read(case.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_slice(&text).unwrap();
        let by_catalog = case.join("catalog.json").is_file();
        if expected["expect"] != "rows" || by_catalog {
            continue;
        }
        let latest = &expected["latest"];
        let columns = latest["columns"].as_array().unwrap();
        let rows = latest["row_count"].as_u64().unwrap();
        let mut wanted = vec![rows.to_string()];
        for column in columns {
            wanted.push((rows - column["nulls"].as_u64().unwrap()).to_string());
        }
        let sql = query(&case.join("table"), columns);
        let found = match session.sql(&sql).await {
            Ok(outcome) => match outcome.collect().await {
                Ok(batches) => batches.first().map_or_else(String::new, counts),
                Err(error) => chain(&error),
            },
            Err(error) => chain(&error),
        };
        if found != wanted.join("|") {
            wrong.push(format!(
                "{name}: found {found}, wanted {}",
                wanted.join("|")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
