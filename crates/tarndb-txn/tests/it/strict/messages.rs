//! Messages: what a person reads when two Lance operations meet.
//!
//! Invariant: every reason is worded; both operations, version, transaction and the thing at
//! issue are named.
//! Spec: docs/conflicts.md, "Verdicts".

use std::collections::BTreeMap;

use expect_test::expect;

use super::sample::verdict;
use super::samples::{TABLES, samples};

/// The first message of each reason that the samples give.
fn messages() -> BTreeMap<String, String> {
    let mut messages = BTreeMap::new();
    let samples = samples();
    for (_, ours) in &samples {
        for (_, theirs) in &samples {
            for table in TABLES {
                let verdict = verdict(table, ours, theirs);
                let Some(conflict) = verdict.conflict() else {
                    continue;
                };
                let name = format!("{:?}", conflict.reason);
                let name = name.split(' ').next().unwrap_or_default();
                let key = format!("{} {name}", if conflict.is_retryable() { "R" } else { "I" });
                let text = format!("{}\n  {}", conflict.reason, conflict.reason.advice());
                messages.entry(key).or_insert(text);
            }
        }
    }
    messages
}

#[test]
fn every_reason_is_worded() {
    let text: String = messages()
        .iter()
        .map(|(name, text)| format!("{name}: {text}\n"))
        .collect();
    expect![[r#"
        I Base: both add a base named "extra"
          use the base that is there, or another id, name and path
        I ConfigKey: both change the configuration key "k"
          read the present values and decide which should stand
        I Excluded: the one cannot follow the other
          open the table's new version and decide whether the change still applies
        I Generation: shard 00000000-0000-0000-0000-000000000001 is recorded at generation 4 here and 4 there
          that generation is superseded; read the state of the shard
        I MetadataBesideSchema: one side changes metadata of a schema that the other replaces
          read the present values and decide which should stand
        I ReplacedFieldsDropped: they dropped field 2
          leave those fields out
        I ReuseMixed: the fragment reuse index is replaced together with other indices
          commit the fragment reuse index alone
        I SameMetadata: both change the metadata of field 0
          read the present values and decide which should stand
        I TargetsRemoved: they removed fragment 0
          leave those fragments out
        I TransitionsConsumed: they consumed fragment 0, whose move is recorded here
          plan the compaction anew on the new version
        I Unknown: operation number 150 is not known to this version
          upgrade, or write with a version that knows it
        R CoverageMoved: a compaction moved fragments 0, 1, which index "id_idx" covers
          run it again on the new version
        R CoverageSplit: index "x_f0" covers fragment 0 but not all that is compacted with it
          run it again on the new version
        R CoverageUnknown: which fragments index "uncovered" covers is not known
          run it again on the new version
        R FieldsDropped: they dropped field 2
          run it again on the new version
        R FilesChanged: they wrote new data files for fragment 0
          run it again on the new version
        R FragmentsRemoved: they removed fragment 0
          run it again on the new version
        R Generation: shard 00000000-0000-0000-0000-000000000001 is recorded at generation 5 here and 4 there
          run it again on the new version
        R IndexName: both publish an index named "id_idx"
          run it again on the new version
        R IndexRemoved: one side adds a segment to index "old_idx", the other removes one
          run it again on the new version
        R IndexedFieldsGone: the schema change removes or retypes indexed field 2
          run it again on the new version
        R IndexedFieldsReplaced: the replacement is of indexed field 0
          run it again on the new version
        R KeysUnknown: whether both inserted the same key cannot be told from what they recorded
          run it again on the new version
        R MemWalSchema: the schema changes beside the write-ahead log's index
          run it again on the new version
        R MetadataBesideSchema: one side changes metadata of a schema that the other replaces
          run it again on the new version
        R Nullability: the schema change committed may make NOT NULL what the other side left null
          run it again on the new version
        R OverlaidRows: an overlay covers moved row 2 of fragment 0
          run it again on the new version
        R Overwritten: both replace the data of the table
          run it again on the new version
        R Preempted: what it was computed from has changed
          run it again on the new version
        R ReuseReplaced: both replace the fragment reuse index
          run it again on the new version
        R RowIdIndex: index "id_idx" stores row ids, which a deferred compaction cannot translate
          run it again on the new version
        R RowsUnknown: both change fragment 0, and the rows changed here are not known
          run it again on the new version, and give the rows affected so that deletions can be united
        R SameCells: both write the same fields of fragment 0
          run it again on the new version
        R SameFragments: both change fragment 0
          run it again on the new version
        R SameKeys: both may have inserted the same key
          run it again on the new version
        R SameRows: both delete or move row 0 of fragment 0
          run it again on the new version
        R SegmentReplaced: both remove segment 00000000-0000-0000-0000-000000000001 of index "old_idx", one to replace it
          run it again on the new version
        R TargetsChanged: they rewrote rows or fields that are replaced in fragment 0
          run it again on the new version
    "#]].assert_eq(&text);
}

#[test]
fn a_conflict_names_operations_version_and_transaction() {
    let samples: BTreeMap<_, _> = samples().into_iter().collect();
    let verdict = verdict(
        TABLES[0],
        &samples["delete_rows_f0"],
        &samples["update_known_f0"],
    );
    assert!(verdict.conflict().is_none(), "{verdict:?}");
    let verdict = super::sample::verdict(
        TABLES[0],
        &samples["delete_rows_f0"],
        &samples["delete_row_id0_f0"],
    );
    let conflict = verdict.conflict().expect("a conflict");
    expect!["Delete of main.t conflicts with Delete committed in version 5 by transaction 7c2a: both delete or move row 0 of fragment 0; run it again on the new version"].assert_eq(&conflict.describe(Some("main.t")));
}
