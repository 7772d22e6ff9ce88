//! What must hold of a record and of the catalog, as named predicates.
//!
//! Invariant: every record is checked here before it is written and after it is read; a
//! catalog after every replay and every checkpoint. The predicates do no IO and repair nothing.
//! Spec: docs/format/log.md, "Invariants".

use std::collections::BTreeSet;

use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs, TxnId};

use crate::catalog::{Catalog, Place, fold_name};
use crate::record::{Action, EntryBody, Record};

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A record whose version is not the one its name or its predecessor demands.
    #[error("the record states another version than its place: expected={expected} found={found}")]
    VersionNotConsecutive {
        /// The version that has to stand there.
        expected: DbVersion,
        /// The version stated.
        found: DbVersion,
    },
    /// A record without transactions.
    #[error("the record holds no transaction")]
    NoTransaction,
    /// A transaction that is there twice.
    #[error("the record holds a transaction twice: txn={txn}")]
    TransactionTwice {
        /// The transaction.
        txn: TxnId,
    },
    /// Commit timestamps that do not grow.
    #[error("commit timestamps must grow: previous={previous} found={found}")]
    TimestampNotGrowing {
        /// The timestamp before.
        previous: TimestampMs,
        /// The offending one.
        found: TimestampMs,
    },
    /// A record timestamp that is not that of its last transaction.
    #[error("the record's timestamp is not its last transaction's: last={last} found={found}")]
    TimestampNotLast {
        /// Timestamp of the last transaction.
        last: TimestampMs,
        /// The record's.
        found: TimestampMs,
    },
    /// Record 0 that creates no database, or a later record that does.
    #[error("record 0, and only record 0, creates the database: version={version}")]
    MisplacedCreation {
        /// Version of the record.
        version: DbVersion,
    },
    /// A log format that this build does not know.
    #[error("the database has a newer log format; use a newer build: format={format}")]
    UnknownFormat {
        /// The number found.
        format: u32,
    },
    /// A schema that exists already.
    #[error("the schema exists already: schema={name}")]
    SchemaExists {
        /// Its name.
        name: String,
    },
    /// A schema that does not exist.
    #[error("the schema does not exist: schema={name}")]
    SchemaMissing {
        /// Its name.
        name: String,
    },
    /// A schema that is dropped while tables are in it.
    #[error("the schema is not empty: schema={name} tables={tables}")]
    SchemaNotEmpty {
        /// Its name.
        name: String,
        /// Tables in it.
        tables: usize,
    },
    /// A table name that is taken.
    #[error("the table name is taken: schema={schema} table={name}")]
    NameTaken {
        /// Its schema.
        schema: String,
        /// The name.
        name: String,
    },
    /// A view that does not exist.
    #[error("the view does not exist: schema={schema} view={name}")]
    ViewMissing {
        /// Its schema.
        schema: String,
        /// The name.
        name: String,
    },
    /// A tag that exists already.
    #[error("the tag exists already: tag={name}")]
    TagExists {
        /// Its name.
        name: String,
    },
    /// A tag that does not exist.
    #[error("the tag does not exist: tag={name}")]
    TagMissing {
        /// Its name.
        name: String,
    },
    /// A tag of a version that does not exist yet.
    #[error(
        "a tag names a version that does not exist yet: tag={name} tagged={tagged} version={version}"
    )]
    TagAhead {
        /// Its name.
        name: String,
        /// The version that it names.
        tagged: DbVersion,
        /// Its record.
        version: DbVersion,
    },
    /// A table that does not exist.
    #[error("the table does not exist: table={table}")]
    TableMissing {
        /// The table.
        table: TableId,
    },
    /// A table id that was used before.
    #[error("table ids are never reused: table={table}")]
    TableIdReused {
        /// The id.
        table: TableId,
    },
    /// A location that was used before, or lies in another one or around it.
    #[error(
        "the location is equal to, inside or around another one: location={location} other={other}"
    )]
    LocationTaken {
        /// The offending location.
        location: String,
        /// The one that was there first.
        other: String,
    },
    /// A clone that names files in a folder that is no table's.
    #[error("the clone shares files with a folder that is no table's: table={table} base={base}")]
    BaseUnknown {
        /// The clone.
        table: TableId,
        /// The folder.
        base: String,
    },
    /// A path that leaves the database or its table.
    #[error("the path leaves its place; nothing is read or written there: path={path}")]
    PathEscapes {
        /// The path as found.
        path: String,
    },
    /// Table versions with a gap.
    #[error("table versions must be consecutive: table={table} expected={expected} found={found}")]
    TableVersionNotConsecutive {
        /// The table.
        table: TableId,
        /// The version that has to come.
        expected: TableVersion,
        /// The version found.
        found: TableVersion,
    },
    /// A table of a format that another entry belies.
    #[error("the entry has another format than its table: table={table} format={format}")]
    FormatDiffers {
        /// The table.
        table: TableId,
        /// Format of the entry.
        format: String,
    },
    /// A created table without its first version.
    #[error("the record creates a table without a first version: table={table}")]
    TableWithoutVersion {
        /// The table.
        table: TableId,
    },
    /// A vacuum of versions that do not exist yet.
    #[error(
        "a vacuum keeps from a version that does not exist yet: horizon={horizon} version={version}"
    )]
    VacuumAhead {
        /// Its horizon.
        horizon: DbVersion,
        /// Its record.
        version: DbVersion,
    },
    /// A catalog whose indices contradict its tables.
    #[error("the catalog contradicts itself: {what}: table={table}")]
    CatalogContradiction {
        /// Which index.
        what: &'static str,
        /// The table at issue.
        table: TableId,
    },
}

/// A record stands where its name says, holds transactions once each, and its timestamps grow.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_record(record: &Record, version: DbVersion) -> Result<(), Violation> {
    if record.version != version {
        return Err(Violation::VersionNotConsecutive {
            expected: version,
            found: record.version,
        });
    }
    let Some(last) = record.txns.last() else {
        return Err(Violation::NoTransaction);
    };
    if last.timestamp != record.timestamp {
        let (last, found) = (last.timestamp, record.timestamp);
        return Err(Violation::TimestampNotLast { last, found });
    }
    let mut ids = BTreeSet::new();
    let mut previous: Option<TimestampMs> = None;
    for txn in &record.txns {
        if !ids.insert(txn.id) {
            return Err(Violation::TransactionTwice { txn: txn.id });
        }
        if let Some(previous) = previous.filter(|before| *before >= txn.timestamp) {
            return Err(Violation::TimestampNotGrowing {
                previous,
                found: txn.timestamp,
            });
        }
        previous = Some(txn.timestamp);
        check_actions(record.version, &txn.actions)?;
    }
    Ok(())
}

fn check_actions(version: DbVersion, actions: &[Action]) -> Result<(), Violation> {
    for action in actions {
        match action {
            Action::CreateDatabase { .. } if version != DbVersion::ZERO => {
                return Err(Violation::MisplacedCreation { version });
            }
            Action::CreateTable { location, .. } => check_location(location)?,
            Action::AttachTable(attach) => {
                Place::parse(&attach.location)?;
            }
            Action::Vacuum(vacuum) if vacuum.horizon >= version => {
                let horizon = vacuum.horizon;
                return Err(Violation::VacuumAhead { horizon, version });
            }
            Action::Entry(entry) => {
                if let EntryBody::Staged(staged) = &entry.body {
                    check_inside(&staged.path)?;
                }
                for path in entry.files.keys() {
                    check_data_path(path)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A record follows the catalog: the next version, a later timestamp. What its actions demand
/// of the catalog is checked where they are applied.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_successor(catalog: &Catalog, record: &Record) -> Result<(), Violation> {
    check_record(record, catalog.version().next())?;
    let first = record
        .txns
        .first()
        .map_or(record.timestamp, |txn| txn.timestamp);
    if first <= catalog.timestamp() {
        let (previous, found) = (catalog.timestamp(), first);
        return Err(Violation::TimestampNotGrowing { previous, found });
    }
    Ok(())
}

/// A location lies in the root, outside our own folder.
///
/// # Errors
/// [`Violation::PathEscapes`].
pub fn check_location(location: &str) -> Result<(), Violation> {
    check_inside(location)?;
    // Names that begin so are ours; a table's own folder has them percent-encoded.
    if location
        .split('/')
        .any(|segment| segment.starts_with(['_', '.']))
    {
        return Err(Violation::PathEscapes {
            path: location.to_owned(),
        });
    }
    Ok(())
}

/// A relative path stays in the folder it is relative to.
fn check_inside(path: &str) -> Result<(), Violation> {
    let escapes = path
        .split('/')
        .any(|segment| matches!(segment, "" | "." | ".."))
        || path.contains(['\\', ':'])
        || path.chars().any(char::is_control);
    if escapes {
        Err(Violation::PathEscapes {
            path: path.to_owned(),
        })
    } else {
        Ok(())
    }
}

/// A path at which a data file may be stored: in the table's folder, outside those that
/// belong to its log. (A partition's folder may begin with an underscore.)
fn check_data_path(path: &str) -> Result<(), Violation> {
    check_inside(path)?;
    let first = path.split('/').next().unwrap_or_default();
    if first.starts_with(['_', '.']) && !first.contains('=') {
        return Err(Violation::PathEscapes {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Whether two locations are equal or one lies in the other. Case is ignored, because some
/// file systems ignore it.
pub fn locations_overlap(a: &str, b: &str) -> bool {
    let (a, b) = (fold_name(a), fold_name(b));
    let inside = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    inside(&a, &b) || inside(&b, &a)
}

/// Names are unique and point at their tables, locations lie in the root and are known.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_catalog(catalog: &Catalog) -> Result<(), Violation> {
    let mut live = 0;
    for table in catalog.tables() {
        live += 1;
        Place::parse(table.place())?;
        if catalog.schema(&table.schema).is_none() {
            return Err(Violation::SchemaMissing {
                name: table.schema.clone(),
            });
        }
        if catalog
            .find(&table.schema, &table.name)
            .is_none_or(|found| found.id != table.id)
        {
            return Err(Violation::CatalogContradiction {
                what: "names",
                table: table.id,
            });
        }
        if !catalog.location_used(table.place()) {
            return Err(Violation::CatalogContradiction {
                what: "locations",
                table: table.id,
            });
        }
    }
    if live != catalog.names_count() {
        let table = catalog
            .tables()
            .next()
            .map_or(TableId(uuid::Uuid::nil()), |table| table.id);
        return Err(Violation::CatalogContradiction {
            what: "number of names",
            table,
        });
    }
    let mut locations: Vec<String> = catalog.locations().map(str::to_owned).collect();
    // Sorted with the separator below every other character, a folder stands right before
    // what lies in it.
    locations.sort_by_key(|location| location.replace('/', "\u{0}"));
    for pair in locations.windows(2) {
        if let [outer, inner] = pair
            && locations_overlap(outer, inner)
        {
            return Err(Violation::LocationTaken {
                location: inner.clone(),
                other: outer.clone(),
            });
        }
    }
    Ok(())
}
