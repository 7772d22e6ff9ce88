//! RETURNING: the rows that a statement changed, as they are committed.
//!
//! Invariant: they are read from the files that the statement wrote, or, for DELETE, from those
//! that held them, so what is returned is what is stored. They are computed once before the
//! statement counts as done, so that an error in them undoes it; what does not fit the buffer is
//! computed a second time while it is read. Memory is bounded by the buffer.
//! Does not: commit; outside a transaction the session gives the rows out after its commit.
//! Spec: docs/sql/insert.md, "Returning".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast::{
    Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
};
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_table::{DataFile, Deletion, Files, RowSet, TableState, Written, parquet_row_count};

use crate::dml::Change;
use crate::dml::target::ChangeTarget;
use crate::error::{SqlError, translate::translate};
use crate::function::Target;
use crate::outcome::{Outcome, RowStream};
use crate::provider::{Pinned, TarnTable};
use crate::query::{Planned, output_schema, present};

/// Bytes of a result that are kept from its first computation.
const BUFFER_BYTES: usize = 16 << 20;

/// What a statement changed.
#[derive(Debug)]
pub(crate) struct Changed {
    /// How many rows.
    pub(crate) rows: u64,
    /// What RETURNING gives, if that was said.
    pub(crate) returned: Option<Outcome>,
}

impl From<u64> for Changed {
    fn from(rows: u64) -> Self {
        Self {
            rows,
            returned: None,
        }
    }
}

/// The rows that a statement returns: certain files of its table, with certain rows.
#[derive(Debug)]
pub(crate) struct ReturnedRows(Vec<DataFile>);

impl ReturnedRows {
    /// All rows of new files.
    pub(crate) fn written<'a>(parts: impl IntoIterator<Item = &'a Written>) -> Self {
        Self(
            parts
                .into_iter()
                .flat_map(|part| part.files.clone())
                .collect(),
        )
    }

    /// Rows of files that are there, by the files' paths.
    ///
    /// # Cost
    /// The footer of each of these files whose rows the log does not count.
    pub(crate) async fn live(
        pinned: &Pinned,
        rows: &BTreeMap<String, RowSet>,
    ) -> Result<Self, SqlError> {
        let mut files = Vec::with_capacity(rows.len());
        for (path, rows) in rows.iter().filter(|(_, rows)| !rows.is_empty()) {
            let file = pinned.state.files.get(path).ok_or(SqlError::Internal {
                context: "returning rows of a file that is not there",
            })?;
            let count = match file.num_records() {
                Some(count) => count,
                None => parquet_row_count(&pinned.store, &pinned.location, &file)
                    .await
                    .map_err(SqlError::table(&pinned.name))?,
            };
            let mut others = RowSet::new();
            others.insert_range(0..count);
            others -= rows;
            let mut file = DataFile::clone(&file);
            file.deletion = Deletion::Loaded(Arc::new(others));
            files.push(file);
        }
        Ok(Self(files))
    }
}

impl Change<'_> {
    /// Computes `returning` over rows of the target. Call it before the change is made: other
    /// tables, and the target in a subquery, are read as they were before the statement.
    ///
    /// # Errors
    /// Whatever is wrong with the expressions, or with one of the values.
    ///
    /// # Cost
    /// The files are read once, and a second time when the result is above 16 MiB.
    pub(crate) async fn returned(
        &mut self,
        target: &ChangeTarget,
        rows: ReturnedRows,
        returning: &Query,
    ) -> Result<Outcome, SqlError> {
        let query = over(target, returning)?;
        let table = Target {
            reference: target.target().reference,
            provider: Arc::new(table_of(target.provider.pinned(), rows)),
            source: None,
        };
        let scope = self.scope();
        let planned = scope.plan(&query, self.spelling, Some(table)).await?;
        check_rows_stay(&planned.plan)?;
        let first = scope.physical(&planned).await?;
        let schema = output_schema(&first.schema(), &planned.spelling);
        let context = self.engine.context.task_ctx();
        let failed = |error| translate(error, &planned.spelling);
        let mut stream = execute_stream(first, Arc::clone(&context)).map_err(failed)?;
        let mut buffer = Some(Buffer::default());
        while let Some(batch) = stream.next().await {
            let batch = present(&batch.map_err(failed)?, &schema)?;
            buffer = buffer.and_then(|buffer| buffer.with(batch));
        }
        self.note_reads(&planned);
        let stream = match buffer {
            Some(buffer) => futures::stream::iter(buffer.batches.into_iter().map(Ok)).boxed(),
            None => self.again(planned).await?,
        };
        Ok(Outcome::Rows { schema, stream })
    }

    /// The rows of a planned query, computed when they are read.
    async fn again(&self, planned: Planned) -> Result<RowStream, SqlError> {
        let second = self.scope().physical(&planned).await?;
        let schema = output_schema(&second.schema(), &planned.spelling);
        let context = self.engine.context.task_ctx();
        let spelling = Arc::new(planned.spelling);
        let stream = futures::stream::once({
            let spelling = Arc::clone(&spelling);
            async move { execute_stream(second, context).map_err(|e| translate(e, &spelling)) }
        });
        let batches = stream.map_ok(move |batches| {
            let (schema, spelling) = (Arc::clone(&schema), Arc::clone(&spelling));
            batches.map(move |batch| {
                let batch = batch.map_err(|error| translate(error, &spelling))?;
                present(&batch, &schema)
            })
        });
        Ok(batches.try_flatten().boxed())
    }
}

/// A result that is kept as long as it is small.
#[derive(Default)]
struct Buffer {
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Buffer {
    fn with(mut self, batch: RecordBatch) -> Option<Self> {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        (self.bytes <= BUFFER_BYTES).then_some(self)
    }
}

/// `SELECT items FROM target`.
fn over(target: &ChangeTarget, returning: &Query) -> Result<Query, SqlError> {
    let internal = || SqlError::Internal {
        context: "building the query of RETURNING",
    };
    let mut query = returning.clone();
    let (SetExpr::Select(select), SetExpr::Select(changes)) =
        (query.body.as_mut(), *target.query(Vec::new(), None)?.body)
    else {
        return Err(internal());
    };
    select.from = changes.from;
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(kind, options) = item
            && let SelectItemQualifiedWildcardKind::ObjectName(name) = kind
            && name.to_string().trim_matches('"') == target.qualifier
        {
            // There is no other table; the engine would look for one of the whole name.
            *item = SelectItem::Wildcard(options.clone());
        }
    }
    Ok(query)
}

/// The target with nothing but these rows.
fn table_of(pinned: &Pinned, rows: ReturnedRows) -> TarnTable {
    let mut state = TableState::clone(&pinned.state);
    state.files = Files::default();
    for file in rows.0 {
        state.files.insert(Arc::new(file));
    }
    TarnTable::new(Arc::new(Pinned {
        name: pinned.name.clone(),
        state: Arc::new(state),
        store: pinned.store.clone(),
        store_url: pinned.store_url.clone(),
        location: pinned.location.clone(),
        codec: Arc::clone(&pinned.codec),
        // Its deletions are loaded, and nobody judges what it reads.
        vectors: None,
    }))
}

/// # Errors
/// An expression that makes one row of many, or many of one.
fn check_rows_stay(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut found = None;
    // Subqueries are expressions still, and are not entered.
    let walked = plan.apply(|node| {
        let what = match node {
            LogicalPlan::Aggregate(_) => "an aggregate",
            LogicalPlan::Window(_) => "a window function",
            LogicalPlan::Unnest(_) => "UNNEST",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        found = Some(what);
        Ok(TreeNodeRecursion::Stop)
    });
    match (walked, found) {
        (Ok(_), None) => Ok(()),
        (Ok(_), Some(what)) => Err(SqlError::Engine {
            message: format!("RETURNING holds {what}, but gives one row for each row changed"),
            sqlstate: "42803",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: Some("compute it over the rows that are returned".to_owned()),
        }),
        (Err(_), _) => Err(SqlError::Internal {
            context: "looking at the plan of RETURNING",
        }),
    }
}
