//! From the parser's tree to our own: names resolved, types given, everything else refused.
//!
//! Invariant: what comes out is on the allow-list; what does not is named in the error. Depth
//! is bounded before it is descended into.
//! Spec: docs/expressions.md.

use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DataType as SqlType, DateTimeField, ExactNumberInfo,
    Expr, Function as SqlFunction, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    TimezoneInfo, TrimWhereField, UnaryOperator,
};

use super::error::ExpressionError;
use super::function::{self, Refusal};
use super::literal;
use super::node::{Arithmetic, DatePart, Node, Typed};
use super::types;
use crate::prune::Comparison;
use crate::schema::{DataType, Schema};
use crate::stats::Scalar;

/// How deep an expression may nest.
pub(super) const DEPTH_MAX: usize = 120;

/// Lowers one expression.
pub(super) struct Lower<'a> {
    pub(super) schema: &'a Schema,
    pub(super) text: &'a str,
}

impl Lower<'_> {
    pub(super) fn unsupported(&self, construct: impl Into<String>) -> ExpressionError {
        ExpressionError::Unsupported {
            construct: construct.into(),
            text: self.text.to_owned(),
        }
    }

    pub(super) fn types(&self, reason: impl Into<String>) -> ExpressionError {
        ExpressionError::Types {
            reason: reason.into(),
            text: self.text.to_owned(),
        }
    }

    fn refused(&self, refusal: Refusal) -> ExpressionError {
        match refusal {
            Refusal::Unsupported(construct) => self.unsupported(construct),
            Refusal::Types(reason) => self.types(reason),
        }
    }

    /// The node of `expr`, which stands `depth` levels down.
    pub(super) fn lower(&self, expr: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        if depth > DEPTH_MAX {
            return Err(ExpressionError::TooDeep {
                limit: DEPTH_MAX,
                text: self.text.to_owned(),
            });
        }
        let next = depth + 1;
        match expr {
            Expr::Nested(inner) => self.lower(inner, next),
            Expr::Identifier(name) => self.column(std::slice::from_ref(name)),
            Expr::CompoundIdentifier(path) => self.column(path),
            Expr::Value(value) => literal::value(self, &value.value, false),
            Expr::TypedString(typed) => literal::typed_string(self, typed),
            Expr::UnaryOp { op, expr } => self.unary(op, expr, next),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, next),
            Expr::IsNull(inner) => self.is_null(inner, next),
            Expr::IsNotNull(inner) => Ok(not(self.is_null(inner, next)?)),
            Expr::IsTrue(inner) => self.is(true, inner, next),
            Expr::IsNotTrue(inner) => Ok(not(self.is(true, inner, next)?)),
            Expr::IsFalse(inner) => self.is(false, inner, next),
            Expr::IsNotFalse(inner) => Ok(not(self.is(false, inner, next)?)),
            Expr::IsNotDistinctFrom(a, b) => self.same_as(a, b, next),
            Expr::IsDistinctFrom(a, b) => Ok(not(self.same_as(a, b, next)?)),
            Expr::InList {
                expr,
                list,
                negated,
            } => Ok(maybe_not(self.in_list(expr, list, next)?, *negated)),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let least = self.compare(Comparison::GreaterOrEqual, expr, low, next)?;
                let most = self.compare(Comparison::LessOrEqual, expr, high, next)?;
                let both = Typed::boolean(Node::And(Box::new(least), Box::new(most)));
                Ok(maybe_not(both, *negated))
            }
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => Ok(maybe_not(self.like(expr, pattern, next)?, *negated)),
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(operand.as_deref(), conditions, else_result.as_deref(), next),
            _ => self.lower_call(expr, next),
        }
    }

    /// What is written as a function, or nearly so.
    fn lower_call(&self, expr: &Expr, next: usize) -> Result<Typed, ExpressionError> {
        match expr {
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => {
                let to = self.data_type(data_type)?;
                let inner = self.lower(expr, next)?;
                self.cast(inner, to)
            }
            Expr::Extract { field, expr, .. } => {
                let part = match field {
                    DateTimeField::Year | DateTimeField::Years => DatePart::Year,
                    DateTimeField::Quarter => DatePart::Quarter,
                    DateTimeField::Month | DateTimeField::Months => DatePart::Month,
                    DateTimeField::Day | DateTimeField::Days => DatePart::Day,
                    DateTimeField::DayOfWeek | DateTimeField::Dow => DatePart::DayOfWeek,
                    DateTimeField::DayOfYear | DateTimeField::Doy => DatePart::DayOfYear,
                    DateTimeField::Hour | DateTimeField::Hours => DatePart::Hour,
                    DateTimeField::Minute | DateTimeField::Minutes => DatePart::Minute,
                    other => return Err(self.unsupported(format!("EXTRACT({other})"))),
                };
                let inner = vec![self.lower(expr, next)?];
                function::part_of(part, inner, "extract").map_err(|r| self.refused(r))
            }
            Expr::Ceil { expr, field } => self.ceil_floor("ceil", expr, field, next),
            Expr::Floor { expr, field } => self.ceil_floor("floor", expr, field, next),
            Expr::Substring {
                expr,
                substring_from: Some(from),
                substring_for,
                ..
            } => {
                let mut arguments = vec![self.lower(expr, next)?, self.lower(from, next)?];
                if let Some(length) = substring_for {
                    arguments.push(self.lower(length, next)?);
                }
                self.call("substring", arguments)
            }
            Expr::Trim {
                trim_where,
                trim_what: None,
                expr,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "trim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                self.call(name, vec![self.lower(expr, next)?])
            }
            Expr::Function(call) => self.function(call, next),
            other => Err(self.unsupported(construct(other))),
        }
    }

    fn column(&self, path: &[Ident]) -> Result<Typed, ExpressionError> {
        let unknown = || ExpressionError::UnknownColumn {
            column: path
                .iter()
                .map(|part| part.value.as_str())
                .collect::<Vec<_>>()
                .join("."),
            text: self.text.to_owned(),
        };
        // Without brackets these are functions too.
        if let [only] = path
            && only.quote_style.is_none()
            && self.schema.field(&only.value).is_none()
            && matches!(
                only.value.to_ascii_lowercase().as_str(),
                "current_timestamp" | "current_date"
            )
        {
            return self.call(&only.value.to_ascii_lowercase(), Vec::new());
        }
        let mut places = Vec::new();
        let mut data_type = DataType::Struct(self.schema.fields.clone());
        for part in path {
            let DataType::Struct(fields) = data_type else {
                return Err(unknown());
            };
            let schema = Schema::new(fields);
            let (place, field) = schema.field(&part.value).ok_or_else(unknown)?;
            places.push(place);
            data_type = field.data_type.clone();
        }
        Ok(Typed::new(Node::Column(places), data_type))
    }

    fn condition(&self, expr: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        let inner = self.lower(expr, depth)?;
        match inner.data_type {
            DataType::Boolean => Ok(inner),
            DataType::Void => Ok(Typed::boolean(Node::Literal(None))),
            other => Err(self.types(format!("{other} where a condition must stand"))),
        }
    }

    fn unary(
        &self,
        op: &UnaryOperator,
        expr: &Expr,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => Ok(not(self.condition(expr, depth)?)),
            UnaryOperator::Minus => {
                if let Expr::Value(value) = expr
                    && matches!(value.value, sqlparser::ast::Value::Number(..))
                {
                    return literal::value(self, &value.value, true);
                }
                let inner = self.lower(expr, depth)?;
                if !types::is_number(&inner.data_type) {
                    return Err(self.types(format!("minus before {}", inner.data_type)));
                }
                let data_type = inner.data_type.clone();
                Ok(Typed::new(Node::Negate(Box::new(inner)), data_type))
            }
            UnaryOperator::Plus => {
                let inner = self.lower(expr, depth)?;
                if types::is_number(&inner.data_type) {
                    return Ok(inner);
                }
                Err(self.types(format!("plus before {}", inner.data_type)))
            }
            other => Err(self.unsupported(format!("the operator {other}"))),
        }
    }

    fn binary(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        let comparison = match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let a = Box::new(self.condition(left, depth)?);
                let b = Box::new(self.condition(right, depth)?);
                let and = *op == BinaryOperator::And;
                return Ok(Typed::boolean(if and {
                    Node::And(a, b)
                } else {
                    Node::Or(a, b)
                }));
            }
            BinaryOperator::Spaceship => return self.same_as(left, right, depth),
            BinaryOperator::StringConcat => {
                let both = vec![self.lower(left, depth)?, self.lower(right, depth)?];
                return self.call("concat", both);
            }
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::LessOrEqual,
            BinaryOperator::Gt => Comparison::Greater,
            BinaryOperator::GtEq => Comparison::GreaterOrEqual,
            _ => {
                let operation = match op {
                    BinaryOperator::Plus => Arithmetic::Add,
                    BinaryOperator::Minus => Arithmetic::Subtract,
                    BinaryOperator::Multiply => Arithmetic::Multiply,
                    BinaryOperator::Divide => Arithmetic::Divide,
                    BinaryOperator::Modulo => Arithmetic::Remainder,
                    other => return Err(self.unsupported(format!("the operator {other}"))),
                };
                let (a, b) = (self.lower(left, depth)?, self.lower(right, depth)?);
                let (left, right, result) =
                    types::arithmetic(operation, &a.data_type, &b.data_type)
                        .map_err(|reason| self.types(reason))?;
                let a = Box::new(self.cast(a, left)?);
                let b = Box::new(self.cast(b, right)?);
                return Ok(Typed::new(Node::Arithmetic(operation, a, b), result));
            }
        };
        self.compare(comparison, left, right, depth)
    }

    fn compare(
        &self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        let (a, b) = self.alike(self.lower(left, depth)?, self.lower(right, depth)?)?;
        let node = Node::Compare(comparison, Box::new(a), Box::new(b));
        Ok(Typed::boolean(node))
    }

    fn same_as(&self, a: &Expr, b: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        let (a, b) = self.alike(self.lower(a, depth)?, self.lower(b, depth)?)?;
        Ok(Typed::boolean(Node::SameAs(Box::new(a), Box::new(b))))
    }

    /// Both in the type that they have in common.
    fn alike(&self, a: Typed, b: Typed) -> Result<(Typed, Typed), ExpressionError> {
        let a = literal::dated(self, a, &b.data_type)?;
        let b = literal::dated(self, b, &a.data_type)?;
        let common = types::common(&a.data_type, &b.data_type)
            .filter(types::is_comparable)
            .ok_or_else(|| {
                let text = DataType::String;
                let hint = if a.data_type == text || b.data_type == text {
                    "; in Spark \"..\" is text, `..` a column"
                } else {
                    ""
                };
                self.types(format!(
                    "{} is compared with {} (CAST one of them{hint})",
                    a.data_type, b.data_type
                ))
            })?;
        Ok((self.cast(a, common.clone())?, self.cast(b, common)?))
    }

    pub(super) fn cast(&self, inner: Typed, to: DataType) -> Result<Typed, ExpressionError> {
        if inner.data_type == to {
            return Ok(inner);
        }
        if inner.node == Node::Literal(None) && !to.is_nested() {
            return Ok(Typed::new(Node::Literal(None), to));
        }
        if !types::can_cast(&inner.data_type, &to) {
            return Err(self.unsupported(format!("a CAST of {} to {to}", inner.data_type)));
        }
        Ok(Typed::new(Node::Cast(Box::new(inner)), to))
    }

    fn is_null(&self, inner: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        let inner = Box::new(self.lower(inner, depth)?);
        Ok(Typed::boolean(Node::IsNull(inner)))
    }

    fn is(&self, wanted: bool, inner: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        let inner = Box::new(self.condition(inner, depth)?);
        Ok(Typed::boolean(Node::Is(wanted, inner)))
    }

    fn in_list(&self, expr: &Expr, list: &[Expr], depth: usize) -> Result<Typed, ExpressionError> {
        let value = self.lower(expr, depth)?;
        let mut all = vec![value];
        for item in list {
            let item = self.lower(item, depth)?;
            let first = all.first().map_or(DataType::Void, |v| v.data_type.clone());
            all.push(literal::dated(self, item, &first)?);
        }
        let (all, data_type) =
            function::same_type(all, "IN").map_err(|refusal| self.refused(refusal))?;
        if !types::is_comparable(&data_type) {
            return Err(self.types(format!("IN of {data_type}")));
        }
        let mut all = all.into_iter();
        let value = all.next().ok_or_else(|| self.unsupported("IN"))?;
        Ok(Typed::boolean(Node::In(Box::new(value), all.collect())))
    }

    fn like(&self, expr: &Expr, pattern: &Expr, depth: usize) -> Result<Typed, ExpressionError> {
        let inner = self.lower(expr, depth)?;
        if inner.data_type != DataType::String {
            return Err(self.types(format!("LIKE of {}", inner.data_type)));
        }
        let pattern = literal::pattern(self, pattern)?;
        Ok(Typed::boolean(Node::Like(Box::new(inner), pattern)))
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[sqlparser::ast::CaseWhen],
        otherwise: Option<&Expr>,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        let mut tests = Vec::new();
        let mut values = Vec::new();
        for branch in conditions {
            tests.push(match operand {
                None => self.condition(&branch.condition, depth)?,
                Some(operand) => {
                    self.compare(Comparison::Equal, operand, &branch.condition, depth)?
                }
            });
            values.push(self.lower(&branch.result, depth)?);
        }
        values.push(match otherwise {
            Some(value) => self.lower(value, depth)?,
            None => Typed::new(Node::Literal(None), DataType::Void),
        });
        let (mut values, data_type) =
            function::same_type(values, "CASE").map_err(|refusal| self.refused(refusal))?;
        let last = values.pop().ok_or_else(|| self.unsupported("CASE"))?;
        let branches = tests.into_iter().zip(values).collect();
        Ok(Typed::new(Node::Case(branches, Box::new(last)), data_type))
    }

    fn ceil_floor(
        &self,
        name: &str,
        expr: &Expr,
        field: &CeilFloorKind,
        depth: usize,
    ) -> Result<Typed, ExpressionError> {
        match field {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => {
                self.call(name, vec![self.lower(expr, depth)?])
            }
            _ => Err(self.unsupported(format!("{name}() with a second argument"))),
        }
    }

    fn function(&self, call: &SqlFunction, depth: usize) -> Result<Typed, ExpressionError> {
        let name = call.name.to_string().to_lowercase();
        let plain = !call.uses_odbc_syntax
            && matches!(call.parameters, FunctionArguments::None)
            && call.filter.is_none()
            && call.null_treatment.is_none()
            && call.over.is_none()
            && call.within_group.is_empty();
        let refuse = || self.unsupported(format!("this form of the function {name}()"));
        if !plain {
            return Err(refuse());
        }
        let mut arguments = Vec::new();
        match &call.args {
            FunctionArguments::None => {}
            FunctionArguments::List(list)
                if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
            {
                for argument in &list.args {
                    let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else {
                        return Err(refuse());
                    };
                    arguments.push(self.lower(argument, depth)?);
                }
            }
            _ => return Err(refuse()),
        }
        self.call(&name, arguments)
    }

    fn call(&self, name: &str, arguments: Vec<Typed>) -> Result<Typed, ExpressionError> {
        function::call(name, arguments).map_err(|refusal| self.refused(refusal))
    }

    pub(super) fn data_type(&self, sql: &SqlType) -> Result<DataType, ExpressionError> {
        Ok(match sql {
            SqlType::Boolean | SqlType::Bool => DataType::Boolean,
            SqlType::TinyInt(None) => DataType::Byte,
            SqlType::SmallInt(None) => DataType::Short,
            SqlType::Int(None) | SqlType::Integer(None) => DataType::Integer,
            SqlType::BigInt(None) => DataType::Long,
            SqlType::Float(ExactNumberInfo::None) | SqlType::Real => DataType::Float,
            SqlType::Double(ExactNumberInfo::None) => DataType::Double,
            SqlType::String(None) => DataType::String,
            SqlType::Date => DataType::Date,
            SqlType::Timestamp(None, TimezoneInfo::None) => DataType::Timestamp,
            SqlType::TimestampNtz(None) => DataType::TimestampNtz,
            SqlType::Decimal(info) | SqlType::Dec(info) | SqlType::Numeric(info) => {
                let (precision, scale) = match info {
                    ExactNumberInfo::None => (10, 0),
                    ExactNumberInfo::Precision(precision) => (*precision, 0),
                    ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
                };
                let legal = u8::try_from(precision).ok().zip(u8::try_from(scale).ok());
                let legal = legal.filter(|(p, s)| (1..=38).contains(p) && s <= p);
                let Some((precision, scale)) = legal else {
                    return Err(self.types(format!("no such type: {sql}")));
                };
                DataType::Decimal { precision, scale }
            }
            SqlType::Custom(name, arguments) if arguments.is_empty() => {
                match name.to_string().to_ascii_lowercase().as_str() {
                    "byte" => DataType::Byte,
                    "short" => DataType::Short,
                    "long" => DataType::Long,
                    _ => return Err(self.unsupported(format!("the type {sql}"))),
                }
            }
            other => return Err(self.unsupported(format!("the type {other}"))),
        })
    }
}

fn not(inner: Typed) -> Typed {
    Typed::boolean(Node::Not(Box::new(inner)))
}

fn maybe_not(inner: Typed, negated: bool) -> Typed {
    if negated { not(inner) } else { inner }
}

/// The name of what is not supported.
fn construct(expr: &Expr) -> String {
    match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            "a subquery".to_owned()
        }
        Expr::Interval(_) => "an interval".to_owned(),
        Expr::RLike { .. } => "RLIKE".to_owned(),
        Expr::ILike { .. } => "ILIKE".to_owned(),
        Expr::Like { .. } => "LIKE with ANY or ESCAPE".to_owned(),
        Expr::Cast { kind, .. } => format!("this form of CAST ({kind:?})"),
        Expr::Lambda(_) => "a lambda".to_owned(),
        Expr::Array(_) | Expr::Map(_) | Expr::Struct { .. } | Expr::Tuple(_) => {
            "a nested value".to_owned()
        }
        other => format!("{other}"),
    }
}

/// A constant whole number.
pub(super) fn whole(value: i64, data_type: DataType) -> Typed {
    Typed::new(Node::Literal(Some(Scalar::Long(value))), data_type)
}
