//! Replay: from actions to a table's state.
//!
//! Invariant: the newest reference of a file key (path and vector id) wins; the order of the
//! actions inside one commit means nothing; replaying a prefix and then the rest equals
//! replaying all.
//! Does not: read anything; `load` brings the actions.
//! Spec: Delta PROTOCOL, "Action Reconciliation".

use std::sync::Arc;

use tarndb_table::{
    Complete, DataFile, Files, PACKED_MIN, Packer, Schema, StatsNeeded, TableState,
};
use tarndb_types::TableVersion;

use crate::action::{Action, AppTxn, Metadata, Protocol, Remove, Sidecar};
use crate::bases::Bases;
use crate::checkpoint::retention::tombstone_cutoff;
use crate::checkpoint::v2::PackedSidecar;
use crate::error::DeltaError;
use crate::state::{DeltaState, FileKey, data_file, vector_id};
use crate::{clustering, column_mapping, feature, path, stats_json};

/// A state under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    protocol: Option<Arc<Protocol>>,
    metadata: Option<Arc<Metadata>>,
    /// Schema of `metadata`, when it has been parsed already.
    schema: Option<Arc<Schema>>,
    files: Files,
    tombstones: imbl::OrdMap<FileKey, Arc<Remove>>,
    sidecars: Vec<PackedSidecar>,
    txns: imbl::OrdMap<String, AppTxn>,
    domains: imbl::OrdMap<String, String>,
    in_commit_timestamp: Option<i64>,
    /// Files whose statistics are not parsed yet.
    fresh: Vec<String>,
    /// Files of the checkpoint that is being read.
    packer: Packer,
    /// A catalog says which commits there are.
    by_catalog: bool,
    /// Where paths may lead.
    bases: Bases,
}

/// What the schema adds to the files of a large checkpoint when they are unpacked.
#[derive(Debug)]
struct Completion {
    schema: Arc<Schema>,
    stored_partitions: Vec<String>,
    bases: Bases,
}

impl Complete for Completion {
    fn complete(&self, file: &mut DataFile, statistics: StatsNeeded<'_>) {
        if statistics != StatsNeeded::None
            && let Some(text) = &file.raw_stats
        {
            file.stats = stats_json::parse(text, &self.schema, statistics).map(Arc::new);
        }
        spell_partition_values(file, &self.stored_partitions);
        file.beside = self.bases.key(&file.path);
    }
}

impl Replay {
    /// Continues from a finished state.
    pub(crate) fn from_state(state: &TableState) -> Result<Self, DeltaError> {
        let delta = DeltaState::of(state)?;
        Ok(Self {
            protocol: Some(Arc::clone(&delta.protocol)),
            metadata: Some(Arc::clone(&delta.metadata)),
            schema: Some(Arc::clone(&state.schema)),
            files: state.files.clone(),
            tombstones: delta.tombstones.clone(),
            sidecars: delta.sidecars.to_vec(),
            txns: delta.txns.clone(),
            domains: delta.domains.clone(),
            in_commit_timestamp: state.in_commit_timestamp,
            fresh: Vec::new(),
            packer: Packer::default(),
            by_catalog: delta
                .protocol
                .lists_reader_feature(feature::CATALOG_MANAGED),
            bases: Bases::default(),
        })
    }

    /// The same, for a table that may name files in the folders of others.
    #[must_use]
    pub(crate) fn reaching(mut self, bases: Bases) -> Self {
        self.bases = bases;
        self
    }

    /// The same, for a table whose commits a catalog supplies.
    #[must_use]
    pub(crate) fn by_catalog(mut self) -> Self {
        self.by_catalog = true;
        self
    }

    /// Applies one commit.
    pub(crate) fn commit(&mut self, actions: Vec<Action>) -> Result<(), DeltaError> {
        self.in_commit_timestamp = None;
        self.actions(actions)
    }

    /// Applies actions of a checkpoint, which is reconciled; [`Self::end_checkpoint`] follows.
    pub(crate) fn checkpointed(&mut self, actions: Vec<Action>) -> Result<(), DeltaError> {
        for action in actions {
            match action {
                Action::Add(add) => {
                    let packed = self.packer.push(data_file(*add)?);
                    packed.map_err(|source| DeltaError::Pack { source })?;
                }
                action => self.action(action)?,
            }
        }
        Ok(())
    }

    /// What was taken from a checkpoint so far: live files and tombstones.
    pub(crate) fn checkpointed_so_far(&self) -> (usize, usize) {
        (self.packer.len(), self.tombstones.len())
    }

    /// Notes that all that was taken since `before` came from a sidecar.
    pub(crate) fn note_sidecar(&mut self, sidecar: Sidecar, before: (usize, usize)) {
        let now = self.checkpointed_so_far();
        let place = |files: usize| u32::try_from(files).ok();
        // One with tombstones, which expire, is not one to name again.
        if let (true, Some(start), Some(end)) = (before.1 == now.1, place(before.0), place(now.0)) {
            self.sidecars.push(PackedSidecar {
                sidecar,
                files: start..end,
            });
        }
    }

    /// Takes over the files of a checkpoint: packed, when they are many.
    ///
    /// # Errors
    /// `LyingCheckpoint`, naming `file`, when a path is in it twice.
    pub(crate) fn end_checkpoint(&mut self, file: &str) -> Result<(), DeltaError> {
        let packed = std::mem::take(&mut self.packer).finish();
        let packed = packed.map_err(|source| DeltaError::Pack { source })?;
        let packed = packed.map_err(|path| DeltaError::LyingCheckpoint {
            file: file.to_owned(),
            reason: format!("a file is in it twice: file={path}"),
        })?;
        let small = packed.len() < PACKED_MIN;
        let completion = Completion {
            schema: Arc::new(Schema::default()),
            stored_partitions: Vec::new(),
            bases: Bases::default(),
        };
        let files = Files::packed(Arc::new(packed), Arc::new(completion));
        if !small {
            self.files = files;
            return Ok(());
        }
        for file in files.without_statistics() {
            self.fresh.push(file.path.clone());
            self.files.insert(file);
        }
        self.sidecars.clear();
        Ok(())
    }

    fn actions(&mut self, actions: Vec<Action>) -> Result<(), DeltaError> {
        actions
            .into_iter()
            .try_for_each(|action| self.action(action))
    }

    /// Takes over only the in-commit timestamp of a commit that the state holds already.
    pub(crate) fn note_commit_info(&mut self, actions: &[Action]) {
        let stated = actions.iter().find_map(|action| match action {
            Action::CommitInfo(info) => info.in_commit_timestamp,
            _ => None,
        });
        self.in_commit_timestamp = stated.or(self.in_commit_timestamp);
    }

    fn action(&mut self, action: Action) -> Result<(), DeltaError> {
        match action {
            Action::CommitInfo(info) => self.in_commit_timestamp = info.in_commit_timestamp,
            Action::Protocol(protocol) => {
                // Whether columns are mapped hangs on it.
                self.schema = None;
                self.protocol = Some(Arc::new(protocol));
            }
            Action::Metadata(metadata) => {
                let same = |old: &Arc<Metadata>| same_schema(old, &metadata);
                if !self.metadata.as_ref().is_some_and(same) {
                    self.schema = None;
                }
                self.metadata = Some(Arc::from(metadata));
            }
            Action::Add(add) => {
                let file = data_file(*add)?;
                let key = (file.path.clone(), vector_id(&file.deletion));
                self.tombstones.remove(&key);
                self.fresh.push(file.path.clone());
                self.files.insert(Arc::new(file));
            }
            Action::Remove(remove) => self.remove(*remove)?,
            Action::Txn(txn) => {
                self.txns.insert(txn.app_id.clone(), txn);
            }
            Action::Domain(domain) if domain.removed => {
                self.domains.remove(&domain.domain);
            }
            Action::Domain(domain) => {
                self.domains.insert(domain.domain, domain.configuration);
            }
            Action::Cdc(_) | Action::Sidecar(_) => {}
        }
        Ok(())
    }

    fn remove(&mut self, mut remove: Remove) -> Result<(), DeltaError> {
        let path = path::table_path(&remove.path)?;
        let id = remove
            .deletion_vector
            .as_ref()
            .map(|vector| vector.unique_id());
        if self
            .files
            .get(&path)
            .is_some_and(|live| vector_id(&live.deletion) == id)
        {
            self.files.remove(&path);
        }
        remove.stats = None;
        remove.tags = None;
        self.tombstones.insert((path, id), Arc::new(remove));
        Ok(())
    }

    /// The number of live files, and their bytes.
    pub(crate) fn files_and_bytes(&self) -> (u64, u64) {
        let files = u64::try_from(self.files.len()).unwrap_or(u64::MAX);
        (files, self.files.size_bytes())
    }

    /// What is known so far.
    pub(crate) fn protocol_and_metadata(&self) -> (Option<&Protocol>, Option<&Metadata>) {
        (self.protocol.as_deref(), self.metadata.as_deref())
    }

    /// Forgets tombstones that no checkpoint would hold, counted from the commit's own time.
    pub(crate) fn expire_tombstones(&mut self) {
        let (Some(metadata), Some(now)) = (&self.metadata, self.in_commit_timestamp) else {
            return;
        };
        let cutoff = tombstone_cutoff(&metadata.configuration, now);
        let expired: Vec<FileKey> = self
            .tombstones
            .iter()
            .filter(|(_, remove)| remove.deletion_timestamp.unwrap_or(0) <= cutoff)
            .map(|(key, _)| key.clone())
            .collect();
        for key in expired {
            self.tombstones.remove(&key);
        }
    }

    /// Are protocol and metadata known?
    ///
    /// # Errors
    /// `MissingProtocol`, `MissingMetadata`, both naming `file`.
    pub(crate) fn check_complete(&self, file: &str) -> Result<(), DeltaError> {
        if self.protocol.is_none() {
            return Err(DeltaError::MissingProtocol {
                file: file.to_owned(),
            });
        }
        if self.metadata.is_none() {
            return Err(DeltaError::MissingMetadata {
                file: file.to_owned(),
            });
        }
        Ok(())
    }

    /// The finished state at `version`; `file` names the log in errors.
    ///
    /// # Errors
    /// Missing protocol or metadata, unknown reader features, unreadable schema.
    pub(crate) fn finish(mut self, version: u64, file: &str) -> Result<TableState, DeltaError> {
        self.check_complete(file)?;
        let (Some(protocol), Some(metadata)) = (self.protocol.take(), self.metadata.take()) else {
            return Err(DeltaError::MissingProtocol {
                file: file.to_owned(),
            });
        };
        feature::check_read(&protocol, &metadata)?;
        if protocol.lists_reader_feature(feature::CATALOG_MANAGED) && !self.by_catalog {
            return Err(DeltaError::CatalogManaged);
        }
        let schema = match self.schema.take() {
            Some(schema) => schema,
            None => Arc::new(column_mapping::table_schema(&protocol, &metadata)?),
        };
        let partition_columns = partition_columns(&metadata, &schema)?;
        let stored = |name: &String| Some(schema.field(name)?.1.stored_name().to_owned());
        let stored_partitions = partition_columns.iter().filter_map(stored).collect();
        let completion: Arc<dyn Complete> = Arc::new(Completion {
            schema: Arc::clone(&schema),
            stored_partitions,
            bases: self.bases,
        });
        for path in std::mem::take(&mut self.fresh) {
            if let Some(file) = self.files.loose_mut(&path) {
                completion.complete(Arc::make_mut(file), StatsNeeded::All);
            }
        }
        self.files.complete_with(&completion);
        Ok(TableState {
            version: TableVersion(version),
            partition_columns,
            clustering_columns: clustering::columns_of(&self.domains),
            properties: metadata.configuration.clone(),
            description: metadata.description.clone(),
            files: self.files,
            app_txns: self
                .txns
                .iter()
                .map(|(id, txn)| (id.clone(), txn.version))
                .collect(),
            in_commit_timestamp: self.in_commit_timestamp,
            schema,
            format: Arc::new(DeltaState {
                protocol,
                metadata,
                domains: self.domains,
                txns: self.txns,
                tombstones: self.tombstones,
                sidecars: self.sidecars.into(),
            }),
        })
    }

    /// The schema as known so far, parsed now if need be.
    pub(crate) fn schema(&mut self) -> Option<Arc<Schema>> {
        if self.schema.is_none() {
            let (protocol, metadata) = (self.protocol.as_ref()?, self.metadata.as_ref()?);
            self.schema = column_mapping::table_schema(protocol, metadata)
                .ok()
                .map(Arc::new);
        }
        self.schema.clone()
    }
}

/// Do both give one schema under one protocol?
fn same_schema(old: &Metadata, new: &Metadata) -> bool {
    let mode = |metadata: &Metadata| metadata.configuration.get(column_mapping::MODE).cloned();
    old.schema_string == new.schema_string && mode(old) == mode(new)
}

/// Partition values whose names differ from the stored ones by case get their spelling.
fn spell_partition_values(file: &mut DataFile, stored_names: &[String]) {
    for column in stored_names {
        if file.partition_values.contains_key(column) {
            continue;
        }
        let folded = column.to_lowercase();
        let other = file
            .partition_values
            .keys()
            .find(|key| key.to_lowercase() == folded)
            .cloned();
        if let Some(other) = other {
            let values = &mut file.partition_values;
            let value = values.remove(&other).flatten();
            values.insert(column.clone(), value);
        }
    }
}

/// The partition columns, spelled as in the schema.
fn partition_columns(metadata: &Metadata, schema: &Schema) -> Result<Vec<String>, DeltaError> {
    let spelled = |name: &String| match schema.field(name) {
        Some((_, field)) => Ok(field.name.clone()),
        None => Err(DeltaError::BadSchema {
            reason: "a partition column that is not in the schema".to_owned(),
            at: name.clone(),
        }),
    };
    metadata.partition_columns.iter().map(spelled).collect()
}

#[cfg(test)]
mod tests;
