//! `ChangeFeed`: what is to be read for the changes of a range of versions.
//!
//! Invariant: pure; commits that only rearrange rows say nothing. Files are described by the
//! state before the commit where it is known, since old writers of removals left that out.
//! Spec: Delta PROTOCOL, "Change Data Feed" (reader), "Deletion Vectors".

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_table::{DataFile, DataType, Deletion, Entry, Field, Schema, TableState};

use super::fit::check_fit;
use crate::action::{Action, Add, Cdc, Remove};
use crate::bases::Bases;
use crate::error::DeltaError;
use crate::load::entry_actions;
use crate::replay::Replay;
use crate::state::{data_file, vector_id};
use crate::{dv, path};

/// Property that turns the feed on.
const ENABLED: &str = "delta.enableChangeDataFeed";

/// What happened to the rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// They are new.
    Insert,
    /// They are gone.
    Delete,
}

impl ChangeKind {
    /// As the feed spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }
}

/// Rows to be read for one commit.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeRead {
    /// A file of changes, which says itself what happened to each row.
    Changes(Arc<DataFile>),
    /// The live rows of a file.
    Whole(ChangeKind, Arc<DataFile>),
    /// The rows of a file that are deleted by one of two vectors only: those of the file's own
    /// are deleted, those of the earlier one came back.
    Difference {
        /// The file, with its vector after the commit.
        file: Arc<DataFile>,
        /// The vector before.
        before: Deletion,
    },
}

/// The changes of one version.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionChanges {
    /// The version.
    pub version: u64,
    /// When it was committed, ms since 1970 UTC.
    pub timestamp_ms: i64,
    /// What is to be read.
    pub reads: Vec<ChangeRead>,
}

/// The changes of a range of versions.
#[derive(Clone, Debug)]
pub struct ChangeFeed {
    /// Columns of the table at the end of the range.
    pub schema: Arc<Schema>,
    /// Its partition columns.
    pub partition_columns: Vec<String>,
    /// Versions in order.
    pub versions: Vec<VersionChanges>,
}

/// Plans a feed commit by commit.
#[derive(Debug)]
pub struct FeedPlanner {
    state: Option<TableState>,
    /// `state` is that of the first version itself.
    at_first: bool,
    versions: Vec<VersionChanges>,
    schemas: Vec<(u64, Arc<Schema>)>,
    bases: Bases,
}

impl FeedPlanner {
    /// Begins with the state before the first commit; `None` before version 0.
    pub fn after(state: Option<TableState>) -> Self {
        Self {
            state,
            at_first: false,
            versions: Vec::new(),
            schemas: Vec::new(),
            bases: Bases::default(),
        }
    }

    /// The same, for a table that may name files in the folders of others.
    #[must_use]
    pub fn reaching(self, bases: Bases) -> Self {
        Self { bases, ..self }
    }

    /// Begins with the state at the first commit, where the one before it is no longer there.
    pub fn at(state: TableState) -> Self {
        Self {
            at_first: true,
            ..Self::after(Some(state))
        }
    }

    /// Takes the next commit. `timestamp_ms` counts where the commit has no in-commit timestamp.
    ///
    /// # Errors
    /// `ChangeFeedOff`; a commit that cannot be read or does not follow.
    pub fn commit(&mut self, entry: &Entry, timestamp_ms: i64) -> Result<(), DeltaError> {
        let log = path::log_dir(&tarndb_storage::Path::default());
        let actions = entry_actions(entry, &log)?;
        let version = entry.version.0;
        let is_first = std::mem::take(&mut self.at_first);
        let before = self.state.take();
        let (reads, state) = match before {
            Some(state) if is_first => (reads(&actions, None)?, state),
            before => {
                let reads = reads(&actions, before.as_ref())?;
                let mut replay = match &before {
                    Some(state) => Replay::from_state(state)?,
                    None => Replay::default(),
                }
                .reaching(self.bases.clone());
                replay.commit(actions)?;
                (reads, replay.finish(version, log.as_ref())?)
            }
        };
        if !is_on(&state) {
            return Err(DeltaError::ChangeFeedOff { version });
        }
        self.schemas.push((version, Arc::clone(&state.schema)));
        self.versions.push(VersionChanges {
            version,
            timestamp_ms: state.in_commit_timestamp.unwrap_or(timestamp_ms),
            reads: reads.into_iter().map(|read| self.placed(read)).collect(),
        });
        self.state = Some(state);
        Ok(())
    }

    /// With the file where the table may find it.
    fn placed(&self, mut read: ChangeRead) -> ChangeRead {
        let (ChangeRead::Changes(file)
        | ChangeRead::Whole(_, file)
        | ChangeRead::Difference { file, .. }) = &mut read;
        if let Some(key) = self.bases.key(&file.path) {
            Arc::make_mut(file).beside = Some(key);
        }
        read
    }

    /// The feed; `None` when there was no commit.
    ///
    /// # Errors
    /// `ChangeFeedSchema`.
    pub fn finish(self) -> Result<Option<ChangeFeed>, DeltaError> {
        let Some(last) = self.state.filter(|_| !self.versions.is_empty()) else {
            return Ok(None);
        };
        for (version, schema) in &self.schemas {
            check_fit(schema, &last.schema, *version)?;
        }
        Ok(Some(ChangeFeed {
            schema: Arc::new(relaxed(&last.schema)),
            partition_columns: last.partition_columns,
            versions: self.versions,
        }))
    }
}

/// The columns with NULL allowed everywhere: rows of earlier versions may hold what a later
/// SET NOT NULL forbids.
fn relaxed(schema: &Schema) -> Schema {
    let fields = schema.fields.iter();
    Schema::new(fields.map(relaxed_field).collect())
}

fn relaxed_field(field: &Field) -> Field {
    Field {
        nullable: true,
        data_type: relaxed_type(&field.data_type),
        ..field.clone()
    }
}

fn relaxed_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(relaxed_field).collect()),
        DataType::Array { element, .. } => DataType::Array {
            element: Box::new(relaxed_type(element)),
            contains_null: true,
        },
        DataType::Map { key, value, .. } => DataType::Map {
            key: key.clone(),
            value: Box::new(relaxed_type(value)),
            value_contains_null: true,
        },
        other => other.clone(),
    }
}

fn is_on(state: &TableState) -> bool {
    let value = state.properties.get(ENABLED);
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// What the changes of one commit are.
pub(super) fn reads(
    actions: &[Action],
    before: Option<&TableState>,
) -> Result<Vec<ChangeRead>, DeltaError> {
    let mut adds: BTreeMap<String, &Add> = BTreeMap::new();
    let mut removes: BTreeMap<String, &Remove> = BTreeMap::new();
    let mut told = Vec::new();
    for action in actions {
        match action {
            Action::Add(add) => {
                adds.insert(path::table_path(&add.path)?, add);
            }
            Action::Remove(remove) => {
                removes.insert(path::table_path(&remove.path)?, remove);
            }
            Action::Cdc(cdc) => told.push(ChangeRead::Changes(Arc::new(cdc_file(cdc)?))),
            _ => {}
        }
    }
    if !told.is_empty() {
        return Ok(told);
    }
    let mut reads = Vec::new();
    for (path, remove) in &removes {
        match adds.remove(path) {
            None if remove.data_change => {
                let file = removed_file(path, remove, before)?;
                reads.extend(file.map(|file| ChangeRead::Whole(ChangeKind::Delete, file)));
            }
            Some(add) if add.data_change || remove.data_change => {
                let file = Arc::new(data_file(add.clone())?);
                let before = deletion(remove)?;
                if vector_id(&before) != vector_id(&file.deletion) {
                    reads.push(ChangeRead::Difference { file, before });
                }
            }
            _ => {}
        }
    }
    for add in adds.into_values().filter(|add| add.data_change) {
        let file = Arc::new(data_file(add.clone())?);
        reads.push(ChangeRead::Whole(ChangeKind::Insert, file));
    }
    Ok(reads)
}

fn cdc_file(cdc: &Cdc) -> Result<DataFile, DeltaError> {
    data_file(Add {
        path: cdc.path.clone(),
        partition_values: cdc.partition_values.clone(),
        size: cdc.size,
        modification_time: 0,
        data_change: false,
        stats: None,
        tags: None,
        deletion_vector: None,
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    })
}

fn deletion(remove: &Remove) -> Result<Deletion, DeltaError> {
    Ok(match &remove.deletion_vector {
        Some(vector) => Deletion::Stored(dv::to_descriptor(vector)?),
        None => Deletion::None,
    })
}

/// A file as it was before its removal: as the state had it (`None`: it was not live, and has
/// lost nothing), else as the removal says.
fn removed_file(
    path: &str,
    remove: &Remove,
    before: Option<&TableState>,
) -> Result<Option<Arc<DataFile>>, DeltaError> {
    if let Some(before) = before {
        let id = remove.deletion_vector.as_ref().map(|dv| dv.unique_id());
        let live = before.files.get(path);
        return Ok(live.filter(|live| vector_id(&live.deletion) == id));
    }
    let (Some(size), Some(values)) = (remove.size, &remove.partition_values) else {
        return Err(DeltaError::RemovalTellsTooLittle {
            path: remove.path.clone(),
        });
    };
    Ok(Some(Arc::new(data_file(Add {
        path: remove.path.clone(),
        partition_values: values.clone(),
        size,
        modification_time: 0,
        data_change: remove.data_change,
        stats: None,
        tags: None,
        deletion_vector: remove.deletion_vector.clone(),
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    })?)))
}
