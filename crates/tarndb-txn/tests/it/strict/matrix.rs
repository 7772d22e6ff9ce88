//! The whole strict matrix, printed; completeness; both directions; every entry bites.
//!
//! Invariant: the expectation is the specification's table (section 13 of the digest).
//! Spec: docs/conflicts.md, "Strict matrix".

use std::collections::BTreeSet;

use expect_test::expect;
use tarndb_txn::strict::matrix::{ASYMMETRIES, Matrix, STRICT};
use tarndb_txn::strict::{LanceKind, LanceOp, Rule, TableFacts, judge_by};

use super::sample::{committed, verdict};
use super::samples::{TABLES, samples};

fn codes(rules: &[Rule]) -> String {
    let codes: Vec<_> = rules.iter().map(|rule| rule.code()).collect();
    codes.join(" ")
}

#[test]
fn whole_strict_matrix() {
    let mut text = format!("{:5}", "");
    for theirs in LanceKind::ALL {
        text += &format!("{:5}", theirs.short());
    }
    for ours in LanceKind::ALL {
        text = format!("{}\n{:5}", text.trim_end(), ours.short());
        for theirs in LanceKind::ALL {
            text += &format!("{:5}", codes(STRICT.rules(*ours, *theirs)));
        }
    }
    expect![[r#"
             App  Del  Upd  Ovw  Idx  Rwr  Mrg  Prj  Rst  Rsv  Cln  Cfg  Rep  Ovl  MemW Bas  Unk
        App  .    .    .    I    .    .    x    x    I    .    .    .    .    .    I    .    u
        Del  .    a    a    I    .    b    R    .    I    .    .    .    b    .    I    .    u
        Upd  c    a    c a  I    .    b    x R  x d  I    .    .    .    b    e    m    .    u
        Ovw  .    .    .    f    .    .    .    .    .    .    .    g    .    .    I    .    u
        Idx  .    .    w    I    h    i    j    .    I    .    .    .    k    .    n1   .    u
        Rwr  .    b    b    I    l    b2   R    .    I    .    .    .    b    b    .    .    u
        Mrg  x R  R    x R  I    j    R    R    I    I    .    .    y    x R  x R  I    .    u
        Prj  x    .    x    I    .    .    R    R    I    .    .    .    x    x    I    .    u
        Rst  .    .    .    .    .    .    .    .    .    .    .    y    .    .    I    .    u
        Rsv  .    .    .    I    .    .    .    .    I    .    .    .    .    .    .    .    u
        Cln  .    .    .    .    .    .    .    .    .    .    .    .    .    .    .    .    .
        Cfg  .    .    .    g    .    .    y    .    y    .    .    g    .    .    .    .    u
        Rep  .    o    p    I    k    b    x R  x q  I    .    .    .    r    .    I    .    u
        Ovl  .    o    s    I    .    b    x R  x    I    .    .    .    .    .    I    .    u
        MemW I    I    m    I    n2   .    I    I    I    .    I    .    I    I    m    .    u
        Bas  .    .    .    .    .    .    .    .    .    .    .    .    .    .    .    t    .
        Unk  u    u    u    u    u    u    u    u    u    u    u    u    u    u    u    u    u
    "#]]
    .assert_eq(&format!("{}\n", text.trim_end()));
}

#[test]
fn no_pair_is_missing_and_no_rule_is_idle() {
    let mut used: BTreeSet<Rule> = BTreeSet::new();
    for ours in LanceKind::ALL {
        for theirs in LanceKind::ALL {
            let rules = STRICT.rules(*ours, *theirs);
            assert!(!rules.is_empty(), "no rule for {ours} / {theirs}");
            let is_unknown = [*ours, *theirs].contains(&LanceKind::Unknown);
            assert!(
                is_unknown || !rules.contains(&Rule::UnknownOperation),
                "{ours} / {theirs} has no entry of its own"
            );
            used.extend(rules);
        }
    }
    let idle: Vec<_> = Rule::ALL
        .iter()
        .filter(|rule| !used.contains(rule))
        .collect();
    assert!(
        idle.is_empty(),
        "rules without a place in the matrix: {idle:?}"
    );
}

#[test]
fn every_kind_has_a_sample() {
    let kinds: BTreeSet<_> = samples().iter().map(|(_, op)| op.kind()).collect();
    assert_eq!(kinds, LanceKind::ALL.iter().copied().collect());
}

/// Pairs of kinds whose entries or outcomes differ by direction.
fn directed() -> BTreeSet<(LanceKind, LanceKind)> {
    let mut pairs = BTreeSet::new();
    let samples = samples();
    for (_, first) in &samples {
        for (_, second) in &samples {
            let (a, b) = (first.kind(), second.kind());
            let differ = TABLES.iter().any(|table| {
                let there = verdict(*table, first, second).strictness();
                there != verdict(*table, second, first).strictness()
            });
            if differ {
                pairs.insert((a.min(b), a.max(b)));
            }
        }
    }
    pairs
}

#[test]
fn the_two_directions_differ_only_where_a_reason_is_given() {
    let listed: BTreeSet<_> = ASYMMETRIES
        .iter()
        .map(|pair| (pair.first.min(pair.second), pair.first.max(pair.second)))
        .collect();
    assert_eq!(listed.len(), ASYMMETRIES.len(), "a pair is listed twice");
    let found = directed();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "no reason is given for {unlisted:?}");
    let unreal: Vec<_> = listed.difference(&found).collect();
    assert!(
        unreal.is_empty(),
        "a reason is given for no difference: {unreal:?}"
    );
    assert!(ASYMMETRIES.iter().all(|pair| !pair.why.is_empty()));
}

/// The matrix without one rule of one entry.
fn without(ours: LanceKind, theirs: LanceKind, rule: Rule) -> Matrix {
    let rules = STRICT.rules(ours, theirs).iter();
    let rest: Vec<_> = rules.copied().filter(|other| *other != rule).collect();
    STRICT.clone().with(ours, theirs, rest.leak())
}

fn outcomes(
    matrix: &Matrix,
    samples: &[(&str, LanceOp)],
    ours: LanceKind,
    theirs: LanceKind,
) -> Vec<u8> {
    let of = |kind: LanceKind| samples.iter().filter(move |(_, op)| op.kind() == kind);
    let pairs = of(ours).flat_map(|(_, ours)| of(theirs).map(move |(_, theirs)| (ours, theirs)));
    let on = |table: TableFacts| {
        move |(ours, theirs): (&LanceOp, &LanceOp)| {
            judge_by(matrix, table, ours, &committed(theirs)).strictness()
        }
    };
    TABLES
        .iter()
        .flat_map(|table| pairs.clone().map(on(*table)))
        .collect()
}

#[test]
fn dropping_any_rule_of_any_entry_is_noticed() {
    let samples = samples();
    for ours in LanceKind::ALL {
        for theirs in LanceKind::ALL {
            let right = outcomes(&STRICT, &samples, *ours, *theirs);
            for rule in STRICT.rules(*ours, *theirs) {
                let weak = outcomes(&without(*ours, *theirs, *rule), &samples, *ours, *theirs);
                // Where the other rule of the entry is always as strict, dropping one changes
                // nothing but the words.
                let is_moot = STRICT.rules(*ours, *theirs).contains(&Rule::Retryable);
                assert!(
                    *rule == Rule::Compatible || is_moot || right != weak,
                    "{ours} / {theirs}: rule {} may be dropped",
                    rule.code()
                );
            }
        }
    }
}
