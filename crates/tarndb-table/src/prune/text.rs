//! A predicate as SQL text, for messages and the history.
//!
//! Invariant: the text of two different predicates differs.
//! Does not: parse.
//! Spec: none.

use std::fmt;

use super::{Comparison, Predicate};
use crate::decimal::format_decimal;
use crate::partition::scalar_text;
use crate::schema::DataType;
use crate::stats::Scalar;

impl Comparison {
    /// As SQL writes it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { column, op, value } => {
                write!(f, "{column} {} {}", op.symbol(), Literal(value))
            }
            Self::IsNull(column) => write!(f, "{column} IS NULL"),
            Self::IsNotNull(column) => write!(f, "{column} IS NOT NULL"),
            Self::And(parts) => joined(f, parts, " AND ", "TRUE"),
            Self::Or(parts) => joined(f, parts, " OR ", "FALSE"),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Predicate], word: &str, empty: &str) -> fmt::Result {
    if parts.is_empty() {
        return f.write_str(empty);
    }
    for (at, part) in parts.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { word })?;
        match part {
            Predicate::And(_) | Predicate::Or(_) => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    Ok(())
}

/// A value as a SQL literal.
struct Literal<'a>(&'a Scalar);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dated = |data_type: &DataType| scalar_text(self.0, data_type).unwrap_or_default();
        match self.0 {
            Scalar::Boolean(value) => write!(f, "{value}"),
            Scalar::Long(value) => write!(f, "{value}"),
            Scalar::Double(value) => write!(f, "{value:?}"),
            Scalar::Decimal(value, scale) => f.write_str(&format_decimal(*value, *scale)),
            Scalar::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Scalar::Binary(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
            Scalar::Date(_) => write!(f, "DATE '{}'", dated(&DataType::Date)),
            Scalar::TimestampMicros(_) => {
                write!(f, "TIMESTAMP '{}'", dated(&DataType::TimestampNtz))
            }
        }
    }
}
