//! Tables that were there before their database: attached, and given back.
//!
//! Invariant: a pure function of the records, as all of the catalog. An attached table begins at
//! the version that its own log had; one that was detached is nobody's: nothing of it is deleted,
//! and its place can be attached again, under another id.
//! Spec: docs/format/log.md, "Attached tables".

use std::sync::Arc;

use tarndb_storage::{Path, elsewhere_key};
use tarndb_types::{DbVersion, TableId, TableVersion, TimestampMs};

use super::{Catalog, TableEntry, fold_name, parse_location};
use crate::invariants::Violation;
use crate::layout::ELSEWHERE;
use crate::record::AttachAction;

/// How a table that was there before came to the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its version then.
    pub version: TableVersion,
    /// Where it lies; `None`: in the database's root.
    pub url: Option<String>,
}

/// Where an attached table lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The key of its folder in the store of the database.
    pub(crate) location: Path,
    /// Its URL, when that is outside the root.
    pub(crate) url: Option<String>,
}

impl Place {
    /// A place from a log, which nobody vouches for: a location in the root, or a URL (an
    /// absolute path is one).
    ///
    /// # Errors
    /// [`Violation::PathEscapes`].
    pub(crate) fn parse(text: &str) -> Result<Self, Violation> {
        let is_url = text.starts_with('/') || text.contains("://");
        if !is_url {
            let location = parse_location(text)?;
            return Ok(Self {
                location,
                url: None,
            });
        }
        let escapes = || Violation::PathEscapes {
            path: text.to_owned(),
        };
        let path = text.split_once("://").map_or(text, |(_, path)| path);
        let climbs = path.split('/').any(|segment| matches!(segment, "." | ".."));
        if climbs || text.chars().any(char::is_control) {
            return Err(escapes());
        }
        Ok(Self {
            location: elsewhere_key(ELSEWHERE, text).ok_or_else(escapes)?,
            url: Some(text.to_owned()),
        })
    }
}

impl TableEntry {
    /// Where it lies, for people and in the log: its URL when that is outside the root, else its
    /// folder in it.
    pub fn place(&self) -> &str {
        let url = self
            .attached
            .as_ref()
            .and_then(|known| known.url.as_deref());
        url.unwrap_or(self.location.as_ref())
    }
}

impl Catalog {
    pub(super) fn attach_table(
        &mut self,
        action: &AttachAction,
        version: DbVersion,
        timestamp: TimestampMs,
    ) -> Result<(), Violation> {
        let place = Place::parse(&action.location)?;
        self.create_table(TableEntry {
            id: action.id,
            schema: action.schema.clone(),
            name: action.name.clone(),
            format: action.format.clone(),
            location: place.location,
            bases: Arc::default(),
            version: action.version,
            published: Some(action.version),
            created: version,
            dropped: None,
            timestamp,
            vacuumed: None,
            attached: Some(Attached {
                version: action.version,
                url: place.url,
            }),
            is_detached: false,
            has_version: true,
            positions: imbl::OrdMap::new(),
        })
    }

    pub(super) fn detach_table(
        &mut self,
        id: TableId,
        version: DbVersion,
    ) -> Result<(), Violation> {
        if let Some(table) = self.tables.get(&id) {
            // Nobody would keep the files that others name.
            let clone = self.sharing(&table.location).map(|clone| clone.id);
            if let Some(table) = clone.or((!table.bases.is_empty()).then_some(id)) {
                let base = self.tables.get(&id).map(|table| table.location.to_string());
                let base = base.unwrap_or_default();
                return Err(Violation::BaseUnknown { table, base });
            }
        }
        self.drop_table(id, version)?;
        if let Some(table) = self.dropped.get_mut(&id) {
            let table = Arc::make_mut(table);
            table.is_detached = true;
            self.locations.remove(&fold_name(table.place()));
        }
        Ok(())
    }
}
