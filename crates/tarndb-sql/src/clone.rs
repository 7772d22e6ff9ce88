//! CREATE TABLE .. CLONE.
//!
//! Invariant: OR REPLACE puts a new table in the place of the old one, in one transaction: the
//! old table is dropped with its history, and readers see either. A table by path is only copied:
//! its own vacuum knows nothing of who shares its files.
//! Does not: create tables by path.
//! Spec: docs/guide/sql.md, "Clones".

use std::sync::Arc;

use tarndb_db::{CloneTable as Asked, NativeSource, TableTarget};
use tarndb_delta::{NativeTarget, open_native};
use tarndb_types::TableVersion;

use crate::dml::Change;
use crate::engine::DEFAULT_SCHEMA;
use crate::error::SqlError;
use crate::function::travel::timestamp;
use crate::function::{missing, pin_state, store_of};
use crate::native::{not_here, path_of};
use crate::parser::{AsOf, CloneTable};

impl Change<'_> {
    /// Runs CREATE TABLE .. CLONE.
    pub(crate) async fn clone_table(&mut self, clone: &CloneTable) -> Result<(), SqlError> {
        if let Some(path) = path_of(&clone.name) {
            return Err(not_here(path));
        }
        let existing = self.find_if(&clone.name, true)?;
        if existing.is_some() && clone.if_not_exists {
            return Ok(());
        }
        let schema = clone.name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        self.check_schema(schema)?;
        let replaced = existing.filter(|_| clone.or_replace);
        if let Some(path) = path_of(&clone.source) {
            let source = self.native_source(path, clone).await?;
            if let Some(old) = replaced {
                self.txn.drop_table(old)?;
            }
            let name = &clone.name.name;
            self.txn.clone_native(schema, name, &source, |_| {}).await?;
            return Ok(());
        }
        let source = self.scope().find(&clone.source)?;
        let target = match &clone.as_of {
            None => None,
            Some(AsOf::Version(version)) => Some(TableTarget::Version(TableVersion(*version))),
            Some(AsOf::Timestamp(text)) => Some(TableTarget::Timestamp(timestamp(text)?)),
        };
        if let Some(old) = replaced {
            if old == source {
                return Err(SqlError::Unsupported {
                    what: "replacing a table by a clone of itself".to_owned(),
                    hint: Some("give the clone another name".to_owned()),
                });
            }
            self.txn.drop_table(old)?;
        }
        let asked = Asked {
            name: clone.name.name.clone(),
            source,
            target,
            shallow: clone.shallow,
        };
        self.txn.clone_table(schema, &asked, |_| {}).await?;
        Ok(())
    }

    /// A table by path, at the version that the transaction has read or that is asked for.
    async fn native_source(
        &self,
        path: &str,
        clone: &CloneTable,
    ) -> Result<NativeSource, SqlError> {
        if clone.shallow {
            return Err(SqlError::Unsupported {
                what: format!("a shallow clone of table {path} by its path"),
                hint: Some(
                    "say DEEP CLONE: its own vacuum would delete what the clone needs".to_owned(),
                ),
            });
        }
        let scope = self.scope();
        let pins = &scope.engine.functions.pins;
        let known = pins.get(path).filter(|_| clone.as_of.is_none());
        let (store, state) = match known {
            Some(pinned) => (pinned.store.clone(), Arc::clone(&pinned.state)),
            None => {
                let store = store_of(path, scope.storage)?;
                let target = match &clone.as_of {
                    None => NativeTarget::Latest,
                    Some(AsOf::Version(version)) => NativeTarget::Version(*version),
                    Some(AsOf::Timestamp(text)) => NativeTarget::Timestamp(timestamp(text)?.0),
                };
                let state = open_native(&store, target).await;
                let state = Arc::new(state.map_err(|error| missing(path, error))?);
                if clone.as_of.is_none() {
                    let (store, state) = (store.clone(), Arc::clone(&state));
                    let pinned = pin_state(path, store, state, scope.engine, scope.storage)?;
                    pins.read(path, &pinned);
                }
                (store, state)
            }
        };
        Ok(NativeSource {
            name: path.to_owned(),
            store,
            state,
        })
    }
}
