//! Deep clones of Delta tables that no database manages.
//!
//! Invariant: files are copied byte for byte, whatever their size, with little memory; a file that
//! its table names outside its own root is refused. The table may be written meanwhile, or vacuumed:
//! then the clone fails.
//! Does not: share files with such a table. Its own vacuum would know nothing of it.
//! Spec: docs/format/delta.md, "Clones".

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::{Path, Store};
use tarndb_table::TableState;
use tarndb_types::TableId;

use super::plan::Sites;
use super::{CloneReport, Cloned};
use crate::check::Progress;
use crate::error::DbError;
use crate::transaction::Transaction;

/// Files copied at the same time, which all go through this process.
const COPIES_PARALLEL: usize = 4;

/// A table that no database manages, at one version.
#[derive(Clone, Debug)]
pub struct NativeSource {
    /// What people call it: its path.
    pub name: String,
    /// The store whose root is the table.
    pub store: Store,
    /// Its state.
    pub state: Arc<TableState>,
}

impl Transaction {
    /// Creates a table as a deep clone of one that no database manages.
    ///
    /// # Errors
    /// As [`Self::create_table`]; a writer feature that this build does not know, by name; a file
    /// outside the table's root; files that are gone meanwhile.
    ///
    /// # Cancel safety
    /// The transaction is as before; copies stay as files that no version names.
    ///
    /// # Cost
    /// At most 2 LISTs; per file a GET and a PUT (or the parts of an upload).
    pub async fn clone_native(
        &mut self,
        schema: &str,
        name: &str,
        source: &NativeSource,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<(TableId, CloneReport), DbError> {
        let place = self.place(schema, name).await?;
        let root = Path::default();
        let sites = Sites {
            source: &root,
            bases: &[],
            folder: &place.folder,
            shallow: false,
            own: None,
            now_ms: self.inner().context().now().0,
        };
        let plan = sites
            .plan(&source.state, BTreeMap::new())
            .map_err(DbError::table(source.name.as_str()))?;
        let total = Some(plan.copies.len() as u64);
        let target = &self.inner().store;
        let mut copied = futures::stream::iter(plan.copies.clone())
            .map(|copy| async move { target.copy_from(&source.store, &copy.from, &copy.to).await })
            .buffer_unordered(COPIES_PARALLEL);
        let mut done = 0;
        while copied.try_next().await?.is_some() {
            done += 1;
            let stage = source.name.clone();
            progress(Progress { stage, done, total });
        }
        drop(copied);
        let cloned = Cloned {
            source: None,
            source_name: source.name.clone(),
            version: source.state.version,
            shallow: false,
            is_shared: false,
        };
        self.create_clone(place, Arc::clone(&source.state), plan, cloned)
    }
}
