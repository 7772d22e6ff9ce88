//! INSERT, UPDATE, DELETE and TRUNCATE.
//!
//! Invariant: each change is an ordinary query over the transaction's snapshot. For UPDATE and
//! DELETE the target stands in FROM with two hidden columns (file, position), so that the
//! result names exactly the rows to change, whatever the WHERE holds; a row named twice is an
//! error, never a second change.
//! Does not: commit, or run again after a conflict; `session` does.

mod conflict;
mod conform;
pub(crate) mod defaults;
mod delete;
pub(crate) mod insert;
mod replace_where;
pub(crate) mod returning;
pub(crate) mod rows;
pub(crate) mod target;
pub(crate) mod update;
pub(crate) mod values;
pub(crate) mod write;

use tarndb_db::{Database, Transaction};

use crate::dml::returning::Changed;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::name::Spelling;
use crate::options::SessionOptions;
use crate::parser::{Statement, TableName};
use crate::query::{Scope, Storage};

pub(crate) use delete::plan_delete;
pub(crate) use update::plan_update;

/// A statement that changes something, in its transaction.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) db: &'a Database,
    pub(crate) txn: &'a mut Transaction,
    pub(crate) storage: &'a Storage,
    pub(crate) options: &'a SessionOptions,
    pub(crate) spelling: &'a Spelling,
}

impl Change<'_> {
    /// The same transaction to read from.
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope {
            engine: self.engine,
            db: self.db,
            txn: self.txn,
            storage: self.storage,
        }
    }

    /// Runs INSERT, UPDATE, DELETE or MERGE: the command's tag and the rows it changed.
    pub(crate) async fn run(
        &mut self,
        statement: &Statement,
    ) -> Result<(&'static str, Changed), SqlError> {
        match statement {
            Statement::Insert(insert) => Ok(("INSERT", insert::insert(self, insert).await?)),
            Statement::Update(update) => Ok(("UPDATE", update::update(self, update).await?)),
            Statement::Delete(delete) => Ok(("DELETE", delete::delete(self, delete).await?)),
            Statement::Merge(merge) => {
                let report = crate::merge::merge(self, merge).await?;
                Ok(("MERGE", report.affected().into()))
            }
            Statement::Truncate { name } => {
                Ok(("TRUNCATE TABLE", self.truncate(name).await?.into()))
            }
            _ => Err(SqlError::Internal {
                context: "a statement that changes no rows",
            }),
        }
    }

    /// Removes all rows without reading them.
    pub(crate) async fn truncate(&mut self, name: &TableName) -> Result<u64, SqlError> {
        let (id, pinned) = self.scope().pin(name).await?;
        match self.txn.truncate(id).await? {
            Some(rows) => Ok(rows),
            None => rows::live_rows(&pinned).await,
        }
    }

    /// Notes what a query read.
    pub(crate) fn note_reads(&mut self, planned: &crate::query::Planned) {
        planned.reads.note(self.txn);
    }
}
