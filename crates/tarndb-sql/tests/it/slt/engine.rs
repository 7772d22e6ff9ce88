//! The engine's own files, through TarnDB tables: `scripts/engine_slt.sh`.
//!
//! Does nothing unless `TARNDB_ENGINE_SLT` names the folder of those files. Prints a table of what
//! passed, failed and was skipped, and writes every failure to `TARNDB_ENGINE_SLT_REPORT`.
//! What a file cannot mean here is skipped, with the reason: plans (`EXPLAIN`), what was refused
//! by name (0A000), and statements over a table whose CREATE was.

#![expect(clippy::print_stdout, reason = "the table is what it is run for")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::render::Form;
use super::run::{Runner, Verdict};
use super::script::{Expect, Record, records};

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: BTreeMap<String, usize>,
}

/// Why the outcome of a record says nothing about us.
fn reason(record: &Record, verdict: &Verdict, broken: bool) -> Option<String> {
    let sql = record.sql.trim_start().to_lowercase();
    if sql.starts_with("explain") {
        return Some("a plan of the engine".to_owned());
    }
    // Unsigned numbers, DATE64, dictionaries, .. become what a table holds; a literal with a point is a decimal.
    let engine_types = ["arrow_typeof", "date64", "fixedsizebinary", "dict_col"];
    let Verdict::Error { state, message } = verdict else {
        let told = engine_types.into_iter().find(|word| sql.contains(word));
        return told.map(|word| format!("shows a type of the engine: {word}"));
    };
    if message.contains("test_files/scratch") {
        return Some("a folder of the engine's own tests".to_owned());
    }
    match *state {
        "0A000" => Some(format!("refused: {message}")),
        "42P01" if broken => Some("its table was not created".to_owned()),
        "22023" if sql.starts_with("set ") || sql.starts_with("reset ") => {
            Some("a setting that is fixed here".to_owned())
        }
        _ => None,
    }
}

async fn file(path: &Path, report: &mut String) -> Option<Tally> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut tally = Tally::default();
    let records = match records(&text, path) {
        Ok(records) => records,
        Err(error) => {
            tally.skipped.insert(error, 1);
            return Some(tally);
        }
    };
    let mut runner = Runner::new(Form::Rounded).await;
    let mut broken = false;
    for record in &records {
        let verdict = runner.run(record).await;
        if let Some(reason) = reason(record, &verdict, broken) {
            broken |= record.sql.trim_start().to_lowercase().starts_with("create");
            let reason = reason.chars().take(60).collect();
            *tally.skipped.entry(reason).or_default() += 1;
            continue;
        }
        let told = match verdict {
            Verdict::Passed => {
                tally.passed += 1;
                continue;
            }
            Verdict::Error { state, message } => format!("{state} {message}"),
            Verdict::NoError => "no error".to_owned(),
            Verdict::Other(found) => found,
        };
        broken |= record.expect == Expect::Ok;
        tally.failed += 1;
        let (name, line) = (path.display(), record.line);
        let wanted = match &record.expect {
            Expect::Rows { rows, .. } => rows.join("\n"),
            other => format!("{other:?}"),
        };
        writeln!(
            report,
            "== {name}:{line}\n{}\n-- expected\n{wanted}\n-- found\n{told}\n",
            record.sql
        )
        .unwrap();
    }
    Some(tally)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_the_engine() {
    let Ok(folder) = std::env::var("TARNDB_ENGINE_SLT") else {
        return;
    };
    let mut report = String::new();
    let (mut passed, mut failed) = (0, 0);
    let mut skipped = BTreeMap::<String, usize>::new();
    let pattern = format!("{folder}/**/*.slt");
    for path in glob::glob(&pattern).unwrap().flatten() {
        let Some(tally) = file(&path, &mut report).await else {
            continue;
        };
        let name = path.strip_prefix(&folder).unwrap_or(&path).display();
        let without = tally.skipped.values().sum::<usize>();
        println!(
            "{name:60} {:>6} {:>6} {without:>6}",
            tally.passed, tally.failed
        );
        passed += tally.passed;
        failed += tally.failed;
        for (reason, count) in tally.skipped {
            *skipped.entry(reason).or_default() += count;
        }
    }
    println!("passed {passed}, failed {failed}; skipped:");
    for (reason, count) in skipped {
        println!("{count:>6} {reason}");
    }
    if let Ok(path) = std::env::var("TARNDB_ENGINE_SLT_REPORT") {
        std::fs::write(path, report).unwrap();
    }
}
