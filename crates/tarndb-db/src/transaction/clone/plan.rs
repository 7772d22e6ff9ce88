//! Which files a clone has, and what has to be stored for them: a pure function of the source.
//!
//! Invariant: what is shared is stored, committed and in the folder of the source or of one that it
//! shares files with; everything else gets a place below the clone's own folder.
//! Spec: docs/format/delta.md, "Clones".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tarndb_delta::{Bases, vector_file};
use tarndb_storage::Path;
use tarndb_table::{DataFile, Deletion, RowSet, TableError, TableState, data_key, uri_encode};

use crate::transaction::Overlay;

/// The files of a clone, and what has to be stored for them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) files: Vec<DataFile>,
    pub(super) own_deletions: BTreeMap<String, Arc<RowSet>>,
    pub(super) copies: Vec<Copy>,
    pub(super) bases: BTreeSet<Path>,
}

/// An object to store.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) from: Path,
    pub(super) to: Path,
    /// The bytes, when they are not at `from` yet.
    pub(super) bytes: Option<Bytes>,
}

/// Where the files come from, and where they go.
pub(super) struct Sites<'a> {
    /// The folder of the source.
    pub(super) source: &'a Path,
    /// Folders that the source shares files with.
    pub(super) bases: &'a [Path],
    /// The folder of the clone.
    pub(super) folder: &'a Path,
    pub(super) shallow: bool,
    /// What the transaction itself did to the source.
    pub(super) own: Option<&'a Overlay>,
    pub(super) now_ms: i64,
}

impl Sites<'_> {
    /// `waiting`: files of the source that are not at their keys yet.
    ///
    /// # Errors
    /// A file that lies outside the source and what it shares files with.
    pub(super) fn plan(
        &self,
        state: &TableState,
        mut waiting: BTreeMap<Path, Bytes>,
    ) -> Result<Plan, TableError> {
        let mut plan = Plan::default();
        let mut vectors = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for file in state.files.values() {
            let key = file.key(self.source)?;
            let mut bytes = waiting.remove(&key);
            if let Some(held) = file.unstored() {
                bytes = Some(held.bytes().clone());
            }
            let is_own = self
                .own
                .is_some_and(|own| own.adds.contains_key(&file.path));
            let mut file = DataFile::clone(&file);
            file.held = None;
            spell_nulls(&mut file, state);
            if self.shallow && bytes.is_none() && !is_own {
                plan.bases.extend(self.base_of(&key));
                let bases = Bases::new(self.folder, &[]);
                file.path = bases.path_to(&key);
                file.raw_path = uri_encode(&file.path);
                file.beside = Some(key);
            } else {
                if file.beside.take().is_some() {
                    file.path = self.path_within(&key);
                    file.raw_path = uri_encode(&file.path);
                }
                if !taken.insert(file.path.clone()) {
                    return Err(TableError::PathOutsideTable { path: file.path });
                }
                file.modification_time_ms = self.now_ms;
                let to = data_key(self.folder, &file.path)?;
                plan.copies.push(Copy {
                    from: key,
                    to,
                    bytes,
                });
            }
            match std::mem::take(&mut file.deletion) {
                Deletion::Loaded(rows) => {
                    plan.own_deletions.insert(file.path.clone(), rows);
                }
                deletion => file.deletion = deletion,
            }
            if let Deletion::Stored(descriptor) = &file.deletion
                && let Some(name) = vector_file(descriptor)?
                && vectors.insert(name.clone())
            {
                plan.copies.push(Copy {
                    from: data_key(self.source, &name)?,
                    to: data_key(self.folder, &name)?,
                    bytes: None,
                });
            }
            plan.files.push(file);
        }
        Ok(plan)
    }

    /// The folder, of the source or of one that it shares files with, in which a file is.
    fn base_of(&self, key: &Path) -> Option<Path> {
        let own = std::iter::once(self.source);
        let mut folders = own.chain(self.bases.iter());
        folders.find(|folder| key.prefix_matches(folder)).cloned()
    }

    /// The path of a file relative to that folder.
    fn path_within(&self, key: &Path) -> String {
        let folder = self.base_of(key).unwrap_or_default();
        let inside = key.as_ref().strip_prefix(folder.as_ref());
        let inside = inside.unwrap_or(key.as_ref());
        inside.trim_start_matches('/').to_owned()
    }
}

/// NULL of a partition column is written as such, as all of TarnDB's files have it: other engines
/// may have left it out, or said an empty text.
fn spell_nulls(file: &mut DataFile, state: &TableState) {
    let columns = state.partition_columns.iter();
    let fields = columns.filter_map(|name| state.schema.field(name));
    let stored: BTreeSet<&str> = fields.map(|(_, field)| field.stored_name()).collect();
    let values = &mut file.partition_values;
    values.retain(|name, _| stored.contains(name.as_str()));
    for name in stored {
        let value = values.entry(name.to_owned()).or_default();
        if value.as_deref() == Some("") {
            *value = None;
        }
    }
}
