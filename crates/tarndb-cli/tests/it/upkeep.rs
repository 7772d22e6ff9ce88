//! What commands do for tables by themselves, and what a cancelled one leaves behind: nothing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{Fixture, binary};

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

fn data_files(fixture: &Fixture) -> Vec<PathBuf> {
    let is_data = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
    let in_log = |path: &PathBuf| {
        path.components()
            .any(|part| part.as_os_str() == "_delta_log")
    };
    let files = files(&fixture.db.join("main")).into_iter();
    files
        .filter(|path| is_data(path) && !in_log(path))
        .collect()
}

/// Starts a statement that writes many files, waits until some are stored, presses Ctrl-C, and
/// gives the exit code and what was said.
fn cancelled(fixture: &Fixture, script: &str, temp_dir: &str) -> (Option<i32>, String) {
    let mut child = binary(&fixture.db)
        .args(["--log", "step", "--temp-dir", temp_dir, "sql", script])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut stored) = (String::new(), 0);
    while stored < 2 {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended: {line}");
        stored += u32::from(line.contains("data_file.end"));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
fn ctrl_c_leaves_no_data_files_and_no_spill_files_behind() {
    let fixture = Fixture::new();
    let table = "CREATE TABLE t (a BIGINT, b TEXT) WITH (target_file_size = '256KB')";
    fixture.sql(table).ok();
    fixture
        .sql("INSERT INTO t SELECT v, md5(v::text) FROM generate_series(1, 1000) g(v)")
        .ok();
    let before = data_files(&fixture);
    let temp_dir = fixture.path("spill");
    std::fs::create_dir(&temp_dir).unwrap();
    let long = "INSERT INTO t SELECT v, md5(v::text) FROM generate_series(1, 100000000) g(v)";
    for script in [long.to_owned(), format!("BEGIN; {long}; COMMIT")] {
        let (code, said) = cancelled(&fixture, &script, temp_dir.to_str().unwrap());
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("cancelled"), "{said}");
        assert_eq!(data_files(&fixture), before, "{said}");
        assert_eq!(files(&temp_dir), Vec::<PathBuf>::new());
    }
    assert_eq!(fixture.value("SELECT count(*) FROM t"), "1000");
    fixture.run(&["check", "--deep"]).ok();
}

#[test]
fn a_command_joins_small_files_before_it_ends_unless_that_is_switched_off() {
    for (upkeep, joined) in [("compact", true), ("off", false)] {
        let fixture = Fixture::new();
        fixture.sql("CREATE TABLE t (a BIGINT)").ok();
        let script: String = (0..32)
            .map(|i| format!("INSERT INTO t VALUES ({i});"))
            .collect();
        fixture.run(&["--upkeep", upkeep, "sql", &script]).ok();
        let history = fixture
            .run(&["--format", "csv", "sql", "DESCRIBE HISTORY t LIMIT 1"])
            .ok();
        assert_eq!(
            history.stdout.contains("OPTIMIZE"),
            joined,
            "{}",
            history.stdout
        );
        assert_eq!(fixture.value("SELECT sum(a) FROM t"), "496");
        fixture.run(&["check", "--deep"]).ok();
    }
}

#[test]
fn resources_that_are_none_are_refused() {
    let fixture = Fixture::new();
    for (option, value) in [("--temp-dir", "/no/such/folder"), ("--threads", "0")] {
        fixture.run(&[option, value, "sql", "SELECT 1"]).fails(2);
    }
    fixture
        .run(&["--threads", "2", "sql", "SHOW tarndb.threads"])
        .ok();
}

#[test]
fn a_statement_whose_time_is_up_ends_the_command_with_57014() {
    let fixture = Fixture::new();
    let endless = "SET statement_timeout = '100ms'; \
                   SELECT sum(v % 7) FROM generate_series(1, 100000000000) g(v)";
    fixture
        .sql(endless)
        .fails(130)
        .says(&["57014", "statement_timeout"]);
}
