//! The cells of INSERT .. VALUES.
//!
//! Invariant: each cell becomes its column's type on its own, by the rules of assignment. The
//! engine alone would first bring the rows of VALUES to a common type, which loses digits and
//! refuses rows that fit the column. A number for a REAL or DOUBLE column is read as its text
//! says.
//! Does not: check NOT NULL; `conform` does.

use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, UnaryOperator, Value,
    Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tarndb_table::{DataType, Field, Schema, conform_batch};

use crate::error::{SqlError, translate::carry, translate::carry_table};
use crate::rewrite::double_of;

/// Digits of an integer that surely fits a BIGINT.
const PLAIN_DIGITS: usize = 18;

/// Rewrites the cells of `query`, if it is VALUES; `fields` are the columns they go to. The
/// functions returned must be known to the engine when the query is planned.
///
/// # Errors
/// None but bugs.
pub(super) fn assign(
    query: &mut Query,
    table: &Arc<str>,
    fields: &[&Field],
) -> Result<Vec<ScalarUDF>, SqlError> {
    if let SetExpr::Query(inner) = query.body.as_mut() {
        return assign(inner, table, fields);
    }
    let SetExpr::Values(values) = query.body.as_mut() else {
        return Ok(Vec::new());
    };
    let mut functions = Vec::new();
    for (column, field) in fields.iter().enumerate() {
        let cells = values.rows.iter_mut();
        let mut cells = cells
            .filter_map(|row| row.content.get_mut(column))
            .collect::<Vec<_>>();
        for cell in &mut cells {
            if matches!(field.data_type, DataType::Float | DataType::Double) {
                read_as_double(cell);
            }
        }
        if are_alike(&cells) {
            continue;
        }
        let function = Assign::new(column, table, field);
        for cell in cells {
            if kind(cell) != Kind::Null {
                *cell = function.call(std::mem::replace(cell, null()));
            }
        }
        functions.push(ScalarUDF::new_from_impl(function));
    }
    if values
        .rows
        .iter()
        .any(|row| row.content.iter().any(has_query))
    {
        let rows = values.rows.drain(..).map(|row| row.content).collect();
        *query.body = selects(rows)?;
    }
    Ok(functions)
}

/// Whether a cell holds a subquery, which the engine cannot compute inside VALUES.
fn has_query(cell: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    cell.visit(&mut Queries).is_break()
}

/// `SELECT cells UNION ALL SELECT cells ..`, halved so that many rows nest little.
fn selects(mut rows: Vec<Vec<Expr>>) -> Result<SetExpr, SqlError> {
    if rows.len() < 2 {
        return select(rows.pop().unwrap_or_default());
    }
    let rest = rows.split_off(rows.len() / 2);
    Ok(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(selects(rows)?),
        right: Box::new(selects(rest)?),
    })
}

fn select(cells: Vec<Expr>) -> Result<SetExpr, SqlError> {
    let query = Parser::new(&PostgreSqlDialect {})
        .try_with_sql("SELECT 1")
        .and_then(|mut parser| parser.parse_query());
    match query.map(|query| *query.body) {
        Ok(SetExpr::Select(mut select)) => {
            let items = cells.into_iter().enumerate().map(|(index, expr)| {
                let alias = Ident::with_quote('"', format!("column{}", index + 1));
                SelectItem::ExprWithAlias { expr, alias }
            });
            select.projection = items.collect();
            Ok(SetExpr::Select(select))
        }
        _ => Err(SqlError::Internal {
            context: "building the query of an INSERT",
        }),
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Makes a number literal with a point the DOUBLE of its text.
fn read_as_double(cell: &mut Expr) {
    match cell {
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        }
        | Expr::Nested(expr) => read_as_double(expr),
        Expr::Value(value) => {
            if let Value::Number(text, _) = &value.value
                && text.contains('.')
                && !text.contains(['e', 'E'])
            {
                *cell = double_of(text.replace('_', ""), value);
            }
        }
        _ => {}
    }
}

/// What kind of literal a cell is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Integer,
    /// With so many digits behind the point.
    Decimal(usize),
    Text,
    Boolean,
    /// Not a literal, or one that is better taken by itself.
    Other,
}

fn kind(cell: &Expr) -> Kind {
    match cell {
        Expr::Nested(expr) => kind(expr),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match kind(expr) {
            number @ (Kind::Integer | Kind::Decimal(_)) => number,
            _ => Kind::Other,
        },
        Expr::Value(value) => match &value.value {
            Value::Null => Kind::Null,
            Value::Boolean(_) => Kind::Boolean,
            Value::SingleQuotedString(_) => Kind::Text,
            Value::Number(text, _) if text.len() > PLAIN_DIGITS || text.contains('_') => {
                Kind::Other
            }
            Value::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => Kind::Integer,
            Value::Number(text, _) => match text.split_once('.') {
                Some((_, fraction)) if !fraction.contains(['e', 'E']) => {
                    Kind::Decimal(fraction.len())
                }
                _ => Kind::Other,
            },
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}

/// Whether the engine brings these cells to a common type without changing any: such columns
/// are converted as a whole, which is quicker.
fn are_alike(cells: &[&mut Expr]) -> bool {
    let mut kinds = cells
        .iter()
        .map(|cell| kind(cell))
        .filter(|k| *k != Kind::Null);
    let Some(first) = kinds.next() else {
        return true;
    };
    cells.len() == 1 || (first != Kind::Other && kinds.all(|kind| kind == first))
}

/// The assignment to a column as a function of the engine, by the place of the column.
pub(crate) fn assignment(column: usize, table: &Arc<str>, field: &Field) -> ScalarUDF {
    ScalarUDF::new_from_impl(Assign::new(column, table, field))
}

/// The assignment to one column as a function of the engine.
#[derive(Debug)]
struct Assign {
    name: String,
    table: Arc<str>,
    /// The column alone, which may be NULL.
    schema: Schema,
    arrow: ArrowField,
    signature: Signature,
}

impl Assign {
    fn new(column: usize, table: &Arc<str>, field: &Field) -> Self {
        let mut field = field.clone();
        field.nullable = true;
        let arrow = field.to_arrow();
        Self {
            name: format!("\u{1}assign{column}"),
            table: Arc::clone(table),
            schema: Schema::new(vec![field]),
            arrow,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The call for a cell.
    fn call(&self, cell: Expr) -> Expr {
        let arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(cell));
        Expr::Function(Function {
            name: ObjectName::from(vec![Ident::with_quote('"', &self.name)]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: vec![arg],
                clauses: Vec::new(),
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        })
    }
}

impl PartialEq for Assign {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.table == other.table && self.schema == other.schema
    }
}

impl Eq for Assign {}

impl Hash for Assign {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Assign {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.arrow.data_type().clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let internal = || {
            carry(SqlError::Internal {
                context: "assigning a value",
            })
        };
        let value = args.args.into_iter().next().ok_or_else(internal)?;
        let (array, is_scalar) = match value {
            ColumnarValue::Array(array) => (array, false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        let given = ArrowField::new(self.arrow.name(), array.data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![given])), vec![array])?;
        let batch =
            conform_batch(&batch, &self.schema).map_err(|error| carry_table(&self.table, error))?;
        let array = batch.columns().first().ok_or_else(internal)?;
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(array, 0)?)
        } else {
            ColumnarValue::Array(Arc::clone(array))
        })
    }
}
