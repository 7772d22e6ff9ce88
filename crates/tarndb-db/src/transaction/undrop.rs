//! Dropped tables that come back.
//!
//! Invariant: what comes back is the table that was dropped, with its id, its files and its
//! versions. One of which a vacuum took files does not, whether the vacuum was before the
//! transaction or beside it.
//! Spec: docs/format/log.md, "Actions" and "Vacuum".

use std::sync::Arc;

use tarndb_txn::Operation;
use tarndb_types::TableId;

use super::Transaction;
use crate::catalog::error::ObjectError;
use crate::catalog::{Catalog, TableEntry, fold_name};
use crate::error::DbError;
use crate::record::{Action, UndropAction};

impl Transaction {
    /// Brings the table back that had this name and was dropped last, under the same name.
    ///
    /// # Errors
    /// [`ObjectError`]: nothing of that name was dropped, or a vacuum took its files. The schema
    /// is gone, or the name is taken.
    pub fn undrop_table(&mut self, schema: &str, name: &str) -> Result<TableId, DbError> {
        let full_name = format!("{schema}.{name}");
        let found = latest_dropped(&self.changes.catalog, schema, name);
        let table = match found {
            Some(table) => Arc::clone(table),
            None => return Err(ObjectError::NothingDropped { name: full_name }.into()),
        };
        let (_, full_name) = self.free_name(&table.schema, &table.name)?;
        if self.snapshot.catalog().table(table.id).is_some() {
            return Err(ObjectError::DroppedHere { name: full_name }.into());
        }
        check_kept(&table)?;
        let (schema, name) = (table.schema.clone(), table.name.clone());
        self.undrop(table.id, &schema, &name)?;
        Ok(table.id)
    }

    /// Brings a dropped table back under a name that is free.
    pub(super) fn undrop(&mut self, id: TableId, schema: &str, name: &str) -> Result<(), DbError> {
        let action = UndropAction {
            id,
            schema: schema.to_owned(),
            name: name.to_owned(),
        };
        self.act(Action::UndropTable(action), Operation::UndropTable)
    }
}

/// The table of that name that was dropped last.
fn latest_dropped<'a>(
    catalog: &'a Catalog,
    schema: &str,
    name: &str,
) -> Option<&'a Arc<TableEntry>> {
    let (schema, name) = (fold_name(schema), fold_name(name));
    let of_name = |table: &&Arc<TableEntry>| {
        !table.is_detached && fold_name(&table.schema) == schema && fold_name(&table.name) == name
    };
    let named = catalog.dropped_tables().filter(of_name);
    named.max_by_key(|table| (table.dropped, table.id))
}

/// No vacuum took the files of a dropped table.
///
/// # Errors
/// [`ObjectError::Purged`].
pub(crate) fn check_kept(table: &TableEntry) -> Result<(), DbError> {
    match table.dropped {
        Some(dropped) if table.is_purged() => {
            let name = table.display_name();
            Err(ObjectError::Purged { name, dropped }.into())
        }
        _ => Ok(()),
    }
}
