//! Builders of operations, as short as a test wants them.

use std::collections::{BTreeMap, BTreeSet};

use tarndb_txn::RowSet;
use tarndb_txn::strict::{
    Committed, DeletedRows, FieldId, FieldSet, FileList, FragmentId, FragmentSet, IndexChange,
    KeptFragment, LanceOp, Remap, RemovedSegment, Rewrite, RowChange, RowDomain, SchemaChange,
    Segment, TableFacts, Update, UpdateMode, Verdict, judge,
};
use tarndb_types::{TableVersion, Uuid};

/// An untagged table without stable row ids.
pub(super) const PLAIN: TableFacts = TableFacts {
    stable_row_ids: false,
    tagged_reuse: false,
};

/// A table with a tagged fragment reuse index.
pub(super) const TAGGED: TableFacts = TableFacts {
    stable_row_ids: false,
    tagged_reuse: true,
};

pub(super) fn committed(op: &LanceOp) -> Committed {
    Committed {
        version: TableVersion(5),
        txn: "7c2a".to_owned(),
        op: op.clone(),
    }
}

pub(super) fn verdict(table: TableFacts, ours: &LanceOp, theirs: &LanceOp) -> Verdict {
    judge(table, ours, &committed(theirs))
}

pub(super) fn fragments(ids: &[u64]) -> FragmentSet {
    ids.iter().copied().map(FragmentId).collect()
}

pub(super) fn fields(ids: &[i32]) -> FieldSet {
    ids.iter().copied().map(FieldId).collect()
}

pub(super) fn rows(offsets: &[u64]) -> RowSet {
    offsets.iter().copied().collect()
}

pub(super) fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The files every fragment is read with.
pub(super) fn files_as_read() -> FileList {
    FileList("a.lance".to_owned())
}

/// Rows of one fragment deleted by a deletion file. As ours the rows are known, as theirs too.
pub(super) fn row_change(fragment: u64, offsets: &[u64]) -> RowChange {
    let kept = KeptFragment {
        files: files_as_read(),
        deleted: DeletedRows::Known(rows(offsets)),
    };
    RowChange {
        updated: [(FragmentId(fragment), kept)].into(),
        removed: FragmentSet::new(),
        affected: Some([(FragmentId(fragment), rows(offsets))].into()),
        read: [(FragmentId(fragment), files_as_read())].into(),
    }
}

pub(super) fn delete(fragment: u64, offsets: &[u64]) -> LanceOp {
    LanceOp::Delete(row_change(fragment, offsets))
}

/// Removes fragments whole; affected rows are given.
pub(super) fn delete_whole(ids: &[u64]) -> LanceOp {
    LanceOp::Delete(RowChange {
        removed: fragments(ids),
        affected: Some(
            ids.iter()
                .map(|id| (FragmentId(*id), rows(&[0, 1])))
                .collect(),
        ),
        read: ids
            .iter()
            .map(|id| (FragmentId(*id), files_as_read()))
            .collect(),
        ..RowChange::default()
    })
}

/// The same operation by a writer that does not say which rows it affects.
pub(super) fn without_rows(mut op: LanceOp) -> LanceOp {
    match &mut op {
        LanceOp::Delete(rows) => rows.affected = None,
        LanceOp::Update(update) => update.rows.affected = None,
        other => panic!("no rows in {other:?}"),
    }
    op
}

/// The same operation with deletion vectors that nobody decoded.
pub(super) fn undecoded(mut op: LanceOp) -> LanceOp {
    let rows = match &mut op {
        LanceOp::Delete(rows) => rows,
        LanceOp::Update(update) => &mut update.rows,
        other => panic!("no rows in {other:?}"),
    };
    for kept in rows.updated.values_mut() {
        kept.deleted = DeletedRows::Unknown;
    }
    op
}

pub(super) fn update(update: Update) -> LanceOp {
    LanceOp::Update(Box::new(update))
}

/// Rows of a fragment deleted and written to a new one.
pub(super) fn rewrite_rows(fragment: u64, offsets: &[u64]) -> Update {
    Update {
        rows: row_change(fragment, offsets),
        mode: UpdateMode::RewriteRows,
        adds_fragments: true,
        fields_modified: FieldSet::new(),
        keys: None,
        generations: Vec::new(),
    }
}

/// One column of a fragment rewritten in place.
pub(super) fn rewrite_column(fragment: u64, field: i32) -> Update {
    let mut rows = row_change(fragment, &[]);
    for kept in rows.updated.values_mut() {
        kept.files = FileList(format!("a.lance without {field}, b.lance"));
    }
    Update {
        rows,
        mode: UpdateMode::RewriteColumns,
        adds_fragments: false,
        fields_modified: fields(&[field]),
        keys: None,
        generations: Vec::new(),
    }
}

pub(super) fn replacement(fragment: u64, field: i32) -> LanceOp {
    LanceOp::DataReplacement([(FragmentId(fragment), fields(&[field]))].into())
}

pub(super) fn overlay(fragment: u64, field: i32, offsets: &[u64]) -> LanceOp {
    let cells = BTreeMap::from([(FieldId(field), rows(offsets))]);
    LanceOp::DataOverlay([(FragmentId(fragment), cells)].into())
}

pub(super) fn rewrite(groups: &[&[u64]], remap: Remap) -> LanceOp {
    LanceOp::Rewrite(Rewrite {
        groups: groups.iter().map(|ids| fragments(ids)).collect(),
        remap,
        transitions: FragmentSet::new(),
    })
}

pub(super) fn schema(preserves_nullability: bool, gone: &[i32]) -> SchemaChange {
    SchemaChange {
        preserves_nullability,
        gone: fields(gone),
    }
}

pub(super) fn segment(uuid: u128, name: &str, field: i32, coverage: &[u64]) -> Segment {
    Segment {
        uuid: Uuid::from_u128(uuid),
        name: name.to_owned(),
        fields: fields(&[field]),
        coverage: Some(fragments(coverage)),
        domain: RowDomain::RowId,
        is_ngram: false,
    }
}

pub(super) fn removed(uuid: u128, name: &str) -> RemovedSegment {
    RemovedSegment {
        uuid: Uuid::from_u128(uuid),
        name: name.to_owned(),
    }
}

pub(super) fn index(added: Vec<Segment>, removed: Vec<RemovedSegment>) -> LanceOp {
    LanceOp::CreateIndex(IndexChange {
        added,
        removed,
        ..IndexChange::default()
    })
}
