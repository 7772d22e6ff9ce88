//! UPDATE.
//!
//! Invariant: the new rows are written before the old ones are marked, both in the open
//! transaction; a row that changes keeps every column that SET does not name. A row found
//! twice (a subquery that gives it two values, two rows of FROM) is an error.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem};
use tarndb_table::{Supplied, Supply};
use tarndb_txn::Operation;

use crate::dml::Change;
use crate::dml::defaults::is_default;
use crate::dml::returning::{Changed, ReturnedRows};
use crate::dml::target::{ChangeTarget, Twice};
use crate::dml::write::{Destination, stream_of, write_updates};
use crate::error::SqlError;
use crate::name::{Spelling, fold, near, same};
use crate::parser::Update;
use crate::query::{Planned, Scope};

/// The plan that finds the rows and computes their new form.
pub(crate) async fn plan_update(
    scope: &Scope<'_>,
    update: &Update,
    spelling: &Spelling,
) -> Result<(ChangeTarget, Planned), SqlError> {
    let target = ChangeTarget::find(scope, &update.table, update.alias.as_deref()).await?;
    let target = target.with_twice(twice(update));
    let planned = plan_update_of(scope, &target, update, spelling).await?;
    Ok((target, planned))
}

/// What it means that a row is found again.
pub(crate) fn twice(update: &Update) -> Twice {
    match update.from.is_empty() {
        true => Twice::Subquery,
        false => Twice::Joined,
    }
}

/// The same for a target that is found already.
pub(crate) async fn plan_update_of(
    scope: &Scope<'_>,
    target: &ChangeTarget,
    update: &Update,
    spelling: &Spelling,
) -> Result<Planned, SqlError> {
    let items = new_values(target, update)?;
    let query = target.joined(items, &update.from, update.filter.clone())?;
    scope.plan(&query, spelling, Some(target.target())).await
}

/// One item per column of the table, in its order.
pub(super) fn new_values(
    target: &ChangeTarget,
    update: &Update,
) -> Result<Vec<SelectItem>, SqlError> {
    let schema = &target.provider.pinned().state.schema;
    let mut assigned = BTreeSet::new();
    for (name, _) in &update.assignments {
        if schema.field(name).is_none() {
            return Err(SqlError::UnknownColumn {
                name: name.clone(),
                table: Some(target.name().to_owned()),
                near: near(name, schema.fields.iter().map(|f| f.name.as_str())),
            });
        }
        if !assigned.insert(fold(name)) {
            return Err(SqlError::DuplicateColumn { name: name.clone() });
        }
    }
    let items = schema.fields.iter().map(|field| {
        let assignment = update
            .assignments
            .iter()
            .find(|(name, _)| same(name, &field.name));
        // What DEFAULT stands for is filled in later.
        match assignment.filter(|(_, expr)| !is_default(expr)) {
            None => SelectItem::UnnamedExpr(target.column(&field.name)),
            Some((_, expr)) => SelectItem::ExprWithAlias {
                expr: Expr::Nested(Box::new(expr.clone())),
                alias: Ident::with_quote('"', fold(&field.name)),
            },
        }
    });
    Ok(items.collect())
}

/// Where the columns of the rows' new form come from: what SET names is given, generated columns
/// of which it changes an input are computed anew, the rest stays.
pub(crate) fn supplied(destination: &Destination, update: &Update) -> Supplied {
    let fields = &destination.schema.fields;
    let assigned = |place: usize| {
        let field = fields.get(place)?;
        let mut assignments = update.assignments.iter();
        assignments.find(|(name, _)| same(name, &field.name))
    };
    let by_rules = destination
        .rules
        .supplied_by_update(|place| assigned(place).is_some());
    let supply = (0..fields.len()).map(|place| match assigned(place) {
        Some((_, expr)) if is_default(expr) => Supply::Omitted,
        _ => by_rules.of(place),
    });
    Supplied::new(supply.collect())
}

/// Runs an UPDATE.
pub(crate) async fn update(change: &mut Change<'_>, update: &Update) -> Result<Changed, SqlError> {
    let (target, planned) = plan_update(&change.scope(), update, change.spelling).await?;
    let plan = change.scope().physical(&planned).await?;
    let destination = Destination::of_table(change.txn, target.id, change.options).await?;
    let supplied = supplied(&destination, update);
    let destination = destination.with_supplied(supplied);
    let plan = destination.prepare(plan)?;
    let stream = stream_of(change.engine, plan, &planned.spelling)?;
    let spelling = &planned.spelling;
    let options = Some(destination.options());
    let writer = change.txn.change_writer(target.id, options).await?;
    let written = write_updates(writer, &destination, &target, stream, spelling);
    let (written, found) = written.await?;
    change.note_reads(&planned);
    let count = found.len();
    let returned = match &update.returning {
        None => None,
        Some(returning) => {
            let new = ReturnedRows::written(written.parts());
            Some(change.returned(&target, new, returning).await?)
        }
    };
    let changed = Changed {
        rows: count,
        returned,
    };
    if count == 0 {
        return Ok(changed);
    }
    let rows = target.by_path(found).await?;
    let id = target.id;
    change
        .txn
        .replace_rows(id, rows, written, Operation::Update)
        .await?;
    Ok(changed)
}
