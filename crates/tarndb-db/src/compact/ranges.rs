//! Ranges of the values of several columns, and keys that order rows by all of them alike.
//!
//! Invariant: a column is divided so that each range holds about as many of the sampled rows; how
//! good the sample is decides how narrow files are, and never which rows are in them. Memory is
//! bounded by the sample.
//! Does not: read files.

use std::sync::Arc;

use arrow::row::{RowConverter, SortField};
use arrow_array::builder::BinaryBuilder;
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::ArrowError;

use super::curve::hilbert;

/// Rows that are looked at to find the ranges.
const SAMPLES_MAX: u64 = 32 << 10;
/// Ranges of a column, as a power of two, at most.
const RANGE_BITS_MAX: u32 = 12;
/// Bytes of a value that count; longer ones with the same beginning count as equal.
const VALUE_BYTES_MAX: usize = 64;

/// Gives every value of a column as bytes that compare as the values do, NULL before all.
pub(super) fn each_value(
    values: &ArrayRef,
    mut take: impl FnMut(usize, &[u8]),
) -> Result<(), ArrowError> {
    let field = SortField::new(values.data_type().clone());
    let rows = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(values))?;
    for (at, row) in rows.iter().enumerate() {
        let bytes: &[u8] = row.as_ref();
        take(at, bytes.get(..VALUE_BYTES_MAX).unwrap_or(bytes));
    }
    Ok(())
}

/// Values of every so-manieth row.
#[derive(Debug)]
pub(super) struct Samples {
    columns: Vec<Vec<Box<[u8]>>>,
    /// One row of so many is taken.
    stride: u64,
    seen: u64,
}

impl Samples {
    /// Of `columns` columns, over about `rows` rows.
    pub(super) fn new(columns: usize, rows: u64) -> Self {
        Self {
            columns: vec![Vec::new(); columns],
            stride: rows.div_ceil(SAMPLES_MAX).max(1),
            seen: 0,
        }
    }

    /// Looks at the values of further rows, a column each.
    pub(super) fn note(&mut self, values: &[ArrayRef], rows: usize) -> Result<(), ArrowError> {
        let first = self.seen.next_multiple_of(self.stride) - self.seen;
        for (column, values) in self.columns.iter_mut().zip(values) {
            // Rows that nobody counted before must not make the sample grow.
            if column.len() as u64 >= 2 * SAMPLES_MAX {
                continue;
            }
            let stride = self.stride;
            each_value(values, |at, value| {
                let at = at as u64;
                if at >= first && (at - first).is_multiple_of(stride) {
                    column.push(value.into());
                }
            })?;
        }
        self.seen += rows as u64;
        Ok(())
    }

    /// The ranges.
    pub(super) fn ranges(self) -> Ranges {
        let columns = self.columns.len().max(1);
        let bits = (64 / u32::try_from(columns).unwrap_or(64)).min(RANGE_BITS_MAX);
        let columns = self.columns.into_iter().map(|mut values| {
            values.sort_unstable();
            divide(&values, 1 << bits)
        });
        Ranges {
            columns: columns.collect(),
            bits,
        }
    }
}

/// Values at which new ranges begin.
fn divide(sorted: &[Box<[u8]>], ranges: usize) -> Vec<Box<[u8]>> {
    let mut begins: Vec<Box<[u8]>> = Vec::new();
    for range in 1..ranges {
        let at = range * sorted.len() / ranges;
        let Some(value) = sorted.get(at) else {
            break;
        };
        let is_new = begins
            .last()
            .or(sorted.first())
            .is_some_and(|last| last < value);
        if is_new {
            begins.push(value.clone());
        }
    }
    begins
}

/// The ranges of several columns.
#[derive(Debug)]
pub(super) struct Ranges {
    columns: Vec<Vec<Box<[u8]>>>,
    bits: u32,
}

impl Ranges {
    /// A key for each row: where its ranges stand on the curve.
    pub(super) fn keys(&self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef, ArrowError> {
        let mut places = vec![0_u32; rows * self.columns.len()];
        let width = self.columns.len().max(1);
        for (column, (begins, values)) in self.columns.iter().zip(values).enumerate() {
            let spread = self.spread(begins.len());
            each_value(values, |at, value| {
                let range = begins.partition_point(|begin| begin.as_ref() <= value);
                if let Some(place) = places.get_mut(at * width + column) {
                    *place = u32::try_from(range).unwrap_or(u32::MAX) << spread;
                }
            })?;
        }
        let mut keys = BinaryBuilder::with_capacity(rows, rows * 8);
        for place in places.chunks(width) {
            keys.append_value(hilbert(place, self.bits).to_be_bytes());
        }
        Ok(Arc::new(keys.finish()))
    }

    /// By how many bits the few ranges of a column are moved up, so that they fill its side of
    /// the cube: else a column of few values would count for less than the others.
    fn spread(&self, begins: usize) -> u32 {
        let used = (begins as u64 + 1).next_power_of_two().trailing_zeros();
        self.bits.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    #[test]
    fn ranges_hold_equal_shares_and_equal_values_share_one() {
        let mut samples = Samples::new(2, 4096);
        let skewed = numbers((0..4096).map(|i| if i < 4000 { 7 } else { i }));
        samples.note(&[numbers(0..4096), skewed], 4096).unwrap();
        let ranges = samples.ranges();
        assert_eq!(ranges.bits, 12);
        assert_eq!(ranges.columns[0].len(), 4095);
        assert_eq!(ranges.columns[1].len(), 96);
    }

    #[test]
    fn the_sample_is_spread_over_all_rows_and_bounded() {
        let rows = 10 * SAMPLES_MAX;
        let mut samples = Samples::new(1, rows);
        for batch in 0..10 {
            let first = (batch * SAMPLES_MAX) as i64;
            let values = numbers(first..first + SAMPLES_MAX as i64);
            samples.note(&[values], SAMPLES_MAX as usize).unwrap();
        }
        assert_eq!(samples.columns[0].len() as u64, SAMPLES_MAX);
        let mut uncounted = Samples::new(1, 0);
        for _ in 0..4 {
            let values = numbers(0..SAMPLES_MAX as i64);
            uncounted.note(&[values], SAMPLES_MAX as usize).unwrap();
        }
        assert_eq!(uncounted.columns[0].len() as u64, 2 * SAMPLES_MAX);
    }

    #[test]
    fn rows_near_in_both_columns_have_near_keys() {
        let side = 64;
        let x = numbers((0..side * side).map(|i| i / side));
        let y = numbers((0..side * side).map(|i| i % side));
        let rows = (side * side) as usize;
        let mut samples = Samples::new(2, rows as u64);
        samples.note(&[x.clone(), y.clone()], rows).unwrap();
        let keys = samples
            .ranges()
            .keys(&[x.clone(), y.clone()], rows)
            .unwrap();
        let keys = keys.as_binary::<i32>();
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|row| keys.value(*row).to_vec());
        // Sixteen files: each a square of 16 by 16.
        let (x, y) = (x.as_primitive::<arrow_array::types::Int64Type>().clone(), y);
        let y = y.as_primitive::<arrow_array::types::Int64Type>();
        for file in order.chunks(rows / 16) {
            let width = |of: &Int64Array| {
                let values = file.iter().map(|row| of.value(*row));
                values.clone().max().unwrap() - values.min().unwrap() + 1
            };
            assert_eq!((width(&x), width(y)), (16, 16));
        }
    }

    #[test]
    fn nulls_come_first_and_long_values_count_by_their_beginning() {
        let long = "x".repeat(100);
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some(long.as_str()), None, Some("")]));
        let mut keys = Vec::new();
        each_value(&texts, |_, value| keys.push(value.to_vec())).unwrap();
        assert!(keys[1] < keys[2] && keys[2] < keys[0]);
        assert_eq!(keys[0].len(), VALUE_BYTES_MAX);
    }
}
