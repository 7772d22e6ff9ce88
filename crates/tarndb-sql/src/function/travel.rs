//! Tables as they were: `t VERSION AS OF n`, `t TIMESTAMP AS OF '..'`, and
//! `table_changes('t', from [, to])`.
//!
//! Invariant: a version that is named is read or refused, never passed over. Versions are those
//! of the statement's snapshot: what its transaction changed itself is in none of them.
//! Spec: docs/guide/sql.md, "Earlier versions".

use std::sync::Arc;

use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::sql::sqlparser::ast::{ObjectName, TableVersion as AstVersion};
use futures::StreamExt as _;
use tarndb_db::{Snapshot, TableChanges, TableTarget};
use tarndb_types::{TableId, TableVersion, TimestampMs};

use crate::error::SqlError;
use crate::error::translate::{carry, translate};
use crate::function::{FileCall, Reader, argument_error, literal};
use crate::name::{Spelling, fold};
use crate::parser::{TableName, parse_table_name};
use crate::provider::reads::Reads;
use crate::provider::{Pinned, TarnTable};
use crate::query::Scope;

const CHANGES: &str = "table_changes";

/// The call that a name with a version is.
pub(super) fn call_of(name: &ObjectName, version: &AstVersion) -> Result<FileCall, SqlError> {
    let (key, value) = match version {
        AstVersion::VersionAsOf(value) => ("version", value),
        AstVersion::TimestampAsOf(value) | AstVersion::ForSystemTimeAsOf(value) => {
            ("timestamp", value)
        }
        _ => {
            return Err(SqlError::Unsupported {
                what: "AT, BEFORE and CHANGES behind a table".to_owned(),
                hint: Some("say VERSION AS OF n, TIMESTAMP AS OF '..' or table_changes".to_owned()),
            });
        }
    };
    let parts: Option<Vec<&str>> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(|ident| ident.value.as_str()))
        .collect();
    let (schema, table) = match parts.as_deref() {
        Some([table]) => (None, *table),
        Some([schema, table]) => (Some(*schema), *table),
        _ => {
            return Err(SqlError::Unsupported {
                what: format!("a version of {name}"),
                hint: Some("name it [schema.]table".to_owned()),
            });
        }
    };
    if schema.is_none() && super::is_file_name(table) {
        return Err(SqlError::Unsupported {
            what: "a version of a file".to_owned(),
            hint: Some("delta_scan('<url>', version => n) reads a Delta table".to_owned()),
        });
    }
    let value = literal(value).ok_or_else(|| SqlError::Unsupported {
        what: format!("{} AS OF an expression", key.to_uppercase()),
        hint: Some("say a literal: VERSION AS OF 3, TIMESTAMP AS OF '2026-01-31'".to_owned()),
    })?;
    let schema = schema.map(|schema| ("schema".to_owned(), schema.to_owned()));
    let said = (key.to_owned(), value);
    Ok(FileCall {
        reader: Reader::Version,
        path: table.to_owned(),
        options: schema.into_iter().chain([said]).collect(),
    })
}

/// Opens a table at an earlier version.
pub(super) async fn open_version(
    call: &FileCall,
    scope: &Scope<'_>,
    spelling: &mut Spelling,
    reads: &Reads,
) -> Result<LogicalPlan, SqlError> {
    let schema = call.options.get("schema");
    let name = TableName {
        schema: schema.map(|schema| spelling.of(schema).to_owned()),
        name: spelling.of(&call.path).to_owned(),
    };
    let (id, snapshot) = find(scope, &name)?;
    let target = match (call.options.get("version"), call.options.get("timestamp")) {
        (Some(text), _) => TableTarget::Version(version(text)?),
        (_, Some(text)) => TableTarget::Timestamp(timestamp(text)?),
        _ => {
            return Err(SqlError::Internal {
                context: "a version that is none",
            });
        }
    };
    if let (TableTarget::Timestamp(_), Some(log)) = (target, &reads.log) {
        log.note_all(id, "which version is the newest then");
    }
    let state = snapshot.table_at(id, target).await?;
    for field in &state.schema.fields {
        spelling.note_column(&field.name);
    }
    let entry = snapshot.entry(id)?;
    let pinned = Pinned {
        name: entry.display_name(),
        state,
        store: scope.db.store().clone(),
        store_url: scope.engine.store_url.clone(),
        location: entry.location.clone(),
        codec: Arc::clone(&scope.storage.codec),
        vectors: Some((snapshot.clone(), id)),
    };
    let reference = match schema {
        Some(schema) => TableReference::partial(schema.as_str(), call.path.as_str()),
        None => TableReference::bare(call.path.as_str()),
    };
    let source = provider_as_source(Arc::new(TarnTable::new(Arc::new(pinned))));
    LogicalPlanBuilder::scan(reference, source, None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| translate(error, spelling))
}

/// Opens the changes of a table.
pub(super) async fn open_changes(
    call: &FileCall,
    scope: &Scope<'_>,
    spelling: &mut Spelling,
    reads: &mut Reads,
) -> Result<LogicalPlan, SqlError> {
    let name = parse_table_name(&call.path)?;
    let (id, snapshot) = find(scope, &name)?;
    let bound = |key: &str| call.options.get(key).map(|text| version(text)).transpose();
    let from = bound("from")?
        .ok_or_else(|| argument_error(CHANGES, "say the first version: table_changes('t', 1)"))?;
    let to = bound("to")?;
    let entry = snapshot.entry(id)?;
    let named = (fold(&entry.schema), fold(&entry.name));
    reads.tables.entry(id).or_insert(named);
    if let Some(log) = &reads.log {
        log.note_all(id, "changes are those of all rows");
    }
    let changes = snapshot.table_changes(id, from, to).await?;
    let fields = changes.schema().to_arrow();
    let fields = fields.fields().iter().map(|field| {
        spelling.note_column(field.name());
        // Older files may be without a column that came later.
        let field = field.as_ref().clone().with_name(fold(field.name()));
        Arc::new(field.with_nullable(true))
    });
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let part = ChangesPart {
        changes,
        schema: Arc::clone(&schema),
    };
    let failed = |error: DataFusionError| translate(error, &Spelling::default());
    let table = StreamingTable::try_new(schema, vec![Arc::new(part) as _]).map_err(failed)?;
    LogicalPlanBuilder::scan(CHANGES, provider_as_source(Arc::new(table)), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(failed)
}

/// A table that has versions: one of the snapshot.
pub(crate) fn find<'a>(
    scope: &'a Scope<'_>,
    name: &TableName,
) -> Result<(TableId, &'a Snapshot), SqlError> {
    let id = scope.find(name)?;
    let snapshot = scope.txn.snapshot();
    if snapshot.entry(id).is_err() {
        return Err(SqlError::Unsupported {
            what: format!("versions of {name}, which this transaction created"),
            hint: Some("commit first".to_owned()),
        });
    }
    Ok((id, snapshot))
}

fn version(text: &str) -> Result<TableVersion, SqlError> {
    let number = text.parse().map(TableVersion);
    number.map_err(|_| not("version number", text))
}

pub(crate) fn timestamp(text: &str) -> Result<TimestampMs, SqlError> {
    let time = string_to_datetime(&chrono::Utc, text);
    let time = time.map_err(|_| not("timestamp", text))?;
    Ok(TimestampMs(time.timestamp_millis()))
}

fn not(what: &str, text: &str) -> SqlError {
    SqlError::Engine {
        message: format!("not a {what}: {text:?}"),
        sqlstate: "22023",
        kind: tarndb_db::ErrorKind::Invalid,
        hint: Some("DESCRIBE HISTORY t shows versions and their times".to_owned()),
    }
}

/// The rows of a change feed; each run reads them anew.
#[derive(Debug)]
struct ChangesPart {
    changes: TableChanges,
    /// Columns as the engine sees them.
    schema: SchemaRef,
}

impl PartitionStream for ChangesPart {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batches = self.changes.batches().map(move |batch| {
            let batch = batch.map_err(|error| carry(SqlError::Db(error)))?;
            under(&batch, &schema)
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches.boxed(),
        ))
    }
}

/// The same columns under the names that the engine knows.
fn under(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() {
        same if same == field.data_type() => Ok(Arc::clone(column)),
        _ => arrow::compute::cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
