//! The rows of the stream: eight columns, made from the row's number.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use tarndb_table::{DataType, Field, Schema};

use crate::error::BenchError;

const KINDS: [&str; 5] = ["view", "click", "cart", "order", "return"];
const DEVICES: i64 = 1000;

pub(super) fn schema() -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Schema::new(vec![
        field("id", DataType::Long),
        field("ts", DataType::Long),
        field("device", DataType::Integer),
        field("kind", DataType::String),
        field("price", DataType::Double),
        field("quantity", DataType::Long),
        field("score", DataType::Double),
        field("note", DataType::String),
    ])
}

/// The rows with these numbers.
pub(super) fn batch(numbers: Range<i64>) -> Result<RecordBatch, BenchError> {
    let kind = |n: i64| {
        let index = usize::try_from(n).unwrap_or(0) % KINDS.len();
        KINDS.get(index).copied()
    };
    let device = |n: i64| i32::try_from(n * 7919 % DEVICES).unwrap_or(0);
    let all = || numbers.clone();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(all())),
        Arc::new(Int64Array::from_iter_values(
            all().map(|n| 1_764_500_000_000 + n * 3),
        )),
        Arc::new(Int32Array::from_iter_values(all().map(device))),
        Arc::new(all().map(kind).collect::<StringArray>()),
        Arc::new(Float64Array::from_iter_values(
            all().map(|n| (n % 4000) as f64 / 4.0),
        )),
        Arc::new(Int64Array::from_iter_values(all().map(|n| n % 7))),
        Arc::new(Float64Array::from_iter_values(
            all().map(|n| (n % 1009) as f64 / 1009.0),
        )),
        Arc::new(StringArray::from_iter_values(
            all().map(|n| format!("note {}", n % 97)),
        )),
    ];
    Ok(RecordBatch::try_new(schema().to_arrow(), columns)?)
}

/// Rows, sum of ids, of quantities and of prices; per kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums(BTreeMap<String, (u64, i64, i64, f64)>);

impl Sums {
    /// Adds the rows of a batch.
    pub(super) fn add(&mut self, batch: &RecordBatch) {
        let (Some(id), Some(kind), Some(price), Some(quantity)) = (
            batch.column_by_name("id"),
            batch.column_by_name("kind"),
            batch.column_by_name("price"),
            batch.column_by_name("quantity"),
        ) else {
            return;
        };
        let ids = id.as_primitive::<Int64Type>().iter();
        let kinds = kind.as_string::<i32>().iter();
        let prices = price.as_primitive::<Float64Type>().iter();
        let quantities = quantity.as_primitive::<Int64Type>().iter();
        for (((id, kind), price), quantity) in ids.zip(kinds).zip(prices).zip(quantities) {
            let kind = kind.unwrap_or_default();
            let sums = match self.0.get_mut(kind) {
                Some(sums) => sums,
                None => self.0.entry(kind.to_owned()).or_default(),
            };
            sums.0 += 1;
            sums.1 += id.unwrap_or_default();
            sums.2 += quantity.unwrap_or_default();
            sums.3 += price.unwrap_or_default();
        }
    }

    /// Adds what another task has summed.
    pub(super) fn merge(mut self, other: Self) -> Self {
        for (kind, sums) in other.0 {
            let own = self.0.entry(kind).or_default();
            own.0 += sums.0;
            own.1 += sums.1;
            own.2 += sums.2;
            own.3 += sums.3;
        }
        self
    }

    /// The sums of the first `rows` rows: prices are multiples of a quarter, so that the order
    /// of adding does not matter.
    pub(super) fn of_first(rows: i64) -> Result<Self, BenchError> {
        let mut sums = Self::default();
        let mut next = 0;
        while next < rows {
            let end = rows.min(next + 10_000);
            sums.add(&batch(next..end)?);
            next = end;
        }
        Ok(sums)
    }
}
