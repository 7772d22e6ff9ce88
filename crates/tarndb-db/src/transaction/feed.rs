//! `Feed`: which rows a transaction changed in which way, for the change data feed.
//!
//! Invariant: tells the net change of the rows of the base, whatever the statements did in
//! between: a row that came and went is not told, one that was changed twice is told once.
//! Where that is not known, the commit's own files tell the changes: as whole rows that go and
//! come, which is right and only longer.
//! It does no IO.
//! Spec: docs/format/delta.md, "Change data feed".

use std::collections::BTreeMap;

use tarndb_table::change_files::{DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE};
use tarndb_table::{DataFile, RowSet, WrittenChange};
use tarndb_txn::Operation;

/// What the rows of an own new file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Image {
    /// Rows that the base does not have.
    #[default]
    Inserted,
    /// New forms of rows of the base.
    Updated,
    /// Rows of the base as they were.
    Kept,
}

/// Each file of a change with what its rows are.
pub(crate) fn images(written: WrittenChange) -> Vec<(DataFile, Image)> {
    let updated = match written.apart {
        true => Image::Updated,
        false => Image::Inserted,
    };
    let as_images = |files: Vec<DataFile>, image: Image| {
        let files = files.into_iter();
        files.map(move |file| (file, image))
    };
    let inserted = as_images(written.inserted.files, Image::Inserted);
    inserted
        .chain(as_images(written.updated.files, updated))
        .collect()
}

/// What is known of the changed rows of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// Own new files that hold something else than inserted rows.
    images: BTreeMap<String, Image>,
    /// Rows of the base that have a new form.
    updated: BTreeMap<String, RowSet>,
    /// Rows that are not in the files that were written anew without them.
    left_out: BTreeMap<String, RowSet>,
    /// A row that was updated was deleted after that.
    deleted_updated: bool,
    /// A file of kept rows was changed, and which rows these are is no longer known.
    lost: bool,
}

impl Feed {
    /// What the rows of an own file are.
    pub(crate) fn image(&self, path: &str) -> Image {
        self.images.get(path).copied().unwrap_or_default()
    }

    pub(crate) fn note_file(&mut self, path: &str, image: Image) {
        if image != Image::Inserted {
            self.images.insert(path.to_owned(), image);
        }
    }

    /// Rows of a file go: for good, or because they have a new form.
    pub(crate) fn note_deleted(
        &mut self,
        path: &str,
        own: bool,
        rows: &RowSet,
        operation: Operation,
    ) {
        let update = matches!(operation, Operation::Update | Operation::Upsert);
        match (own, self.image(path)) {
            (false, _) if update => *self.updated.entry(path.to_owned()).or_default() |= rows,
            (true, Image::Updated) => self.deleted_updated |= !update,
            (true, Image::Kept) => self.lost = true,
            (false, _) | (true, Image::Inserted) => {}
        }
    }

    /// A file of the base was written anew without these rows.
    pub(crate) fn note_rewritten(&mut self, path: &str, rows: &RowSet) {
        *self.left_out.entry(path.to_owned()).or_default() |= rows;
    }

    /// Whether the commit's own files do not tell the changes as they were.
    pub(crate) fn needs_files(&self) -> bool {
        let updates = !self.updated.is_empty() && !self.deleted_updated;
        !self.lost && (updates || !self.left_out.is_empty())
    }

    /// Rows of the base that are gone from files that were written anew.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&String, &RowSet)> {
        self.left_out.iter()
    }

    /// The change that the feed tells of a row of the base that is gone.
    pub(crate) fn change_of_deleted(&self, path: &str, position: u64) -> &'static str {
        let updated = self.updated.get(path);
        let updated = updated.is_some_and(|rows| rows.contains(position));
        if updated && !self.deleted_updated {
            UPDATE_PREIMAGE
        } else {
            DELETE
        }
    }

    /// The change that the feed tells of the rows of an own file; `None`: none.
    pub(crate) fn change_of_added(&self, path: &str) -> Option<&'static str> {
        match self.image(path) {
            Image::Inserted => Some(INSERT),
            Image::Updated if self.deleted_updated => Some(INSERT),
            Image::Updated => Some(UPDATE_POSTIMAGE),
            Image::Kept => None,
        }
    }
}
