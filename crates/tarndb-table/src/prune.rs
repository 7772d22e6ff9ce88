//! A small predicate over column bounds: can a file hold a matching row?
//!
//! Invariant: conservative. A file is left out only when every live row of it fails the
//! predicate; what is unknown, malformed or of another type keeps the file.
//! Does not: replace the query engine's own pruning, which knows all expressions. Rows are
//! decided by `Predicate::evaluate`.
//! Spec: Delta PROTOCOL, "Per-file Statistics" (use of bounds, `tightBounds`).

mod evaluate;
mod text;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;

pub use evaluate::is_true;

use crate::fragment::DataFile;
use crate::partition::{is_partition_column, parse_partition_value};
use crate::schema::Schema;
use crate::state::TableState;
use crate::stats::Scalar;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A predicate over top level columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// `column op value`.
    Compare {
        /// Column name, any case.
        column: String,
        /// Operator.
        op: Comparison,
        /// Literal of the column's kind.
        value: Scalar,
    },
    /// `column IS NULL`.
    IsNull(String),
    /// `column IS NOT NULL`.
    IsNotNull(String),
    /// All of them.
    And(Vec<Predicate>),
    /// Any of them.
    Or(Vec<Predicate>),
}

impl Predicate {
    /// Either of them. Alternatives stay on one level, however many are added one by one: what
    /// walks a predicate needs stack for each level. One that is there already is not repeated.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut parts = match self {
            Self::Or(parts) => parts,
            only => vec![only],
        };
        let more = match other {
            Self::Or(more) => more,
            only => vec![only],
        };
        for part in more {
            if parts.last() != Some(&part) {
                parts.push(part);
            }
        }
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                parts.extend(last);
                Self::Or(parts)
            }
        }
    }
}

/// What is known of one column of one file.
struct Known {
    min: Option<Scalar>,
    max: Option<Scalar>,
    /// No live row is NULL.
    no_nulls: bool,
    /// Every live row is NULL.
    all_nulls: bool,
    /// Every live row has the one value, a partition's.
    is_exact: bool,
}

/// Whether `file` may hold a live row for which `predicate` is true.
pub fn may_match(
    predicate: &Predicate,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
) -> bool {
    let known = |column: &str| known_of(column, file, schema, partition_columns);
    match predicate {
        Predicate::And(parts) => parts
            .iter()
            .all(|part| may_match(part, file, schema, partition_columns)),
        Predicate::Or(parts) => parts
            .iter()
            .any(|part| may_match(part, file, schema, partition_columns)),
        Predicate::IsNull(column) => known(column).is_none_or(|known| !known.no_nulls),
        Predicate::IsNotNull(column) => known(column).is_none_or(|known| !known.all_nulls),
        Predicate::Compare { column, op, value } => {
            known(column).is_none_or(|known| known.may_compare(*op, value))
        }
    }
}

/// The files of `state` that may hold a live row for which `predicate` is true.
pub fn matching_files(state: &TableState, predicate: &Predicate) -> Vec<Arc<DataFile>> {
    let mut columns = Vec::new();
    stored_columns(predicate, &state.schema, &mut columns);
    let may =
        |file: &Arc<DataFile>| may_match(predicate, file, &state.schema, &state.partition_columns);
    let judge = |files: &[Arc<DataFile>]| Ok(files.iter().map(may).collect());
    let matching: Result<_, Infallible> = state.files.matching(&columns, judge);
    matching.unwrap_or_else(|never| match never {})
}

/// The columns of a predicate, named as files name them.
fn stored_columns(predicate: &Predicate, schema: &Schema, into: &mut Vec<String>) {
    let column = match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => {
            for part in parts {
                stored_columns(part, schema, into);
            }
            return;
        }
        Predicate::IsNull(column) | Predicate::IsNotNull(column) => column,
        Predicate::Compare { column, .. } => column,
    };
    let name = schema.field(column).map(|(_, field)| field.stored());
    into.extend(name.filter(|name| !into.contains(name)).cloned());
}

impl Known {
    fn may_compare(&self, op: Comparison, value: &Scalar) -> bool {
        if self.all_nulls {
            return false;
        }
        let min = self.min.as_ref().and_then(|min| min.partial_cmp(value));
        let max = self.max.as_ref().and_then(|max| max.partial_cmp(value));
        // Many writers leave NaN out of the bounds, and NaN is greater than every number.
        let beyond_max = matches!(value, Scalar::Double(_)) && !self.is_exact;
        match op {
            Comparison::Equal => min != Some(Ordering::Greater) && max != Some(Ordering::Less),
            Comparison::NotEqual => {
                beyond_max || min != Some(Ordering::Equal) || max != Some(Ordering::Equal)
            }
            Comparison::Less => !matches!(min, Some(Ordering::Greater | Ordering::Equal)),
            Comparison::LessOrEqual => min != Some(Ordering::Greater),
            Comparison::Greater => {
                beyond_max || !matches!(max, Some(Ordering::Less | Ordering::Equal))
            }
            Comparison::GreaterOrEqual => beyond_max || max != Some(Ordering::Less),
        }
    }
}

fn known_of(
    column: &str,
    file: &DataFile,
    schema: &Schema,
    partition_columns: &[String],
) -> Option<Known> {
    let (_, field) = schema.field(column)?;
    if is_partition_column(partition_columns, &field.name) {
        let text = file.partition_values.get(field.stored_name())?;
        let value = parse_partition_value(text.as_deref(), &field.data_type).ok()?;
        let is_null = value.is_none();
        return Some(Known {
            min: value.clone(),
            max: value,
            no_nulls: !is_null,
            all_nulls: is_null,
            is_exact: true,
        });
    }
    let stats = file.stats.as_ref()?;
    let column = stats.top(field)?;
    let nulls = column.null_count;
    Some(Known {
        min: column.min.clone(),
        max: column.upper_bound(),
        no_nulls: nulls == Some(0),
        all_nulls: nulls.is_some() && nulls == stats.num_records,
        is_exact: false,
    })
}

#[cfg(test)]
mod tests;
