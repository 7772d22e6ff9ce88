//! Statistics of one data file, and how they are collected while it is written.
//!
//! Invariant: a bound is never tighter than the data: floats with NaN have none, long strings
//! are cut so that the cut minimum is below and the cut maximum above, infinities have none.
//! Does not: know the JSON form (the codec), which may cut timestamps further.
//! Spec: Delta PROTOCOL, "Per-file Statistics".

mod collect;
mod indexed;

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use collect::StatsCollector;
pub use indexed::{Indexed, NamePath, parse_column_list};

use crate::schema::Field;

/// One value of a primitive type.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Boolean.
    Boolean(bool),
    /// Byte, short, integer or long.
    Long(i64),
    /// Float or double.
    Double(f64),
    /// Decimal: unscaled value and scale.
    Decimal(i128, u8),
    /// String.
    String(String),
    /// Binary.
    Binary(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970, of either timestamp type.
    TimestampMicros(i64),
}

impl PartialOrd for Scalar {
    /// The order within one kind; `None` between kinds and with NaN. Strings order by their
    /// UTF-8 bytes.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.partial_cmp(b),
            (Self::Long(a), Self::Long(b)) => a.partial_cmp(b),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Decimal(a, sa), Self::Decimal(b, sb)) => compare_decimals(*a, *sa, *b, *sb),
            (Self::String(a), Self::String(b)) => a.partial_cmp(b),
            (Self::Binary(a), Self::Binary(b)) => a.partial_cmp(b),
            (Self::Date(a), Self::Date(b)) => a.partial_cmp(b),
            (Self::TimestampMicros(a), Self::TimestampMicros(b)) => a.partial_cmp(b),
            _ => None,
        }
    }
}

/// Unknown (`None`) where a common scale would overflow.
fn compare_decimals(a: i128, a_scale: u8, b: i128, b_scale: u8) -> Option<Ordering> {
    let scale = a_scale.max(b_scale);
    let a = crate::decimal::rescale(a, a_scale, scale)?;
    let b = crate::decimal::rescale(b, b_scale, scale)?;
    Some(a.cmp(&b))
}

/// Statistics of one leaf column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// Lower bound of the values that are not NULL.
    pub min: Option<Scalar>,
    /// Upper bound; a timestamp's may be up to 999 microseconds too low, since formats store
    /// milliseconds. Prune with [`ColumnStats::upper_bound`].
    pub max: Option<Scalar>,
    /// Rows (deleted ones included) whose value is NULL.
    pub null_count: Option<u64>,
}

/// How far a stored timestamp maximum may lie below the real one.
const TIMESTAMP_SLACK_MICROS: i64 = 999;

impl ColumnStats {
    /// A value that no value of the file exceeds.
    pub fn upper_bound(&self) -> Option<Scalar> {
        match self.max.as_ref()? {
            Scalar::TimestampMicros(micros) => Some(Scalar::TimestampMicros(
                micros.saturating_add(TIMESTAMP_SLACK_MICROS),
            )),
            max => Some(max.clone()),
        }
    }
}

/// Statistics of one data file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Physical rows, deleted ones included.
    pub num_records: Option<u64>,
    /// Leaf columns by their path of names; arrays and maps are leaves with a null count only.
    pub columns: BTreeMap<Vec<String>, ColumnStats>,
    /// Whether the bounds are values that live rows hold. When false, a null count says
    /// something only if it is 0 or all rows.
    pub tight_bounds: bool,
}

impl Statistics {
    /// Those of a top level column.
    pub fn top(&self, field: &Field) -> Option<&ColumnStats> {
        self.columns.get(std::slice::from_ref(field.stored()))
    }
}

/// Longest bound of a string column, in code points.
pub const STRING_PREFIX: usize = 32;
/// Where the search for a cut of a string's maximum ends, in code points.
const STRING_PREFIX_MAX: usize = 64;

/// A lower bound of `text` of at most [`STRING_PREFIX`] code points.
pub fn truncated_min(text: &str) -> &str {
    match text.char_indices().nth(STRING_PREFIX) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// An upper bound of `text`, cut after [`STRING_PREFIX`] code points and closed by one that is
/// larger than the first that was cut; `None` when there is no such place.
pub fn truncated_max(text: &str) -> Option<String> {
    const TIE: char = '\u{7F}';
    if text.char_indices().nth(STRING_PREFIX).is_none() {
        return Some(text.to_owned());
    }
    // Nothing is larger than the largest code point, so the cut moves past those.
    let cut = text
        .char_indices()
        .enumerate()
        .skip(STRING_PREFIX)
        .find(|(_, (_, c))| *c < char::MAX);
    match cut {
        Some((place, (end, first_cut))) if place < STRING_PREFIX_MAX => {
            let closing = if first_cut < TIE { TIE } else { char::MAX };
            Some(format!("{}{closing}", text.get(..end)?))
        }
        Some(_) => None,
        // Only largest code points follow: the whole text is its own bound if short enough.
        None => (text.chars().count() <= STRING_PREFIX_MAX).then(|| text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
