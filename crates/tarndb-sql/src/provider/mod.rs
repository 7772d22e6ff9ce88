//! A table at one version, as the engine scans it.
//!
//! Invariant: a provider is pinned to the state it was made from; its column names are folded
//! (see `name`) while the files keep theirs; rows deleted in that state are never given out.
//! The engine's hooks for changes return errors: they lose predicates.
//! Does not: decide what to change; `dml` does, with the hidden columns of a target scan.

mod counted;
pub(crate) mod damage;
mod equations;
pub(crate) mod float_bounds;
pub(crate) mod kept;
mod own;
pub(crate) mod predicate;
pub(crate) mod prune;
pub(crate) mod pushdown;
mod reader;
pub(crate) mod reads;
mod scan;
mod selection;
pub(crate) mod sought;
mod statistics;
pub(crate) mod yielding;

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use object_store::path::Path;
use tarndb_db::{DbError, Snapshot};
use tarndb_storage::Store;
use tarndb_table::{Deletion, RowSet, TableCodec, TableError, TableState};
use tarndb_types::TableId;

use crate::error::{SqlError, translate};
use crate::name::fold;
use crate::provider::kept::Kept;
use crate::provider::reads::ScanLog;
use crate::provider::sought::Sought;

/// A table's state and where its files are.
#[derive(Debug)]
pub(crate) struct Pinned {
    /// `schema.name`, for messages.
    pub(crate) name: String,
    /// The state.
    pub(crate) state: Arc<TableState>,
    /// The store with its files.
    pub(crate) store: Store,
    /// Under which the engine knows the store.
    pub(crate) store_url: ObjectStoreUrl,
    /// Root of the table in the store.
    pub(crate) location: Path,
    /// Reads its deletion vectors.
    pub(crate) codec: Arc<dyn TableCodec>,
    /// Keeps the vectors that were read, for a table of the database.
    pub(crate) vectors: Option<(Snapshot, TableId)>,
}

impl Pinned {
    /// Whether the database wrote all files of the table: others leave NaN out of bounds.
    pub(crate) fn is_own(&self) -> bool {
        self.vectors.as_ref().is_some_and(|(snapshot, id)| {
            let table = snapshot.catalog().table(*id);
            table.is_none_or(|table| table.attached.is_none())
        })
    }

    /// The rows that a file's deletion deletes.
    pub(crate) async fn deleted_rows(
        &self,
        deletion: &Deletion,
    ) -> Result<Arc<RowSet>, TableError> {
        if let (Deletion::Stored(_), Some((snapshot, id))) = (deletion, &self.vectors)
            && snapshot.entry(*id).is_ok()
        {
            return match snapshot.deleted_rows(*id, deletion).await {
                Ok(rows) => Ok(rows),
                Err(DbError::Table { source, .. }) => Err(*source),
                Err(DbError::Store(source)) => Err(TableError::Store(source)),
                Err(_) => Err(TableError::Internal {
                    context: "loading a deletion vector",
                }),
            };
        }
        self.codec
            .load_deletion(&self.store, &self.location, deletion)
            .await
    }
}

/// Names of the columns that say where a row is: the index of its file and its position there.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    /// Number in [`TarnTable::kept`].
    pub(crate) file: String,
    /// Physical position in the file.
    pub(crate) position: String,
}

/// The provider.
#[derive(Debug)]
pub(crate) struct TarnTable {
    pinned: Arc<Pinned>,
    /// The files that its scans read, so that a number names one.
    kept: Kept,
    /// Columns as the files spell them.
    stored: SchemaRef,
    /// Columns as the engine sees them, hidden ones last.
    folded: SchemaRef,
    hidden: Option<Hidden>,
    /// Where its scans are noted.
    log: Option<Arc<ScanLog>>,
    /// The keys that its scans look for.
    sought: Sought,
}

impl TarnTable {
    /// A provider for queries.
    pub(crate) fn new(pinned: Arc<Pinned>) -> Self {
        Self::build(pinned, None)
    }

    /// A provider for changes, with the hidden columns.
    pub(crate) fn target(pinned: Arc<Pinned>) -> Self {
        let hidden = Hidden {
            file: free_name(&pinned.state, "_file"),
            position: free_name(&pinned.state, "_pos"),
        };
        Self::build(pinned, Some(hidden))
    }

    fn build(pinned: Arc<Pinned>, hidden: Option<Hidden>) -> Self {
        let stored = pinned.state.schema.to_arrow();
        let mut fields = stored
            .fields()
            .iter()
            .map(|field| Arc::new(field.as_ref().clone().with_name(fold(field.name()))))
            .collect::<Vec<_>>();
        if let Some(hidden) = &hidden {
            fields.push(scan::file_field(hidden));
            fields.push(scan::position_field(hidden));
        }
        Self {
            pinned,
            kept: Kept::default(),
            stored,
            folded: Arc::new(Schema::new(fields)),
            hidden,
            log: None,
            sought: Sought::default(),
        }
    }

    /// The same, with its scans noted.
    pub(crate) fn with_log(mut self, log: Option<Arc<ScanLog>>) -> Self {
        self.log = log;
        self
    }

    /// Where its scans are noted.
    pub(crate) fn log(&self) -> Option<&Arc<ScanLog>> {
        self.log.as_ref()
    }

    /// What it is pinned to.
    pub(crate) fn pinned(&self) -> &Arc<Pinned> {
        &self.pinned
    }

    /// The files that were scanned, by the number that the hidden column holds.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The keys that its scans look for: files that can hold none of them are left out.
    pub(crate) fn sought(&self) -> &Sought {
        &self.sought
    }

    /// The hidden columns of a target.
    pub(crate) fn hidden(&self) -> Option<&Hidden> {
        self.hidden.as_ref()
    }

    /// Columns as the table spells them.
    pub(crate) fn stored(&self) -> &SchemaRef {
        &self.stored
    }
}

/// `base`, or `base` with a number that no column of the table is called.
fn free_name(state: &TableState, base: &str) -> String {
    let mut name = base.to_owned();
    let mut number = 0_u32;
    while state.schema.field(&name).is_some() {
        number += 1;
        name = format!("{base}{number}");
    }
    name
}

fn hook_error(what: &str) -> datafusion::error::DataFusionError {
    translate::carry(SqlError::Unsupported {
        what: format!("{what} through the engine's own hook"),
        hint: None,
    })
}

#[async_trait]
impl TableProvider for TarnTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.folded)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let (Some(log), Some((_, id))) = (&self.log, &self.pinned.vectors) {
            log.note(*id, self, state, filters);
        }
        scan::plan(self, state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Files are left out by bounds; the rows of the others are still to be filtered.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(hook_error("INSERT"))
    }

    async fn delete_from(
        &self,
        _state: &dyn Session,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(hook_error("DELETE"))
    }

    async fn update(
        &self,
        _state: &dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(hook_error("UPDATE"))
    }

    async fn truncate(&self, _state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Err(hook_error("TRUNCATE"))
    }
}
