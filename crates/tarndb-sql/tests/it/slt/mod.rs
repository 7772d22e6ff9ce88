//! The sqllogictest files of `tests/slt`, each over a fresh database, and the engine's own.
//!
//! Every file of the folder is a test of its name; a failure tells every record that went wrong.

mod engine;
mod render;
mod run;
mod script;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use render::Form;
use run::{Runner, Verdict};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt")
}

/// What went wrong in a script; empty when nothing did.
async fn faults(text: &str, path: &Path) -> String {
    let records = script::records(text, path).unwrap();
    let mut runner = Runner::new(Form::Exact).await;
    let mut faults = String::new();
    for record in &records {
        let told = match runner.run(record).await {
            Verdict::Passed => continue,
            Verdict::Error { state, message } => format!("{state} {message}"),
            Verdict::NoError => "no error".to_owned(),
            Verdict::Other(found) => found,
        };
        let (line, sql) = (record.line, &record.sql);
        write!(
            faults,
            "\nline {line}: {sql}\nexpected {:?}\nfound\n{told}\n",
            record.expect
        )
        .unwrap();
    }
    faults
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[tokio::test]
            async fn $name() {
                let path = folder().join(concat!(stringify!($name), ".slt"));
                let text = std::fs::read_to_string(&path).unwrap();
                let faults = faults(&text, &path).await;
                assert!(faults.is_empty(), "{}:{faults}", path.display());
            }
        )*
    };
}

files![
    aggregates,
    alter,
    cases_bc_03,
    change_feed,
    conflicts,
    ddl,
    errors,
    explain,
    functions,
    information_schema,
    insert,
    isolation,
    joins,
    merge,
    nulls,
    partitions,
    returning,
    rules,
    savepoints,
    subqueries,
    time_travel,
    transactions,
    types,
    update_delete,
    upsert,
    windows,
];

#[test]
fn every_file_of_the_folder_is_run() {
    let mut found = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, FILES);
}

#[tokio::test]
async fn a_record_that_goes_wrong_is_told() {
    for (script, told) in [
        ("statement ok\nSELECT nope\n", "42703"),
        ("statement error 42703\nSELECT 1\n", "no error"),
        ("statement error 42P01\nSELECT nope\n", "42703"),
        ("statement error 42703 other\nSELECT nope\n", "42703"),
        ("query I\nSELECT 1\n----\n2\n", "found\n1"),
        ("query II\nSELECT 1\n----\n1\n", "1 columns"),
        ("query I\nSELECT 1 WHERE false\n----\n1\n", "found\n"),
        (
            "query I rowsort\nVALUES (1), (2)\n----\n2\n2\n",
            "found\n1\n2",
        ),
        (
            "statement ok\nCREATE TABLE t (a INT)\n\nstatement count 2\nINSERT INTO t VALUES (1)\n",
            "found\n1",
        ),
        (
            "query T\nSELECT CAST(NULL AS TEXT)\n----\n(empty)\n",
            "found\nNULL",
        ),
    ] {
        let found = faults(script, Path::new("")).await;
        assert!(found.contains(told), "{script}{found}");
    }
    let right = "connection b\nquery TR\nSELECT '', 1.50\n----\n(empty)  1.50\n\n# end\n";
    assert_eq!(faults(right, Path::new("")).await, "");
}
