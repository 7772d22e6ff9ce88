//! The catalog: schemas, tables and their versions at one database version.
//!
//! Invariant: a pure function of the records up to its version; `published` alone is knowledge
//! from outside the log (a fact that, once true, stays true). Immutable to its readers and
//! cheap to clone: all maps are persistent.
//! It does no IO and knows no file of any table.
//! Spec: docs/format/log.md, "Replay".

mod attach;
pub mod error;
mod location;
mod object;
mod replay;
mod vacuum;

use std::sync::Arc;

use tarndb_storage::Path;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs};

pub use attach::Attached;
pub(crate) use attach::Place;
pub use location::{check_name, encode_name, location_for};
pub use object::{TagEntry, ViewEntry};
pub(crate) use replay::parse_bases;
pub use replay::parse_location;
pub use vacuum::VacuumMark;

/// Name of the catalog that SQL shows.
pub const CATALOG_NAME: &str = "tarndb";
/// The schema that every database begins with.
pub const DEFAULT_SCHEMA: &str = "main";

/// Number of the log format that record 0 states.
pub const LOG_FORMAT: u32 = 1;

/// A schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaEntry {
    /// As written when it was created.
    pub name: String,
}

/// A table as the catalog knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    /// Its identity.
    pub id: TableId,
    /// The schema it lies in, as written.
    pub schema: String,
    /// Its name, as written.
    pub name: String,
    /// Its format, such as `delta`.
    pub format: String,
    /// Folder of its files, as a key of the database's store.
    pub location: Path,
    /// Folders of other tables in which it may name files: those that it was cloned from.
    pub bases: Arc<[Path]>,
    /// Its version.
    pub version: TableVersion,
    /// Version of the table's own log that is published and verified.
    pub published: Option<TableVersion>,
    /// Record that created it.
    pub created: DbVersion,
    /// Record that dropped it.
    pub dropped: Option<DbVersion>,
    /// Timestamp of its last commit.
    pub timestamp: TimestampMs,
    /// The oldest database version at which the last vacuum left its files readable.
    pub vacuumed: Option<DbVersion>,
    /// How it came to the database, if it was there before.
    pub attached: Option<Attached>,
    /// It was given back to its own log instead of dropped; its last version says so.
    pub is_detached: bool,
    /// Whether version 0 is there (it follows the creation in the same record).
    pub(crate) has_version: bool,
    /// The records that hold its versions: all unpublished ones and some recent others.
    pub(crate) positions: imbl::OrdMap<TableVersion, DbVersion>,
}

impl TableEntry {
    /// `schema.name`, for people.
    pub fn display_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Versions that are in the database log but not known to be published.
    pub fn unpublished(&self) -> u64 {
        match self.published {
            Some(published) => self.version.0.saturating_sub(published.0),
            None => self.version.0 + 1,
        }
    }

    /// First version that is not known to be published.
    pub fn first_unpublished(&self) -> TableVersion {
        self.published
            .map_or(TableVersion::ZERO, TableVersion::next)
    }

    /// The record that holds a version, when the catalog still knows it.
    pub fn position(&self, version: TableVersion) -> Option<DbVersion> {
        self.positions.get(&version).copied()
    }
}

/// Positions of published versions that stay at hand, so that a slightly older snapshot or
/// cached state can be moved forward without reading the table's own log.
const PUBLISHED_POSITIONS_KEPT: u64 = 256;

/// The database at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalog {
    database: DatabaseId,
    version: DbVersion,
    timestamp: TimestampMs,
    reader_features: imbl::OrdSet<String>,
    writer_features: imbl::OrdMap<String, DbVersion>,
    unknown_actions: imbl::OrdMap<String, DbVersion>,
    vacuum: Option<VacuumMark>,
    schemas: imbl::OrdMap<String, Arc<SchemaEntry>>,
    tables: imbl::OrdMap<TableId, Arc<TableEntry>>,
    dropped: imbl::OrdMap<TableId, Arc<TableEntry>>,
    names: imbl::OrdMap<(String, String), TableId>,
    views: imbl::OrdMap<(String, String), Arc<ViewEntry>>,
    tags: imbl::OrdMap<String, TagEntry>,
    locations: imbl::OrdSet<String>,
}

/// The form under which names are compared.
pub fn fold_name(name: &str) -> String {
    name.to_lowercase()
}

impl Catalog {
    /// Identity of the database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The version.
    pub fn version(&self) -> DbVersion {
        self.version
    }

    /// Commit timestamp of the version.
    pub fn timestamp(&self) -> TimestampMs {
        self.timestamp
    }

    /// Schemas in the order of their folded names.
    pub fn schemas(&self) -> impl Iterator<Item = &SchemaEntry> {
        self.schemas.values().map(Arc::as_ref)
    }

    /// The schema of that name, without regard to case.
    pub fn schema(&self, name: &str) -> Option<&SchemaEntry> {
        self.schemas.get(&fold_name(name)).map(Arc::as_ref)
    }

    /// Live tables by id.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.tables.values()
    }

    /// Dropped tables by id; their files and unpublished versions still exist.
    pub fn dropped_tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.dropped.values()
    }

    /// A live table.
    pub fn table(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.tables.get(&id)
    }

    /// A table, live or dropped.
    pub fn table_or_dropped(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.tables.get(&id).or_else(|| self.dropped.get(&id))
    }

    /// The table of that name, without regard to case.
    pub fn find(&self, schema: &str, name: &str) -> Option<&Arc<TableEntry>> {
        let id = self.names.get(&(fold_name(schema), fold_name(name)))?;
        self.tables.get(id)
    }

    /// The tables of a schema in the order of their folded names.
    pub fn tables_in(&self, schema: &str) -> Vec<&Arc<TableEntry>> {
        let schema = fold_name(schema);
        let from = (schema.clone(), String::new());
        self.names
            .range(from..)
            .take_while(|((found, _), _)| *found == schema)
            .filter_map(|(_, id)| self.tables.get(id))
            .collect()
    }

    /// Whether a location was ever used, without regard to case.
    pub fn location_used(&self, location: &str) -> bool {
        self.locations.contains(&fold_name(location))
    }

    /// The used location that is equal to, inside or around this one, if any.
    pub fn location_conflict(&self, location: &str) -> Option<&str> {
        let folded = fold_name(location);
        for (at, _) in folded.match_indices('/') {
            if let Some(outer) = folded.get(..at).and_then(|outer| self.locations.get(outer)) {
                return Some(outer);
            }
        }
        if let Some(same) = self.locations.get(&folded) {
            return Some(same);
        }
        let below = format!("{folded}/");
        let inner = self.locations.range(below.clone()..).next();
        inner
            .filter(|inner| inner.starts_with(&below))
            .map(String::as_str)
    }

    /// The table, live or dropped, whose folder this is.
    pub fn at_location(&self, location: &Path) -> Option<&Arc<TableEntry>> {
        let mut all = self.tables.values().chain(self.dropped.values());
        all.find(|table| table.location == *location)
    }

    /// A table that names files in the folder `location` of another, dropped ones included as
    /// long as they can come back.
    pub(crate) fn sharing(&self, location: &Path) -> Option<&Arc<TableEntry>> {
        let mut all = self.tables.values().chain(self.dropped.values());
        all.find(|table| !table.is_detached && table.bases.contains(location))
    }

    /// Every location ever used, folded, ascending.
    pub fn locations(&self) -> impl Iterator<Item = &str> {
        self.locations.iter().map(String::as_str)
    }

    /// Names that readers must know.
    pub fn reader_features(&self) -> impl Iterator<Item = &str> {
        self.reader_features.iter().map(String::as_str)
    }

    /// Names that writers must know and the first record that demanded each.
    pub fn writer_features(&self) -> impl Iterator<Item = (&str, DbVersion)> {
        self.writer_features
            .iter()
            .map(|(name, version)| (name.as_str(), *version))
    }

    /// Actions met that this build does not know, and the first record with each.
    pub fn unknown_actions(&self) -> impl Iterator<Item = (&str, DbVersion)> {
        self.unknown_actions
            .iter()
            .map(|(name, version)| (name.as_str(), *version))
    }

    /// Whether some table has versions that are not known to be published.
    pub fn has_unpublished(&self) -> bool {
        self.tables
            .values()
            .chain(self.dropped.values())
            .any(|table| table.unpublished() > 0)
    }

    /// Whether both say the same, apart from what is known to be published.
    pub fn same_content(&self, other: &Self) -> bool {
        let plain = |catalog: &Self| {
            let mut plain = catalog.clone();
            for tables in [&mut plain.tables, &mut plain.dropped] {
                let ids: Vec<TableId> = tables.keys().copied().collect();
                for id in ids {
                    if let Some(table) = tables.get_mut(&id).map(Arc::make_mut) {
                        table.published = None;
                        table.positions = imbl::OrdMap::new();
                    }
                }
            }
            plain
        };
        plain(self) == plain(other)
    }

    pub(crate) fn names_count(&self) -> usize {
        self.names.len()
    }

    /// Notes that the table's own log is published and verified up to `version`.
    pub(crate) fn note_published(&mut self, id: TableId, version: TableVersion) {
        let live = self.tables.contains_key(&id);
        let tables = if live {
            &mut self.tables
        } else {
            &mut self.dropped
        };
        let Some(entry) = tables.get_mut(&id) else {
            return;
        };
        if entry.published.is_some_and(|known| known >= version) || version > entry.version {
            return;
        }
        let entry = Arc::make_mut(entry);
        entry.published = Some(version);
        let keep_from = TableVersion(version.0.saturating_sub(PUBLISHED_POSITIONS_KEPT));
        while let Some(oldest) = entry.positions.get_min().map(|(oldest, _)| *oldest) {
            if oldest >= keep_from {
                break;
            }
            entry.positions.remove(&oldest);
        }
    }

    /// Takes over what `other` knows to be published.
    pub(crate) fn adopt_published(&mut self, other: &Self) {
        let known: Vec<_> = other
            .tables
            .values()
            .chain(other.dropped.values())
            .filter_map(|table| Some((table.id, table.published?)))
            .collect();
        for (id, published) in known {
            let version = self.table_or_dropped(id).map(|table| table.version);
            if let Some(version) = version {
                self.note_published(id, published.min(version));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
