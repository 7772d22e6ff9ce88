//! From a file's columns to the table's.
//!
//! Invariant: the assembled batch has the asked columns in order, whatever the file holds.
//! Spec: Delta PROTOCOL, "Data Files"; "Partition Columns".

use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use object_store::path::Path;

use super::open::OpenedFile;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::partition::{is_partition_column, parse_partition_value, scalar_to_array};
use crate::schema::conform::{Source, cast_array};
use crate::schema::mapping::has_field_ids;
use crate::schema::{DataType, Field, Schema, fold_name};
use crate::stats::Scalar;

/// Where a column of the table comes from.
enum Origin {
    /// The file's column at this position of its schema.
    File(usize),
    /// The log.
    Partition(Option<Scalar>),
    /// Nowhere: NULL.
    Missing,
}

pub(super) struct Columns {
    key: Path,
    columns: Vec<(Field, Origin)>,
    /// Positions in the file of the columns that are read, ascending: the batch's columns.
    read: Vec<usize>,
    arrow: SchemaRef,
}

impl Columns {
    pub(super) fn new(
        opened: &OpenedFile,
        key: &Path,
        file: &DataFile,
        schema: &Schema,
        partition_columns: &[String],
    ) -> Result<Self, TableError> {
        if schema.is_by_id() && !has_field_ids(opened.metadata.schema().fields()) {
            return Err(TableError::NoFieldIds {
                path: key.to_string(),
            });
        }
        let mut columns = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            let origin = if is_partition_column(partition_columns, &field.name) {
                Origin::Partition(partition_value(file, field)?)
            } else if field.data_type == DataType::Void {
                Origin::Missing
            } else {
                let place = field.place_in(opened.metadata.schema().fields());
                place.map_or(Origin::Missing, Origin::File)
            };
            columns.push((field.clone(), origin));
        }
        let from_file = |(_, origin): &(Field, Origin)| match origin {
            Origin::File(position) => Some(*position),
            _ => None,
        };
        let mut read: Vec<usize> = columns.iter().filter_map(from_file).collect();
        read.sort_unstable();
        read.dedup();
        let fields: Vec<_> = columns
            .iter()
            .map(|(field, origin)| {
                let has_values = matches!(origin, Origin::File(_) | Origin::Partition(Some(_)));
                field
                    .to_arrow()
                    .with_nullable(field.nullable || !has_values)
            })
            .collect();
        let arrow = Arc::new(ArrowSchema::new(fields));
        Ok(Self {
            key: key.clone(),
            columns,
            read,
            arrow,
        })
    }

    /// Is any column in the file?
    pub(super) fn reads_any(&self) -> bool {
        !self.read.is_empty()
    }

    pub(super) fn projection(&self, opened: &OpenedFile) -> ProjectionMask {
        let descriptor = opened.metadata.metadata().file_metadata().schema_descr();
        ProjectionMask::roots(descriptor, self.read.iter().copied())
    }

    /// The asked columns of a batch of the read ones.
    pub(super) fn assemble(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let rows = batch.num_rows();
        let columns = self.columns.iter().map(|(field, origin)| match origin {
            Origin::File(position) => self.file_column(batch, *position, field),
            Origin::Partition(value) => scalar_to_array(value.as_ref(), &field.data_type, rows),
            Origin::Missing => Ok(new_null_array(&field.data_type.to_arrow(), rows)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.arrow), columns, &options).map_err(
            |source| TableError::Arrow {
                context: "assembling a batch",
                source,
            },
        )
    }

    fn file_column(
        &self,
        batch: &RecordBatch,
        position: usize,
        field: &Field,
    ) -> Result<ArrayRef, TableError> {
        let lost = TableError::Internal {
            context: "finding a column of a data file",
        };
        let Ok(column) = self.read.binary_search(&position) else {
            return Err(lost);
        };
        let Some(array) = batch.columns().get(column) else {
            return Err(lost);
        };
        let array = cast_array(array, &field.data_type, &field.name, Source::File)
            .map_err(|error| self.in_file(error))?;
        let nulls = if field.nullable {
            None
        } else {
            array.logical_nulls()
        };
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(_) => Err(self.null_in_not_null(&field.name)),
            None => Ok(array),
        }
    }

    fn null_in_not_null(&self, column: &str) -> TableError {
        TableError::Corrupt {
            path: self.key.to_string(),
            version: None,
            reason: format!("the data file holds NULL in a NOT NULL column: column={column}"),
        }
    }

    /// The same error, said of a file instead of a caller's batch.
    fn in_file(&self, error: TableError) -> TableError {
        let path = self.key.to_string();
        match error {
            TableError::TypeMismatch {
                column,
                data_type,
                given,
            } => TableError::DataFileType {
                path,
                column,
                data_type,
                stored: given,
            },
            TableError::ValueOutOfRange {
                column,
                data_type,
                value,
            } => TableError::DataFileValue {
                path,
                column,
                data_type,
                value,
            },
            TableError::NullInNotNull { column, .. } => self.null_in_not_null(&column),
            other => other,
        }
    }
}

/// The log's value of a partition column, whose key may differ in case from the schema's.
fn partition_value(file: &DataFile, field: &Field) -> Result<Option<Scalar>, TableError> {
    let values = &file.partition_values;
    let text = values.get(field.stored_name()).or_else(|| {
        let folded = fold_name(field.stored_name());
        values
            .iter()
            .find(|(name, _)| fold_name(name) == folded)
            .map(|(_, text)| text)
    });
    parse_partition_value(text.and_then(|text| text.as_deref()), &field.data_type)
}
