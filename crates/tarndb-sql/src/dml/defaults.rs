//! The word DEFAULT among the values of an INSERT.
//!
//! Invariant: a column of which every row says DEFAULT is as if it were left out; where only
//! some rows do, the default's value stands in its place, the same for all rows of the
//! statement.
//! Does not: fill columns that are left out; the table's rules do.

use std::hash::{Hash, Hasher};

use arrow_array::{Array as _, ArrayRef};
use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, SetExpr,
    Value,
};
use tarndb_table::RowRules;

use crate::error::SqlError;

/// Whether an expression is the bare word DEFAULT.
pub(crate) fn is_default(cell: &Expr) -> bool {
    matches!(cell, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Replaces DEFAULT in the VALUES of `query`; `places` are those of the table's columns that its
/// columns go to. Returns the columns of the query that are left out in every row, and functions
/// that must be known when the query is planned.
///
/// # Errors
/// DEFAULT beside values in a generated or identity column.
pub(super) fn take_defaults(
    query: &mut Query,
    places: &[usize],
    rules: &RowRules,
    table: &str,
) -> Result<(Vec<usize>, Vec<ScalarUDF>), SqlError> {
    if let SetExpr::Query(inner) = query.body.as_mut() {
        return take_defaults(inner, places, rules, table);
    }
    let (mut omitted, mut functions) = (Vec::new(), Vec::new());
    let SetExpr::Values(values) = query.body.as_mut() else {
        return Ok((omitted, functions));
    };
    for (column, place) in places.iter().enumerate() {
        let cells = values.rows.iter_mut();
        let cells = cells.filter_map(|row| row.content.get_mut(column));
        let (defaults, others): (Vec<_>, Vec<_>) = cells.partition(|cell| is_default(cell));
        if defaults.is_empty() {
            continue;
        }
        let value = rules
            .default_value(*place)
            .map_err(SqlError::table(table))?;
        let function = match value {
            _ if others.is_empty() => {
                omitted.push(column);
                None
            }
            None => {
                return Err(SqlError::Unsupported {
                    what: "DEFAULT beside values in a generated or identity column".to_owned(),
                    hint: Some("insert these rows by a statement of their own".to_owned()),
                });
            }
            Some(value) if value.is_null(0) => None,
            Some(value) => Some(Constant::new(column, value)),
        };
        for cell in defaults {
            *cell = match &function {
                Some(function) => function.call(),
                None => Expr::Value(Value::Null.into()),
            };
        }
        functions.extend(function.map(ScalarUDF::new_from_impl));
    }
    Ok((omitted, functions))
}

/// A value as a function of the engine, so that it keeps its type.
#[derive(Debug)]
struct Constant {
    name: String,
    value: ArrayRef,
    signature: Signature,
}

impl Constant {
    fn new(column: usize, value: ArrayRef) -> Self {
        Self {
            name: format!("\u{1}default{column}"),
            value,
            signature: Signature::nullary(Volatility::Immutable),
        }
    }

    fn call(&self) -> Expr {
        Expr::Function(Function {
            name: ObjectName::from(vec![Ident::with_quote('"', &self.name)]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: Vec::new(),
                clauses: Vec::new(),
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        })
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value.to_data() == other.value.to_data()
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.value.data_type().clone())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = ScalarValue::try_from_array(&self.value, 0)?;
        Ok(ColumnarValue::Scalar(value))
    }
}
