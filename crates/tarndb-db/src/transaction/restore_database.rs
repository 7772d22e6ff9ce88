//! Going back to an earlier version of the whole database.
//!
//! Invariant: the transaction then shows the schemas, tables, names and views of that version,
//! and every table as it was: tables made since are dropped, dropped ones come back. It is one
//! transaction like any other, so that it can be gone back from. Tags stay as they are.
//! Does not: undo that a table was attached or detached, which its own log took part in.
//! Spec: docs/format/log.md, "Restoring a database"; docs/guide/sql.md, "Versions of
//! the database".

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_txn::Operation;
use tarndb_types::{DbVersion, TableId};

use super::Transaction;
use super::restore::Source;
use super::undrop::check_kept;
use crate::catalog::error::ObjectError;
use crate::catalog::{Catalog, TableEntry, fold_name};
use crate::error::DbError;
use crate::travel::TableTarget;

/// What a restored database came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseRestore {
    /// Tables that went back to an earlier version.
    pub tables_restored: u64,
    /// Tables that came back.
    pub tables_undropped: u64,
    /// Tables made since, which are dropped.
    pub tables_dropped: u64,
    /// Tables that got their former name back.
    pub tables_renamed: u64,
    /// Views that were created, dropped or replaced.
    pub views_changed: u64,
}

impl Transaction {
    /// Takes the whole database back to the version `at`. Whatever others commit meanwhile is a
    /// conflict, retryable.
    ///
    /// # Errors
    /// A version that is not there (yet, or any more), or of which a vacuum took files;
    /// [`ObjectError`] for tables attached or detached since, and in a transaction that changed
    /// something before.
    ///
    /// # Cost
    /// That of [`crate::Database::snapshot_at`], and of [`Self::restore_table`] for each table
    /// that changed.
    pub async fn restore_database(&mut self, at: DbVersion) -> Result<DatabaseRestore, DbError> {
        if !self.changes.is_empty() {
            return Err(ObjectError::RestoreAfterChanges.into());
        }
        let newest = self.snapshot.version();
        if at > newest {
            return Err(DbError::VersionNotFound {
                wanted: at,
                oldest: DbVersion::ZERO,
                newest,
            });
        }
        let database = self.snapshot.database().clone();
        let target = database.snapshot_at(at).await?.catalog().clone();
        let mark = self.mark();
        let restored = self.go_back(&target).await;
        restored.inspect_err(|_| self.rewind(mark))
    }

    async fn go_back(&mut self, target: &Catalog) -> Result<DatabaseRestore, DbError> {
        let now = self.snapshot.catalog().clone();
        check_foreign(&now, target)?;
        let mut report = DatabaseRestore::default();
        self.drop_what_came(&now, target, &mut report)?;
        for schema in target.schemas() {
            if self.changes.catalog.schema(&schema.name).is_none() {
                self.create_schema(&schema.name)?;
            }
        }
        self.name_back(&now, target, &mut report)?;
        for table in target.tables() {
            let known = now.table_or_dropped(table.id);
            if known.is_some_and(|known| known.version != table.version) {
                let source = Source {
                    target: TableTarget::Version(table.version),
                    tagged: Some(target.version()),
                };
                self.restore_from(table.id, source).await?;
                // A later version may hold the very same.
                let overlay = self.changes.overlays.get(&table.id);
                let changed = overlay.is_some_and(|overlay| !overlay.is_unchanged());
                report.tables_restored += u64::from(changed);
            }
        }
        for view in target.views() {
            let definition = &view.definition;
            let (schema, name) = (&definition.schema, &definition.name);
            if self.changes.catalog.view(schema, name).is_none() {
                self.create_view(definition.clone(), false)?;
                report.views_changed += 1;
            }
        }
        let schemas = self.changes.catalog.schemas();
        let made = schemas.filter(|schema| target.schema(&schema.name).is_none());
        let made: Vec<String> = made.map(|schema| schema.name.clone()).collect();
        for schema in made {
            self.drop_schema(&schema, false)?;
        }
        if !self.changes.is_empty() {
            // Whatever changes meanwhile would be left as it is: the whole was looked at.
            self.changes
                .operations
                .insert(0, Operation::RestoreDatabase);
            for table in now.tables() {
                self.note_read(table.id);
            }
        }
        Ok(report)
    }

    /// Drops the tables made since, and the views that are not as they were.
    fn drop_what_came(
        &mut self,
        now: &Catalog,
        target: &Catalog,
        report: &mut DatabaseRestore,
    ) -> Result<(), DbError> {
        for table in now.tables() {
            if target.table(table.id).is_none() {
                self.drop_table(table.id)?;
                report.tables_dropped += 1;
            }
        }
        for view in now.views() {
            let definition = &view.definition;
            let (schema, name) = (&definition.schema, &definition.name);
            let same = target.view(schema, name);
            if same.is_none_or(|same| same.definition != *definition) {
                self.drop_view(schema, name)?;
                if same.is_none() {
                    report.views_changed += 1;
                }
            }
        }
        Ok(())
    }

    /// Gives the tables the names that they had, and brings back those that were dropped.
    fn name_back(
        &mut self,
        now: &Catalog,
        target: &Catalog,
        report: &mut DatabaseRestore,
    ) -> Result<(), DbError> {
        let mut moved = Vec::new();
        for table in target.tables() {
            match now.table(table.id) {
                Some(live) if !same_name(live, table) => moved.push(Arc::clone(table)),
                _ => {}
            }
        }
        // Names can have been exchanged: what moves goes out of the way first.
        for table in &moved {
            let aside = format!("~{}", table.id);
            let schema = self.entry(table.id)?.schema.clone();
            self.rename_table(table.id, &schema, &aside)?;
        }
        for table in target.tables() {
            if let (None, Some(dropped)) = (now.table(table.id), now.table_or_dropped(table.id)) {
                check_kept(dropped)?;
                self.undrop(table.id, &table.schema, &table.name)?;
                report.tables_undropped += 1;
            }
        }
        for table in moved {
            self.rename_table(table.id, &table.schema, &table.name)?;
            report.tables_renamed += 1;
        }
        Ok(())
    }
}

fn same_name(a: &TableEntry, b: &TableEntry) -> bool {
    a.name == b.name && fold_name(&a.schema) == fold_name(&b.schema)
}

/// No table came to the database or left it with its own log between the two.
fn check_foreign(now: &Catalog, target: &Catalog) -> Result<(), DbError> {
    let then: BTreeSet<TableId> = target.tables().map(|table| table.id).collect();
    let attached = now.tables().find(|table| {
        let attached = table.attached.is_some();
        attached && !then.contains(&table.id)
    });
    if let Some(table) = attached {
        return Err(ObjectError::Foreign {
            name: table.display_name(),
            since: "attached",
            next: "DETACH it first",
        }
        .into());
    }
    let detached = now
        .dropped_tables()
        .find(|table| table.is_detached && then.contains(&table.id));
    match detached {
        Some(table) => Err(ObjectError::Foreign {
            name: table.display_name(),
            since: "detached",
            next: "restore the tables one by one",
        }
        .into()),
        None => Ok(()),
    }
}
