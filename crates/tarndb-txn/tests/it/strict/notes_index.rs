//! The notes of the specification about indices, compactions beside them, and the in-memory
//! write-ahead log.

use tarndb_txn::strict::{LanceOp, Remap, TableFacts, Verdict, Work};
use tarndb_types::Uuid;

use super::notes_data::{check_named, word};
use super::sample::{
    PLAIN, TAGGED, fragments, index, removed, replacement, rewrite, rewrite_column, segment,
    update, verdict,
};
use super::samples::{
    TABLES, generations, mem_wal_index, ngram_index, reuse_index, tagged_rewrite, uncovered_index,
    update_with_generations,
};

const STABLE: TableFacts = TABLES[2];

#[track_caller]
fn check(table: TableFacts, cases: &[(&LanceOp, &LanceOp, &str)]) {
    for (number, (ours, theirs, expected)) in cases.iter().enumerate() {
        let found = word(table, ours, theirs);
        assert_eq!(found, *expected, "case {number}: {ours:?} after {theirs:?}");
    }
}

fn adds(uuid: u128, name: &str) -> LanceOp {
    index(vec![segment(uuid, name, 2, &[0])], vec![])
}

fn drops(uuid: u128, name: &str) -> LanceOp {
    index(vec![], vec![removed(uuid, name)])
}

fn replaces(old: u128, uuid: u128, name: &str) -> LanceOp {
    index(vec![segment(uuid, name, 2, &[0])], vec![removed(old, name)])
}

#[test]
fn h_indices_of_one_name() {
    check(
        PLAIN,
        &[
            (&adds(1, "a"), &adds(2, "a"), "R by h"),
            (&adds(1, "a"), &adds(2, "b"), "ok"),
            (&drops(1, "a"), &drops(1, "a"), "ok"),
            (&adds(2, "a"), &drops(1, "a"), "R by h"),
            (&drops(1, "a"), &adds(2, "a"), "R by h"),
            (&replaces(1, 2, "a"), &drops(1, "a"), "R by h"),
            (&drops(1, "a"), &replaces(1, 2, "a"), "R by h"),
            // One segment under two names (renamed between them) is still one segment.
            (&replaces(1, 2, "a"), &drops(1, "b"), "R by h"),
            (&drops(1, "b"), &replaces(1, 2, "a"), "R by h"),
            // One segment is replaced, another of the name is dropped.
            (&replaces(1, 2, "a"), &drops(3, "a"), "ok"),
            (&drops(3, "a"), &replaces(1, 2, "a"), "ok"),
            (&mem_wal_index(&[]), &mem_wal_index(&[]), "R by h"),
            (&reuse_index(false), &reuse_index(false), "R by h"),
            (&reuse_index(false), &mem_wal_index(&[]), "ok"),
        ],
    );
}

#[test]
fn h_a_trim_of_the_tagged_reuse_index_minds_that_index_only() {
    check_named(
        TAGGED,
        &[
            ("reuse_trim", "reuse_trim", "R by h"),
            ("reuse_trim", "reuse_drop", "R by h"),
            ("reuse_emptied", "reuse_drop", "R by h"),
            ("reuse_drop", "reuse_emptied", "ok"),
            ("reuse_trim", "create_index_id", "ok"),
            ("create_index_id", "reuse_trim", "ok"),
        ],
    );
}

#[test]
fn i_a_new_index_against_a_compaction() {
    let (eager, deferred) = (
        rewrite(&[&[0, 1]], Remap::Eager),
        rewrite(&[&[0, 1]], Remap::Deferred),
    );
    let inside = adds(1, "a");
    let outside = index(vec![segment(1, "a", 2, &[7])], vec![]);
    check(
        PLAIN,
        &[
            (&inside, &eager, "R by i"),
            (&outside, &eager, "ok"),
            (&uncovered_index(), &eager, "R by i"),
            (&drops(1, "a"), &eager, "ok"),
            (&inside, &deferred, "ok"),
            (&uncovered_index(), &deferred, "ok"),
            (&ngram_index(&[1]), &deferred, "R by i"),
            (&ngram_index(&[7]), &deferred, "ok"),
            (&reuse_index(false), &deferred, "R by i"),
        ],
    );
    check(TAGGED, &[(&uncovered_index(), &deferred, "R by i")]);
    check_named(
        TAGGED,
        &[
            ("reuse_trim", "rewrite_f0_f1", "ok"),
            ("reuse_trim", "rewrite_f0_f1_deferred", "ok"),
            ("reuse_mixed", "rewrite_f0_f1_deferred", "I by i"),
        ],
    );
}

#[test]
fn l_a_compaction_against_a_new_index() {
    let (eager, deferred) = (
        rewrite(&[&[0, 1]], Remap::Eager),
        rewrite(&[&[0, 1]], Remap::Deferred),
    );
    let part = index(vec![segment(1, "a", 2, &[0])], vec![]);
    let whole = index(vec![segment(1, "a", 2, &[0, 1, 2])], vec![]);
    let outside = index(vec![segment(1, "a", 2, &[7])], vec![]);
    check(
        PLAIN,
        &[
            (&eager, &part, "R by l"),
            (&eager, &outside, "ok"),
            (&eager, &uncovered_index(), "R by l"),
            (&eager, &drops(1, "a"), "ok"),
            (&eager, &reuse_index(false), "ok"),
            (&deferred, &part, "R by l"),
            (&deferred, &whole, "ok"),
            (&deferred, &outside, "ok"),
            (&deferred, &uncovered_index(), "R by l"),
            (&deferred, &reuse_index(false), "rebase"),
        ],
    );
    check(
        STABLE,
        &[(&deferred, &whole, "R by l"), (&eager, &outside, "ok")],
    );
    check_named(
        PLAIN,
        &[
            ("rewrite_f0_f1_deferred", "reuse_mixed", "I by l"),
            ("rewrite_f0_f1", "reuse_mixed", "I by l"),
        ],
    );
}

#[test]
fn l_an_index_by_address_survives_a_deferred_compaction_with_stable_row_ids() {
    let mut by_address = segment(1, "a", 2, &[0, 1]);
    by_address.domain = tarndb_txn::strict::RowDomain::RowAddress;
    let ours = rewrite(&[&[0, 1]], Remap::Deferred);
    check(STABLE, &[(&ours, &index(vec![by_address], vec![]), "ok")]);
}

#[test]
fn b2_two_compactions_meet_in_fragments_and_in_the_reuse_index() {
    let (eager, deferred) = (
        rewrite(&[&[0]], Remap::Eager),
        rewrite(&[&[2]], Remap::Deferred),
    );
    let other = rewrite(&[&[5]], Remap::Deferred);
    check(
        PLAIN,
        &[
            (&eager, &eager, "R by b2"),
            (&eager, &deferred, "ok"),
            (&deferred, &other, "R by b2"),
        ],
    );
    check(
        TAGGED,
        &[
            (&deferred, &other, "ok"),
            (&tagged_rewrite(&[2], &[2, 5]), &other, "I by b2"),
            (&other, &tagged_rewrite(&[2], &[2, 5]), "ok"),
        ],
    );
}

#[test]
fn j_schema_changes_beside_a_new_index() {
    check_named(
        PLAIN,
        &[
            ("wal_index", "merge_nullable", "R by j"),
            ("merge_nullable", "wal_index", "R by j"),
            ("index_x_f0", "retype_2", "ok"),
            ("retype_2", "index_x_f0", "ok"),
        ],
    );
    check_named(
        TAGGED,
        &[
            ("index_x_f0", "retype_2", "R by j"),
            ("retype_2", "index_x_f0", "R by j"),
            ("create_index_id", "retype_2", "rebase"),
            ("drop_index_old", "retype_2", "ok"),
        ],
    );
}

#[test]
fn k_replaced_columns_beside_a_new_index() {
    let on_x = adds(1, "a");
    check(
        PLAIN,
        &[
            (&on_x, &replacement(7, 2), "R by k"),
            (&on_x, &replacement(0, 1), "ok"),
            (&replacement(7, 2), &on_x, "R by k"),
        ],
    );
    check(
        TAGGED,
        &[
            (&on_x, &replacement(7, 2), "rebase"),
            (&on_x, &replacement(0, 1), "ok"),
            (&replacement(7, 2), &on_x, "R by k"),
        ],
    );
}

#[test]
fn w_rewritten_columns_leave_the_coverage_of_a_new_index() {
    let ours = index(vec![segment(1, "a", 2, &[0, 1])], vec![]);
    let theirs = update(rewrite_column(0, 2));
    let work = Work::WithdrawCoverage {
        segment: Uuid::from_u128(1),
        fragments: fragments(&[0]),
    };
    assert_eq!(verdict(PLAIN, &ours, &theirs), Verdict::Rebase(vec![work]));
    let by_lineage = Verdict::Rebase(vec![Work::WithdrawByLineage]);
    assert_eq!(verdict(TAGGED, &ours, &theirs), by_lineage);
    check(
        PLAIN,
        &[
            (&ours, &update(rewrite_column(7, 2)), "ok"),
            (&ours, &update(rewrite_column(0, 0)), "ok"),
            (&uncovered_index(), &update(rewrite_column(0, 1)), "ok"),
        ],
    );
}

fn state(entries: &[(u128, u64)]) -> LanceOp {
    LanceOp::UpdateMemWalState(generations(entries))
}

#[test]
fn m_generations_of_one_shard() {
    check(
        PLAIN,
        &[
            (&state(&[(1, 5)]), &state(&[(1, 4)]), "R by m"),
            (&state(&[(1, 5)]), &state(&[(1, 5)]), "I by m"),
            (&state(&[(1, 5)]), &state(&[(1, 6)]), "I by m"),
            (&state(&[(1, 5)]), &state(&[(2, 6)]), "ok"),
            (
                &state(&[(1, 5), (2, 5)]),
                &state(&[(2, 4), (1, 9)]),
                "R by m",
            ),
            (
                &update_with_generations(&[(1, 5)]),
                &state(&[(1, 4)]),
                "R by m",
            ),
            (&update_with_generations(&[]), &state(&[(1, 4)]), "ok"),
            (
                &state(&[(1, 5)]),
                &update_with_generations(&[(1, 5)]),
                "I by m",
            ),
            (&state(&[(1, 5)]), &update_with_generations(&[]), "ok"),
        ],
    );
}

#[test]
fn n_the_write_ahead_log_beside_its_index_and_others() {
    let ours = mem_wal_index(&[(1, 2)]);
    let committed = generations(&[(1, 4)]);
    let work = Work::RaiseGenerations { committed };
    assert_eq!(
        verdict(PLAIN, &ours, &state(&[(1, 4)])),
        Verdict::Rebase(vec![work])
    );
    check(
        PLAIN,
        &[
            (&adds(1, "a"), &state(&[(1, 4)]), "I by n1"),
            (&state(&[(1, 4)]), &adds(1, "a"), "ok"),
            (&state(&[(1, 4)]), &mem_wal_index(&[(1, 4)]), "I by n2"),
            (&state(&[(1, 5)]), &mem_wal_index(&[(1, 4)]), "R by n2"),
            (&state(&[(1, 5)]), &mem_wal_index(&[(2, 4)]), "ok"),
        ],
    );
}
