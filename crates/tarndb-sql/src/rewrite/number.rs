//! DECIMAL with REAL or DOUBLE is DOUBLE.
//!
//! Invariant: where a decimal meets a float (in operators, BETWEEN, IN, CASE, set operations and
//! functions of values of one type) the decimal becomes a DOUBLE, never the float a decimal:
//! that has no NaN, no infinity and loses small values. The engine alone does the opposite.
//! Decimal literals become the DOUBLE nearest to their text.
//! Spec: docs/sql/types.md, "What goes into a column".

use std::sync::Arc;

use arrow::datatypes::{Decimal128Type, Decimal256Type, DecimalType};
use arrow_schema::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    Values, cast, lit, type_coercion::binary::type_union_resolution,
};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite_node;

/// Functions whose arguments become values of one type.
const ALIKE: &[&str] = &[
    "coalesce",
    "nvl",
    "ifnull",
    "nvl2",
    "nullif",
    "greatest",
    "least",
    "make_array",
    "power",
    "pow",
    "atan2",
    "mod",
];

/// Functions of a list and an element of it.
const OF_LIST: &[&str] = &[
    "array_has",
    "array_contains",
    "list_has",
    "array_position",
    "array_positions",
    "array_append",
    "array_remove",
    "array_remove_all",
];

/// The rule; it runs before types are coerced.
#[derive(Debug)]
pub(super) struct DecimalMeetsDouble;

impl AnalyzerRule for DecimalMeetsDouble {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let plan = rewrite_node(plan, approximate)?;
            Ok(match plan.data {
                LogicalPlan::Values(values) => Transformed::yes(rows(values)?),
                LogicalPlan::Union(_) => Transformed::yes(union(plan.data)?),
                LogicalPlan::Join(_) => Transformed::yes(join(plan.data)?),
                data => Transformed::yes(data),
            })
        })
        .map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "decimal_meets_double"
    }
}

fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

/// Whether these types together are computed in DOUBLE.
fn meet<'a>(types: impl IntoIterator<Item = &'a DataType>) -> bool {
    let (mut decimal, mut float) = (false, false);
    for data_type in types {
        decimal |= data_type.is_decimal();
        float |= is_float(data_type);
    }
    decimal && float
}

/// The DOUBLE for a decimal; other expressions as they are.
fn to_double(expr: Expr, schema: &DFSchema) -> Expr {
    if let Expr::Literal(value, _) = &expr
        && let Some(double) = nearest(value)
    {
        return lit(double);
    }
    match expr.get_type(schema) {
        Ok(data_type) if data_type.is_decimal() => cast(expr, DataType::Float64),
        _ => expr,
    }
}

fn nearest(value: &ScalarValue) -> Option<f64> {
    let text = match value {
        ScalarValue::Decimal128(Some(v), p, s) => Decimal128Type::format_decimal(*v, *p, *s),
        ScalarValue::Decimal256(Some(v), p, s) => Decimal256Type::format_decimal(*v, *p, *s),
        _ => return None,
    };
    text.parse().ok()
}

/// Makes all of `exprs` doubles when decimals and floats meet in them.
fn alike(exprs: Vec<Expr>, schema: &DFSchema) -> Transformed<Vec<Expr>> {
    let types = exprs.iter().filter_map(|expr| expr.get_type(schema).ok());
    if !meet(&types.collect::<Vec<_>>()) {
        return Transformed::no(exprs);
    }
    let exprs = exprs.into_iter().map(|expr| to_double(expr, schema));
    Transformed::yes(exprs.collect())
}

fn approximate(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let pair = |left: Box<Expr>, right: Box<Expr>| {
        let both = alike(vec![*left, *right], schema).data;
        let mut both = both.into_iter().map(Box::new);
        both.next().zip(both.next())
    };
    Ok(Transformed::yes(match expr {
        Expr::BinaryExpr(binary) if !may_meet(&binary, schema) => {
            return Ok(Transformed::no(Expr::BinaryExpr(binary)));
        }
        Expr::BinaryExpr(mut binary) => {
            if let Some((left, right)) = pair(binary.left.clone(), binary.right.clone()) {
                (binary.left, binary.right) = (left, right);
            }
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            let parts = vec![
                (*between.expr).clone(),
                (*between.low).clone(),
                (*between.high).clone(),
            ];
            let mut parts = alike(parts, schema).data.into_iter().map(Box::new);
            if let (Some(expr), Some(low), Some(high)) = (parts.next(), parts.next(), parts.next())
            {
                (between.expr, between.low, between.high) = (expr, low, high);
            }
            Expr::Between(between)
        }
        Expr::InList(mut list) => {
            let mut parts = vec![(*list.expr).clone()];
            parts.append(&mut list.list);
            let mut parts = alike(parts, schema).data.into_iter();
            if let Some(expr) = parts.next() {
                *list.expr = expr;
            }
            list.list = parts.collect();
            Expr::InList(list)
        }
        Expr::Case(case) => Expr::Case(branches(case, schema)),
        Expr::InSubquery(mut test) => {
            if let Some((expr, subquery)) = with_subquery(&test.expr, &test.subquery, schema)? {
                test = InSubquery::new(Box::new(expr), subquery, test.negated);
            }
            Expr::InSubquery(test)
        }
        Expr::SetComparison(mut test) => {
            if let Some((expr, subquery)) = with_subquery(&test.expr, &test.subquery, schema)? {
                let expr = Box::new(expr);
                test = SetComparison::new(expr, subquery, test.op, test.quantifier);
            }
            Expr::SetComparison(test)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let args = if ALIKE.contains(&func.name()) {
                alike(args, schema).data
            } else if OF_LIST.contains(&func.name()) {
                list_and_element(args, schema)
            } else {
                args
            };
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        expr => return Ok(Transformed::no(expr)),
    }))
}

/// Whether decimals and floats can meet in an operator. Asks no more of a chain than it must: the
/// type of its long side, the left one, is all that is below.
fn may_meet(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    let of_others = binary.op.is_logic_operator() || binary.op == Operator::StringConcat;
    !of_others
        && binary
            .right
            .get_type(schema)
            .is_ok_and(|right| right.is_decimal() || is_float(&right))
}

fn branches(
    mut case: datafusion::logical_expr::Case,
    schema: &DFSchema,
) -> datafusion::logical_expr::Case {
    let (mut conditions, mut results): (Vec<_>, Vec<_>) = case
        .when_then_expr
        .into_iter()
        .map(|(when, then)| (*when, *then))
        .unzip();
    if let Some(operand) = case.expr.take() {
        conditions.push(*operand);
        conditions = alike(conditions, schema).data;
        case.expr = conditions.pop().map(Box::new);
    }
    let has_else = case.else_expr.is_some();
    results.extend(case.else_expr.take().map(|expr| *expr));
    results = alike(results, schema).data;
    if has_else {
        case.else_expr = results.pop().map(Box::new);
    }
    let pairs = conditions.into_iter().map(Box::new);
    case.when_then_expr = pairs.zip(results.into_iter().map(Box::new)).collect();
    case
}

/// An expression and the one column of a subquery.
fn with_subquery(
    expr: &Expr,
    subquery: &Subquery,
    schema: &DFSchema,
) -> Result<Option<(Expr, Subquery)>> {
    let Some(field) = subquery.subquery.schema().fields().first() else {
        return Ok(None);
    };
    let Ok(own) = expr.get_type(schema) else {
        return Ok(None);
    };
    if !meet([&own, field.data_type()]) {
        return Ok(None);
    }
    let mut subquery = subquery.clone();
    if field.data_type().is_decimal() {
        let plan = Arc::unwrap_or_clone(subquery.subquery);
        subquery.subquery = Arc::new(with_doubles(plan, &[true])?);
    }
    Ok(Some((to_double(expr.clone(), schema), subquery)))
}

fn list_and_element(mut args: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let [list, element, ..] = args.as_mut_slice() else {
        return args;
    };
    let (Ok(DataType::List(inner)), Ok(own)) = (list.get_type(schema), element.get_type(schema))
    else {
        return args;
    };
    if !meet([inner.data_type(), &own]) {
        return args;
    }
    if inner.data_type().is_decimal() {
        let doubles = Field::new(inner.name(), DataType::Float64, true);
        *list = cast(list.clone(), DataType::List(Arc::new(doubles)));
    }
    *element = to_double(element.clone(), schema);
    args
}

/// `plan` with the marked columns as DOUBLE.
fn with_doubles(plan: LogicalPlan, marked: &[bool]) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().zip(marked);
    let exprs = columns.map(|((qualifier, field), marked)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        if *marked && field.data_type().is_decimal() {
            cast(column, DataType::Float64).alias_qualified(qualifier.cloned(), field.name())
        } else {
            column
        }
    });
    let exprs = exprs.collect::<Vec<_>>();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

fn union(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(mut union) = plan else {
        return Ok(plan);
    };
    let width = union.schema.fields().len();
    let marked = (0..width).map(|column| {
        let fields = union.inputs.iter().map(|i| i.schema().fields().get(column));
        meet(fields.flatten().map(|field| field.data_type()))
    });
    let marked = marked.collect::<Vec<_>>();
    if !marked.contains(&true) {
        return Ok(LogicalPlan::Union(union));
    }
    for input in &mut union.inputs {
        *input = Arc::new(with_doubles(input.as_ref().clone(), &marked)?);
    }
    // The engine joins the types of the inputs with the one it has noted.
    let noted = union.schema.iter().zip(&marked);
    let fields = noted.map(|((qualifier, field), marked)| {
        let mut field = Arc::clone(field);
        if *marked {
            let double = field.as_ref().clone().with_data_type(DataType::Float64);
            field = Arc::new(double);
        }
        (qualifier.cloned(), field)
    });
    let metadata = union.schema.metadata().clone();
    union.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
    Ok(LogicalPlan::Union(union))
}

fn join(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Join(mut join) = plan else {
        return Ok(plan);
    };
    for (left, right) in &mut join.on {
        let types = (
            left.get_type(join.left.schema())?,
            right.get_type(join.right.schema())?,
        );
        if meet([&types.0, &types.1]) {
            *left = to_double(left.clone(), join.left.schema());
            *right = to_double(right.clone(), join.right.schema());
        }
    }
    Ok(LogicalPlan::Join(join))
}

/// VALUES: the engine has cast the cells of a column to their common type already.
fn rows(mut values: Values) -> Result<LogicalPlan> {
    let mut fields = Vec::new();
    for (column, (qualifier, field)) in values.schema.iter().enumerate() {
        let cells = values
            .values
            .iter_mut()
            .filter_map(|row| row.get_mut(column));
        let mut cells = cells.collect::<Vec<_>>();
        let given = cells.iter().filter(|cell| !is_null(cell));
        let given = given.map(|cell| given_type(cell, field.data_type()));
        let given = given.collect::<Result<Vec<_>>>()?;
        if !meet(&given) || common_type(&given).as_ref() != Some(field.data_type()) {
            fields.push((qualifier.cloned(), Arc::clone(field)));
            continue;
        }
        for cell in &mut cells {
            let inner = uncast(cell, field.data_type()).clone();
            let double = to_double(inner, &DFSchema::empty());
            **cell = if double.get_type(&DFSchema::empty())? == DataType::Float64 {
                double
            } else {
                cast(double, DataType::Float64)
            };
        }
        let field = field.as_ref().clone().with_data_type(DataType::Float64);
        fields.push((qualifier.cloned(), Arc::new(field)));
    }
    let metadata = values.schema.metadata().clone();
    values.schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
    Ok(LogicalPlan::Values(values))
}

fn is_null(cell: &Expr) -> bool {
    matches!(cell, Expr::Literal(value, _) if value.is_null())
}

/// The type to which the engine has cast cells of these types.
fn common_type(types: &[DataType]) -> Option<DataType> {
    let (first, rest) = types.split_first()?;
    let join = |common: DataType, next: &DataType| type_union_resolution(&[common, next.clone()]);
    rest.iter().try_fold(first.clone(), join)
}

fn uncast<'a>(cell: &'a Expr, common: &DataType) -> &'a Expr {
    match cell {
        Expr::Cast(Cast { expr, field }) if field.data_type() == common => expr,
        cell => cell,
    }
}

fn given_type(cell: &Expr, common: &DataType) -> Result<DataType> {
    uncast(cell, common).get_type(&DFSchema::empty())
}
