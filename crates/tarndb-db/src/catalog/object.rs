//! Views and tags in the catalog, and dropped tables that come back.
//!
//! Invariant: a view's name is no table's and no other view's; the tags hold versions at or
//! below that of the catalog which created them. A table that comes back is the one that was
//! dropped, with its files and its versions.
//! Does not: read the query of a view.
//! Spec: docs/format/log.md, "Replay".

use std::sync::Arc;

use tarndb_types::{DbVersion, TimestampMs};

use super::{Catalog, TableEntry, fold_name};
use crate::invariants::Violation;
use crate::record::{TagAction, UndropAction, ViewDefinition};

/// A view as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewEntry {
    /// What it is.
    pub definition: ViewDefinition,
    /// Record that created or replaced it.
    pub created: DbVersion,
}

/// A tag as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagEntry {
    /// As written.
    pub name: String,
    /// The version that it names.
    pub version: DbVersion,
    /// Record that created it.
    pub created: DbVersion,
    /// When that was committed.
    pub timestamp: TimestampMs,
}

impl Catalog {
    /// Views in the order of their folded names.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewEntry>> {
        self.views.values()
    }

    /// The view of that name, without regard to case.
    pub fn view(&self, schema: &str, name: &str) -> Option<&Arc<ViewEntry>> {
        self.views.get(&(fold_name(schema), fold_name(name)))
    }

    /// The views of a schema in the order of their folded names.
    pub fn views_in(&self, schema: &str) -> Vec<&Arc<ViewEntry>> {
        let schema = fold_name(schema);
        let from = (schema.clone(), String::new());
        let found = self.views.range(from..);
        found
            .take_while(|((found, _), _)| *found == schema)
            .map(|(_, view)| view)
            .collect()
    }

    /// Tags in the order of their folded names.
    pub fn tags(&self) -> impl Iterator<Item = &TagEntry> {
        self.tags.values()
    }

    /// The tag of that name, without regard to case.
    pub fn tag(&self, name: &str) -> Option<&TagEntry> {
        self.tags.get(&fold_name(name))
    }

    /// Whether a tag names the version.
    pub(crate) fn is_version_tagged(&self, version: DbVersion) -> bool {
        self.tags.values().any(|tag| tag.version == version)
    }

    /// Whether a tag names a version at which the table is there.
    pub fn is_tagged(&self, table: &TableEntry) -> bool {
        let dropped = table.dropped.unwrap_or(DbVersion(u64::MAX));
        let mut tags = self.tags.values();
        tags.any(|tag| table.created <= tag.version && tag.version < dropped)
    }

    pub(crate) fn create_view(
        &mut self,
        definition: &ViewDefinition,
        version: DbVersion,
    ) -> Result<(), Violation> {
        let (schema, name) = (&definition.schema, &definition.name);
        self.check_name_free(schema, name)?;
        let entry = ViewEntry {
            definition: definition.clone(),
            created: version,
        };
        self.views
            .insert((fold_name(schema), fold_name(name)), Arc::new(entry));
        Ok(())
    }

    pub(super) fn drop_view(&mut self, schema: &str, name: &str) -> Result<(), Violation> {
        match self.views.remove(&(fold_name(schema), fold_name(name))) {
            Some(_) => Ok(()),
            None => Err(Violation::ViewMissing {
                schema: schema.to_owned(),
                name: name.to_owned(),
            }),
        }
    }

    pub(crate) fn create_tag(
        &mut self,
        tag: &TagAction,
        version: DbVersion,
        timestamp: TimestampMs,
    ) -> Result<(), Violation> {
        if tag.version >= version {
            return Err(Violation::TagAhead {
                name: tag.name.clone(),
                tagged: tag.version,
                version,
            });
        }
        let entry = TagEntry {
            name: tag.name.clone(),
            version: tag.version,
            created: version,
            timestamp,
        };
        match self.tags.insert(fold_name(&tag.name), entry) {
            None => Ok(()),
            Some(_) => Err(Violation::TagExists {
                name: tag.name.clone(),
            }),
        }
    }

    pub(super) fn drop_tag(&mut self, name: &str) -> Result<(), Violation> {
        match self.tags.remove(&fold_name(name)) {
            Some(_) => Ok(()),
            None => Err(Violation::TagMissing {
                name: name.to_owned(),
            }),
        }
    }

    pub(super) fn undrop_table(&mut self, undrop: &UndropAction) -> Result<(), Violation> {
        let missing = Violation::TableMissing { table: undrop.id };
        let Some(found) = self.dropped.get(&undrop.id).cloned() else {
            return Err(missing);
        };
        if found.is_detached || found.is_purged() {
            return Err(missing);
        }
        self.take_name(undrop.id, &undrop.schema, &undrop.name)?;
        self.dropped.remove(&undrop.id);
        let mut table = TableEntry::clone(&found);
        table.dropped = None;
        table.schema.clone_from(&undrop.schema);
        table.name.clone_from(&undrop.name);
        self.tables.insert(undrop.id, Arc::new(table));
        Ok(())
    }
}
