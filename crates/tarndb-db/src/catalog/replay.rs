//! Replay: one record moves the catalog one version forward.
//!
//! Invariant: pure; the same records give the same catalog, and a record that breaks an
//! invariant gives an error and no catalog.
//! Spec: docs/format/log.md, "Replay".

use std::sync::Arc;

use tarndb_storage::Path;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs};

use super::{Catalog, LOG_FORMAT, SchemaEntry, TableEntry, VacuumMark, fold_name};
use crate::invariants::{self, Violation};
use crate::record::{Action, Record, RecordTxn, TableEntryAction};

impl Catalog {
    /// The catalog that record 0 makes.
    ///
    /// # Errors
    /// The record is not one that creates a database.
    pub fn genesis(record: &Record) -> Result<Self, Violation> {
        invariants::check_record(record, DbVersion::ZERO)?;
        let misplaced = Violation::MisplacedCreation {
            version: record.version,
        };
        let first = record.txns.first().and_then(|txn| txn.actions.first());
        let Some(Action::CreateDatabase { id, format }) = first else {
            return Err(misplaced);
        };
        if *format != LOG_FORMAT {
            return Err(Violation::UnknownFormat { format: *format });
        }
        let empty = Self::empty(*id, record.version, record.timestamp);
        empty.with_actions(record)
    }

    pub(crate) fn empty(database: DatabaseId, version: DbVersion, timestamp: TimestampMs) -> Self {
        Self {
            database,
            version,
            timestamp,
            reader_features: imbl::OrdSet::new(),
            writer_features: imbl::OrdMap::new(),
            unknown_actions: imbl::OrdMap::new(),
            vacuum: None,
            schemas: imbl::OrdMap::new(),
            tables: imbl::OrdMap::new(),
            dropped: imbl::OrdMap::new(),
            names: imbl::OrdMap::new(),
            views: imbl::OrdMap::new(),
            tags: imbl::OrdMap::new(),
            locations: imbl::OrdSet::new(),
        }
    }

    /// The catalog after `record`.
    ///
    /// # Errors
    /// The record does not follow this catalog or breaks an invariant.
    pub fn apply(&self, record: &Record) -> Result<Self, Violation> {
        invariants::check_successor(self, record)?;
        self.clone().with_actions(record)
    }

    fn with_actions(mut self, record: &Record) -> Result<Self, Violation> {
        self.version = record.version;
        self.timestamp = record.timestamp;
        self.reader_features
            .extend(record.reader_features.iter().cloned());
        for feature in &record.writer_features {
            self.writer_features
                .entry(feature.clone())
                .or_insert(record.version);
        }
        for txn in &record.txns {
            for action in &txn.actions {
                self.apply_action(action, record.version, txn.timestamp)?;
            }
            self.check_created(txn)?;
        }
        Ok(self)
    }

    fn check_created(&self, txn: &RecordTxn) -> Result<(), Violation> {
        for action in &txn.actions {
            if let Action::CreateTable { id, .. } = action
                && self
                    .table_or_dropped(*id)
                    .is_some_and(|table| !table.has_version)
            {
                return Err(Violation::TableWithoutVersion { table: *id });
            }
        }
        Ok(())
    }

    /// Applies one action, as of `version`.
    pub(crate) fn apply_action(
        &mut self,
        action: &Action,
        version: DbVersion,
        timestamp: TimestampMs,
    ) -> Result<(), Violation> {
        match action {
            Action::CreateDatabase { .. } | Action::Fence { .. } => Ok(()),
            Action::CreateSchema { name } => self.create_schema(name),
            Action::DropSchema { name } => self.drop_schema(name),
            Action::CreateTable {
                id,
                schema,
                name,
                format,
                location,
                bases,
            } => self.create_table(TableEntry {
                id: *id,
                schema: schema.clone(),
                name: name.clone(),
                format: format.clone(),
                location: parse_location(location)?,
                bases: parse_bases(bases)?,
                version: TableVersion::ZERO,
                published: None,
                created: version,
                dropped: None,
                timestamp,
                attached: None,
                is_detached: false,
                has_version: false,
                vacuumed: None,
                positions: imbl::OrdMap::new(),
            }),
            Action::DropTable { id } => self.drop_table(*id, version),
            Action::AttachTable(attach) => self.attach_table(attach, version, timestamp),
            Action::DetachTable { id } => self.detach_table(*id, version),
            Action::RenameTable { id, schema, name } => self.rename_table(*id, schema, name),
            Action::UndropTable(undrop) => self.undrop_table(undrop),
            Action::CreateView(view) => self.create_view(view, version),
            Action::DropView { schema, name } => self.drop_view(schema, name),
            Action::CreateTag(tag) => self.create_tag(tag, version, timestamp),
            Action::DropTag { name } => self.drop_tag(name),
            Action::Entry(entry) => self.apply_entry(entry, version, timestamp),
            Action::Vacuum(vacuum) => {
                self.note_vacuum(vacuum, version);
                Ok(())
            }
            Action::Unknown { name } => {
                self.unknown_actions.entry(name.clone()).or_insert(version);
                Ok(())
            }
        }
    }

    fn create_schema(&mut self, name: &str) -> Result<(), Violation> {
        let entry = Arc::new(SchemaEntry {
            name: name.to_owned(),
        });
        match self.schemas.insert(fold_name(name), entry) {
            None => Ok(()),
            Some(_) => Err(Violation::SchemaExists {
                name: name.to_owned(),
            }),
        }
    }

    fn drop_schema(&mut self, name: &str) -> Result<(), Violation> {
        let tables = self.tables_in(name).len() + self.views_in(name).len();
        if tables > 0 {
            return Err(Violation::SchemaNotEmpty {
                name: name.to_owned(),
                tables,
            });
        }
        match self.schemas.remove(&fold_name(name)) {
            Some(_) => Ok(()),
            None => Err(Violation::SchemaMissing {
                name: name.to_owned(),
            }),
        }
    }

    pub(crate) fn create_table(&mut self, table: TableEntry) -> Result<(), Violation> {
        if self.table_or_dropped(table.id).is_some() {
            return Err(Violation::TableIdReused { table: table.id });
        }
        if let Some(other) = self.location_conflict(table.place()) {
            let location = table.place().to_owned();
            return Err(Violation::LocationTaken {
                location,
                other: other.to_owned(),
            });
        }
        // What is not a table's folder is nothing to share.
        if let Some(base) = table
            .bases
            .iter()
            .find(|base| self.at_location(base).is_none_or(|table| table.is_detached))
        {
            return Err(Violation::BaseUnknown {
                table: table.id,
                base: base.to_string(),
            });
        }
        self.take_name(table.id, &table.schema, &table.name)?;
        self.locations.insert(fold_name(table.place()));
        self.tables.insert(table.id, Arc::new(table));
        Ok(())
    }

    pub(super) fn take_name(
        &mut self,
        id: TableId,
        schema: &str,
        name: &str,
    ) -> Result<(), Violation> {
        self.check_name_free(schema, name)?;
        self.names.insert((fold_name(schema), fold_name(name)), id);
        Ok(())
    }

    /// A table or view can be called so.
    pub(super) fn check_name_free(&self, schema: &str, name: &str) -> Result<(), Violation> {
        if self.schema(schema).is_none() {
            return Err(Violation::SchemaMissing {
                name: schema.to_owned(),
            });
        }
        let key = (fold_name(schema), fold_name(name));
        if self.names.contains_key(&key) || self.views.contains_key(&key) {
            let (schema, name) = (schema.to_owned(), name.to_owned());
            return Err(Violation::NameTaken { schema, name });
        }
        Ok(())
    }

    pub(super) fn drop_table(&mut self, id: TableId, version: DbVersion) -> Result<(), Violation> {
        let mut table = self
            .tables
            .remove(&id)
            .ok_or(Violation::TableMissing { table: id })?;
        self.names
            .remove(&(fold_name(&table.schema), fold_name(&table.name)));
        Arc::make_mut(&mut table).dropped = Some(version);
        self.dropped.insert(id, table);
        Ok(())
    }

    fn rename_table(&mut self, id: TableId, schema: &str, name: &str) -> Result<(), Violation> {
        let mut table = self
            .tables
            .get(&id)
            .cloned()
            .ok_or(Violation::TableMissing { table: id })?;
        self.names
            .remove(&(fold_name(&table.schema), fold_name(&table.name)));
        self.take_name(id, schema, name)?;
        let entry = Arc::make_mut(&mut table);
        entry.schema = schema.to_owned();
        entry.name = name.to_owned();
        self.tables.insert(id, table);
        Ok(())
    }

    fn apply_entry(
        &mut self,
        action: &TableEntryAction,
        version: DbVersion,
        timestamp: TimestampMs,
    ) -> Result<(), Violation> {
        let id = action.table;
        let table = self
            .tables
            .get_mut(&id)
            .ok_or(Violation::TableMissing { table: id })?;
        if table.format != action.format {
            let format = action.format.clone();
            return Err(Violation::FormatDiffers { table: id, format });
        }
        let expected = if table.has_version {
            table.version.next()
        } else {
            TableVersion::ZERO
        };
        if action.version != expected {
            let found = action.version;
            return Err(Violation::TableVersionNotConsecutive {
                table: id,
                expected,
                found,
            });
        }
        let table = Arc::make_mut(table);
        table.version = expected;
        table.has_version = true;
        table.timestamp = timestamp;
        table.positions.insert(expected, version);
        Ok(())
    }
}

/// Parts of a catalog that a checkpoint restores one by one.
impl Catalog {
    pub(crate) fn restore_schema(&mut self, name: String) -> Result<(), Violation> {
        self.create_schema(&name)
    }

    pub(crate) fn restore_table(&mut self, table: TableEntry) -> Result<(), Violation> {
        if self.table_or_dropped(table.id).is_some() {
            return Err(Violation::TableIdReused { table: table.id });
        }
        if table.dropped.is_some() {
            self.dropped.insert(table.id, Arc::new(table));
            return Ok(());
        }
        self.take_name(table.id, &table.schema, &table.name)?;
        self.tables.insert(table.id, Arc::new(table));
        Ok(())
    }

    pub(crate) fn restore_location(&mut self, location: String) {
        self.locations.insert(location);
    }

    pub(crate) fn restore_vacuum(&mut self, vacuum: Option<VacuumMark>) {
        self.vacuum = vacuum;
    }

    pub(crate) fn restore_features(
        &mut self,
        reader: Vec<String>,
        writer: Vec<(String, DbVersion)>,
        unknown: Vec<(String, DbVersion)>,
    ) {
        self.reader_features = reader.into_iter().collect();
        self.writer_features = writer.into_iter().collect();
        self.unknown_actions = unknown.into_iter().collect();
    }
}

/// The bases of a clone from a log.
///
/// # Errors
/// As [`parse_location`].
pub(crate) fn parse_bases(bases: &[String]) -> Result<Arc<[Path]>, Violation> {
    bases.iter().map(|base| parse_location(base)).collect()
}

/// A location from a log, which nobody vouches for, as a key of the store.
///
/// # Errors
/// [`Violation::PathEscapes`] when it is not a plain relative path inside the root.
pub fn parse_location(location: &str) -> Result<Path, Violation> {
    invariants::check_location(location)?;
    Path::parse(location).map_err(|_| Violation::PathEscapes {
        path: location.to_owned(),
    })
}
