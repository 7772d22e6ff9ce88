//! `StatsCollector`: the statistics of a file, batch by batch as it is written.
//!
//! Invariant: only the first leaf columns in schema order are indexed; a leaf below a NULL
//! parent counts as NULL.
//! Spec: Delta PROTOCOL, "Per-file Statistics".

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ::arrow::buffer::NullBuffer;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};

use super::{ColumnStats, Indexed, Scalar, Statistics, truncated_max, truncated_min};
use crate::schema::{DataType, Field, Schema};

/// One leaf column under way.
#[derive(Debug)]
struct Leaf {
    path: Vec<String>,
    /// Position of the column in the batch, then of each struct field.
    positions: Vec<usize>,
    data_type: DataType,
    min: Option<Scalar>,
    max: Option<Scalar>,
    null_count: u64,
    /// A NaN was seen: the order of NaN differs between engines, so no bound can be trusted.
    unordered: bool,
}

/// Collects the statistics of one file.
#[derive(Debug)]
pub struct StatsCollector {
    leaves: Vec<Leaf>,
    rows: u64,
}

impl StatsCollector {
    /// A collector for files with the columns of `schema` (partition columns left out), for the
    /// leaves that are `indexed`.
    pub fn new(schema: &Schema, indexed: &Indexed) -> Self {
        let mut leaves = Vec::new();
        for (position, field) in schema.fields.iter().enumerate() {
            collect_leaves(field, (&[], &[]), &[position], &mut leaves);
        }
        let leaves = leaves.into_iter().enumerate();
        let kept = leaves.filter(|(at, (leaf, shown))| indexed.includes(*at, shown, &leaf.path));
        Self {
            leaves: kept.map(|(_, (leaf, _))| leaf).collect(),
            rows: 0,
        }
    }

    /// Adds a batch whose columns are those of the schema, in its Arrow types. Columns that are
    /// not there are left out.
    pub fn update(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        for leaf in &mut self.leaves {
            if let Some((array, nulls)) = leaf_array(batch, &leaf.positions) {
                leaf.update(&array, nulls.as_ref());
            }
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The statistics.
    pub fn finish(self) -> Statistics {
        let finish = |leaf: Leaf| (leaf.path.clone(), leaf.finish());
        let columns: BTreeMap<_, _> = self.leaves.into_iter().map(finish).collect();
        Statistics {
            num_records: Some(self.rows),
            columns,
            tight_bounds: true,
        }
    }
}

/// Leaves with the names that the table shows; `parents` are the stored and the shown ones.
fn collect_leaves(
    field: &Field,
    parents: (&[String], &[String]),
    positions: &[usize],
    out: &mut Vec<(Leaf, Vec<String>)>,
) {
    let (mut path, mut shown) = (parents.0.to_vec(), parents.1.to_vec());
    path.push(field.stored_name().to_owned());
    shown.push(field.name.clone());
    match &field.data_type {
        DataType::Struct(fields) => {
            for (position, inner) in fields.iter().enumerate() {
                let mut positions = positions.to_vec();
                positions.push(position);
                collect_leaves(inner, (&path, &shown), &positions, out);
            }
        }
        DataType::Void => {}
        data_type => {
            let leaf = Leaf {
                path,
                positions: positions.to_vec(),
                data_type: data_type.clone(),
                min: None,
                max: None,
                null_count: 0,
                unordered: false,
            };
            out.push((leaf, shown));
        }
    }
}

/// The leaf's array, and where it or a parent is NULL.
fn leaf_array(batch: &RecordBatch, positions: &[usize]) -> Option<(ArrayRef, Option<NullBuffer>)> {
    let (first, rest) = positions.split_first()?;
    let mut array = batch.columns().get(*first)?.clone();
    let mut nulls = array.logical_nulls();
    for position in rest {
        let inner = array.as_struct_opt()?.columns().get(*position)?.clone();
        nulls = NullBuffer::union(nulls.as_ref(), inner.logical_nulls().as_ref());
        array = inner;
    }
    Some((array, nulls))
}

impl Leaf {
    fn update(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>) {
        let null_count = nulls.map_or(0, NullBuffer::null_count);
        self.null_count += null_count as u64;
        if null_count == array.len() {
            return;
        }
        match self.data_type {
            DataType::Byte => self.update_integers::<Int8Type>(array, nulls),
            DataType::Short => self.update_integers::<Int16Type>(array, nulls),
            DataType::Integer => self.update_integers::<Int32Type>(array, nulls),
            DataType::Long => self.update_integers::<Int64Type>(array, nulls),
            DataType::Float => self.update_floats::<Float32Type>(array, nulls),
            DataType::Double => self.update_floats::<Float64Type>(array, nulls),
            DataType::Decimal { scale, .. } => {
                self.update_primitive::<Decimal128Type>(array, nulls, |value| {
                    Scalar::Decimal(value, scale)
                });
            }
            DataType::Date => {
                self.update_primitive::<Date32Type>(array, nulls, Scalar::Date);
            }
            DataType::Timestamp | DataType::TimestampNtz => {
                let scalar = Scalar::TimestampMicros;
                self.update_primitive::<TimestampMicrosecondType>(array, nulls, scalar);
            }
            DataType::String => self.update_strings(array, nulls),
            _ => {}
        }
    }

    fn update_integers<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
    ) where
        T::Native: Into<i64> + Ord,
    {
        self.update_primitive::<T>(array, nulls, |value| Scalar::Long(value.into()));
    }

    fn update_primitive<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        scalar: impl Fn(T::Native) -> Scalar,
    ) where
        T::Native: Ord,
    {
        let Some(array) = array.as_primitive_opt::<T>() else {
            return;
        };
        let bounds = extremes(array.values(), nulls, Ord::cmp);
        if let Some((min, max)) = bounds {
            self.widen(scalar(min), scalar(max));
        }
    }

    fn update_floats<T: ArrowPrimitiveType>(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>)
    where
        T::Native: Into<f64>,
    {
        let Some(array) = array.as_primitive_opt::<T>() else {
            return;
        };
        let values: Vec<f64> = array.values().iter().map(|value| (*value).into()).collect();
        let nan =
            |(row, value): (usize, &f64)| value.is_nan() && nulls.is_none_or(|n| n.is_valid(row));
        self.unordered |= values.iter().enumerate().any(nan);
        // The total order keeps -0.0 below 0.0, as the engines' comparison kernels do.
        if let Some((min, max)) = extremes(&values, nulls, f64::total_cmp) {
            self.widen(Scalar::Double(min), Scalar::Double(max));
        }
    }

    fn update_strings(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>) {
        let Some(array) = array.as_string_opt::<i32>() else {
            return;
        };
        let valid = || (0..array.len()).filter(|row| nulls.is_none_or(|n| n.is_valid(*row)));
        let values = || valid().map(|row| array.value(row));
        if let (Some(min), Some(max)) = (values().min(), values().max()) {
            // Cutting keeps the order, so the smallest prefix is the prefix of the smallest.
            let min = Scalar::String(truncated_min(min).to_owned());
            self.widen(min, Scalar::String(max.to_owned()));
        }
    }

    fn widen(&mut self, min: Scalar, max: Scalar) {
        if self.min.as_ref().is_none_or(|current| below(&min, current)) {
            self.min = Some(min);
        }
        if self.max.as_ref().is_none_or(|current| below(current, &max)) {
            self.max = Some(max);
        }
    }

    fn finish(self) -> ColumnStats {
        let (min, max) = match self.unordered {
            true => (None, None),
            false => (self.min, self.max),
        };
        let finite = |bound: &Scalar| !matches!(bound, Scalar::Double(v) if !v.is_finite());
        let max = match max {
            Some(Scalar::String(text)) => truncated_max(&text).map(Scalar::String),
            other => other,
        };
        ColumnStats {
            min: min.filter(finite),
            max: max.filter(finite),
            null_count: Some(self.null_count),
        }
    }
}

/// Total order within a kind.
fn below(a: &Scalar, b: &Scalar) -> bool {
    match (a, b) {
        (Scalar::Double(a), Scalar::Double(b)) => a.total_cmp(b) == Ordering::Less,
        _ => a < b,
    }
}

/// Smallest and largest of the valid values.
fn extremes<N: Copy>(
    values: &[N],
    nulls: Option<&NullBuffer>,
    compare: impl Fn(&N, &N) -> Ordering,
) -> Option<(N, N)> {
    let mut bounds: Option<(N, N)> = None;
    let mut include = |value: N| {
        bounds = Some(match bounds {
            None => (value, value),
            Some((min, max)) => (
                if compare(&value, &min) == Ordering::Less {
                    value
                } else {
                    min
                },
                if compare(&value, &max) == Ordering::Greater {
                    value
                } else {
                    max
                },
            ),
        });
    };
    match nulls {
        None => values.iter().copied().for_each(&mut include),
        Some(nulls) => {
            for row in nulls.valid_indices() {
                if let Some(value) = values.get(row) {
                    include(*value);
                }
            }
        }
    }
    bounds
}
