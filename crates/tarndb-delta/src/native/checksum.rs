//! The checksum file of a version, made from what the writer knows already.
//!
//! Invariant: never read from the store to make one, never written over another, and complete
//! where it states a list.
//! Spec: Delta PROTOCOL, "Version Checksum File"; docs/format/native.md, "After a commit".

use serde::Serialize;
use tarndb_storage::{Path, PutOutcome, Store};
use tarndb_table::TableState;

use crate::action::{AppTxn, DomainMetadata, Metadata, Protocol};
use crate::error::DeltaError;
use crate::state::DeltaState;

/// Bytes of all live files of a version; kept, so that one commit more costs what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    bytes: u64,
}

impl Totals {
    /// Counts a state's files.
    pub(super) fn of(state: &TableState) -> Self {
        Self {
            bytes: state.size_bytes(),
        }
    }

    /// Those after files came and went.
    pub(super) fn change(&mut self, added: u64, removed: u64) {
        self.bytes = self.bytes.saturating_add(added).saturating_sub(removed);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum<'a> {
    txn_id: &'a str,
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
pub(super) fn text(state: &TableState, totals: Totals, txn_id: &str) -> Result<String, DeltaError> {
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
        table_size_bytes: totals.bytes,
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

/// Stores the file of `state`'s version, unless there is one.
///
/// # Errors
/// The store refused.
///
/// # Cost
/// One PUT.
pub(super) async fn store_checksum(
    store: &Store,
    log: &Path,
    state: &TableState,
    totals: Totals,
    txn_id: &str,
) -> Result<(), DeltaError> {
    let key = log.clone().join(format!("{:020}.crc", state.version.0));
    let text = text(state, totals, txn_id)?;
    match store.put_if_absent(&key, text.into_bytes().into()).await? {
        PutOutcome::Created | PutOutcome::AlreadyExists => Ok(()),
        PutOutcome::Unknown(error) => Err(error.into()),
    }
}
