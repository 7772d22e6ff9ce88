//! Making a table one that a database manages: the commit that says so.
//!
//! Invariant: a native commit, put if absent and made anew on whatever wins before it, so that of
//! two databases one is told of the other. It changes no file. A table with a feature that the
//! database could not write is refused before anything is put.
//! Does not: tell the database; a table that is marked and not told is found again.
//! Spec: docs/format/delta.md, "Attaching and detaching".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tarndb_log::{Appended, LogDir};
use tarndb_storage::{Path, Store};
use tarndb_table::{Entry, TableCodec as _, TableState};
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TxnId};

use super::commit::STALE;
use super::error::NativeError;
use super::permit::is_unused;
use super::protocol::{has_feature, missing, with_room_for};
use crate::DeltaCodec;
use crate::action::{Action, Change, CommitInfo, TarnInfo};
use crate::encode::membership::{IN_COMMIT_TIMESTAMPS, Membership};
use crate::error::DeltaError;
use crate::feature::{self, DOMAIN_METADATA, IN_COMMIT_TIMESTAMP, MANAGED};
use crate::load::load_own_log;
use crate::path;
use crate::property::is_on;
use crate::state::DeltaState;

/// What the history of the table calls it.
const OPERATION: &str = "ATTACH TABLE";

/// Who is to manage a table.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The database.
    pub database: DatabaseId,
    /// Its version.
    pub db_version: DbVersion,
    /// The id that the table gets there; of a version 7 UUID, never used before.
    pub table: TableId,
    /// How long the commit tries.
    pub commit_time: Duration,
}

/// A table that says that the database manages it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its id there, where the newest version names it: it does from the mark to the database's
    /// first commit.
    pub table: Option<TableId>,
    /// Its newest version.
    pub version: TableVersion,
}

/// Marks the table at `location` as the database's, unless it is.
///
/// # Errors
/// As opening the table; `UnsupportedWriterFeature`, `ManagedByAnother`; a file that lies outside
/// of the table; `Pending` when the store does not tell: marking it again goes on.
///
/// # Cost
/// A GET, a LIST, the checkpoint and the commits after it; a PUT.
pub async fn mark_managed(
    store: &Store,
    location: &Path,
    mark: &Mark,
) -> Result<Marked, NativeError> {
    let context = store.context();
    let log = LogDir::new(store.clone(), path::log_dir(location));
    let codec = DeltaCodec::default();
    let txn = TxnId(context.uuid());
    let begun = context.monotonic();
    loop {
        let looked = context.monotonic();
        let state = load_own_log(store, location, None).await?;
        if let Some(marked) = found(&state, mark.database)? {
            return Ok(marked);
        }
        let waited = context.monotonic().saturating_sub(begun);
        let left = mark.commit_time.checked_sub(waited);
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            return Err(NativeError::Busy { waited });
        };
        for file in state.files.values() {
            file.key(location)?;
        }
        let entry = encoded(&state, mark, txn, context.now().0)?;
        let is_ours = |found: &[u8]| codec.published_txn(found) == Some(txn);
        let bytes = codec.published_bytes(&entry);
        tracing::debug!(target: "tarndb::step", version = entry.version.0, "mark.begin");
        let appended = log.append(entry.version.0, bytes, &is_ours, left).await;
        tracing::debug!(target: "tarndb::step", version = entry.version.0, "mark.end");
        let ours = appended.map_err(|error| NativeError::from_log(txn, error))? == Appended::Ours;
        // One that slept looks whether what it put is part of the log.
        if ours && context.monotonic().saturating_sub(looked) <= STALE {
            return Ok(Marked {
                table: Some(mark.table),
                version: entry.version,
            });
        }
    }
}

/// What a managed table says of its database; `None` when nobody manages it.
fn found(state: &TableState, database: DatabaseId) -> Result<Option<Marked>, DeltaError> {
    let Some(membership) = Membership::of(DeltaState::of(state)?)? else {
        return Ok(None);
    };
    if membership.database_id != database.to_string() {
        return Err(DeltaError::ManagedByAnother {
            database: membership.database_id,
        });
    }
    let table = membership.table_id.and_then(|text| text.parse().ok());
    Ok(Some(Marked {
        table,
        version: state.version,
    }))
}

/// The commit that marks the table, on top of `state`.
fn encoded(state: &TableState, mark: &Mark, txn: TxnId, now: i64) -> Result<Entry, DeltaError> {
    let delta = DeltaState::of(state)?;
    let protocol = delta.protocol.as_ref();
    if !(1..=7).contains(&protocol.min_writer_version) {
        return Err(DeltaError::UnsupportedWriterFeature {
            feature: format!("writer version {}", protocol.min_writer_version),
        });
    }
    feature::check_valid(protocol)?;
    let needed = BTreeSet::from([DOMAIN_METADATA, IN_COMMIT_TIMESTAMP, MANAGED]);
    let room = with_room_for(protocol, &needed);
    let raised = feature::raise(&room, &missing(&room, &needed));
    feature::check_write(&raised, |name| {
        is_unused(name, &delta.metadata, &state.schema)
    })?;
    let added = needed
        .iter()
        .filter(|name| !has_feature(protocol, name))
        .map(|name| (*name).to_owned());
    let added: BTreeSet<String> = added.collect();

    let timestamp = state
        .in_commit_timestamp
        .map_or(now, |last| now.max(last.saturating_add(1)));
    let version = state.version.next();
    let mut metadata = delta.metadata.as_ref().clone();
    let mut changes: Vec<Change> = added
        .iter()
        .map(|name| Change::AddFeature { name: name.clone() })
        .collect();
    if !is_on(&metadata.configuration, IN_COMMIT_TIMESTAMPS) {
        for (key, value) in [
            (IN_COMMIT_TIMESTAMPS, "true".to_owned()),
            (
                "delta.inCommitTimestampEnablementVersion",
                version.to_string(),
            ),
            (
                "delta.inCommitTimestampEnablementTimestamp",
                timestamp.to_string(),
            ),
        ] {
            metadata.configuration.insert(key.to_owned(), value);
        }
        changes.push(Change::Set {
            key: IN_COMMIT_TIMESTAMPS.to_owned(),
            value: "true".to_owned(),
        });
    }
    let membership = Membership {
        database_id: mark.database.to_string(),
        db_version: mark.db_version.0,
        table_id: Some(mark.table.to_string()),
        added: Some(added.into_iter().filter(|name| name != MANAGED).collect()),
    };
    let info = CommitInfo {
        timestamp: Some(timestamp),
        in_commit_timestamp: Some(timestamp),
        operation: Some(OPERATION.to_owned()),
        operation_parameters: BTreeMap::new(),
        operation_metrics: BTreeMap::new(),
        read_version: i64::try_from(state.version.0).ok(),
        isolation_level: Some("Serializable".to_owned()),
        is_blind_append: Some(false),
        engine_info: Some(concat!("TarnDB/", env!("CARGO_PKG_VERSION")).to_owned()),
        txn_id: Some(txn.to_string()),
        tarndb: Some(TarnInfo {
            created: false,
            changes,
        }),
        ..CommitInfo::default()
    };
    let mut actions = vec![Action::CommitInfo(info)];
    if raised != *protocol {
        actions.push(Action::Protocol(raised));
    }
    if metadata != *delta.metadata {
        actions.push(Action::Metadata(Box::new(metadata)));
    }
    actions.push(Action::Domain(membership.domain()?));
    let lines = actions.iter().map(Action::to_line);
    Ok(Entry {
        version,
        lines: lines.collect::<Result<_, _>>()?,
    })
}
