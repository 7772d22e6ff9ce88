//! Transactions from the command line, over processes.

use std::process::Stdio;

use crate::harness::{Fixture, binary};

fn two_tables() -> Fixture {
    let fixture = Fixture::new();
    fixture
        .sql("CREATE TABLE a (n BIGINT); CREATE TABLE b (n BIGINT)")
        .ok();
    fixture
}

fn counts(fixture: &Fixture) -> (String, String) {
    (
        fixture.value("SELECT count(*) FROM a"),
        fixture.value("SELECT count(*) FROM b"),
    )
}

#[test]
fn a_commit_over_two_tables_shows_both() {
    let fixture = two_tables();
    fixture
        .sql("BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); COMMIT")
        .ok();
    assert_eq!(counts(&fixture), ("1".into(), "1".into()));
}

#[test]
fn input_that_ends_inside_a_transaction_rolls_back_and_fails() {
    let fixture = two_tables();
    let script = "BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)";
    fixture
        .sql(script)
        .fails(17)
        .says(&["rolled back", "COMMIT"]);
    fixture
        .run_with(&["sql", "-"], script)
        .fails(17)
        .says(&["rolled back"]);
    fixture
        .run_with(&["shell"], &format!("{script};\n"))
        .fails(17)
        .says(&["rolled back"]);
    assert_eq!(counts(&fixture), ("0".into(), "0".into()));
}

#[test]
fn an_error_inside_a_transaction_rolls_everything_back() {
    let fixture = two_tables();
    fixture
        .sql("BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES ('many'); COMMIT")
        .fails(3)
        .says(&["rolled back"]);
    assert_eq!(counts(&fixture), ("0".into(), "0".into()));
}

#[test]
fn an_error_while_rows_are_read_fails_the_transaction() {
    let fixture = two_tables();
    let script = "BEGIN; INSERT INTO a VALUES (0); SELECT 1 / n FROM a; COMMIT";
    fixture
        .sql(script)
        .fails(3)
        .says(&["division by zero", "rolled back"]);
    assert_eq!(counts(&fixture), ("0".into(), "0".into()));
}

#[test]
fn a_rollback_that_was_asked_for_is_no_error() {
    let fixture = two_tables();
    fixture
        .sql("BEGIN; INSERT INTO a VALUES (1); ROLLBACK")
        .ok();
    assert_eq!(counts(&fixture), ("0".into(), "0".into()));
}

#[test]
fn processes_that_update_different_rows_at_once_all_succeed() {
    const PROCESSES: usize = 4;
    const UPDATES: usize = 5;
    let fixture = Fixture::new();
    fixture
        .sql("CREATE TABLE c AS SELECT * FROM (VALUES (0, 0), (1, 0), (2, 0), (3, 0)) v(id, n)")
        .ok();
    let children: Vec<_> = (0..PROCESSES)
        .map(|id| {
            let script = format!("UPDATE c SET n = n + 1 WHERE id = {id};").repeat(UPDATES);
            binary(&fixture.db)
                .args(["sql", &script])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(fixture.value("SELECT count(*) FROM c WHERE n = 5"), "4");
    fixture.run(&["check", "--deep"]).ok();
}

#[test]
fn ctrl_c_cancels_the_statement_and_rolls_back() {
    let fixture = two_tables();
    let mut child = binary(&fixture.db)
        .args(["sql", "BEGIN; INSERT INTO a VALUES (1); SELECT * FROM a; \
                       SELECT count(*) FROM generate_series(1, 200000) x, generate_series(1, 200000) y"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The row that the first query gives tells that the long statement is next.
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while std::io::BufRead::read_line(&mut stdout, &mut line).unwrap() > 0 {
        if line.ends_with("(1 row)\n") {
            break;
        }
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(
        stderr.contains("cancelled") && stderr.contains("rolled back"),
        "{stderr}"
    );
    assert_eq!(counts(&fixture).0, "0");
}

#[test]
fn a_metadata_change_and_the_first_deletion_vector_of_two_processes_both_survive() {
    let delete = "DELETE FROM t WHERE n = 1";
    let changes = [
        "ALTER TABLE t ADD COLUMN c STRING",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')",
    ];
    for change in changes {
        for started in [[change, delete], [delete, change]] {
            let fixture = Fixture::new();
            let sql = "CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1), (2), (3)";
            fixture.sql(sql).ok();
            let processes = started.map(|sql| {
                let mut command = binary(&fixture.db);
                let command = command.args(["sql", sql]).stdout(Stdio::null());
                command.stderr(Stdio::piped()).spawn().unwrap()
            });
            for process in processes {
                let output = process.wait_with_output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{errors}");
            }
            assert_eq!(fixture.value("SELECT count(*) FROM t"), "2", "{change}");
            fixture.run(&["publish"]).ok();
            let log = std::fs::read_dir(fixture.db.join("main/t/_delta_log")).unwrap();
            let text: String = log
                .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
                .collect();
            assert!(text.contains("\"deletionVectors\""), "{change}");
            if change.contains("ADD") {
                assert_eq!(fixture.value("SELECT count(c) FROM t"), "0");
            } else {
                assert!(text.contains("interval 9 days"), "{change}");
            }
            fixture.run(&["check", "--deep"]).ok();
        }
    }
}
