//! May a transaction be committed after one that won the version it wanted?
//!
//! Invariant: pure; every pair of a current transaction and a winner ends as compatible, with what
//! the current one takes over from the winner, or as one kind of conflict, found by checks in
//! a fixed order. What is not known of a winner counts as the largest thing it can be.
//! Does not: change the transaction. Encoding it again on the winner's state does that.
//! Spec: docs/format/native.md, "Conflicts".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tarndb_table::{Predicate, TableState, may_match};

use super::allowed::{metadata_change, protocol_change};
use super::permit::check_native_write;
use crate::action::{Action, Add, Metadata, Protocol};
use crate::encode::row_ids::{self, ROW_TRACKING_DOMAIN};
use crate::error::DeltaError;
use crate::property::is_on;
use crate::state::{DeltaState, data_file};
use crate::{feature, path, schema_json};

/// What a transaction read of its table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reads {
    /// Nothing: a plain append.
    #[default]
    Nothing,
    /// Some of its rows.
    Rows {
        /// Which partitions can hold them; `None` when that is not known.
        partitions: Option<Predicate>,
        /// Paths of the files that were read.
        files: BTreeSet<String>,
    },
    /// All of it.
    Table,
}

/// What a transaction of a native table may not notice of the winners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NativeIsolation {
    /// As if transactions ran one after the other.
    #[default]
    Serializable,
    /// As that, for what is written: blind appends go unnoticed.
    WriteSerializable,
    /// Appends go unnoticed: for what only moves rows.
    Snapshot,
}

impl NativeIsolation {
    /// The level that a table asks for. An unknown one counts as the strictest.
    pub(crate) fn of_table(properties: &BTreeMap<String, String>) -> Self {
        match properties.get("delta.isolationLevel") {
            Some(level) if level.eq_ignore_ascii_case("WriteSerializable") => {
                Self::WriteSerializable
            }
            _ => Self::Serializable,
        }
    }

    /// As `commitInfo` names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Serializable => "Serializable",
            Self::WriteSerializable => "WriteSerializable",
            Self::Snapshot => "SnapshotIsolation",
        }
    }
}

/// Which check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConflictKind {
    /// The winner changed the protocol in a way that does not leave others alone.
    Protocol,
    /// The winner changed schema or properties in such a way.
    Metadata,
    /// Both wrote one domain.
    Domain,
    /// Both wrote one application transaction.
    Transaction,
    /// The winner added rows that would have been read.
    Append,
    /// The winner removed a file that was read.
    DeleteRead,
    /// Both remove one file.
    DeleteDelete,
    /// The version creates the table, and it is there.
    Exists,
    /// A vacuum began that may have deleted the transaction's own new files.
    Vacuum,
}

impl ConflictKind {
    /// Is running the statement again on the newer version right?
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Transaction | Self::Exists)
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Protocol => "the protocol was changed",
            Self::Metadata => "schema or properties were changed",
            Self::Domain => "the same domain was changed",
            Self::Transaction => "the same application transaction was committed",
            Self::Append => "rows were added that this transaction would have read",
            Self::DeleteRead => "a file that was read was removed",
            Self::DeleteDelete => "a file that is to be removed was removed or changed",
            Self::Exists => "the table was created",
            Self::Vacuum => "a vacuum may have deleted the new files, which were written long ago",
        }
    }
}

/// A conflict with a committed version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which check failed.
    pub kind: ConflictKind,
    /// The winner's version.
    pub version: u64,
    /// What the winner says it did.
    pub operation: String,
    /// File, key, feature or domain at issue.
    pub detail: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            version,
            operation,
            detail,
        } = self;
        let text = kind.text();
        write!(f, "{text}: version={version}, by={operation}, at={detail}")
    }
}

/// What a compatible transaction takes over from the winner when it is encoded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) protocol: bool,
    pub(crate) metadata: bool,
    /// Ids of new rows begin above the winner's.
    pub(crate) row_ids: bool,
    /// The time of the commit is above the winner's.
    pub(crate) timestamp: bool,
}

/// The transaction that is to be committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current {
    pub(crate) creates: bool,
    pub(crate) reads: Reads,
    pub(crate) isolation: NativeIsolation,
    pub(crate) adds: bool,
    /// Only file actions, and these only move rows.
    pub(crate) only_moves: bool,
    pub(crate) removes: BTreeSet<String>,
    /// Rows may have moved from files that are removed into new ones.
    pub(crate) copies: bool,
    pub(crate) protocol: bool,
    pub(crate) metadata: bool,
    pub(crate) domains: BTreeSet<String>,
    pub(crate) app_ids: BTreeSet<String>,
}

impl Current {
    /// From the actions that it would commit, and what it read.
    pub(crate) fn new(
        actions: &[Action],
        reads: Reads,
        isolation: NativeIsolation,
        creates: bool,
    ) -> Result<Self, DeltaError> {
        let mut current = Self {
            creates,
            reads,
            isolation,
            only_moves: true,
            ..Self::default()
        };
        let mut added = BTreeSet::new();
        for action in actions {
            match action {
                Action::CommitInfo(_) | Action::Cdc(_) | Action::Sidecar(_) => continue,
                Action::Add(add) => {
                    added.insert(path::table_path(&add.path)?);
                    current.adds = true;
                    current.only_moves &= !add.data_change;
                    continue;
                }
                Action::Remove(remove) => {
                    current.removes.insert(path::table_path(&remove.path)?);
                    current.only_moves &= !remove.data_change;
                    continue;
                }
                Action::Protocol(_) => current.protocol = true,
                Action::Metadata(_) => current.metadata = true,
                Action::Txn(txn) => {
                    current.app_ids.insert(txn.app_id.clone());
                }
                Action::Domain(domain) => {
                    current.domains.insert(domain.domain.clone());
                    // Ids are given anew, so this one belongs to the files.
                    if domain.domain == ROW_TRACKING_DOMAIN {
                        continue;
                    }
                }
            }
            current.only_moves = false;
        }
        let removes = &current.removes;
        current.copies = !removes.is_empty() && !added.is_subset(removes);
        Ok(current)
    }

    fn is_blind_append(&self) -> bool {
        self.adds && self.removes.is_empty() && self.reads == Reads::Nothing
    }

    /// The level by which it is judged.
    pub(crate) fn level(&self) -> NativeIsolation {
        if self.only_moves {
            NativeIsolation::Snapshot
        } else {
            self.isolation
        }
    }
}

/// A transaction that was committed first.
#[derive(Debug)]
pub(crate) struct Winner<'a> {
    version: u64,
    /// The table before it.
    before: &'a TableState,
    operation: String,
    blind_append: bool,
    protocol: Option<&'a Protocol>,
    metadata: Option<&'a Metadata>,
    adds: Vec<&'a Add>,
    removes: BTreeSet<String>,
    domains: BTreeSet<&'a str>,
    app_ids: BTreeSet<&'a str>,
    timestamp: bool,
}

impl<'a> Winner<'a> {
    /// From its actions and the state before it.
    pub(crate) fn new(
        version: u64,
        before: &'a TableState,
        actions: &'a [Action],
    ) -> Result<Self, DeltaError> {
        let mut winner = Self {
            version,
            before,
            operation: "an unnamed operation".to_owned(),
            blind_append: false,
            protocol: None,
            metadata: None,
            adds: Vec::new(),
            removes: BTreeSet::new(),
            domains: BTreeSet::new(),
            app_ids: BTreeSet::new(),
            timestamp: false,
        };
        for action in actions {
            match action {
                Action::CommitInfo(info) => {
                    winner.blind_append = info.is_blind_append == Some(true);
                    winner.timestamp = info.in_commit_timestamp.is_some();
                    if let Some(operation) = &info.operation {
                        winner.operation.clone_from(operation);
                    }
                }
                Action::Protocol(protocol) => winner.protocol = Some(protocol),
                Action::Metadata(metadata) => winner.metadata = Some(metadata),
                Action::Add(add) => winner.adds.push(add),
                Action::Remove(remove) => {
                    winner.removes.insert(path::table_path(&remove.path)?);
                }
                Action::Txn(txn) => {
                    winner.app_ids.insert(&txn.app_id);
                }
                Action::Domain(domain) => {
                    winner.domains.insert(&domain.domain);
                }
                Action::Cdc(_) | Action::Sidecar(_) => {}
            }
        }
        // A commit that removes files is no blind append, whatever it says of itself.
        winner.blind_append &= winner.removes.is_empty();
        Ok(winner)
    }

    fn conflict(&self, kind: ConflictKind, detail: impl Into<String>) -> Judged {
        Judged::Conflict(Conflict {
            kind,
            version: self.version,
            operation: self.operation.clone(),
            detail: detail.into(),
        })
    }
}

/// The outcome of judging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The transaction can be committed after the winner.
    Compatible(Taken),
    /// It cannot.
    Conflict(Conflict),
}

/// Judges `current` against one winner.
///
/// # Errors
/// A winner whose metadata or paths cannot be read.
pub(crate) fn judge(current: &Current, winner: &Winner<'_>) -> Result<Judged, DeltaError> {
    if current.creates {
        return Ok(winner.conflict(ConflictKind::Exists, "version 0"));
    }
    let definitions = check_definitions(current, winner)?;
    if let Some(conflict) = definitions {
        return Ok(conflict);
    }
    let shared = |theirs: &BTreeSet<&str>, ours: &BTreeSet<String>| {
        let both = ours.iter().find(|name| theirs.contains(name.as_str()));
        both.cloned()
    };
    let own_domains = current
        .domains
        .iter()
        .filter(|domain| *domain != ROW_TRACKING_DOMAIN)
        .cloned()
        .collect();
    if let Some(domain) = shared(&winner.domains, &own_domains) {
        return Ok(winner.conflict(ConflictKind::Domain, domain));
    }
    if let Some(app_id) = shared(&winner.app_ids, &current.app_ids) {
        return Ok(winner.conflict(ConflictKind::Transaction, app_id));
    }
    if let Some(file) = appended(current, winner)? {
        return Ok(winner.conflict(ConflictKind::Append, file));
    }
    if let Some((kind, file)) = removed(current, winner) {
        return Ok(winner.conflict(kind, file));
    }
    Ok(Judged::Compatible(Taken {
        protocol: winner.protocol.is_some(),
        metadata: winner.metadata.is_some(),
        row_ids: current.adds && winner.domains.contains(ROW_TRACKING_DOMAIN),
        timestamp: winner.timestamp,
    }))
}

/// Protocol and metadata.
fn check_definitions(current: &Current, winner: &Winner<'_>) -> Result<Option<Judged>, DeltaError> {
    let delta = DeltaState::of(winner.before)?;
    if let Some(after) = winner.protocol {
        let metadata = winner.metadata.unwrap_or(&delta.metadata);
        let conflict = |detail: String| Ok(Some(winner.conflict(ConflictKind::Protocol, detail)));
        let schema = schema_json::parse_schema(&metadata.schema_string)?;
        let permitted = feature::check_read(after, metadata)
            .and_then(|()| check_native_write(after, metadata, &schema));
        if let Err(error) = permitted {
            return conflict(error.to_string());
        }
        if current.protocol {
            return conflict("both change it".to_owned());
        }
        if let Err(detail) = protocol_change(&delta.protocol, after) {
            return conflict(detail);
        }
    }
    if let Some(after) = winner.metadata {
        let conflict = |detail: String| Ok(Some(winner.conflict(ConflictKind::Metadata, detail)));
        if current.metadata {
            return conflict("both change them".to_owned());
        }
        if let Err(detail) = metadata_change(&delta.metadata, after) {
            return conflict(detail);
        }
        // The new files do not have the ids that their rows got by this.
        let tracks = |metadata: &Metadata| is_on(&metadata.configuration, row_ids::ENABLED);
        if current.copies && tracks(after) && !tracks(&delta.metadata) {
            return conflict(format!("property {}", row_ids::ENABLED));
        }
    }
    Ok(None)
}

/// A file that the winner added and the transaction would have read.
fn appended(current: &Current, winner: &Winner<'_>) -> Result<Option<String>, DeltaError> {
    let ignores_blind = current.level() == NativeIsolation::WriteSerializable && !current.metadata;
    if current.level() == NativeIsolation::Snapshot
        || current.is_blind_append()
        || (winner.blind_append && ignores_blind)
    {
        return Ok(None);
    }
    let state = winner.before;
    for add in &winner.adds {
        // What only moves rows adds none; that its old files were read is another check's.
        if !add.data_change {
            continue;
        }
        let read = match &current.reads {
            Reads::Nothing => false,
            Reads::Table => true,
            Reads::Rows {
                partitions: Some(partitions),
                ..
            } if !state.partition_columns.is_empty() => {
                let mut file = data_file((*add).clone())?;
                file.raw_stats = None;
                may_match(partitions, &file, &state.schema, &state.partition_columns)
            }
            Reads::Rows { .. } => true,
        };
        if read {
            return Ok(Some(add.path.clone()));
        }
    }
    Ok(None)
}

/// A file that the winner removed and the transaction read or removes too.
fn removed(current: &Current, winner: &Winner<'_>) -> Option<(ConflictKind, String)> {
    let read = match &current.reads {
        Reads::Nothing => None,
        Reads::Table => winner.removes.first(),
        Reads::Rows { files, .. } => winner.removes.intersection(files).next(),
    };
    let read = read.map(|file| (ConflictKind::DeleteRead, file.clone()));
    read.or_else(|| {
        let both = winner.removes.intersection(&current.removes).next();
        both.map(|file| (ConflictKind::DeleteDelete, file.clone()))
    })
}

#[cfg(test)]
mod tests;
