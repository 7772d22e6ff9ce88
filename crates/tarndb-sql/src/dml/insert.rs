//! INSERT, and the filling of a table by CREATE TABLE AS.
//!
//! Invariant: values go to columns by position, by the columns named, or BY NAME; a column that
//! gets no value gets what the table's rules say, else NULL, which a NOT NULL column refuses
//! before anything is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use tarndb_table::{Schema, Supplied, Supply, Written};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::dml::defaults::take_defaults;
use crate::dml::returning::{Changed, ReturnedRows};
use crate::dml::target::ChangeTarget;
use crate::dml::values;
use crate::dml::write::{Destination, stream_of, write_stream};
use crate::dml::{Change, conflict, replace_where};
use crate::error::{SqlError, translate::translate};
use crate::name::{Spelling, fold, near, same};
use crate::parser::Insert;
use crate::query::{Planned, Scope, output_name};

/// Runs an INSERT. OVERWRITE replaces what is live when the transaction commits, rows that
/// others add meanwhile included.
pub(crate) async fn insert(change: &mut Change<'_>, insert: &Insert) -> Result<Changed, SqlError> {
    if let Some(conflict) = &insert.conflict {
        // Boxed: it is large, and rarely said.
        return Box::pin(conflict::insert(change, insert, conflict)).await;
    }
    if let Some(condition) = &insert.replace_where {
        return Box::pin(replace_where::insert(change, insert, condition)).await;
    }
    let id = change.scope().find(&insert.table)?;
    let destination = Destination::of_table(change.txn, id, change.options).await?;
    let (destination, planned, plan) =
        plan_insert(&change.scope(), destination, insert, change.spelling).await?;
    let written = fill(change, &destination, plan, &planned).await?;
    change.note_reads(&planned);
    let rows = written.rows;
    let returned = match &insert.returning {
        None => None,
        Some(returning) => {
            let alias = insert.alias.as_deref();
            let target = ChangeTarget::find(&change.scope(), &insert.table, alias).await?;
            let rows = ReturnedRows::written([&written]);
            Some(change.returned(&target, rows, returning).await?)
        }
    };
    if insert.overwrite {
        let reads_itself = planned.reads.contains(id);
        change.txn.overwrite(id, written, reads_itself).await?;
    } else if rows > 0 {
        change.txn.add_files(id, written, Operation::Append).await?;
    }
    Ok(Changed { rows, returned })
}

/// The table an INSERT goes to, and its plan.
pub(crate) async fn explain_plan(
    scope: &Scope<'_>,
    insert: &Insert,
    options: &crate::options::SessionOptions,
    spelling: &Spelling,
) -> Result<(TableId, Arc<dyn ExecutionPlan>, Planned), SqlError> {
    let id = scope.find(&insert.table)?;
    let destination = Destination::of_table(scope.txn, id, options).await?;
    let (destination, planned, plan) = plan_insert(scope, destination, insert, spelling).await?;
    Ok((id, destination.prepare(plan)?, planned))
}

pub(crate) async fn plan_insert(
    scope: &Scope<'_>,
    destination: Destination,
    insert: &Insert,
    spelling: &Spelling,
) -> Result<(Destination, Planned, Arc<dyn ExecutionPlan>), SqlError> {
    let by_name = insert.by_name || insert.default_values;
    let (sources, planned, omitted) = if by_name {
        let planned = scope.plan(&insert.query, spelling, None).await?;
        let names = match insert.default_values {
            true => Vec::new(),
            false => output_names(&planned),
        };
        (named_sources(&destination, &names)?, planned, Vec::new())
    } else {
        let sources = sources(&destination, &insert.columns)?;
        let (planned, omitted) =
            plan_query(scope, &destination, insert, &sources, spelling).await?;
        (sources, planned, omitted)
    };
    let plan = scope.physical(&planned).await?;
    let expected = sources.iter().flatten().count();
    let given = plan.schema().fields().len();
    if given != expected && !by_name {
        let table = destination.name.to_string();
        return Err(SqlError::InsertWidth {
            table,
            expected,
            given,
        });
    }
    let plan = arrange(plan, &sources, &destination.schema)
        .map_err(|error| translate(error, &planned.spelling))?;
    let supply = sources.iter().map(|source| match source {
        Some(source) if !omitted.contains(source) => Supply::Given,
        _ => Supply::Omitted,
    });
    let supplied = Supplied::new(supply.collect());
    Ok((destination.with_supplied(supplied), planned, plan))
}

/// The table to which a query's columns go one by one, as an INSERT that names none.
pub(crate) fn by_position(
    destination: Destination,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Destination, SqlError> {
    let expected = destination.schema.fields.len();
    let given = plan.schema().fields().len();
    if given != expected {
        let table = destination.name.to_string();
        return Err(SqlError::InsertWidth {
            table,
            expected,
            given,
        });
    }
    let supplied = Supplied::new(vec![Supply::Given; expected]);
    Ok(destination.with_supplied(supplied))
}

/// Plans the query; the cells of VALUES are assigned one by one. Also returns its columns in
/// which every row says DEFAULT.
async fn plan_query(
    scope: &Scope<'_>,
    destination: &Destination,
    insert: &Insert,
    sources: &[Option<usize>],
    spelling: &Spelling,
) -> Result<(Planned, Vec<usize>), SqlError> {
    let mut query = insert.query.clone();
    let columns = sources.iter().enumerate();
    let mut columns = columns
        .filter_map(|(place, source)| Some((*source.as_ref()?, place)))
        .collect::<Vec<_>>();
    columns.sort_unstable();
    let places = columns
        .into_iter()
        .map(|(_, place)| place)
        .collect::<Vec<_>>();
    let fields = &destination.schema.fields;
    let fields = places
        .iter()
        .filter_map(|place| fields.get(*place))
        .collect::<Vec<_>>();
    let (omitted, mut functions) =
        take_defaults(&mut query, &places, &destination.rules, &destination.name)?;
    functions.extend(values::assign(&mut query, &destination.name, &fields)?);
    let context = &scope.engine.context;
    for function in &functions {
        context.register_udf(function.clone());
    }
    let planned = scope.plan(&query, spelling, None).await;
    for function in &functions {
        context.deregister_udf(function.name());
    }
    Ok((planned?, omitted))
}

/// The names of a query's columns, as people know them.
fn output_names(planned: &Planned) -> Vec<String> {
    let columns = planned.plan.schema().columns();
    let names = columns
        .iter()
        .map(|column| output_name(&column.name, &planned.spelling).to_owned());
    names.collect()
}

/// For each column of the table, the position of its value in the query.
fn sources(destination: &Destination, named: &[String]) -> Result<Vec<Option<usize>>, SqlError> {
    if named.is_empty() {
        return Ok((0..destination.schema.fields.len()).map(Some).collect());
    }
    named_sources(destination, named)
}

/// The same by the names of the query's columns; none for a row of defaults.
fn named_sources(
    destination: &Destination,
    named: &[String],
) -> Result<Vec<Option<usize>>, SqlError> {
    let fields = &destination.schema.fields;
    let table = destination.name.to_string();
    let mut seen = BTreeSet::new();
    for name in named {
        if destination.schema.field(name).is_none() {
            let near = near(name, fields.iter().map(|f| f.name.as_str()));
            return Err(SqlError::UnknownColumn {
                name: name.clone(),
                table: Some(table),
                near,
            });
        }
        if !seen.insert(fold(name)) {
            return Err(SqlError::DuplicateColumn { name: name.clone() });
        }
    }
    fields
        .iter()
        .enumerate()
        .map(
            |(place, field)| match named.iter().position(|name| same(name, &field.name)) {
                None if !field.nullable && !destination.rules.fills(place) => {
                    Err(SqlError::MissingNotNull {
                        table: table.clone(),
                        column: field.name.clone(),
                    })
                }
                source => Ok(source),
            },
        )
        .collect()
}

/// Puts the query's columns in the table's order, NULL where there is none.
fn arrange(
    plan: Arc<dyn ExecutionPlan>,
    sources: &[Option<usize>],
    schema: &Schema,
) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
    let input = plan.schema();
    let in_order = sources
        .iter()
        .enumerate()
        .all(|(index, source)| *source == Some(index));
    if in_order {
        return Ok(plan);
    }
    let arrow = schema.to_arrow();
    let columns = sources
        .iter()
        .zip(arrow.fields())
        .enumerate()
        .map(|(place, (source, field))| {
            let expr: Arc<dyn PhysicalExpr> = match source {
                Some(index) => Arc::new(Column::new(input.field(*index).name(), *index)),
                None => Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?)),
            };
            Ok((expr, format!("{place}")))
        })
        .collect::<datafusion::common::Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}

/// Writes what a plan gives into files of the table; nothing is added to it yet.
pub(crate) async fn fill(
    change: &Change<'_>,
    destination: &Destination,
    plan: Arc<dyn ExecutionPlan>,
    planned: &Planned,
) -> Result<Written, SqlError> {
    let plan = destination.prepare(plan)?;
    let stream = stream_of(change.engine, plan, &planned.spelling)?;
    write_stream(change, destination, stream, &planned.spelling).await
}
