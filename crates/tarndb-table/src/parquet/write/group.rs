//! Dividing a batch among partitions.
//!
//! Invariant: the pieces hold each row once, in the order of the batch within a piece.
//! Spec: Delta PROTOCOL, "Partition Value Serialization".

use std::collections::HashMap;

use ::arrow::compute::take_record_batch;
use ::arrow::row::{RowConverter, Rows, SortField};
use arrow_array::{Array, RecordBatch, UInt32Array};

use crate::error::TableError;
use crate::partition::encode_partition_value;
use crate::schema::Field;

/// The log's text of each partition column, in partitioning order.
pub(super) type PartitionKey = Vec<Option<String>>;

/// A partition column.
#[derive(Debug)]
pub(super) struct PartitionColumn {
    /// Its position in the table's schema.
    pub(super) position: usize,
    pub(super) field: Field,
}

/// The rows of one partition.
pub(super) struct Piece {
    pub(super) key: PartitionKey,
    /// All columns of the batch.
    pub(super) rows: RecordBatch,
    pub(super) empty_as_null: bool,
}

pub(super) fn partition_pieces(
    batch: &RecordBatch,
    columns: &[PartitionColumn],
) -> Result<Vec<Piece>, TableError> {
    let failed = |source| TableError::Arrow {
        context: "grouping rows by partition",
        source,
    };
    let rows = partition_rows(batch, columns).map_err(failed)?;
    let groups = groups(&rows);
    let mut pieces = Vec::with_capacity(groups.len());
    for group in groups {
        let (key, empty_as_null) = partition_key(batch, columns, group.first)?;
        let whole = group
            .runs
            .iter()
            .map(|(start, end)| end - start)
            .sum::<usize>();
        let rows = match group.runs.as_slice() {
            // A slice keeps the whole batch in memory, which only a large share of it is worth.
            [(start, end)] if whole * 2 >= batch.num_rows() => batch.slice(*start, end - start),
            runs => {
                let indices = runs.iter().flat_map(|(start, end)| *start..*end);
                let indices: Vec<u32> = indices.filter_map(|row| row.try_into().ok()).collect();
                take_record_batch(batch, &UInt32Array::from(indices)).map_err(failed)?
            }
        };
        pieces.push(Piece {
            key,
            rows,
            empty_as_null,
        });
    }
    Ok(pieces)
}

fn partition_rows(
    batch: &RecordBatch,
    columns: &[PartitionColumn],
) -> Result<Rows, arrow_schema::ArrowError> {
    let arrays: Vec<_> = columns
        .iter()
        .filter_map(|column| batch.columns().get(column.position).cloned())
        .collect();
    let fields = arrays
        .iter()
        .map(|array| SortField::new(array.data_type().clone()))
        .collect();
    RowConverter::new(fields)?.convert_columns(&arrays)
}

/// Rows of one partition as runs of neighbours, half-open.
struct Group {
    first: usize,
    runs: Vec<(usize, usize)>,
}

/// Groups in order of first appearance. Costs one look-up per run of equal neighbours, so that
/// sorted input is cheap.
fn groups(rows: &Rows) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let mut start = 0;
    while start < rows.num_rows() {
        let row = rows.row(start);
        let mut end = start + 1;
        while end < rows.num_rows() && rows.row(end) == row {
            end += 1;
        }
        let index = *known.entry(row.data()).or_insert_with(|| {
            groups.push(Group {
                first: start,
                runs: Vec::new(),
            });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(index) {
            group.runs.push((start, end));
        }
        start = end;
    }
    groups
}

/// The key of a row, and whether an empty value in it became NULL.
fn partition_key(
    batch: &RecordBatch,
    columns: &[PartitionColumn],
    row: usize,
) -> Result<(PartitionKey, bool), TableError> {
    let mut empty_as_null = false;
    let mut key = Vec::with_capacity(columns.len());
    for PartitionColumn { position, field } in columns {
        let missing = || TableError::NoSuchColumn {
            column: field.name.clone(),
        };
        let array = batch.columns().get(*position).ok_or_else(missing)?;
        let text = encode_partition_value(array, row, &field.data_type)?;
        if text.is_none() {
            let column = field.name.clone();
            match (field.nullable, array.is_null(row)) {
                (false, true) => return Err(TableError::NullInNotNull { column, row }),
                (false, false) => return Err(TableError::EmptyPartitionValue { column }),
                (true, is_null) => empty_as_null |= !is_null,
            }
        }
        key.push(text);
    }
    Ok((key, empty_as_null))
}
