//! The query of a MERGE: a join of source and table, and for each of its rows what to do.
//!
//! Invariant: of each pair of rows exactly one clause acts, the first whose condition is true;
//! pairs without one are left out. The columns are those of the table in their new form, the
//! number of the clause, file and position of the row, and the keys that a new row was looked
//! for by. The source is the build side: the table is never held.
//! Spec: docs/sql/merge.md.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{
    Expr, Join, LogicalPlan, LogicalPlanBuilder, Projection, TryCast, lit, when,
};
use datafusion::sql::sqlparser::ast::{
    Expr as AstExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query,
    SelectItem, SetExpr, TableAlias, TableFactor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tarndb_table::Schema;

use super::clause::{Act, Cell, Clause};
use super::keys::Pair;
use super::names::not_there;
use super::source::PRESENT;
use crate::dml::target::ChangeTarget;
use crate::dml::values::assignment;
use crate::error::SqlError;
use crate::function::{SOURCE, TARGET};
use crate::parser::MergeWhen;

/// The number of the clause that acts on a row.
const ACTION: &str = "\u{1}action";

/// Which sides' rows without a counterpart the clauses are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) source: bool,
    pub(super) target: bool,
}

impl Sides {
    pub(super) fn of(clauses: &[Clause]) -> Self {
        let has = |when| clauses.iter().any(|clause| clause.when == when);
        Self {
            source: has(MergeWhen::NotMatched),
            target: has(MergeWhen::NotMatchedBySource),
        }
    }

    fn operator(self, on: AstExpr) -> JoinOperator {
        let on = JoinConstraint::On(on);
        match (self.source, self.target) {
            (false, false) => JoinOperator::Inner(on),
            (true, false) => JoinOperator::LeftOuter(on),
            (false, true) => JoinOperator::RightOuter(on),
            (true, true) => JoinOperator::FullOuter(on),
        }
    }
}

/// `SELECT conditions, values, file, position, present FROM source JOIN target ON on`: every
/// expression of the clauses by itself, so that the engine says what its names are.
pub(super) fn query(
    target: &ChangeTarget,
    source: &str,
    sides: Sides,
    on: AstExpr,
    clauses: &[Clause],
) -> Result<Query, SqlError> {
    let mut exprs: Vec<AstExpr> = Vec::new();
    for clause in clauses {
        exprs.extend(clause.condition.clone());
        for cell in clause.cells().unwrap_or_default() {
            if let Cell::Given(expr) = cell {
                exprs.push(expr.as_ref().clone());
            }
        }
    }
    let hidden = target.provider.hidden().ok_or_else(internal)?;
    exprs.push(target.column(&hidden.file));
    exprs.push(target.column(&hidden.position));
    let present = vec![quoted(source), quoted(PRESENT)];
    exprs.push(AstExpr::CompoundIdentifier(present));
    let items = exprs.into_iter().enumerate().map(|(number, expr)| {
        let alias = quoted(&format!("\u{1}item{number}"));
        SelectItem::ExprWithAlias {
            expr: AstExpr::Nested(Box::new(expr)),
            alias,
        }
    });
    let mut query = Parser::new(&PostgreSqlDialect {})
        .try_with_sql("SELECT 1 FROM s LEFT JOIN t ON true")
        .and_then(|mut parser| parser.parse_query())
        .map_err(|_| internal())?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(internal());
    };
    select.projection = items.collect();
    let from = select.from.first_mut().ok_or_else(internal)?;
    name_table(&mut from.relation, SOURCE, Some(source))?;
    let join = from.joins.first_mut().ok_or_else(internal)?;
    name_table(&mut join.relation, TARGET, target.alias())?;
    join.join_operator = sides.operator(on);
    Ok(*query)
}

fn name_table(
    relation: &mut TableFactor,
    table: &str,
    called: Option<&str>,
) -> Result<(), SqlError> {
    let TableFactor::Table { name, alias, .. } = relation else {
        return Err(internal());
    };
    *name = ObjectName(vec![ObjectNamePart::Identifier(quoted(table))]);
    *alias = called.map(|called| TableAlias {
        explicit: true,
        name: quoted(called),
        columns: Vec::new(),
        at: None,
    });
    Ok(())
}

/// The planned query, taken apart.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) join: Join,
    /// The expressions in the order of the query's items.
    exprs: Vec<Expr>,
    file: Expr,
    position: Expr,
    present: Expr,
}

impl Parts {
    /// Takes the plan of [`query`] apart.
    ///
    /// # Errors
    /// A plan of another shape, which aggregates, window functions and UNNEST make of it.
    pub(super) fn of(plan: LogicalPlan) -> Result<Self, SqlError> {
        let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
            return Err(aggregate_refused());
        };
        let LogicalPlan::Join(join) = Arc::unwrap_or_clone(input) else {
            return Err(aggregate_refused());
        };
        let mut exprs: Vec<Expr> = expr.into_iter().map(Expr::unalias).collect();
        let present = exprs.pop().ok_or_else(internal)?;
        let position = exprs.pop().ok_or_else(internal)?;
        let file = exprs.pop().ok_or_else(internal)?;
        Ok(Self {
            join,
            exprs,
            file,
            position,
            present,
        })
    }
}

impl Parts {
    /// Looks at what subqueries of the clauses take from the joined row.
    ///
    /// # Errors
    /// A column of the side of which no row matched: it would be NULL, in silence.
    pub(super) fn check_subqueries(
        &self,
        clauses: &[Clause],
        target: &str,
        source: &str,
    ) -> Result<(), SqlError> {
        let mut exprs = self.exprs.iter();
        for clause in clauses {
            let given = |cell: &&Cell| matches!(cell, Cell::Given(_));
            let cells = clause.cells().unwrap_or_default().iter();
            let own = usize::from(clause.condition.is_some()) + cells.filter(given).count();
            let (hidden, names) = match clause.when {
                MergeWhen::Matched => (None, (target, source)),
                MergeWhen::NotMatched => (Some(&self.join.right), (target, source)),
                MergeWhen::NotMatchedBySource => (Some(&self.join.left), (source, target)),
            };
            let found = exprs.by_ref().take(own).find_map(|expr| {
                let taken = taken_by_subqueries(expr);
                let hidden = hidden?.schema();
                taken.into_iter().find(|column| hidden.has_column(column))
            });
            if let Some(column) = found {
                return Err(not_there(
                    &format!("{}.{}", names.0, column.name),
                    names.0,
                    names.1,
                ));
            }
        }
        Ok(())
    }
}

/// The columns that subqueries of an expression take from around them.
fn taken_by_subqueries(expr: &Expr) -> Vec<Column> {
    let mut taken = Vec::new();
    let walked = expr.apply(|expr| {
        let subquery = match expr {
            Expr::Exists(test) => Some(&test.subquery),
            Expr::InSubquery(test) => Some(&test.subquery),
            Expr::SetComparison(test) => Some(&test.subquery),
            Expr::ScalarSubquery(subquery) => Some(subquery),
            _ => None,
        };
        let outer = subquery.map_or(&[][..], |subquery| &subquery.outer_ref_columns);
        taken.extend(outer.iter().filter_map(|outer| match outer {
            Expr::OuterReferenceColumn(_, column) => Some(column.clone()),
            _ => None,
        }));
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "nothing in the walk fails");
    taken
}

/// An aggregate, or something else that is not of one row.
pub(super) fn aggregate_refused() -> SqlError {
    SqlError::Unsupported {
        what: "an aggregate, a window function or UNNEST in a clause of MERGE".to_owned(),
        hint: Some("compute it in the source: USING (SELECT ..) AS s".to_owned()),
    }
}

/// What the plan of a MERGE gives behind the columns of the table.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Columns of the table.
    pub(super) width: usize,
    /// Key columns behind action, file and position.
    pub(super) keys: usize,
}

impl Layout {
    pub(super) fn action(&self) -> usize {
        self.width
    }

    pub(super) fn file(&self) -> usize {
        self.width + 1
    }

    pub(super) fn position(&self) -> usize {
        self.width + 2
    }

    pub(super) fn first_key(&self) -> usize {
        self.width + 3
    }
}

/// Puts the parts together.
pub(super) fn assemble(
    parts: Parts,
    clauses: &[Clause],
    target: &ChangeTarget,
    schema: &Schema,
    pairs: &[Pair],
) -> Result<(LogicalPlan, Layout)> {
    let table: Arc<str> = target.name().into();
    let mut exprs = parts.exprs.into_iter();
    let mut conditions = Vec::new();
    let mut values: Vec<Vec<Option<Expr>>> = Vec::new();
    for clause in clauses {
        conditions.push(match &clause.condition {
            Some(_) => Some(exprs.next().ok_or_else(plan_internal)?),
            None => None,
        });
        let mut cells = Vec::new();
        for (place, cell) in clause.cells().unwrap_or_default().iter().enumerate() {
            let field = schema.fields.get(place).ok_or_else(plan_internal)?;
            cells.push(match cell {
                Cell::Omitted => None,
                Cell::Kept => Some(kept_column(&parts.join, place)?),
                Cell::Given(_) => {
                    let expr = exprs.next().ok_or_else(plan_internal)?;
                    Some(assignment(place, &table, field).call(vec![expr]))
                }
            });
        }
        values.push(cells);
    }
    let sides = parts.join.join_type;
    let action = action(sides, &parts.file, &parts.present, clauses, conditions)?;
    let columns = parts.join.schema.columns().into_iter().map(Expr::Column);
    let items: Vec<Expr> = columns.chain([action.alias(ACTION)]).collect();
    let action = Expr::Column(Column::new_unqualified(ACTION));
    let joined = LogicalPlanBuilder::from(LogicalPlan::Join(parts.join))
        .project(items)?
        .filter(action.clone().is_not_null())?;

    let mut output = Vec::new();
    for (place, field) in schema.fields.iter().enumerate() {
        let branches = values
            .iter()
            .enumerate()
            .filter_map(|(number, cells)| Some((number, cells.get(place)?.clone()?)));
        let null = ScalarValue::try_from(&field.data_type.to_arrow())?;
        output.push(chosen(&action, branches, null)?.alias(format!("\u{1}column{place}")));
    }
    output.extend([action.clone(), parts.file, parts.position]);
    let is_insert = |clause: &Clause| matches!(clause.act, Act::Insert(_));
    let inserts = (0..).zip(clauses).filter(|(_, clause)| is_insert(clause));
    let inserts: Vec<usize> = inserts.map(|(number, _)| number).collect();
    for (place, pair) in pairs.iter().enumerate() {
        let data_type = pair.field.data_type.to_arrow();
        let null = ScalarValue::try_from(&data_type)?;
        let field = Arc::new(arrow_schema::Field::new("key", data_type, true));
        let key = Expr::TryCast(TryCast::new_from_field(
            Box::new(pair.source.clone()),
            field,
        ));
        let branches = inserts.iter().map(|number| (*number, key.clone()));
        output.push(chosen(&action, branches, null)?.alias(format!("\u{1}key{place}")));
    }
    let layout = Layout {
        width: schema.fields.len(),
        keys: pairs.len(),
    };
    Ok((joined.project(output)?.build()?, layout))
}

/// The table's own column; the table is the right side.
fn kept_column(join: &Join, place: usize) -> Result<Expr> {
    let columns = join.right.schema().columns();
    let column = columns.into_iter().nth(place).ok_or_else(plan_internal)?;
    Ok(Expr::Column(column))
}

/// `CASE action WHEN number THEN value ..`.
fn chosen(
    action: &Expr,
    branches: impl Iterator<Item = (usize, Expr)>,
    null: ScalarValue,
) -> Result<Expr> {
    let mut when_then = Vec::new();
    for (number, value) in branches {
        let number = Box::new(lit(number_of(number)?));
        when_then.push((number, Box::new(value)));
    }
    if when_then.is_empty() {
        return Ok(Expr::Literal(null, None));
    }
    let action = Some(Box::new(action.clone()));
    Ok(Expr::Case(Case::new(action, when_then, None)))
}

fn number_of(clause: usize) -> Result<i32> {
    i32::try_from(clause).map_err(|_| plan_internal())
}

/// The number of the first clause that is true for a row of the join, else NULL.
fn action(
    join: JoinType,
    file: &Expr,
    present: &Expr,
    clauses: &[Clause],
    conditions: Vec<Option<Expr>>,
) -> Result<Expr> {
    let nothing = || Expr::Literal(ScalarValue::Int32(None), None);
    let mut by_kind: [Vec<(Option<Expr>, Expr)>; 3] = Default::default();
    for (number, (clause, condition)) in clauses.iter().zip(conditions).enumerate() {
        let act = match clause.act {
            Act::Nothing => nothing(),
            Act::Delete | Act::Update(_) | Act::Insert(_) => lit(number_of(number)?),
        };
        let [matched, not_matched, by_source] = &mut by_kind;
        let kind = match clause.when {
            MergeWhen::Matched => matched,
            MergeWhen::NotMatched => not_matched,
            MergeWhen::NotMatchedBySource => by_source,
        };
        kind.push((condition, act));
    }
    let first_true = |clauses: Vec<(Option<Expr>, Expr)>| -> Result<Expr> {
        let mut rest = nothing();
        for (condition, act) in clauses.into_iter().rev() {
            rest = match condition {
                None => act,
                Some(condition) => when(condition, act).otherwise(rest)?,
            };
        }
        Ok(rest)
    };
    let [matched, not_matched, by_source] = by_kind;
    let mut all = first_true(matched)?;
    if matches!(join, JoinType::Left | JoinType::Full) {
        all = when(file.clone().is_null(), first_true(not_matched)?).otherwise(all)?;
    }
    if matches!(join, JoinType::Right | JoinType::Full) {
        all = when(present.clone().is_null(), first_true(by_source)?).otherwise(all)?;
    }
    Ok(all)
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn internal() -> SqlError {
    SqlError::Internal {
        context: "building the query of a MERGE",
    }
}

fn plan_internal() -> DataFusionError {
    crate::error::translate::carry(internal())
}
