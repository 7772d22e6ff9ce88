//! The notes of the specification about rows, fragments, fields, keys and configuration.
//!
//! Each line: ours, theirs, and what comes of it (`ok`, `rebase`, or the code of the rule that
//! decides with `R` or `I`).

use std::collections::BTreeMap;

use tarndb_txn::strict::{
    ConfigChange, FieldId, FileList, LanceOp, MetadataChange, RowChange, TableFacts, UpdateMode,
    Verdict, Work, rows_needed,
};

use super::sample::{
    PLAIN, delete, delete_whole, fragments, names, overlay, replacement, rewrite_column,
    rewrite_rows, row_change, rows, schema, undecoded, update, verdict, without_rows,
};
use super::samples::{base, bloom, samples, upsert};

/// What comes of a pair, in a word.
pub(super) fn word(table: TableFacts, ours: &LanceOp, theirs: &LanceOp) -> String {
    match verdict(table, ours, theirs) {
        Verdict::Compatible => "ok".to_owned(),
        Verdict::Rebase(_) => "rebase".to_owned(),
        Verdict::Retryable(conflict) => format!("R by {}", conflict.rule.code()),
        Verdict::Incompatible(conflict) => format!("I by {}", conflict.rule.code()),
    }
}

#[track_caller]
fn check(cases: &[(&LanceOp, &LanceOp, &str)]) {
    for (number, (ours, theirs, expected)) in cases.iter().enumerate() {
        let found = word(PLAIN, ours, theirs);
        assert_eq!(found, *expected, "case {number}: {ours:?} after {theirs:?}");
    }
}

/// By the names of the samples.
#[track_caller]
pub(super) fn check_named(table: TableFacts, cases: &[(&str, &str, &str)]) {
    let samples: BTreeMap<_, _> = samples().into_iter().collect();
    for (ours, theirs, expected) in cases {
        let found = word(table, &samples[ours], &samples[theirs]);
        assert_eq!(found, *expected, "{ours} after {theirs}");
    }
}

#[test]
fn a_deletions_of_other_rows_unite_and_of_the_same_row_conflict() {
    let (row0, row1) = (delete(0, &[0]), delete(0, &[1]));
    let moved = update(rewrite_rows(0, &[1]));
    check(&[
        (&row0, &row1, "rebase"),
        (&row0, &row0, "R by a"),
        (&moved, &row0, "rebase"),
        (&row0, &moved, "rebase"),
        (&moved, &row1, "R by a"),
        (&row0, &delete(1, &[0]), "ok"),
        (&without_rows(row0.clone()), &row1, "R by a"),
        (&without_rows(row0.clone()), &delete(1, &[0]), "ok"),
        (&row0, &without_rows(row1.clone()), "rebase"),
    ]);
    let work = Work::UniteVectors {
        fragments: fragments(&[0]),
    };
    assert_eq!(verdict(PLAIN, &row0, &row1), Verdict::Rebase(vec![work]));
}

#[test]
fn a_whole_fragments_are_judged_by_fragment() {
    let row = delete(0, &[1]);
    check(&[
        (&delete_whole(&[0]), &row, "R by a"),
        (&row, &delete_whole(&[0]), "R by a"),
        (&delete_whole(&[0]), &delete_whole(&[0]), "R by a"),
        (&delete_whole(&[0]), &delete(1, &[1]), "ok"),
    ]);
}

#[test]
fn a_a_fragment_removed_beside_others_that_live_on_is_judged_by_row() {
    let mut ours = row_change(1, &[0]);
    ours.removed = fragments(&[0]);
    if let Some(affected) = &mut ours.affected {
        affected.extend([(tarndb_txn::strict::FragmentId(0), rows(&[0, 2, 3]))]);
    }
    let read = FileList("a.lance".to_owned());
    ours.read.insert(tarndb_txn::strict::FragmentId(0), read);
    let ours = LanceOp::Delete(ours);
    check(&[
        (&ours, &delete(0, &[1]), "rebase"),
        (&ours, &delete(0, &[2]), "R by a"),
    ]);
}

#[test]
fn a_new_data_files_of_a_common_fragment_conflict() {
    let column = update(rewrite_column(0, 2));
    check(&[
        (&delete(0, &[1]), &column, "R by a"),
        (&delete(1, &[1]), &column, "ok"),
    ]);
    // Files that are not known as they were read count as changed.
    let mut ours = row_change(0, &[1]);
    ours.read.clear();
    check(&[(&LanceOp::Delete(ours), &delete(0, &[2]), "R by a")]);
}

#[test]
fn a_rows_that_nobody_decoded_are_asked_for_and_count_as_all() {
    let (ours, theirs) = (delete(0, &[0]), undecoded(delete(0, &[1])));
    check(&[(&ours, &theirs, "R by a")]);
    assert_eq!(rows_needed(&ours, &theirs), fragments(&[0]));
    let none = fragments(&[]);
    assert_eq!(rows_needed(&ours, &delete(0, &[1])), none, "known already");
    assert_eq!(
        rows_needed(&delete(1, &[0]), &theirs),
        none,
        "another fragment"
    );
    assert_eq!(
        rows_needed(&without_rows(ours), &theirs),
        none,
        "decided anyway"
    );
    assert_eq!(
        rows_needed(&delete_whole(&[0]), &theirs),
        none,
        "decided anyway"
    );
    let moved = undecoded(update(rewrite_rows(0, &[1])));
    assert_eq!(rows_needed(&overlay(0, 2, &[1]), &moved), fragments(&[0]));
    assert_eq!(
        rows_needed(&overlay(0, 2, &[1]), &theirs),
        none,
        "a deletion is inert"
    );
}

#[test]
fn b_a_common_fragment_conflicts() {
    check_named(
        PLAIN,
        &[
            ("delete_rows_f0", "rewrite_f0_f1", "R by b"),
            ("delete_rows_f0", "rewrite_f2_f3", "ok"),
            ("rewrite_f0_f1", "delete_rows_f0", "R by b"),
            ("rewrite_f0_f1", "data_replacement_x_f1", "R by b"),
            ("rewrite_f2_f3", "overlay_x_f0_row2", "ok"),
            ("overlay_x_f0_row2", "rewrite_f0_f1", "R by b"),
            ("delete_rows_f0", "data_replacement_x_f0", "R by b"),
            ("delete_rows_f0", "data_replacement_x_f1", "ok"),
        ],
    );
}

#[test]
fn c_inserted_keys_must_be_known_to_differ() {
    let a = upsert(1, &[0], 0, bloom(&[1]));
    let b = upsert(2, &[0], 0, bloom(&[2]));
    let exact = |hashes: &[u64]| {
        let keys = tarndb_txn::strict::KeySet::Exact(hashes.iter().copied().collect());
        upsert(3, &[0], 0, keys)
    };
    let plain = update(rewrite_rows(4, &[0]));
    check(&[
        (&a, &b, "ok"),
        (&a, &upsert(2, &[0], 0, bloom(&[3])), "R by c"),
        (&a, &upsert(2, &[0], 1, bloom(&[2])), "R by c"),
        (&a, &upsert(2, &[0], 0, bloom(&[2, 0])), "R by c"),
        (&a, &exact(&[9]), "R by c"),
        (&exact(&[1, 2]), &upsert_at(5, &exact(&[3])), "ok"),
        (&exact(&[1, 2]), &upsert_at(5, &exact(&[2])), "R by c"),
        (&a, &plain, "R by c"),
        (&a, &LanceOp::Append, "R by c"),
        (&plain, &a, "ok"),
        (&plain, &LanceOp::Append, "ok"),
        (&LanceOp::Append, &a, "ok"),
        (&a, &upsert(1, &[0], 0, bloom(&[2])), "R by a"),
    ]);
}

/// The same upsert in another fragment, so that only its keys are judged.
fn upsert_at(fragment: u64, op: &LanceOp) -> LanceOp {
    let LanceOp::Update(change) = op else {
        panic!("not an update: {op:?}");
    };
    let mut change = change.clone();
    change.rows = row_change(fragment, &[0]);
    LanceOp::Update(change)
}

#[test]
fn d_and_q_dropped_fields_stop_their_writers() {
    let dropped = LanceOp::Project(schema(true, &[2]));
    check(&[
        (&update(rewrite_column(0, 2)), &dropped, "R by d"),
        (&update(rewrite_column(0, 0)), &dropped, "ok"),
        (&replacement(0, 2), &dropped, "I by q"),
        (&replacement(0, 0), &dropped, "ok"),
        (&dropped, &replacement(0, 2), "ok"),
    ]);
}

#[test]
fn e_and_s_overlays_meet_updates_by_row_or_by_field() {
    let moved = update(rewrite_rows(0, &[2]));
    let column = update(rewrite_column(0, 2));
    let (on2, on3, other) = (
        overlay(0, 2, &[2]),
        overlay(0, 2, &[3]),
        overlay(0, 0, &[2]),
    );
    let mut no_move = rewrite_rows(0, &[2]);
    no_move.adds_fragments = false;
    let mut gone = rewrite_rows(1, &[0]);
    gone.rows.removed = fragments(&[0]);
    check(&[
        (&column, &on2, "R by e"),
        (&column, &other, "ok"),
        (&column, &overlay(1, 2, &[2]), "ok"),
        (&moved, &on2, "R by e"),
        (&moved, &on3, "ok"),
        (&without_rows(moved.clone()), &on3, "R by e"),
        (&without_rows(moved.clone()), &overlay(1, 2, &[3]), "ok"),
        (&update(no_move.clone()), &on2, "ok"),
        (&on2, &moved, "R by s"),
        (&on3, &moved, "ok"),
        (&on3, &undecoded(moved.clone()), "R by s"),
        (&on2, &column, "ok"),
        (&on2, &update(no_move), "ok"),
        (&on2, &update(gone), "R by s"),
    ]);
}

#[test]
fn o_and_p_targets_removed_or_changed() {
    let target = replacement(0, 2);
    let mut gone = rewrite_rows(1, &[0]);
    gone.rows = RowChange {
        removed: fragments(&[0]),
        ..RowChange::default()
    };
    let mut columns_and_inserts = rewrite_column(0, 0);
    columns_and_inserts.adds_fragments = true;
    assert_eq!(columns_and_inserts.mode, UpdateMode::RewriteColumns);
    check(&[
        (&target, &delete(0, &[1]), "ok"),
        (&target, &delete_whole(&[0]), "I by o"),
        (&overlay(0, 2, &[1]), &delete_whole(&[0]), "R by o"),
        (&overlay(0, 2, &[1]), &delete(0, &[1]), "ok"),
        (&target, &update(gone), "I by p"),
        (&target, &update(rewrite_rows(0, &[1])), "R by p"),
        (&target, &update(rewrite_rows(1, &[1])), "ok"),
        (&target, &update(rewrite_column(0, 2)), "R by p"),
        (&target, &update(rewrite_column(0, 0)), "ok"),
        (&target, &update(columns_and_inserts), "ok"),
    ]);
}

#[test]
fn r_the_same_field_of_the_same_fragment_is_replaced_once() {
    check(&[
        (&replacement(0, 2), &replacement(0, 2), "R by r"),
        (&replacement(0, 2), &replacement(0, 0), "ok"),
        (&replacement(0, 2), &replacement(1, 2), "ok"),
    ]);
}

fn config(change: impl FnOnce(&mut ConfigChange)) -> LanceOp {
    let mut config = ConfigChange::default();
    change(&mut config);
    LanceOp::UpdateConfig(config)
}

fn metadata(keys: &[&str], replaces: bool) -> MetadataChange {
    MetadataChange {
        keys: names(keys),
        replaces,
    }
}

#[test]
fn f_and_g_configuration_keys_and_metadata() {
    let set = config(|c| c.upserted = names(&["k"]));
    let unset = config(|c| c.deleted = names(&["k"]));
    let over = |keys: &[&str]| LanceOp::Overwrite {
        config: names(keys),
    };
    let table = |keys: &[&str], replaces| config(|c| c.table = Some(metadata(keys, replaces)));
    let of_schema = config(|c| c.schema = Some(metadata(&["a"], false)));
    let of_schema_empty = config(|c| c.schema = Some(MetadataChange::default()));
    let of_field = |id| config(|c| c.fields = [(FieldId(id), metadata(&["a"], false))].into());
    check(&[
        (&set, &set, "I by g"),
        (&set, &unset, "I by g"),
        (&unset, &set, "I by g"),
        (&unset, &unset, "ok"),
        (&set, &config(|c| c.upserted = names(&["j"])), "ok"),
        (&set, &over(&["k"]), "I by g"),
        (&over(&["k"]), &unset, "I by g"),
        (&unset, &over(&["j"]), "ok"),
        (&over(&["k"]), &over(&["k"]), "I by f"),
        (&over(&["k"]), &over(&["j"]), "R by f"),
        (&of_schema, &over(&[]), "I by g"),
        (&of_field(0), &over(&[]), "I by g"),
        (&over(&[]), &of_schema, "ok"),
        (&table(&["a"], false), &over(&[]), "ok"),
        (&table(&["a"], false), &table(&["a"], false), "I by g"),
        (&table(&["a"], false), &table(&["b"], false), "ok"),
        (&table(&["a"], false), &table(&[], true), "I by g"),
        (&of_schema, &of_schema_empty, "I by g"),
        (&of_field(0), &of_field(0), "I by g"),
        (&of_field(0), &of_field(1), "ok"),
        (&of_field(0), &of_schema, "ok"),
    ]);
}

#[test]
fn y_metadata_of_schema_and_fields_against_merge_and_restore() {
    let merge = LanceOp::Merge(schema(true, &[]));
    let of_schema = config(|c| c.schema = Some(metadata(&["a"], false)));
    let of_field = config(|c| c.fields = [(FieldId(0), metadata(&[], true))].into());
    let empty = config(|c| c.schema = Some(MetadataChange::default()));
    let of_table = config(|c| c.table = Some(metadata(&["a"], false)));
    check(&[
        (&of_schema, &merge, "R by y"),
        (&merge, &of_schema, "R by y"),
        (&merge, &of_field, "R by y"),
        (&of_schema, &LanceOp::Restore, "I by y"),
        (&LanceOp::Restore, &of_field, "I by y"),
        (&empty, &merge, "ok"),
        (&of_table, &LanceOp::Restore, "ok"),
        (&merge, &of_table, "ok"),
    ]);
}

#[test]
fn x_values_beside_a_schema_that_may_be_tighter() {
    let tight = LanceOp::Project(schema(false, &[2]));
    let loose = LanceOp::Project(schema(true, &[]));
    let merge = LanceOp::Merge(schema(false, &[]));
    let column = update(rewrite_column(0, 2));
    check(&[
        (&LanceOp::Append, &tight, "R by x"),
        (&tight, &LanceOp::Append, "R by x"),
        (&tight, &overlay(0, 2, &[0]), "R by x"),
        (&overlay(0, 2, &[0]), &tight, "R by x"),
        (&column, &tight, "R by x"),
        // Looked at before the field that is gone, which would be incompatible.
        (&replacement(0, 2), &tight, "R by x"),
        (&LanceOp::Append, &merge, "R by x"),
        (&LanceOp::Append, &loose, "ok"),
        (&delete(0, &[0]), &tight, "ok"),
        (&tight, &delete(0, &[0]), "ok"),
        (&merge, &loose, "I by I"),
        (&loose, &merge, "R by R"),
    ]);
}

#[test]
fn t_bases_clash_by_id_name_or_path() {
    let named = base(0, Some("n"), "p");
    check(&[
        (&named, &base(0, Some("n"), "q"), "I by t"),
        (&named, &base(0, Some("m"), "p"), "I by t"),
        (&named, &base(0, Some("m"), "q"), "ok"),
        (&base(0, None, "p"), &base(0, None, "q"), "ok"),
        (&base(3, None, "p"), &base(3, None, "q"), "I by t"),
        (&base(3, None, "p"), &base(4, None, "q"), "ok"),
    ]);
}

#[test]
fn u_unknown_operations_stop_all_but_clones_and_bases() {
    check_named(
        PLAIN,
        &[
            ("append", "unknown", "I by u"),
            ("restore_v1", "unknown", "I by u"),
            ("reserve", "unknown", "I by u"),
            ("clone", "unknown", "ok"),
            ("add_bases", "unknown", "ok"),
            ("unknown", "append", "I by u"),
            ("unknown", "clone", "I by u"),
        ],
    );
}
