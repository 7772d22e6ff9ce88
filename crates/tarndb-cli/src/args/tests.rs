//! Tests of the meaning of command lines.

use std::path::PathBuf;

use super::meant::parse_from;
use super::*;

fn action(arguments: &[&str]) -> Action {
    let all: Vec<&str> = ["tarndb", "--db", "x"]
        .into_iter()
        .chain(arguments.to_vec())
        .collect();
    parse_from(&all).unwrap().action
}

#[track_caller]
fn refused(arguments: &[&str], expected: &str) {
    let all: Vec<&str> = ["tarndb", "--db", "x"]
        .into_iter()
        .chain(arguments.to_vec())
        .collect();
    let text = parse_from(&all).unwrap_err().to_string();
    assert!(
        text.contains(expected),
        "{text:?} does not contain {expected:?}"
    );
}

fn plan(arguments: &[&str]) -> ImportPlan {
    match action(arguments) {
        Action::Import(plan) => plan,
        other => panic!("not an import: {other:?}"),
    }
}

#[test]
fn files_after_import_belong_to_the_one_table() {
    let plan = plan(&["import", "a.csv", "b.csv", "--table", "t", "--create"]);
    assert!(plan.create);
    assert_eq!(
        plan.tables,
        [TableFiles {
            table: "t".into(),
            files: vec![PathBuf::from("a.csv"), PathBuf::from("b.csv")]
        }]
    );
}

#[test]
fn table_equals_file_may_repeat_and_collects_by_table() {
    let plan = plan(&[
        "import", "--table", "a=1.csv", "--table", "b=2.csv", "--table", "a=3.csv",
    ]);
    let names: Vec<_> = plan
        .tables
        .iter()
        .map(|t| (t.table.as_str(), t.files.len()))
        .collect();
    assert_eq!(names, [("a", 2), ("b", 1)]);
}

#[test]
fn import_without_a_file_or_a_table_of_its_own_is_refused() {
    refused(
        &["import", "--table", "t"],
        "no file was given for the table t",
    );
    refused(
        &["import", "x.csv", "--table", "a", "--table", "b"],
        "several tables",
    );
    refused(
        &["import", "x.csv", "--table", "a=b.csv"],
        "files were given without a table",
    );
    refused(
        &["import", "x.csv", "--table", "t", "--delimiter", ";;"],
        "not a delimiter",
    );
}

#[test]
fn global_options_are_taken_after_the_command_too() {
    let arguments = [
        "tarndb",
        "status",
        "--db",
        "x",
        "--memory-limit",
        "64MiB",
        "--log",
        "step",
    ];
    let meant = parse_from(&arguments).unwrap();
    assert_eq!(meant.memory_limit_bytes, Some(64 << 20));
    assert_eq!(meant.log, LogChoice::Steps);
    assert_eq!(meant.format, Format::Table);
}

#[test]
fn sql_text_comes_from_argument_file_or_standard_input() {
    for (arguments, expected) in [
        (vec!["sql", "SELECT 1"], SqlSource::Text("SELECT 1".into())),
        (vec!["sql", "-f", "a.sql"], SqlSource::File("a.sql".into())),
        (vec!["sql", "-"], SqlSource::Stdin),
    ] {
        match action(&arguments) {
            Action::Sql(source) => assert_eq!(source, expected),
            other => panic!("not sql: {other:?}"),
        }
    }
    refused(&["sql"], "no statements were given");
}

#[test]
fn sizes_and_ids_that_are_none_are_refused() {
    refused(&["status", "--memory-limit", "lots"], "not a size");
    refused(&["status", "--memory-limit", "0"], "not a size");
    refused(&["status", "--txn-id", "7"], "not a transaction id");
    refused(&["status", "--storage-option", "key"], "not a store option");
}

#[test]
fn a_command_but_demo_needs_a_database() {
    assert!(parse_from(&["tarndb", "demo"]).is_ok());
    if std::env::var_os("TARNDB_DB").is_none() {
        let text = parse_from(&["tarndb", "status"]).unwrap_err().to_string();
        assert!(text.contains("no database was named"), "{text}");
    }
}

#[test]
fn optimize_takes_tables_of_a_schema_and_a_size() {
    let all = action(&[
        "optimize",
        "t",
        "other.u",
        "--schema",
        "s",
        "--target-size",
        "2MiB",
        "--all",
    ]);
    let Action::Optimize(plan) = all else {
        panic!("not an optimize: {all:?}");
    };
    assert_eq!(plan.tables, ["s.t", "other.u"]);
    assert_eq!((plan.target_bytes, plan.all), (Some(2 << 20), true));
    refused(&["optimize", "t", "--target-size", "big"], "not a size");
}
