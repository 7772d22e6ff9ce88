//! Operations: exactly the fields of a Lance transaction that the rules look at.
//!
//! Invariant: a value says nothing that a rule does not read; file lists are compared, never
//! interpreted. What a transaction does not store (rows affected, files as they were read) is
//! known of ours only.
//! Does not decode messages; the Lance codec does.
//! Spec: docs/conflicts.md, "Strict rules".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tarndb_types::Uuid;

use super::config::ConfigChange;
use super::index::IndexChange;
use super::keys::KeyFilter;
use super::kind::LanceKind;
use crate::rows::RowSet;

/// A fragment of one table. Ids are never handed out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentId(pub u64);

/// A field of a table's schema, known by id through renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub i32);

impl fmt::Display for FragmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fragments of one table.
pub type FragmentSet = BTreeSet<FragmentId>;

/// Fields of one schema.
pub type FieldSet = BTreeSet<FieldId>;

/// Fragments and the fields that are replaced in each.
pub type Targets = BTreeMap<FragmentId, FieldSet>;

/// Physical row offsets that are overlaid, by fragment and field.
pub type Coverage = BTreeMap<FragmentId, BTreeMap<FieldId, RowSet>>;

/// The data files of a fragment, as a text of the codec that is equal exactly when the lists are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileList(pub String);

/// What a transaction does, as far as the rules look.
#[derive(Clone, Debug, PartialEq)]
pub enum LanceOp {
    /// Adds fragments.
    Append,
    /// Deletes rows.
    Delete(RowChange),
    /// Replaces rows, or columns of whole fragments.
    Update(Box<Update>),
    /// Replaces the data.
    Overwrite {
        /// Configuration keys that it sets.
        config: BTreeSet<String>,
    },
    /// Adds, replaces or removes index segments.
    CreateIndex(IndexChange),
    /// Moves rows without changing them.
    Rewrite(Rewrite),
    /// Adds or retypes columns; concerns every fragment.
    Merge(SchemaChange),
    /// Drops, renames or tightens columns.
    Project(SchemaChange),
    /// Goes back to an earlier version.
    Restore,
    /// Reserves fragment ids.
    ReserveFragments,
    /// Starts a table from another one.
    Clone,
    /// Changes configuration or metadata.
    UpdateConfig(ConfigChange),
    /// Replaces column files.
    DataReplacement(Targets),
    /// Lays values over cells.
    DataOverlay(Coverage),
    /// Records generations.
    UpdateMemWalState(Vec<Generation>),
    /// Adds base paths.
    UpdateBases(Vec<Base>),
    /// Not known to this version.
    Unknown {
        /// Its number on the wire.
        number: u32,
    },
}

impl LanceOp {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> LanceKind {
        match self {
            Self::Append => LanceKind::Append,
            Self::Delete(_) => LanceKind::Delete,
            Self::Update(_) => LanceKind::Update,
            Self::Overwrite { .. } => LanceKind::Overwrite,
            Self::CreateIndex(_) => LanceKind::CreateIndex,
            Self::Rewrite(_) => LanceKind::Rewrite,
            Self::Merge(_) => LanceKind::Merge,
            Self::Project(_) => LanceKind::Project,
            Self::Restore => LanceKind::Restore,
            Self::ReserveFragments => LanceKind::ReserveFragments,
            Self::Clone => LanceKind::Clone,
            Self::UpdateConfig(_) => LanceKind::UpdateConfig,
            Self::DataReplacement(_) => LanceKind::DataReplacement,
            Self::DataOverlay(_) => LanceKind::DataOverlay,
            Self::UpdateMemWalState(_) => LanceKind::UpdateMemWalState,
            Self::UpdateBases(_) => LanceKind::UpdateBases,
            Self::Unknown { .. } => LanceKind::Unknown,
        }
    }

    /// The change of rows of a Delete or an Update.
    #[must_use]
    pub fn rows(&self) -> Option<&RowChange> {
        match self {
            Self::Delete(rows) => Some(rows),
            Self::Update(update) => Some(&update.rows),
            _ => None,
        }
    }

    /// Fragments that it changes or consumes; none where the rules do not ask for them.
    #[must_use]
    pub fn touched(&self) -> FragmentSet {
        match self {
            Self::Rewrite(rewrite) => rewrite.groups.iter().flatten().copied().collect(),
            Self::DataReplacement(targets) => targets.keys().copied().collect(),
            Self::DataOverlay(coverage) => coverage.keys().copied().collect(),
            _ => self.rows().map(RowChange::touched).unwrap_or_default(),
        }
    }
}

/// Rows deleted (or moved) and fragments removed by a Delete or an Update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowChange {
    /// Fragments that live on, as they are afterwards.
    pub updated: BTreeMap<FragmentId, KeptFragment>,
    /// Fragments that are gone.
    pub removed: FragmentSet,
    /// Of ours: the rows deleted or moved, when the caller knows them.
    pub affected: Option<BTreeMap<FragmentId, RowSet>>,
    /// Of ours: the data files that each touched fragment had at the version read.
    pub read: BTreeMap<FragmentId, FileList>,
}

impl RowChange {
    /// Fragments updated and removed.
    #[must_use]
    pub fn touched(&self) -> FragmentSet {
        let updated = self.updated.keys().copied();
        updated.chain(self.removed.iter().copied()).collect()
    }

    /// The rows affected, where they can be united with another deletion. A change that only
    /// removes whole fragments is judged by fragment, as the specification's code does.
    #[must_use]
    pub fn uniteable(&self) -> Option<&BTreeMap<FragmentId, RowSet>> {
        self.affected.as_ref().filter(|_| !self.updated.is_empty())
    }
}

/// A fragment that an operation changes and keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFragment {
    /// Its data files afterwards.
    pub files: FileList,
    /// Of theirs: the rows newly deleted.
    pub deleted: DeletedRows,
}

/// Rows that a committed change deleted in a fragment.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletedRows {
    /// These; none when the deletion file did not change.
    Known(RowSet),
    /// The deletion vectors were not decoded; judged as every row.
    Unknown,
}

/// How an Update writes new values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// The rows are deleted where they are and written to new fragments.
    RewriteRows,
    /// New files of some columns for whole fragments; rows stay where they are.
    RewriteColumns,
}

/// An Update.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Fragments and rows.
    pub rows: RowChange,
    /// How values are written.
    pub mode: UpdateMode,
    /// It brings new fragments.
    pub adds_fragments: bool,
    /// Fields rewritten in place.
    pub fields_modified: FieldSet,
    /// Keys of the rows inserted.
    pub keys: Option<KeyFilter>,
    /// Generations that it records.
    pub generations: Vec<Generation>,
}

impl Update {
    /// Rows leave their fragments for new ones.
    #[must_use]
    pub fn moves_rows(&self) -> bool {
        self.adds_fragments && self.mode == UpdateMode::RewriteRows
    }
}

/// When the indices learn of a Rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remap {
    /// With it: its index files were written anew.
    Eager,
    /// Later: the fragment reuse index records its groups. Of theirs only where the entry at the
    /// head does record all of them, because the transaction itself does not say.
    Deferred,
}

/// A Rewrite.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// Old fragments, by group.
    pub groups: Vec<FragmentSet>,
    /// How indices follow.
    pub remap: Remap,
    /// Of ours, on a tagged history: sources and destinations of the transitions it adds.
    pub transitions: FragmentSet,
}

/// A Merge or a Project.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaChange {
    /// It asserts that no field became NOT NULL. Missing in transactions of old writers: false.
    pub preserves_nullability: bool,
    /// Fields that its schema no longer has, or (Merge) has with another type.
    pub gone: FieldSet,
}

/// A shard of the in-memory write-ahead log and the generation that is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    /// The shard.
    pub shard: Uuid,
    /// Counted up by each flush of the shard.
    pub generation: u64,
}

/// A base path to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// 0: assigned at commit.
    pub id: u32,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it is.
    pub path: String,
}
