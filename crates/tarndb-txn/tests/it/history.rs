//! Histories: transactions that begin at older states, are judged, rebased and committed, each
//! compared with running it at the head.
//!
//! Invariant: what is decoded and looked at is what the algebra asks for, nothing more. A planted
//! [`Bug`] changes one step as a mistake in the code would.
//! Spec: docs/conflicts.md, "Proof".

use std::sync::Arc;

use tarndb_txn::aspect::Aspect;
use tarndb_txn::matrix::{MANAGED, Matrix};
use tarndb_txn::rule::Rule;
use tarndb_txn::{
    Answer, Committed, Effects, Evidence, Isolation, RowMap, TableEffects, Touched, Verdict,
    judge_by, questions, rebase, rows_needed,
};
use tarndb_types::{DbVersion, TableId, TxnId, Uuid};

use crate::cases::Txn;
use crate::model::{Change, Db, as_committed};

/// A mistake that the laws must notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bug {
    /// None.
    None,
    /// One entry of the matrix is "compatible" where it must be looked at.
    Weakened(Aspect, Aspect),
    /// A transaction whose outcome was unknown is sent again without a look for its id.
    SkipIdCheck,
    /// Vectors are united with those that were read, not with those at the head.
    WrongVector,
    /// Deletions stay where they were though their rows have moved.
    IgnoreRowMap,
    /// Rows are taken for those of another run.
    WrongRun,
    /// Keys are not compared.
    IgnoreKeys,
    /// What was looked at is not listened to.
    IgnoreAnswers,
}

/// One transaction of a history.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) txn: Txn,
    /// How many commits it has not seen when it begins.
    pub(crate) lag: usize,
    /// The budget allows a look into the data.
    pub(crate) looks: bool,
    /// Its outcome stays unknown at first, so it is sent again.
    pub(crate) resent: bool,
}

/// A commit, with the database before and after it.
struct Logged {
    committed: Committed,
    before: Db,
    after: Db,
}

/// Effects in the log.
pub(crate) fn committed(version: u64, effects: &Effects, head: &Db) -> Committed {
    Committed {
        version: DbVersion(version),
        txn: txn_id(version),
        effects: as_committed(effects, head),
        evidence: Evidence::none(),
    }
}

fn txn_id(version: u64) -> TxnId {
    TxnId(Uuid::from_u128(u128::from(version)))
}

/// A transaction planned on a base, or `None` when it cannot even run alone.
pub(crate) fn planned(
    base: &Db,
    txn: &Txn,
    tag: u64,
    isolation: Isolation,
) -> Option<(Txn, Change)> {
    let txn: Txn = match isolation {
        // A statement that found no rows has done nothing, whatever happens to the table.
        Isolation::Snapshot => {
            let pinned = txn
                .iter()
                .map(|i| base.pin(i))
                .collect::<Result<Vec<_>, _>>()
                .ok()?;
            pinned.into_iter().filter(|i| !i.is_nothing()).collect()
        }
        Isolation::Serializable => txn.clone(),
    };
    let mut change = base.plan(&txn, tag * 10).ok()?;
    change.effects.isolation = isolation;
    // A compaction that finds nothing to do is no transaction.
    if !change.rewrites_what_it_should(&txn) {
        return None;
    }
    let alone = base.commit(&change, false).ok()?;
    assert_eq!(
        alone.view(),
        base.run(&txn, tag).ok()?.view(),
        "the model disagrees with itself"
    );
    Some((txn, change))
}

pub(crate) fn passes(verdict: &Verdict) -> Option<bool> {
    match verdict {
        Verdict::Compatible => Some(false),
        Verdict::Rebase => Some(true),
        Verdict::Retryable(_) | Verdict::Incompatible(_) => None,
    }
}

/// Puts `change` onto `head` as the verdict says and compares with running it there.
pub(crate) fn agrees(
    head: &Db,
    txn: &Txn,
    tag: u64,
    change: &Change,
    rebase: bool,
) -> Result<Db, String> {
    let applied = head.commit(change, rebase)?;
    let run = head
        .run(txn, tag)
        .map_err(|why| format!("running it again fails: {why}"))?;
    if applied.view() == run.view() {
        Ok(applied)
    } else {
        Err(format!(
            "applied {:#?}\nbut running gives {:#?}",
            applied.view(),
            run.view()
        ))
    }
}

/// What became of the steps of a history: the verdict on each that could be planned.
pub(crate) fn history(
    steps: &[Step],
    isolation: Isolation,
    bug: Bug,
) -> Result<Vec<Verdict>, String> {
    let mut head = Db::sample();
    let mut log: Vec<Logged> = Vec::new();
    let mut verdicts = Vec::new();
    for (tag, step) in (1..).zip(steps) {
        let unseen = step.lag.min(log.len());
        let from = log.len() - unseen;
        let base = log.get(from).map_or(&head, |logged| &logged.before);
        let Some((txn, change)) = planned(base, &step.txn, tag, isolation) else {
            continue;
        };
        for attempt in 0..=usize::from(step.resent) {
            let later = log.get(from..).unwrap_or_default();
            let there = |logged: &Logged| logged.committed.txn == txn_id(tag);
            if bug != Bug::SkipIdCheck && later.iter().any(there) {
                continue;
            }
            let (verdict, effects) = resolve(&change, later, step.looks, bug);
            let passed = passes(&verdict);
            if attempt == 0 {
                verdicts.push(verdict);
            }
            let Some(rebase) = passed else { break };
            if attempt > 0 {
                return Err("committed twice".to_owned());
            }
            let change = change.with(effects);
            let rebase = rebase && bug != Bug::WrongVector;
            let after = agrees(&head, &txn, tag, &change, rebase)
                .map_err(|why| format!("{:?}: {why}", verdicts.last()))?;
            log.push(Logged {
                committed: committed(tag, &change.effects, &head),
                before: std::mem::replace(&mut head, after.clone()),
                after,
            });
        }
    }
    Ok(verdicts)
}

/// Judges against each commit in order and rebases in between.
fn resolve(change: &Change, log: &[Logged], looks: bool, bug: Bug) -> (Verdict, Effects) {
    let mut ours = change.effects.clone();
    let matrix: Matrix = match bug {
        Bug::Weakened(ours, theirs) => MANAGED.clone().with(ours, theirs, Rule::Compatible),
        _ => MANAGED.clone(),
    };
    let mut verdict = Verdict::Compatible;
    for logged in log {
        let mut theirs = decoded(&ours, change, logged, looks, bug);
        if bug == Bug::WrongRun {
            for effects in [&mut ours, &mut theirs.effects] {
                effects.tables.values_mut().for_each(confuse_runs);
            }
        }
        verdict = verdict.strictest(judge_by(&matrix, &ours, &theirs));
        if passes(&verdict).is_none() {
            break;
        }
        if bug != Bug::IgnoreRowMap {
            ours = rebase(ours, &theirs);
        }
    }
    (verdict, ours)
}

/// Two runs of an output change places, where both are of one input.
fn confuse_runs(table: &mut TableEffects) {
    let Some(map) = &table.row_map else { return };
    let mut map = RowMap::clone(map);
    for target in &mut map.targets {
        if let [first, .., last] = &mut target.runs[..]
            && first.source == last.source
        {
            std::mem::swap(first, last);
        }
    }
    table.row_map = Some(Arc::new(map));
}

/// A commit as the resolver gets to see it: rows of files only where they are needed, answers
/// only where there is a question.
fn decoded(ours: &Effects, change: &Change, logged: &Logged, looks: bool, bug: Bug) -> Committed {
    let mut theirs = logged.committed.clone();
    for (id, full) in &logged.committed.effects.tables {
        let nothing = TableEffects::default();
        let our_table = ours.tables.get(id).unwrap_or(&nothing);
        let their_table = theirs.effects.tables.entry(*id).or_default();
        for touched in their_table.deletions.values_mut() {
            *touched = Touched::WholeFile;
        }
        for file in rows_needed(our_table, their_table) {
            if let Some(rows) = full.deletions.get(&file) {
                their_table.deletions.insert(file, rows.clone());
            }
        }
        if bug == Bug::IgnoreKeys {
            let columns = our_table.keys.as_ref().map(|keys| keys.columns.clone());
            their_table.keys =
                columns.and_then(|columns| tarndb_txn::KeySet::of(columns, &[].into(), true));
        }
        for question in questions(our_table, their_table, ours.isolation) {
            let answer = answer(*id, &question, change, logged, looks, bug);
            theirs.evidence.note(*id, question, answer);
        }
    }
    theirs
}

fn answer(
    id: TableId,
    question: &tarndb_txn::Question,
    change: &Change,
    logged: &Logged,
    looks: bool,
    bug: Bug,
) -> Answer {
    let Some(relied) = change.relied.get(&id) else {
        return Answer::No;
    };
    match (bug, looks) {
        (Bug::IgnoreAnswers, _) => Answer::No,
        (_, false) => Answer::Unknown("over the budget".to_owned()),
        (_, true) => relied.answer(question, id, &logged.before, &logged.after),
    }
}
