//! The checksum file of a version: made from what the writer knows already, and compared with
//! what a reader made of the log.
//!
//! Invariant: never read from the store to make one, never written over another, and complete
//! where it states a list. One that is missing or unreadable says nothing, and one that differs
//! never keeps a table from being read.
//! Spec: Delta PROTOCOL, "Version Checksum File"; docs/format/native.md, "After a commit".

use serde::{Deserialize, Serialize};
use tarndb_storage::{Path, PutOutcome, Store};
use tarndb_table::TableState;

use crate::action::{AppTxn, DomainMetadata, Metadata, Protocol};
use crate::error::DeltaError;
use crate::replay::Replay;
use crate::state::DeltaState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    txn_id: Option<&'a str>,
    table_size_bytes: u64,
    num_files: usize,
    num_metadata: u32,
    num_protocol: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_commit_timestamp_opt: Option<i64>,
    set_transactions: Vec<&'a AppTxn>,
    domain_metadata: Vec<DomainMetadata>,
    metadata: &'a Metadata,
    protocol: &'a Protocol,
}

/// The file of `state`'s version.
pub(crate) fn text(state: &TableState, txn_id: Option<&str>) -> Result<String, DeltaError> {
    let delta = DeltaState::of(state)?;
    let domains = delta
        .domains
        .iter()
        .map(|(domain, configuration)| DomainMetadata {
            domain: domain.clone(),
            configuration: configuration.clone(),
            removed: false,
        });
    let checksum = Checksum {
        txn_id,
        table_size_bytes: state.size_bytes(),
        num_files: state.files.len(),
        num_metadata: 1,
        num_protocol: 1,
        in_commit_timestamp_opt: state.in_commit_timestamp,
        set_transactions: delta.txns.values().collect(),
        domain_metadata: domains.collect(),
        metadata: &delta.metadata,
        protocol: &delta.protocol,
    };
    serde_json::to_string(&checksum).map_err(|source| DeltaError::Encode { source })
}

fn key(log: &Path, version: u64) -> Path {
    log.clone().join(format!("{version:020}.crc"))
}

/// Stores the file of `state`'s version, unless there is one.
///
/// # Errors
/// The store refused.
///
/// # Cost
/// One PUT.
pub(crate) async fn store_checksum(
    store: &Store,
    log: &Path,
    state: &TableState,
    txn_id: Option<&str>,
) -> Result<(), DeltaError> {
    let text = text(state, txn_id)?;
    let key = key(log, state.version.0);
    match store.put_if_absent(&key, text.into_bytes().into()).await? {
        PutOutcome::Created | PutOutcome::AlreadyExists => Ok(()),
        PutOutcome::Unknown(error) => Err(error.into()),
    }
}

/// What a checksum file states that a reader can compare.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stated {
    table_size_bytes: u64,
    num_files: u64,
    metadata: Option<Metadata>,
    protocol: Option<Protocol>,
}

/// Reads the file of a version; `None` when it cannot be read.
///
/// # Cost
/// One GET.
pub(crate) async fn read_checksum(store: &Store, log: &Path, version: u64) -> Option<Stated> {
    let key = key(log, version);
    let bytes = match store.get(&key).await {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::debug!(%key, %error, "checksum not read");
            return None;
        }
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed
        .inspect_err(|error| tracing::warn!(%key, %error, "not a checksum file"))
        .ok()
}

impl Stated {
    /// What differs from the log as it was read; `None` when all is as stated.
    pub(crate) fn difference(&self, read: &Replay) -> Option<String> {
        let (files, bytes) = read.files_and_bytes();
        if (self.num_files, self.table_size_bytes) != (files, bytes) {
            let (told, told_bytes) = (self.num_files, self.table_size_bytes);
            return Some(format!(
                "{told} files of {told_bytes} bytes are stated, {files} of {bytes} were found"
            ));
        }
        let (protocol, metadata) = read.protocol_and_metadata();
        let protocol_differs = self.protocol.as_ref().is_some_and(|told| {
            let versions = |it: &Protocol| (it.min_reader_version, it.min_writer_version);
            protocol.is_some_and(|found| versions(found) != versions(told))
        });
        let metadata_differs = self.metadata.as_ref().is_some_and(|told| {
            let parts = |it: &Metadata| (it.id.clone(), it.schema_string.clone());
            metadata.is_some_and(|found| parts(found) != parts(told))
        });
        match (protocol_differs, metadata_differs) {
            (true, _) => Some("another protocol is stated than was found".to_owned()),
            (_, true) => Some("another schema or table id is stated than was found".to_owned()),
            _ => None,
        }
    }
}
