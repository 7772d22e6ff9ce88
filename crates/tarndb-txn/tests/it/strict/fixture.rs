//! Outcomes measured with Lance itself, against the strict rules.
//!
//! The measurements are not part of this repository; without them the test says so and passes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tarndb_txn::strict::{LanceOp, Verdict};

use super::legend::operations;
use super::sample::{PLAIN, verdict};

/// (theirs, ours): pairs that the algebra cannot express, with the reason.
const LISTED: [((&str, &str), &str); 0] = [];

fn fixture() -> Option<PathBuf> {
    // Asked at run time too: one target folder may serve several checkouts.
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let folder = here.join("../../../shared/fixtures/lance");
    let path = folder.join("conflict_matrix.json");
    if path.is_file() {
        return Some(path);
    }
    println!(
        "SKIPPED: the measured conflict matrix is not at {}",
        path.display()
    );
    None
}

fn outcome(operations: &BTreeMap<&str, LanceOp>, ours: &str, theirs: &str) -> &'static str {
    match verdict(PLAIN, &operations[ours], &operations[theirs]) {
        Verdict::Compatible | Verdict::Rebase(_) => "ok",
        Verdict::Retryable(_) => "retryable",
        Verdict::Incompatible(_) => "incompatible",
    }
}

#[test]
fn every_measured_pair_has_the_measured_outcome() {
    let Some(path) = fixture() else {
        return;
    };
    let measured: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let operations = operations();
    let pairs = measured["results"].as_array().unwrap();
    let mut wrong = Vec::new();
    let (mut equal, mut listed) = (0, 0);
    for pair in pairs {
        let text = |key: &str| pair[key].as_str().unwrap();
        let (theirs, ours) = (text("theirs"), text("ours"));
        if LISTED.iter().any(|(pair, _)| *pair == (theirs, ours)) {
            listed += 1;
            continue;
        }
        let found = outcome(&operations, ours, theirs);
        if found == text("outcome") {
            equal += 1;
        } else {
            wrong.push(format!(
                "{ours} after {theirs}: {found}, measured {}",
                text("outcome")
            ));
        }
    }
    println!(
        "{} measured pairs: {equal} equal, {listed} listed",
        pairs.len()
    );
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(equal + listed, pairs.len());
}

/// The specification gives the counts of the whole 32 x 32 measurement.
#[test]
fn counts_of_all_pairs_of_the_legend_are_those_of_the_specification() {
    let operations = operations();
    let mut counts = BTreeMap::new();
    for ours in operations.keys() {
        for theirs in operations.keys() {
            *counts
                .entry(outcome(&operations, ours, theirs))
                .or_insert(0) += 1;
        }
    }
    let expected = [("ok", 748), ("retryable", 208), ("incompatible", 68)];
    assert_eq!(counts, expected.into());
}
