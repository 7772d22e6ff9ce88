//! A data file whose footer has been read.
//!
//! Invariant: INT96 timestamps are read as microseconds, since as nanoseconds they overflow
//! outside the years 1677 to 2262.
//! Spec: Apache Parquet format, "File format"; Delta digest "Parquet types".

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::basic::Type as PhysicalType;
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::SchemaDescriptor;
use arrow_schema::{DataType as ArrowType, FieldRef, Fields, Schema as ArrowSchema, TimeUnit};
use object_store::path::Path;
use tarndb_storage::{ObjectId, Store, StoreError};

use super::reader::DataFileReader;
use crate::error::TableError;
use crate::parquet::damage::guarded;

pub(super) struct OpenedFile {
    pub(super) reader: DataFileReader,
    pub(super) metadata: ArrowReaderMetadata,
}

impl OpenedFile {
    /// Opens a file; `by_id`: for its field ids, which an embedded Arrow schema would hide.
    pub(super) async fn open(store: &Store, id: ObjectId, by_id: bool) -> Result<Self, TableError> {
        let key = id.key.clone();
        let failed = |error| read_error(&key, error);
        let mut reader = DataFileReader::new(store, id);
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(by_id);
        let loaded = guarded(ArrowReaderMetadata::load_async(
            &mut reader,
            options.clone(),
        ))
        .await;
        let mut metadata = loaded.map_err(failed)?;
        let descriptor = metadata.metadata().file_metadata().schema_descr();
        if let Some(schema) = without_int96(metadata.schema(), descriptor) {
            let options = options.with_schema(Arc::new(schema));
            let parquet = Arc::clone(metadata.metadata());
            metadata = ArrowReaderMetadata::try_new(parquet, options).map_err(failed)?;
        }
        Ok(Self { reader, metadata })
    }

    /// Physical rows of the file.
    pub(super) fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }
}

/// An error of the Parquet library, or the one of the store inside it.
pub(super) fn read_error(key: &Path, error: ParquetError) -> TableError {
    let path = || key.to_string();
    match error {
        ParquetError::External(source) => match source.downcast::<StoreError>() {
            Ok(error) => match *error {
                StoreError::NotFound { .. } => TableError::FileMissing { path: path() },
                error => error.into(),
            },
            Err(source) => TableError::DataFile {
                path: path(),
                source: ParquetError::External(source),
            },
        },
        source => TableError::DataFile {
            path: path(),
            source,
        },
    }
}

/// The file's Arrow schema with INT96 as microseconds; `None` when there is no INT96.
pub fn without_int96(schema: &ArrowSchema, descriptor: &SchemaDescriptor) -> Option<ArrowSchema> {
    let physical: Vec<_> = descriptor
        .columns()
        .iter()
        .map(|c| c.physical_type())
        .collect();
    if !physical.contains(&PhysicalType::INT96) {
        return None;
    }
    let mut leaves = physical.into_iter();
    let fields: Fields = schema
        .fields()
        .iter()
        .map(|field| field_without_int96(field, &mut leaves))
        .collect();
    Some(ArrowSchema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    ))
}

/// Walks leaves in the order of the Parquet schema.
fn field_without_int96(
    field: &FieldRef,
    leaves: &mut impl Iterator<Item = PhysicalType>,
) -> FieldRef {
    let data_type = match field.data_type() {
        ArrowType::Struct(fields) => ArrowType::Struct(
            fields
                .iter()
                .map(|f| field_without_int96(f, leaves))
                .collect(),
        ),
        ArrowType::List(element) => ArrowType::List(field_without_int96(element, leaves)),
        ArrowType::LargeList(element) => ArrowType::LargeList(field_without_int96(element, leaves)),
        ArrowType::FixedSizeList(element, size) => {
            ArrowType::FixedSizeList(field_without_int96(element, leaves), *size)
        }
        ArrowType::Map(entries, ordered) => {
            ArrowType::Map(field_without_int96(entries, leaves), *ordered)
        }
        leaf => match (leaves.next(), leaf) {
            (Some(PhysicalType::INT96), ArrowType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => return Arc::clone(field),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}
