//! The order-independent checksum of the acceptance tables.
//!
//! Each cell becomes a text by its type; a column's checksum is the sum of the texts' hashes
//! modulo 2^64, a row's text joins its cells by U+001F.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use sha2::{Digest, Sha256};
use tarndb_table::{DataType, Field};

/// Counts, nulls and checksums of a table's rows.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Rows.
    pub(crate) rows: u64,
    /// Nulls and checksum per column.
    pub(crate) columns: Vec<(u64, u64)>,
    /// Checksum of whole rows.
    pub(crate) all: u64,
}

impl Sums {
    /// Adds the rows of a batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch, fields: &[Field]) {
        self.columns.resize(fields.len(), (0, 0));
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(fields.len());
            for (index, field) in fields.iter().enumerate() {
                let array = batch.column(index);
                let text = cell(array, row, &field.data_type);
                let (nulls, sum) = &mut self.columns[index];
                *nulls += u64::from(array.is_null(row));
                *sum = sum.wrapping_add(hash(&text));
                cells.push(text);
            }
            self.all = self.all.wrapping_add(hash(&cells.join("\u{1f}")));
            self.rows += 1;
        }
    }
}

fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    u64::from_be_bytes(digest[..8].try_into().unwrap())
}

fn cell(array: &ArrayRef, row: usize, data_type: &DataType) -> String {
    if array.is_null(row) {
        return "~".to_owned();
    }
    match data_type {
        DataType::Boolean => format!("b{}", u8::from(array.as_boolean().value(row))),
        DataType::Byte => format!("i{}", array.as_primitive::<Int8Type>().value(row)),
        DataType::Short => format!("i{}", array.as_primitive::<Int16Type>().value(row)),
        DataType::Integer => format!("i{}", array.as_primitive::<Int32Type>().value(row)),
        DataType::Long => format!("i{}", array.as_primitive::<Int64Type>().value(row)),
        DataType::Float => {
            let value = array.as_primitive::<Float32Type>().value(row);
            let bits = if value.is_nan() {
                0x7fc0_0000
            } else {
                (value + 0.0).to_bits()
            };
            format!("f{bits:08x}")
        }
        DataType::Double => {
            let value = array.as_primitive::<Float64Type>().value(row);
            let bits = if value.is_nan() {
                0x7ff8 << 48
            } else {
                (value + 0.0).to_bits()
            };
            format!("g{bits:016x}")
        }
        DataType::Decimal { scale, .. } => {
            format!(
                "d{}/{scale}",
                array.as_primitive::<Decimal128Type>().value(row)
            )
        }
        DataType::String => format!("s{}", array.as_string::<i32>().value(row)),
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x{hex}")
        }
        DataType::Date => format!("D{}", array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp => {
            format!(
                "T{}",
                array.as_primitive::<TimestampMicrosecondType>().value(row)
            )
        }
        DataType::TimestampNtz => {
            format!(
                "N{}",
                array.as_primitive::<TimestampMicrosecondType>().value(row)
            )
        }
        DataType::Void => "~".to_owned(),
        DataType::Variant => {
            let parts = ["metadata", "value"].map(|name| Field::new(name, DataType::Binary, false));
            cell(array, row, &DataType::Struct(parts.to_vec()))
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            let texts: Vec<String> = fields
                .iter()
                .zip(columns.columns())
                .map(|(field, array)| {
                    format!("{}={}", field.name, cell(array, row, &field.data_type))
                })
                .collect();
            format!("{{{}}}", texts.join(","))
        }
        DataType::Array { element, .. } => {
            let items = array.as_list::<i32>().value(row);
            let texts: Vec<String> = (0..items.len())
                .map(|row| cell(&items, row, element))
                .collect();
            format!("[{}]", texts.join(","))
        }
        DataType::Map { key, value, .. } => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let mut texts: Vec<String> = (0..entries.len())
                .map(|row| format!("{}:{}", cell(keys, row, key), cell(values, row, value)))
                .collect();
            texts.sort();
            format!("<{}>", texts.join(";"))
        }
    }
}

#[test]
fn vector_of_the_acceptance_set() {
    use arrow_array::Int32Array;
    use std::sync::Arc;
    let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    let mut sums = Sums::default();
    sums.add(&batch, &[Field::new("c", DataType::Integer, true)]);
    assert_eq!(format!("{:016x}", sums.all), "09b7c8b5250b22f3");
    assert_eq!(sums.columns, [(1, sums.all)]);
}
