//! `DeltaState`: what a Delta table's state holds beside the table model.
//!
//! Invariant: protocol and metadata are the newest actions as they stand in the log, so that
//! a change of one part of them loses nothing of the rest.
//! Spec: Delta PROTOCOL, "Action Reconciliation".

use std::any::Any;
use std::sync::Arc;

use tarndb_table::{DataFile, Deletion, FormatState, TableState};

use crate::action::{Add, AppTxn, Metadata, Protocol, Remove};
use crate::checkpoint::v2::PackedSidecar;
use crate::error::DeltaError;
use crate::{dv, path};

/// Identity of a file in reconciliation: canonical path and id of its deletion vector.
pub(crate) type FileKey = (String, Option<String>);

/// The format's part of a table's state.
#[derive(Clone, Debug)]
pub struct DeltaState {
    /// What clients must understand.
    pub protocol: Arc<Protocol>,
    /// Schema, partitioning, properties, as in the log.
    pub metadata: Arc<Metadata>,
    /// Live domains and their configuration.
    pub domains: imbl::OrdMap<String, String>,
    /// Application transactions, with their times.
    pub txns: imbl::OrdMap<String, AppTxn>,
    /// Removed files that are not live again, whatever their age; without stats and tags.
    pub tombstones: imbl::OrdMap<FileKey, Arc<Remove>>,
    /// Where the packed files came from, if from sidecars.
    pub sidecars: Arc<[PackedSidecar]>,
}

impl FormatState for DeltaState {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl DeltaState {
    /// The Delta part of a table's state.
    ///
    /// # Errors
    /// `ForeignState` when another codec made the state.
    pub fn of(state: &TableState) -> Result<&Self, DeltaError> {
        state
            .format
            .as_any()
            .downcast_ref()
            .ok_or(DeltaError::ForeignState)
    }
}

/// The id of a stored deletion vector; `None` without one.
pub(crate) fn vector_id(deletion: &Deletion) -> Option<String> {
    match deletion {
        Deletion::Stored(descriptor) => Some(dv::from_descriptor(descriptor).unique_id()),
        Deletion::None | Deletion::Loaded(_) => None,
    }
}

/// The table model's form of an `add`; statistics are parsed later, when the schema is known.
pub(crate) fn data_file(add: Add) -> Result<DataFile, DeltaError> {
    let deletion = match &add.deletion_vector {
        Some(vector) => Deletion::Stored(dv::to_descriptor(vector)?),
        None => Deletion::None,
    };
    let tags = add.tags.into_iter().flatten();
    Ok(DataFile {
        path: path::table_path(&add.path)?,
        raw_path: add.path,
        partition_values: add.partition_values,
        size_bytes: u64::try_from(add.size).unwrap_or(0),
        modification_time_ms: add.modification_time,
        stats: None,
        raw_stats: add.stats,
        deletion,
        base_row_id: add.base_row_id,
        default_row_commit_version: add.default_row_commit_version,
        tags: tags
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        clustering_provider: add.clustering_provider,
        held: None,
        beside: None,
    })
}
