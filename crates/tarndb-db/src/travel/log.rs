//! The versions of a table that are still there, and the lines of each.
//!
//! Invariant: a published version is read from the table's own log, any other from the
//! database's; versions end at that of the snapshot.
//! Spec: docs/format/log.md, "Reading a table".

use std::sync::Arc;

use tarndb_delta::action::{Action, CommitInfo, parse_lines};
use tarndb_log::FileName;
use tarndb_storage::Path;
use tarndb_table::codec::Entry;
use tarndb_types::{DbVersion, TableVersion, TimestampMs};

use super::error::TravelError;
use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// Domain in which commits name the version of their database.
const DOMAIN: &str = "tarndb";

/// The versions of a table.
#[derive(Debug)]
pub(super) struct TableLog<'a> {
    inner: &'a Inner,
    table: &'a TableEntry,
    published: Option<TableVersion>,
    /// Those whose commits are there, ascending.
    versions: Vec<TableVersion>,
}

/// What a commit says of itself.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) timestamp: TimestampMs,
    pub(super) info: CommitInfo,
    pub(super) db_version: Option<DbVersion>,
}

impl<'a> TableLog<'a> {
    /// # Cost
    /// 1 LIST.
    pub(super) async fn load(inner: &'a Inner, table: &'a TableEntry) -> Result<Self, DbError> {
        let codec = inner.codec(&table.format, &table.display_name())?;
        let published = inner.known_published(table);
        let mut versions = Vec::new();
        if let Some(published) = published {
            let first = codec.published_key(&table.location, TableVersion::ZERO);
            let folder = first.as_ref().rsplit_once('/').map_or("", |(dir, _)| dir);
            let dir = Path::parse(folder).map_err(|_| DbError::Internal {
                what: "the log folder of a table is no path",
            })?;
            let listed = inner.store.list_after(&dir, None).await?;
            let commits =
                listed
                    .iter()
                    .filter_map(|object| match FileName::parse(&dir, &object.key) {
                        Some(FileName::Commit(version)) => Some(TableVersion(version)),
                        _ => None,
                    });
            versions.extend(commits.filter(|version| *version <= published));
            versions.sort();
        }
        let first = published.map_or(0, |published| published.0 + 1);
        versions.extend((first..=table.version.0).map(TableVersion));
        Ok(Self {
            inner,
            table,
            published,
            versions,
        })
    }

    /// Those whose commits are there, ascending.
    pub(super) fn versions(&self) -> &[TableVersion] {
        &self.versions
    }

    /// The lines that made a version.
    ///
    /// # Cost
    /// At most 1 GET, 2 for one that is staged.
    pub(super) async fn entry(&self, version: TableVersion) -> Result<Arc<Entry>, DbError> {
        let (inner, table) = (self.inner, self.table);
        if self.published.is_none_or(|published| version > published) {
            return inner.entry(table, version).await;
        }
        let codec = inner.codec(&table.format, &table.display_name())?;
        let key = codec.published_key(&table.location, version);
        let Some(bytes) = inner.store.get(&key).await? else {
            return Err(TravelError::CleanedUp {
                table: table.display_name(),
                wanted: version,
                oldest: self.versions.iter().copied().find(|v| *v > version),
            }
            .into());
        };
        let lines = String::from_utf8_lossy(&bytes);
        let lines = lines.lines().map(str::to_owned).collect();
        Ok(Arc::new(Entry { version, lines }))
    }

    /// What the commit of a version says of itself.
    ///
    /// # Cost
    /// As [`Self::entry`].
    pub(super) async fn told(&self, version: TableVersion) -> Result<Told, DbError> {
        let entry = self.entry(version).await?;
        told(&entry).map_err(|source| {
            let source = tarndb_table::TableError::from(source);
            DbError::table(self.table.display_name())(source)
        })
    }

    /// The newest version not after `at`, which must not be after `now`.
    ///
    /// # Cost
    /// An entry per step of a binary search.
    pub(super) async fn version_at(
        &self,
        at: TimestampMs,
        now: TimestampMs,
    ) -> Result<TableVersion, DbError> {
        let (mut low, mut high) = (0, self.versions.len());
        while low < high {
            let middle = low.midpoint(high);
            let Some(version) = self.versions.get(middle) else {
                break;
            };
            if self.told(*version).await?.timestamp <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = low.checked_sub(1).and_then(|at| self.versions.get(at));
        let last = self.table.timestamp;
        match found {
            Some(version) if at <= now.max(last) => Ok(*version),
            _ => {
                let first = match self.versions.first() {
                    Some(version) => self.told(*version).await?.timestamp,
                    None => last,
                };
                Err(TravelError::NoVersionAt {
                    table: self.table.display_name(),
                    wanted: at,
                    first,
                    last,
                }
                .into())
            }
        }
    }
}

/// What an entry says of itself.
pub(super) fn told(entry: &Entry) -> Result<Told, tarndb_delta::DeltaError> {
    let name = format!("version {} (of the table's log)", entry.version);
    let actions = parse_lines(entry.lines.iter().map(String::as_str), &name)?;
    let (mut info, mut db_version) = (CommitInfo::default(), None);
    for action in actions {
        match action {
            Action::CommitInfo(found) => info = found,
            Action::Domain(domain) if domain.domain == DOMAIN => {
                let value: Option<serde_json::Value> =
                    serde_json::from_str(&domain.configuration).ok();
                let version = value.as_ref().and_then(|value| value.get("dbVersion"));
                db_version = version.and_then(serde_json::Value::as_u64).map(DbVersion);
            }
            _ => {}
        }
    }
    let time = info.in_commit_timestamp.or(info.timestamp);
    Ok(Told {
        timestamp: TimestampMs(time.unwrap_or_default()),
        info,
        db_version,
    })
}
