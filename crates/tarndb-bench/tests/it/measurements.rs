//! Each measurement, a few transactions long: all acknowledged, and the sums right (the
//! measurements check the tables themselves and fail when they are not).

use std::time::Duration;

use serde_json::Value;
use tarndb_bench::goodput::{self, Goodput};
use tarndb_bench::group::{self, Group};
use tarndb_bench::lab::{Mode, Setting};
use tarndb_bench::reading::{self, Reading};
use tarndb_bench::report::Report;
use tarndb_bench::stream::{Step, Stream, Streaming};
use tarndb_db::PublishMode;

const FOREVER: Duration = Duration::from_secs(1_000_000);

fn setting(seed: u64) -> Setting {
    Setting {
        latency: Duration::from_millis(20),
        jitter: 0.2,
        seed,
    }
}

fn number(report: &Report, key: &str) -> f64 {
    report.get(key).and_then(Value::as_f64).unwrap()
}

fn run_goodput(seed: u64) -> Report {
    let plan = Goodput {
        writers: 4,
        time: FOREVER,
        transactions: 5,
    };
    let measured = Mode::Virtual.run(setting(seed), |lab| goodput::measure(lab, plan));
    measured.unwrap()
}

#[test]
fn four_writers_on_one_file_are_all_acknowledged_and_none_runs_again() {
    let report = run_goodput(1);
    assert_eq!(number(&report, "acknowledged"), 20.0);
    assert_eq!(number(&report, "reexecutions_per_txn"), 0.0);
    assert!(number(&report, "lost_puts_per_txn") > 0.0, "{report:?}");
}

#[test]
fn a_scan_at_a_distance_takes_the_rounds_of_one_file() {
    let plan = Reading {
        files: 8,
        rows: 50_000,
    };
    let even = Setting {
        jitter: 0.0,
        ..setting(1)
    };
    let report = Mode::Virtual.run(even, |lab| reading::measure(lab, plan));
    let report = report.unwrap();
    assert_eq!(number(&report, "singly_ms"), 8.0 * 2.0 * 20.0);
    assert_eq!(number(&report, "scan_ms"), 2.0 * 20.0);
    assert_eq!(number(&report, "again_ms"), 20.0);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let (first, second) = (run_goodput(7), run_goodput(7));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

#[test]
fn clients_of_one_handle_are_all_acknowledged_and_share_records() {
    let plan = Group {
        clients: 4,
        time: FOREVER,
        transactions: 5,
        publish: PublishMode::Manual,
    };
    let measured = Mode::Virtual.run(setting(1), |lab| group::measure(lab, plan));
    let report = measured.unwrap();
    assert_eq!(number(&report, "acknowledged"), 20.0);
    assert!(number(&report, "txns_per_record") > 1.0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_published_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Stream {
        folder: folder.path().join("db").to_str().unwrap().to_owned(),
        tasks: 2,
        rows: 3,
        publish: PublishMode::Manual,
    };
    let mut streaming = Streaming::start(plan).await.unwrap();
    let appended = streaming.step(Step::Append(6)).await.unwrap();
    assert_eq!(number(&appended, "transactions"), 6.0);
    let published = streaming.step(Step::Publish).await.unwrap();
    // Version 0 of the table, which creates it, and one for each transaction.
    assert_eq!(number(&published, "versions_written"), 7.0);
    let many = streaming.step(Step::Query).await.unwrap();
    assert_eq!(number(&many, "files"), 6.0);
    streaming.step(Step::Compact).await.unwrap();
    let one = streaming.step(Step::Query).await.unwrap();
    assert_eq!(number(&one, "files"), 1.0);
    streaming.step(Step::ColdQuery).await.unwrap();
    streaming.close().await.unwrap();
}
