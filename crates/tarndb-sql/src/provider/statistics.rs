//! What the log says of the columns of a scan, as the engine plans with it.
//!
//! Invariant: what is called exact is what reading the files would find, for the engine answers
//! `count`, `min` and `max` from it; all other bounds contain every live value of their column.
//! Numbers of rows are exact also beside deletion vectors, whose cardinality is checked whenever
//! one is read. Floats have no bounds here: files with NaN and -0.0 would need care.
//! Does not: trust bounds of files that others wrote to be values that the files hold.
//! Spec: Delta PROTOCOL, "Per-file Statistics"; docs/performance.md, "Queries".

use std::cmp::Ordering;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use tarndb_table::stats::STRING_PREFIX;
use tarndb_table::{DataFile, DataType, Field, Scalar};

use crate::provider::float_bounds::has_floats;
use crate::provider::kept::Numbered;
use crate::provider::prune::{partition_value, typed};

/// Cells (files times columns) of which the statistics of a whole scan are computed at most.
const CELLS_OF_SCAN: usize = 1 << 20;
/// Cells that are given to the engine file by file at most: each takes some 350 bytes.
const CELLS_OF_FILES: usize = 1 << 15;

/// A column of a scan.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its place among the columns of the scan.
    pub(super) index: usize,
    pub(super) field: Field,
    pub(super) is_partition: bool,
}

/// How well something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Not,
    /// Bounds contain all values, counts are estimates.
    Roughly,
    Exactly,
}

/// What is known of a column in some files.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    /// The least and the largest value; `None` when all are NULL, or when they are not known.
    bounds: Option<(Scalar, Scalar)>,
    bounds_known: Known,
    nulls: u64,
    nulls_known: Known,
}

impl Column {
    const UNKNOWN: Self = Self {
        bounds: None,
        bounds_known: Known::Not,
        nulls: 0,
        nulls_known: Known::Not,
    };

    /// Of a column without any row.
    const EMPTY: Self = Self {
        bounds: None,
        bounds_known: Known::Exactly,
        nulls: 0,
        nulls_known: Known::Exactly,
    };

    fn of(file: &DataFile, place: &Place, own: bool) -> Self {
        let live = live_rows(file);
        if live == Some(0) {
            return Self::EMPTY;
        }
        match place.is_partition {
            true => Self::of_partition(file, &place.field, live),
            false => Self::of_stored(file, &place.field, own).unwrap_or(Self::UNKNOWN),
        }
    }

    /// Every row of a file has the file's value.
    fn of_partition(file: &DataFile, field: &Field, live: Option<u64>) -> Self {
        let known = match live {
            Some(_) => Known::Exactly,
            None => Known::Roughly,
        };
        match partition_value(file, field) {
            None => Self::UNKNOWN,
            Some(None) => Self {
                nulls: live.unwrap_or(0),
                nulls_known: live.map_or(Known::Not, |_| known),
                bounds_known: known,
                bounds: None,
            },
            Some(Some(_)) if has_floats(&field.data_type.to_arrow()) => Self {
                nulls_known: known,
                ..Self::UNKNOWN
            },
            Some(Some(value)) => Self {
                bounds: Some((value.clone(), value)),
                bounds_known: known,
                nulls: 0,
                nulls_known: known,
            },
        }
    }

    fn of_stored(file: &DataFile, field: &Field, own: bool) -> Option<Self> {
        let stats = file.stats.as_ref()?;
        let column = stats.top(field)?;
        let (rows, live) = (stats.num_records?, live_rows(file)?);
        // Written by us, all rows live: what the bounds say is what the rows say.
        let is_whole =
            own && file.beside.is_none() && file.deletion.is_none() && stats.tight_bounds;
        let mut known = Self::UNKNOWN;
        if let Some(nulls) = column.null_count {
            let (nulls, all_or_none) = match nulls {
                0 => (0, true),
                _ if nulls >= rows => (live, true),
                _ => (nulls.min(live), false),
            };
            known.nulls = nulls;
            known.nulls_known = match is_whole || (own && all_or_none) {
                true => Known::Exactly,
                false => Known::Roughly,
            };
            if nulls == live && known.nulls_known == Known::Exactly {
                known.bounds_known = Known::Exactly;
                return Some(known);
            }
        }
        if !has_floats(&field.data_type.to_arrow())
            && let (Some(min), Some(max)) = (column.min.clone(), column.upper_bound())
        {
            let exact = is_whole && is_exact(&min, &field.data_type);
            known.bounds_known = match exact && is_exact(&max, &field.data_type) {
                true => Known::Exactly,
                false => Known::Roughly,
            };
            known.bounds = Some((min, max));
        }
        Some(known)
    }

    /// What is known of the files of both.
    fn and(self, other: Self) -> Self {
        let nulls_known = self.nulls_known.min(other.nulls_known);
        let nulls = self.nulls.saturating_add(other.nulls);
        let mut bounds_known = self.bounds_known.min(other.bounds_known);
        let bounds = match (self.bounds, other.bounds) {
            (Some(a), Some(b)) => match (a.0.partial_cmp(&b.0), a.1.partial_cmp(&b.1)) {
                (Some(low), Some(high)) => Some((
                    if low == Ordering::Greater { b.0 } else { a.0 },
                    if high == Ordering::Less { b.1 } else { a.1 },
                )),
                _ => {
                    bounds_known = Known::Not;
                    None
                }
            },
            (one, None) | (None, one) => one,
        };
        Self {
            bounds,
            bounds_known,
            nulls,
            nulls_known,
        }
    }

    /// For the planner: estimates are called estimates.
    fn planned(&self, data_type: &DataType) -> ColumnStatistics {
        let value = |scalar| match (scalar_value(scalar, data_type), self.bounds_known) {
            (Some(value), Known::Exactly) => Precision::Exact(value),
            (Some(value), Known::Roughly) => Precision::Inexact(value),
            _ => Precision::Absent,
        };
        ColumnStatistics {
            min_value: value(self.bounds.as_ref().map(|bounds| &bounds.0)),
            max_value: value(self.bounds.as_ref().map(|bounds| &bounds.1)),
            null_count: count(self.nulls, self.nulls_known),
            ..ColumnStatistics::new_unknown()
        }
    }

    /// For leaving out whole files while a scan runs, where bounds need only contain all values;
    /// the engine looks at nothing else than what is called exact.
    fn pruning(&self, data_type: &DataType) -> ColumnStatistics {
        let value = |scalar| match scalar_value(scalar, data_type) {
            Some(value) if self.bounds_known >= Known::Roughly => Precision::Exact(value),
            _ => Precision::Absent,
        };
        ColumnStatistics {
            min_value: value(self.bounds.as_ref().map(|bounds| &bounds.0)),
            max_value: value(self.bounds.as_ref().map(|bounds| &bounds.1)),
            null_count: match self.nulls_known {
                Known::Exactly => count(self.nulls, Known::Exactly),
                _ => Precision::Absent,
            },
            ..ColumnStatistics::new_unknown()
        }
    }
}

/// Whether a bound in the log is a value of the file: not cut, and not of a type whose text form
/// in the log says less than the value.
fn is_exact(bound: &Scalar, data_type: &DataType) -> bool {
    match (bound, data_type) {
        (Scalar::Long(_), DataType::Byte | DataType::Short)
        | (Scalar::Long(_), DataType::Integer | DataType::Long)
        | (Scalar::Date(_), DataType::Date)
        | (Scalar::Decimal(..), DataType::Decimal { .. }) => true,
        (Scalar::String(text), DataType::String) => text.chars().count() < STRING_PREFIX,
        _ => false,
    }
}

fn scalar_value(scalar: Option<&Scalar>, data_type: &DataType) -> Option<ScalarValue> {
    let value = typed(Some(scalar?), data_type)?;
    (!value.is_null()).then_some(value)
}

fn count(count: u64, known: Known) -> Precision<usize> {
    match (usize::try_from(count), known) {
        (Ok(count), Known::Exactly) => Precision::Exact(count),
        (Ok(count), Known::Roughly) => Precision::Inexact(count),
        _ => Precision::Absent,
    }
}

/// Rows of a file that are not deleted; `None` when the log does not say, or cannot be right.
fn live_rows(file: &DataFile) -> Option<u64> {
    file.num_records()?.checked_sub(file.deletion.cardinality())
}

/// Number of live rows of a file; exact without deletions, and with our own.
fn rows_of(file: &DataFile, own: bool) -> (u64, Known) {
    match live_rows(file) {
        None => (0, Known::Not),
        Some(rows) if own || file.deletion.is_none() => (rows, Known::Exactly),
        Some(rows) => (rows, Known::Roughly),
    }
}

/// Number of live rows of files.
pub(super) fn row_count<F: AsRef<DataFile>>(
    mut files: impl Iterator<Item = F>,
    own: bool,
) -> Precision<usize> {
    let counted = files.try_fold((0_u64, Known::Exactly), |(rows, known), file| {
        let (more, how) = rows_of(file.as_ref(), own);
        Some((rows.checked_add(more)?, known.min(how)))
    });
    counted.map_or(Precision::Absent, |(rows, known)| count(rows, known))
}

/// Statistics of a scan of `width` columns over the files `kept`, of the columns `places` that it
/// gives out.
pub(super) fn of_scan(
    mut unknown: Statistics,
    places: &[Place],
    kept: &[Numbered],
    own: bool,
) -> Statistics {
    unknown.num_rows = row_count(kept.iter().map(|(_, file)| file), own);
    let bytes = kept.iter().map(|(_, file)| file.size_bytes);
    let bytes = usize::try_from(bytes.fold(0, u64::saturating_add));
    unknown.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
    if kept.len().saturating_mul(places.len()) > CELLS_OF_SCAN {
        return unknown;
    }
    for place in places {
        let columns = kept.iter().map(|(_, file)| Column::of(file, place, own));
        let all = columns.fold(Column::EMPTY, Column::and);
        if let Some(column) = unknown.column_statistics.get_mut(place.index) {
            *column = all.planned(&place.field.data_type);
        }
    }
    unknown
}

/// Statistics of one file, for its columns that are not partition columns; `None` when they would
/// take too much memory for all `files` files.
pub(super) fn of_file(
    width: usize,
    places: &[Place],
    file: &DataFile,
    files: usize,
    own: bool,
) -> Option<Statistics> {
    if files.saturating_mul(width) > CELLS_OF_FILES {
        return None;
    }
    let (rows, known) = rows_of(file, own);
    let mut statistics = Statistics {
        num_rows: count(rows, known),
        total_byte_size: Precision::Absent,
        column_statistics: vec![ColumnStatistics::new_unknown(); width],
    };
    for place in places.iter().filter(|place| !place.is_partition) {
        if let Some(column) = statistics.column_statistics.get_mut(place.index) {
            *column = Column::of(file, place, own).pruning(&place.field.data_type);
        }
    }
    Some(statistics)
}

#[cfg(test)]
mod tests;
