//! INSERT .. ON CONFLICT: rows whose key is there change the row that has it, or are left out.
//!
//! Invariant: the rows to insert are read once and held in memory up to a limit; each row of the
//! table with one of their keys is found by a join and changed at most once; the rest is
//! inserted. That the rest was new still holds at the commit, else the statement runs again.
//! Does not: find conflicts with keys that are no equality of columns, or change a key.
//! Spec: docs/conflicts.md, "Keys"; docs/sql/insert.md, "On conflict".

use std::sync::Arc;

use arrow::compute::filter_record_batch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};
use futures::StreamExt as _;
use tarndb_db::{DoubledKeys, SoughtKeys};
use tarndb_table::{ChangeWriter, Schema, Supplied, Supply, WrittenChange};

use crate::dml::Change;
use crate::dml::conform::ConformExec;
use crate::dml::insert::plan_insert;
use crate::dml::returning::{Changed, ReturnedRows};
use crate::dml::target::{ChangeTarget, Found};
use crate::dml::update::{new_values, supplied};
use crate::dml::write::{Destination, stream_of};
use crate::error::{SqlError, translate::translate};
use crate::function::EXCLUDED;
use crate::name::{fold, near, same};
use crate::parser::{Conflict, ConflictAction, Insert, Update};
use crate::primary_key::primary_key;
use crate::query::Planned;

/// Number of the row to insert, in the order in which it was read.
const ROW: &str = "\u{1}row";

/// Whether a row that was found changes.
const CHANGES: &str = "\u{1}changes";

/// How the rows to insert are called in expressions.
const EXCLUDED_NAME: &str = "excluded";

/// Runs an INSERT with ON CONFLICT.
pub(crate) async fn insert(
    change: &mut Change<'_>,
    insert: &Insert,
    conflict: &Conflict,
) -> Result<Changed, SqlError> {
    let alias = insert.alias.as_deref();
    let target = ChangeTarget::find(&change.scope(), &insert.table, alias).await?;
    let key = key_of(&target, conflict)?;
    let (destination, sought) = source(change, &target, insert, &key, &conflict.action).await?;
    if sought.batches().is_empty() {
        return returned(change, &target, insert, 0, &WrittenChange::default()).await;
    }
    let options = Some(destination.options());
    let mut writer = change.txn.change_writer(target.id, options).await?;
    let update = update_of(insert, &conflict.action);
    let planned = plan(change, &target, &update, &sought, conflict).await?;
    let applied = Applied {
        target: &target,
        update: &update,
        updates: matches!(conflict.action, ConflictAction::Update { .. }),
    };
    let (found, matched) = applied
        .run(change, &destination, &planned, &mut writer, &sought)
        .await?;
    let inserted = insert_rest(&mut writer, &destination, &sought, &matched).await?;
    let written = writer.finish().await;
    let written = written.map_err(SqlError::table(&destination.name))?;
    change.note_reads(&planned);
    let rows = inserted + found.len();
    let changed = returned(change, &target, insert, rows, &written).await?;
    if rows > 0 {
        let rows = target.by_path(found).await?;
        let done = change.txn.replace_sought(target.id, sought, rows, written);
        done.await?;
    }
    Ok(changed)
}

async fn returned(
    change: &mut Change<'_>,
    target: &ChangeTarget,
    insert: &Insert,
    rows: u64,
    written: &WrittenChange,
) -> Result<Changed, SqlError> {
    let returned = match &insert.returning {
        None => None,
        Some(returning) => {
            let new = ReturnedRows::written(written.parts());
            Some(change.returned(target, new, returning).await?)
        }
    };
    Ok(Changed { rows, returned })
}

/// The columns of the key, as the table spells them.
///
/// # Errors
/// Columns that are not there; no columns named, and a table without a primary key; a SET of
/// one of them.
fn key_of(target: &ChangeTarget, conflict: &Conflict) -> Result<Vec<String>, SqlError> {
    let state = &target.provider.pinned().state;
    let named = match conflict.key.is_empty() {
        false => conflict.key.clone(),
        true => primary_key(state)?.ok_or_else(|| SqlError::Engine {
            message: format!(
                "ON CONFLICT names no key, and {} has no primary key",
                target.name()
            ),
            sqlstate: "42P10",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: Some("name the columns of the key: ON CONFLICT (id) DO ..".to_owned()),
        })?,
    };
    let mut key = Vec::<String>::with_capacity(named.len());
    for name in &named {
        let Some((_, field)) = state.schema.field(name) else {
            return Err(SqlError::UnknownColumn {
                name: name.clone(),
                table: Some(target.name().to_owned()),
                near: near(name, state.schema.fields.iter().map(|f| f.name.as_str())),
            });
        };
        if key.contains(&field.name) {
            return Err(SqlError::DuplicateColumn { name: name.clone() });
        }
        key.push(field.name.clone());
    }
    if let ConflictAction::Update { assignments, .. } = &conflict.action {
        for (column, _) in assignments {
            if key.iter().any(|name| same(name, column)) {
                return Err(SqlError::Unsupported {
                    what: format!("SET of the key column {column} in ON CONFLICT"),
                    hint: Some("the key of such a row is what it was: leave it out".to_owned()),
                });
            }
        }
    }
    Ok(key)
}

/// Reads the rows to insert, with what the table's rules fill in but for identity columns.
async fn source(
    change: &mut Change<'_>,
    target: &ChangeTarget,
    insert: &Insert,
    key: &[String],
    action: &ConflictAction,
) -> Result<(Destination, SoughtKeys), SqlError> {
    let id = target.id;
    let destination = Destination::of_table(change.txn, id, change.options).await?;
    let (destination, planned, plan) =
        plan_insert(&change.scope(), destination, insert, change.spelling).await?;
    let conform = ConformExec::new(
        plan,
        Arc::clone(&destination.name),
        Arc::clone(&destination.rules),
        destination.supplied().clone(),
    );
    let stream = stream_of(change.engine, Arc::new(conform), &planned.spelling)?;
    let given = given_columns(&destination);
    let spelling = &planned.spelling;
    let stream = stream.map(|batch| {
        let batch = batch.and_then(|batch| Ok(batch.project(&given)?));
        batch.map_err(|error| translate(error, spelling))
    });
    let doubled = match action {
        ConflictAction::Nothing => DoubledKeys::FirstCounts,
        ConflictAction::Update { .. } => DoubledKeys::Refused,
    };
    let on = key.iter().map(String::as_str).collect::<Vec<_>>();
    let sought = change.txn.seek_keys(id, &on, doubled, stream).await;
    let sought = sought.map_err(source_error)?;
    change.note_reads(&planned);
    Ok((destination, sought))
}

/// The error of the statement's own query, which the database only passes on.
fn source_error(error: tarndb_db::DbError) -> SqlError {
    match error {
        tarndb_db::DbError::Source(source) => match source.downcast::<SqlError>() {
            Ok(error) => *error,
            Err(source) => SqlError::Db(tarndb_db::DbError::Source(source)),
        },
        error => SqlError::Db(error),
    }
}

/// The places of all columns but identity columns without a value, which are numbered late.
fn given_columns(destination: &Destination) -> Vec<usize> {
    let fields = destination.schema.fields.iter().enumerate();
    let given = fields.filter(|(place, field)| {
        let identity = tarndb_table::rules::Identity::of(field).ok().flatten();
        identity.is_none() || destination.supplied().of(*place) == Supply::Given
    });
    given.map(|(place, _)| place).collect()
}

/// The UPDATE of the rows that are found.
fn update_of(insert: &Insert, action: &ConflictAction) -> Update {
    let (assignments, filter) = match action {
        ConflictAction::Nothing => (Vec::new(), None),
        ConflictAction::Update {
            assignments,
            filter,
        } => (assignments.clone(), filter.as_deref().cloned()),
    };
    Update {
        table: insert.table.clone(),
        alias: insert.alias.clone(),
        assignments,
        from: Vec::new(),
        filter,
        returning: None,
    }
}

/// Plans the join of the table with the rows to insert, by the key: the new forms of the table's
/// rows, whether they count, the number of the row to insert, and where the old forms are.
async fn plan(
    change: &Change<'_>,
    target: &ChangeTarget,
    update: &Update,
    sought: &SoughtKeys,
    conflict: &Conflict,
) -> Result<Planned, SqlError> {
    let column = |name: &str| {
        let parts = [EXCLUDED_NAME, name].map(|part| Ident::with_quote('"', part));
        Expr::CompoundIdentifier(parts.into())
    };
    let named = |expr: Expr, name: &str| SelectItem::ExprWithAlias {
        expr,
        alias: Ident::with_quote('"', name),
    };
    let truth = |value: bool| Expr::Value(Value::Boolean(value).into());
    let mut items = match conflict.action {
        ConflictAction::Nothing => Vec::new(),
        ConflictAction::Update { .. } => conditional(target, update)?,
    };
    let changes = match (&conflict.action, &update.filter) {
        (ConflictAction::Nothing, _) => truth(false),
        (_, None) => truth(true),
        // Of anything but a condition the planner says so.
        (_, Some(filter)) => Expr::IsTrue(Box::new(Expr::Nested(Box::new(filter.clone())))),
    };
    items.push(named(changes, CHANGES));
    items.push(named(column(ROW), ROW));
    let mut query = target.query(items, None)?;
    let on = sought.columns().into_iter().map(|name| Expr::BinaryOp {
        left: Box::new(target.column(&name)),
        op: BinaryOperator::Eq,
        right: Box::new(column(&fold(&name))),
    });
    let on = on.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    join(&mut query, on.unwrap_or_else(|| truth(false)))?;
    let scope = change.scope();
    scope.engine.functions.set_excluded(Some(table_of(sought)?));
    let planned = scope.plan(&query, change.spelling, Some(target.target()));
    let planned = planned.await;
    scope.engine.functions.set_excluded(None);
    planned
}

/// The values of SET, computed only for rows for which WHERE is true.
fn conditional(target: &ChangeTarget, update: &Update) -> Result<Vec<SelectItem>, SqlError> {
    let items = new_values(target, update)?;
    let Some(filter) = &update.filter else {
        return Ok(items);
    };
    let schema = &target.provider.pinned().state.schema;
    let items = items.into_iter().zip(&schema.fields);
    let items = items.map(|(item, field)| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let when = CaseWhen {
                condition: Expr::Nested(Box::new(filter.clone())),
                result: expr,
            };
            let expr = Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![when],
                else_result: Some(Box::new(target.column(&field.name))),
            };
            SelectItem::ExprWithAlias { expr, alias }
        }
        item => item,
    });
    Ok(items.collect())
}

/// Joins the rows to insert to the FROM of a query.
fn join(query: &mut Query, on: Expr) -> Result<(), SqlError> {
    let internal = || SqlError::Internal {
        context: "building the query of ON CONFLICT",
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(internal());
    };
    let TableWithJoins { relation, joins } = select.from.first_mut().ok_or_else(internal)?;
    let mut excluded = relation.clone();
    let TableFactor::Table { name, alias, .. } = &mut excluded else {
        return Err(internal());
    };
    let ident = Ident::with_quote('"', EXCLUDED);
    *name = ObjectName(vec![ObjectNamePart::Identifier(ident)]);
    *alias = Some(TableAlias {
        explicit: true,
        name: Ident::with_quote('"', EXCLUDED_NAME),
        columns: Vec::new(),
        at: None,
    });
    joins.push(Join {
        relation: excluded,
        global: false,
        join_operator: JoinOperator::Inner(JoinConstraint::On(on)),
    });
    Ok(())
}

/// The rows to insert as a table, numbered.
fn table_of(sought: &SoughtKeys) -> Result<Arc<dyn TableProvider>, SqlError> {
    let internal = |_| SqlError::Internal {
        context: "making a table of the rows to insert",
    };
    let mut batches = Vec::with_capacity(sought.batches().len());
    let mut schema: Option<SchemaRef> = None;
    let mut first = 0_u64;
    for batch in sought.batches() {
        let schema = schema.get_or_insert_with(|| numbered(&batch.schema()));
        let next = first + u64::try_from(batch.num_rows()).unwrap_or(0);
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_iter_values(first..next)) as ArrayRef);
        first = next;
        let batch = RecordBatch::try_new(Arc::clone(schema), columns);
        batches.push(batch.map_err(|error| internal(error.into()))?);
    }
    let schema = schema.unwrap_or_else(|| Arc::new(ArrowSchema::empty()));
    let table = MemTable::try_new(schema, vec![batches]).map_err(internal)?;
    Ok(Arc::new(table))
}

/// The columns with folded names, and the number of the row.
fn numbered(schema: &ArrowSchema) -> SchemaRef {
    let fields = schema.fields().iter();
    let mut fields = fields
        .map(|field| field.as_ref().clone().with_name(fold(field.name())))
        .collect::<Vec<_>>();
    fields.push(ArrowField::new(ROW, DataType::UInt64, false));
    Arc::new(ArrowSchema::new(fields))
}

/// What becomes of the rows that were found.
struct Applied<'a> {
    target: &'a ChangeTarget,
    update: &'a Update,
    updates: bool,
}

impl Applied<'_> {
    /// Writes the new forms; the rows of the table that change, and the rows to insert, by their
    /// numbers, whose key is there.
    async fn run(
        &self,
        change: &Change<'_>,
        destination: &Destination,
        planned: &Planned,
        writer: &mut ChangeWriter,
        sought: &SoughtKeys,
    ) -> Result<(Found, Vec<bool>), SqlError> {
        let plan = change.scope().physical(planned).await?;
        let changed = supplied(destination, self.update);
        let update = destination.clone().with_supplied(changed.clone());
        let (plan, width) = match self.updates {
            true => (update.prepare(plan)?, update.schema.fields.len()),
            false => (plan, 0),
        };
        let mut stream = stream_of(change.engine, plan, &planned.spelling)?;
        let count = sought.batches().iter().map(RecordBatch::num_rows).sum();
        let mut matched = vec![false; count];
        let mut found = self.target.nothing_found();
        let own: Vec<usize> = (0..width).collect();
        while let Some(batch) = stream.next().await {
            let failed = |error| translate(error, &planned.spelling);
            let batch = batch.map_err(failed)?;
            let changes = mark(&batch, width, &mut matched)?;
            if !self.updates {
                continue;
            }
            let batch = filter_record_batch(&batch, &changes);
            let batch = batch.map_err(|error| failed(error.into()))?;
            if batch.num_rows() == 0 {
                continue;
            }
            let origins = found.take(&batch, self.target.provider.kept())?;
            let rows = batch.project(&own).map_err(|error| failed(error.into()))?;
            let written = writer.write_updated(&rows, &origins, Some(&changed));
            written.await.map_err(SqlError::table(&destination.name))?;
        }
        Ok((found, matched))
    }
}

/// Marks the rows to insert that a batch of the join names; which of its rows change.
fn mark(batch: &RecordBatch, width: usize, matched: &mut [bool]) -> Result<BooleanArray, SqlError> {
    let internal = || SqlError::Internal {
        context: "reading the join of ON CONFLICT",
    };
    let column = |place: usize| batch.columns().get(width + place);
    let changes = column(0).and_then(|array| array.as_boolean_opt());
    let rows = column(1).and_then(|array| array.as_primitive_opt::<UInt64Type>());
    let (Some(changes), Some(rows)) = (changes, rows) else {
        return Err(internal());
    };
    for row in rows.values() {
        let row = usize::try_from(*row).map_err(|_| internal())?;
        *matched.get_mut(row).ok_or_else(internal)? = true;
    }
    Ok(changes.clone())
}

/// Writes the rows whose key was not found; how many.
async fn insert_rest(
    writer: &mut ChangeWriter,
    destination: &Destination,
    sought: &SoughtKeys,
    matched: &[bool],
) -> Result<u64, SqlError> {
    let failed = |error: ArrowError| translate(error.into(), &crate::name::Spelling::default());
    let (mut rest, mut inserted) = (matched, 0_u64);
    for batch in sought.batches() {
        let (now, later) = rest
            .split_at_checked(batch.num_rows())
            .ok_or(SqlError::Internal {
                context: "counting the rows of ON CONFLICT",
            })?;
        rest = later;
        let new: BooleanArray = now.iter().map(|matched| Some(!matched)).collect();
        let batch = filter_record_batch(batch, &new).map_err(failed)?;
        if batch.num_rows() == 0 {
            continue;
        }
        let batch = complete(&batch, &destination.schema).map_err(failed)?;
        let supplied: &Supplied = destination.supplied();
        let written = writer.write_inserted(&batch, Some(supplied));
        written.await.map_err(SqlError::table(&destination.name))?;
        inserted += u64::try_from(batch.num_rows()).unwrap_or(0);
    }
    Ok(inserted)
}

/// All columns of the table, NULL where the batch has none; the table's rules fill them.
fn complete(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch, ArrowError> {
    let mut schema = Schema::clone(schema);
    let mut columns = Vec::with_capacity(schema.fields.len());
    for field in &mut schema.fields {
        let column = batch.column_by_name(&field.name).cloned();
        let missing = || arrow_array::new_null_array(&field.data_type.to_arrow(), batch.num_rows());
        field.nullable |= column.is_none();
        columns.push(column.unwrap_or_else(missing));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.to_arrow(), columns, &options)
}
