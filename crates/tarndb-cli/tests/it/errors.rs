//! Error texts and exit codes.

use crate::harness::{Fixture, run_binary};

#[test]
fn a_prefix_without_a_database_names_init() {
    let fixture = Fixture::empty();
    for command in [
        vec!["status"],
        vec!["sql", "SELECT 1"],
        vec!["log"],
        vec!["check"],
        vec!["publish"],
        vec!["checkpoint"],
        vec!["shell"],
        vec!["txn", "0-0198c0de-0000-7000-8000-000000000002"],
    ] {
        fixture.run(&command).fails(4).says(&["tarndb init"]);
    }
    assert!(
        !fixture.db.join("_tarndb").exists(),
        "no command but init makes a database"
    );
}

#[test]
fn init_of_a_database_that_is_there_is_refused() {
    Fixture::new()
        .run(&["init"])
        .fails(5)
        .says(&["a database already"]);
}

#[test]
fn a_url_that_is_none_is_refused() {
    let fixture = Fixture::empty();
    for url in ["ftp://host/path", "s3://", "nonsense://x"] {
        let run = run_binary(std::path::Path::new(url), &["status"], "").fails(3);
        assert!(
            run.stderr.contains(url.split(':').next().unwrap()),
            "{}",
            run.stderr
        );
    }
    drop(fixture);
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["nonsense"]).code, 2);
    assert_eq!(fixture.run(&["--format", "xml", "status"]).code, 2);
    fixture
        .run(&["sql"])
        .fails(2)
        .says(&["no statements were given"]);
    fixture
        .run(&["--log", "a=b=c", "status"])
        .fails(2)
        .says(&["not a log level"]);
}

#[test]
fn a_syntax_error_shows_line_and_caret() {
    let run = Fixture::new().sql("SELECT 1;\nSELECT * FORM t").fails(3);
    let lines: Vec<&str> = run.stderr.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.trim() == "SELECT * FORM t")
        .unwrap();
    let column = lines[at]
        .find("FORM")
        .or_else(|| lines[at].find(" t"))
        .unwrap();
    let caret = lines[at + 1].find('^').unwrap();
    assert!(
        caret >= column && caret <= lines[at].len(),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("line 2, column "), "{}", run.stderr);
    assert!(
        run.stdout.is_empty(),
        "nothing runs of a script that does not parse"
    );
}

#[test]
fn a_misspelt_table_or_column_is_suggested() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE flights (origin TEXT)").ok();
    fixture
        .sql("SELECT * FROM fligths")
        .fails(4)
        .says(&["fligths", "42P01", "flights"]);
    fixture
        .sql("SELECT orgin FROM flights")
        .fails(3)
        .says(&["orgin", "42703", "origin"]);
}

#[test]
fn a_value_in_a_csv_that_does_not_fit_names_file_line_and_column() {
    let fixture = Fixture::new();
    fixture
        .sql("CREATE TABLE t (id BIGINT, price DECIMAL(6,2))")
        .ok();
    let file = fixture.file("bad.csv", "id,price\n1,2.50\n2,cheap\n");
    fixture
        .run(&["import", &file, "--table", "t"])
        .fails(3)
        .says(&["bad.csv", "line 3", "column price", "cheap"]);
    assert_eq!(fixture.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let fixture = Fixture::new();
    fixture
        .run(&["import", "gone.csv", "--table", "t"])
        .fails(18)
        .says(&["gone.csv"]);
    fixture
        .run(&["sql", "-f", "gone.sql"])
        .fails(18)
        .says(&["gone.sql"]);
}

#[test]
fn an_error_in_a_file_names_the_file_and_the_statement() {
    let fixture = Fixture::new();
    let file = fixture.file("two.sql", "SELECT 1;\n\nSELECT * FROM nowhere;\n");
    fixture
        .run(&["sql", "-f", &file])
        .fails(4)
        .says(&["nowhere", "two.sql", "line 3"]);
}

#[test]
fn a_torn_record_is_named_and_nothing_is_guessed() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (a BIGINT)").ok();
    let record = fixture.db.join("_tarndb/log/00000000000000000001.json");
    let bytes = std::fs::read(&record).unwrap();
    std::fs::write(&record, &bytes[..bytes.len() / 2]).unwrap();
    fixture
        .sql("SELECT * FROM t")
        .fails(9)
        .says(&["00000000000000000001.json"]);
}

#[test]
fn a_hole_in_the_log_is_named() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (a BIGINT)").ok();
    fixture.sql("INSERT INTO t VALUES (1)").ok();
    std::fs::remove_file(fixture.db.join("_tarndb/log/00000000000000000001.json")).unwrap();
    fixture
        .sql("SELECT * FROM t")
        .fails(9)
        .says(&["00000000000000000001.json"]);
}

#[test]
fn errors_of_the_library_have_no_more_than_five_lines() {
    let fixture = Fixture::new();
    for sql in [
        "SELECT",
        "SELECT * FROM x",
        "SELECT 1/0",
        "CREATE TABLE t ()",
        "???",
    ] {
        let run = fixture.sql(sql);
        assert!(
            run.code >= 3 && run.code != 70,
            "{sql}: {} {}",
            run.code,
            run.stderr
        );
        assert!(run.stderr.lines().count() <= 5, "{sql}: {}", run.stderr);
    }
}
