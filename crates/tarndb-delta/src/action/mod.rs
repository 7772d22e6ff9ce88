//! The actions of a Delta commit as Rust types, and their JSON lines.
//!
//! Invariant: reading is tolerant (unknown actions and fields, explicit nulls, CRLF, blank
//! lines), but a line that is not JSON is an error with its place. Writing is deterministic.
//! Does not: reconcile actions (see `replay`).
//! Spec: Delta PROTOCOL, "Actions".

mod commit_info;
mod file;
mod metadata;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use commit_info::{Change, CommitInfo, TarnInfo};
pub use file::{Add, Cdc, DeletionVector, Remove};
pub use metadata::{Format, Metadata, Protocol};

use crate::error::DeltaError;

/// An application's own transaction number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppTxn {
    /// The application.
    pub app_id: String,
    /// Its number; need not grow.
    pub version: i64,
    /// When it was set, ms since 1970 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// A named piece of configuration that is not a table property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMetadata {
    /// Name; `delta.` ones belong to the format.
    pub domain: String,
    /// Usually JSON text.
    pub configuration: String,
    /// True: the domain is gone.
    pub removed: bool,
}

/// A file of a V2 checkpoint that holds part of its file actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sidecar {
    /// URI-encoded, normally a bare file name in `_sidecars/`.
    pub path: String,
    /// Size in bytes.
    #[serde(default)]
    pub size_in_bytes: i64,
    /// Written at, ms since 1970 UTC.
    #[serde(default)]
    pub modification_time: i64,
}

/// One action of a commit or a checkpoint. What readers ignore (unknown ones) is not here.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// About the commit itself.
    CommitInfo(CommitInfo),
    /// What clients must understand.
    Protocol(Protocol),
    /// Schema, partitioning, properties.
    Metadata(Box<Metadata>),
    /// A file is live.
    Add(Box<Add>),
    /// A file is no longer live.
    Remove(Box<Remove>),
    /// A file tells rows that the commit changed.
    Cdc(Box<Cdc>),
    /// An application's number.
    Txn(AppTxn),
    /// A domain's configuration.
    Domain(DomainMetadata),
    /// Part of a V2 checkpoint.
    Sidecar(Sidecar),
}

/// One line of NDJSON; at most one member is set in what we write.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit_info: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta_data: Option<Metadata>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    add: Option<Add>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remove: Option<Remove>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cdc: Option<Cdc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    txn: Option<AppTxn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain_metadata: Option<DomainMetadata>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sidecar: Option<Sidecar>,
}

impl Line {
    fn into_actions(self, into: &mut Vec<Action>) {
        into.extend(
            self.commit_info
                .map(|map| Action::CommitInfo(CommitInfo::from_map(map))),
        );
        into.extend(self.protocol.map(Action::Protocol));
        into.extend(self.meta_data.map(|data| Action::Metadata(Box::new(data))));
        into.extend(self.add.map(|add| Action::Add(Box::new(add))));
        into.extend(self.remove.map(|remove| Action::Remove(Box::new(remove))));
        into.extend(self.cdc.map(|cdc| Action::Cdc(Box::new(cdc))));
        into.extend(self.txn.map(Action::Txn));
        into.extend(self.domain_metadata.map(Action::Domain));
        into.extend(self.sidecar.map(Action::Sidecar));
    }
}

impl Action {
    /// The action's JSON line, without a line end.
    ///
    /// # Errors
    /// `Encode` never for values of this crate.
    pub fn to_line(&self) -> Result<String, DeltaError> {
        let mut line = Line::default();
        match self.clone() {
            Self::CommitInfo(info) => return info.to_line(),
            Self::Protocol(protocol) => line.protocol = Some(protocol),
            Self::Metadata(metadata) => line.meta_data = Some(*metadata),
            Self::Add(add) => line.add = Some(*add),
            Self::Remove(remove) => line.remove = Some(*remove),
            Self::Cdc(cdc) => line.cdc = Some(*cdc),
            Self::Txn(txn) => line.txn = Some(txn),
            Self::Domain(domain) => line.domain_metadata = Some(domain),
            Self::Sidecar(sidecar) => line.sidecar = Some(sidecar),
        }
        serde_json::to_string(&line).map_err(|source| DeltaError::Encode { source })
    }
}

/// The actions of a commit file.
///
/// `file` only names the place in errors.
///
/// # Errors
/// `NotText`, `BadLine` (also for a torn last line).
pub fn parse_commit(bytes: &[u8], file: &str) -> Result<Vec<Action>, DeltaError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DeltaError::NotText {
        file: file.to_owned(),
    })?;
    parse_lines(text.split('\n'), file)
}

/// The actions of lines that are already separated.
///
/// # Errors
/// `BadLine`.
pub fn parse_lines<'a>(
    lines: impl Iterator<Item = &'a str>,
    file: &str,
) -> Result<Vec<Action>, DeltaError> {
    let mut actions = Vec::new();
    for (index, text) in lines.enumerate() {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(text).map_err(|source| DeltaError::BadLine {
            file: file.to_owned(),
            line: index + 1,
            source,
        })?;
        line.into_actions(&mut actions);
    }
    Ok(actions)
}

/// Reads an explicit `null` as the default value.
fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
