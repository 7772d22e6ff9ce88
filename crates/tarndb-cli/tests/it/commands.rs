//! What each command does.

use expect_test::expect;

use crate::harness::Fixture;

/// A transcript with ids, times and sizes replaced, columns squeezed.
fn transcript(fixture: &Fixture, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for arguments in commands {
        let run = fixture.run(arguments);
        text.push_str(&format!(
            "$ tarndb {}\n",
            fixture.tidy(&arguments.join(" "))
        ));
        text.push_str(&fixture.tidy(&run.stdout));
        text.push_str(&fixture.tidy(&run.stderr));
        if run.code != 0 {
            text.push_str(&format!("[exit code {}]\n", run.code));
        }
    }
    text.lines()
        .map(|line| format!("{}\n", squeeze(line)))
        .collect()
}

/// Replaces what differs between runs: ids, times, sizes, durations.
fn squeeze(line: &str) -> String {
    if let Some((_, rest)) = line.split_once(" in 1 data file, ") {
        assert!(rest.ends_with(['s']), "{line}");
        return "SIZE in 1 data file, TIME".to_owned();
    }
    let words = line.split_whitespace().map(|word| {
        let dashes = word.matches('-').count();
        if word.len() >= 36 && dashes >= 4 && !word.contains('/') && word.contains("-7") {
            "ID".to_owned()
        } else if word.len() == 10 && dashes == 2 && word.starts_with("20") {
            "DATE".to_owned()
        } else if word.matches(':').count() == 3 && word.contains('+') {
            "TIME".to_owned()
        } else if !word.is_empty() && word.chars().all(|c| c == '-' || c == '+') {
            "-".to_owned()
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_session_from_init_to_check_reads_as_expected() {
    let fixture = Fixture::empty();
    let people = fixture.file("people.csv", "id,name,born\n1,Ada,1815-12-10\n2,Alan,NA\n");
    let commands: &[&[&str]] = &[
        &["init"],
        &["sql", "CREATE TABLE t (a BIGINT NOT NULL, b TEXT)"],
        &["sql", "INSERT INTO t VALUES (1, 'one'), (2, NULL)"],
        &["sql", "SELECT * FROM t ORDER BY a"],
        &[
            "import", &people, "--table", "people", "--create", "--null", "NA",
        ],
        &["sql", "SELECT * FROM people ORDER BY id"],
        &["log"],
        &["publish"],
        &["check"],
        &["check", "--deep"],
    ];
    expect![[r#"
        $ tarndb init
        created database ID at DIR/db
        $ tarndb sql CREATE TABLE t (a BIGINT NOT NULL, b TEXT)
        CREATE TABLE
        $ tarndb sql INSERT INTO t VALUES (1, 'one'), (2, NULL)
        INSERT 2
        $ tarndb sql SELECT * FROM t ORDER BY a
        a | b
        -
        1 | one
        2 | NULL
        (2 rows)
        $ tarndb import DIR/people.csv --table people --create --null NA
        IMPORT 2 into people
        SIZE in 1 data file, TIME
        $ tarndb sql SELECT * FROM people ORDER BY id
        id | name | born
        -
        1 | Ada | 1815-12-10
        2 | Alan | NULL
        (2 rows)
        $ tarndb log
        version | time | operation | tables | transaction
        -
        3 | DATE TIME | CREATE TABLE AS SELECT | main.people@0 | ID
        2 | DATE TIME | WRITE | main.t@1 | ID
        1 | DATE TIME | CREATE TABLE | main.t@0 | ID
        0 | DATE TIME | CREATE DATABASE | | ID
        (4 rows)
        $ tarndb publish
        0 table versions were published now
        $ tarndb check
        checked 4 records, 0 checkpoints, 2 tables, 2 data files
        everything is as it was committed
        $ tarndb check --deep
        checked 4 records, 0 checkpoints, 2 tables, 2 data files, 4 rows
        everything is as it was committed
    "#]]
    .assert_eq(&transcript(&fixture, commands));
}

#[test]
fn import_of_two_tables_is_one_commit() {
    let fixture = Fixture::new();
    let a = fixture.file("a.csv", "x\n1\n2\n");
    let b = fixture.file("b.ndjson", "{\"y\": \"p\"}\n");
    let before = log_length(&fixture);
    let (a, b) = (format!("a={a}"), format!("b={b}"));
    fixture
        .run(&["import", "--create", "--table", &a, "--table", &b])
        .ok();
    assert_eq!(log_length(&fixture), before + 1);
    assert_eq!(fixture.value("SELECT count(*) FROM a"), "2");
    assert_eq!(fixture.value("SELECT y FROM b"), "p");
}

#[test]
fn import_that_fails_in_the_last_file_leaves_nothing_of_the_others() {
    let fixture = Fixture::new();
    fixture
        .sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT)")
        .ok();
    let a = format!("a={}", fixture.file("a.csv", "x\n1\n"));
    let b = format!("b={}", fixture.file("b.csv", "x\n1\nmany\n"));
    let before = log_length(&fixture);
    fixture
        .run(&["import", "--table", &a, "--table", &b])
        .fails(3)
        .says(&["b.csv", "line 3", "column x", "many"]);
    assert_eq!(fixture.value("SELECT count(*) FROM a"), "0");
    assert_eq!(log_length(&fixture), before);
}

#[test]
fn import_takes_delimiters_headerless_files_and_gzip() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (x BIGINT, y TEXT)").ok();
    let tabs = fixture.file("t.csv", "1\tone\n2\ttwo\n");
    fixture
        .run(&[
            "import",
            &tabs,
            "--table",
            "t",
            "--delimiter",
            "\\t",
            "--no-header",
        ])
        .ok();
    assert_eq!(fixture.value("SELECT sum(x) FROM t"), "3");
    let slice = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/data/weather.csv.gz"
    );
    fixture
        .run(&[
            "import", slice, "--table", "weather", "--create", "--null", "NA",
        ])
        .ok();
    assert_eq!(fixture.value("SELECT count(*) FROM weather"), "26115");
}

#[test]
fn import_into_a_schema_puts_the_table_there() {
    let fixture = Fixture::new();
    fixture.sql("CREATE SCHEMA raw").ok();
    let file = fixture.file("a.csv", "x\n1\n");
    fixture
        .run(&[
            "import", &file, "--table", "t", "--create", "--schema", "raw",
        ])
        .ok();
    assert_eq!(fixture.value("SELECT x FROM raw.t"), "1");
}

#[test]
fn txn_tells_what_committed_and_aborts_what_did_not() {
    let fixture = Fixture::new();
    let id = "0198c0de-0000-7000-8000-000000000001";
    fixture
        .run(&["--txn-id", id, "sql", "CREATE TABLE t (a BIGINT)"])
        .ok();
    let tell = |reference: &str| {
        let run = fixture.run(&["--format", "csv", "txn", reference]).ok();
        run.stdout.lines().nth(1).unwrap_or_default().to_owned()
    };
    let known = format!("0-{id}");
    for reference in [known.as_str(), id] {
        assert_eq!(tell(reference), format!("{reference},committed,1"));
    }
    let other = "0198c0de-0000-7000-8000-000000000002";
    let reference = format!("1-{other}");
    for _ in 0..2 {
        assert_eq!(tell(&reference), format!("{reference},aborted,2"));
    }
    // The answer stays true: whoever still holds that id cannot commit under it.
    let insert = ["--txn-id", other, "sql", "INSERT INTO t VALUES (1)"];
    let refused = fixture.run(&insert).fails(7);
    assert!(refused.stderr.contains("another id"), "{}", refused.stderr);
    assert_eq!(fixture.value("SELECT count(*) FROM t"), "0");
    let log = fixture.run(&["log"]).ok();
    assert_eq!(log.stdout.matches("FENCE").count(), 1, "{}", log.stdout);
    let beyond = format!("9-{other}");
    fixture.run(&["txn", &beyond]).fails(4);
    fixture
        .run(&["txn", "nonsense"])
        .fails(3)
        .says(&["nonsense"]);
}

#[test]
fn status_counts_tables_rows_and_what_is_published() {
    let fixture = Fixture::new();
    fixture
        .sql("CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2")
        .ok();
    fixture.run(&["publish"]).ok();
    let run = fixture.run(&["--format", "csv", "status"]).ok();
    let header: Vec<&str> = run.stdout.lines().next().unwrap().split(',').collect();
    let row: Vec<&str> = run.stdout.lines().nth(1).unwrap().split(',').collect();
    let field = |name: &str| row[header.iter().position(|h| *h == name).unwrap()];
    assert_eq!(
        (field("table"), field("rows"), field("lag")),
        ("main.t", "2", "0")
    );
}

#[test]
fn status_probes_the_store_when_asked_and_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (a BIGINT)").ok();
    let run = fixture.run(&["status", "--probe"]).ok();
    assert!(
        format!("{}{}", run.stdout, run.stderr).contains("honours put-if-absent"),
        "{run:?}"
    );
    let plain = fixture.run(&["status"]).ok();
    assert!(!format!("{}{}", plain.stdout, plain.stderr).contains("put-if-absent"));
    fixture.run(&["check"]).ok();
}

#[test]
fn checkpoint_and_requests_are_told() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (a BIGINT)").ok();
    fixture.run(&["checkpoint"]).ok();
    let run = fixture.run(&["--requests", "sql", "SELECT * FROM t"]).ok();
    assert!(run.stderr.contains("requests: "), "{}", run.stderr);
}

#[test]
fn check_finds_a_data_file_that_is_gone() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t AS SELECT 1 AS a").ok();
    fixture.run(&["publish"]).ok();
    let folder = fixture.db.join("main/t");
    let data = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let data: Vec<_> = data
        .filter(|p| p.extension().is_some_and(|e| e == "parquet"))
        .collect();
    assert_eq!(data.len(), 1);
    std::fs::remove_file(&data[0]).unwrap();
    let run = fixture.run(&["check"]).fails(1);
    assert!(run.stdout.contains("main.t"), "{}", run.stdout);
}

#[test]
fn check_tells_what_is_wrong_with_a_database_that_cannot_be_opened() {
    let fixture = Fixture::new();
    fixture.sql("CREATE TABLE t (a BIGINT)").ok();
    fixture.sql("INSERT INTO t VALUES (1)").ok();
    std::fs::remove_file(fixture.db.join("_tarndb/log/00000000000000000001.json")).unwrap();
    let run = fixture.run(&["check"]).fails(1);
    assert!(run.stdout.contains("log.gap"), "{}", run.stdout);
}

#[test]
fn steps_of_a_commit_are_printed_line_by_line() {
    // A small file rides in the record and is stored for publishing; a large one comes before.
    let small = "CREATE TABLE t AS SELECT 1 AS a";
    let large =
        "CREATE TABLE t AS SELECT md5(CAST(value AS TEXT)) AS a FROM generate_series(1, 20000)";
    let record = ["record.begin", "record.end"];
    let inline = ["inline_file.begin", "inline_file.end"];
    check_steps(small, &[&record[..], &inline, &["publish.end"]].concat());
    let data = ["data_file.begin", "data_file.end"];
    check_steps(large, &[&data[..], &record, &["publish.end"]].concat());
}

#[track_caller]
fn check_steps(statement: &str, expected: &[&str]) {
    let fixture = Fixture::new();
    let run = fixture.run(&["--log", "step", "sql", statement]).ok();
    let steps: Vec<&str> = run
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("step "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let at = |name: &str| steps.iter().position(|step| *step == name);
    let expected: Vec<_> = expected.iter().map(|name| at(name)).collect();
    assert!(
        expected.iter().all(Option::is_some) && expected.is_sorted(),
        "{steps:?}"
    );
}

fn log_length(fixture: &Fixture) -> usize {
    let run = fixture
        .run(&["--format", "csv", "log", "--limit", "1000"])
        .ok();
    run.stdout.lines().count() - 1
}
