//! What a Parquet footer says of a file: rows, columns, statistics.
//!
//! Invariant: a statistic is taken only where it bounds every value of the file in the order of
//! the table's type; everything else is left out. Types that Delta readers would not read from
//! the file as it is are refused.
//! Spec: Delta PROTOCOL, "Per-file Statistics", "Data types"; Parquet, "ColumnOrder".

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use parquet::arrow::async_reader::MetadataFetch;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics as Stated;
use parquet::schema::types::ColumnDescriptor;
use tarndb_storage::{ObjectInfo, Store};
use tarndb_table::stats::{truncated_max, truncated_min};
use tarndb_table::{
    ColumnStats, DataType, Field, Scalar, Schema, Statistics, check_footer, guarded,
};

use super::error::ConvertError;
use crate::native::error::NativeError;

/// Bytes at the end of a file that usually hold its whole footer.
const FOOTER_BYTES: usize = 64 << 10;

/// A file's footer.
pub(super) struct Footer {
    pub(super) rows: u64,
    pub(super) fields: Vec<Field>,
    columns: BTreeMap<Vec<String>, ColumnStats>,
}

impl Footer {
    /// Its statistics, of the columns that the table has.
    pub(super) fn statistics(self, schema: &Schema) -> Statistics {
        let known = |path: &[String]| {
            path.first()
                .is_some_and(|name| schema.field(name).is_some())
        };
        // Keyed by the names of the table's schema.
        let spelled = |mut path: Vec<String>| {
            if let Some(first) = path.first_mut()
                && let Some((_, field)) = schema.field(first)
            {
                first.clone_from(&field.name);
            }
            path
        };
        let columns = self.columns.into_iter().filter(|(path, _)| known(path));
        Statistics {
            num_records: Some(self.rows),
            columns: columns
                .map(|(path, stats)| (spelled(path), stats))
                .collect(),
            tight_bounds: true,
        }
    }
}

/// The file for the Parquet library.
struct Fetch<'a> {
    store: &'a Store,
    object: &'a ObjectInfo,
}

impl MetadataFetch for Fetch<'_> {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let read = self.store.get_range(&self.object.key, range);
        read.map_err(|error| ParquetError::External(Box::new(error)))
            .boxed()
    }
}

/// Reads the footer of a file.
///
/// # Cost
/// One GET, two for a very large footer.
pub(super) async fn read_footer(store: &Store, object: &ObjectInfo) -> Result<Footer, NativeError> {
    let file = object.key.to_string();
    let fetch = Fetch { store, object };
    let reader = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER_BYTES));
    let metadata = guarded(reader.load_and_finish(fetch, object.size_bytes)).await;
    let metadata = metadata.and_then(|metadata| {
        check_footer(&metadata, object.size_bytes)?;
        Ok(metadata)
    });
    let metadata = metadata.map_err(|source| match source {
        ParquetError::External(source) => match source.downcast::<tarndb_storage::StoreError>() {
            Ok(error) => NativeError::from(*error),
            Err(source) => {
                let source = ParquetError::External(source);
                let file = file.clone();
                ConvertError::Footer { file, source }.into()
            }
        },
        source => {
            let file = file.clone();
            ConvertError::Footer { file, source }.into()
        }
    })?;
    Ok(of_metadata(&metadata, &file)?)
}

fn of_metadata(metadata: &ParquetMetaData, file: &str) -> Result<Footer, ConvertError> {
    let described = metadata.file_metadata().schema_descr();
    let unsupported = |column: String, data_type: String| ConvertError::Unsupported {
        file: file.to_owned(),
        column,
        data_type,
    };
    let mut old_timestamps = 0;
    for leaf in described.columns() {
        if let Some(data_type) = unreadable(leaf) {
            return Err(unsupported(leaf.path().string(), data_type));
        }
        old_timestamps += usize::from(leaf.physical_type() == Physical::INT96);
    }
    // What a writer says of Arrow types does not count: other readers do not see it.
    let schema = parquet_to_arrow_schema(described, None).map_err(|source| {
        let file = file.to_owned();
        ConvertError::Footer { file, source }
    })?;
    let nanoseconds = match old_timestamps {
        0 => tarndb_table::schema::arrow::Nanoseconds::Refuse,
        _ => tarndb_table::schema::arrow::Nanoseconds::CheckEachValue,
    };
    let schema = Schema::from_arrow_with(&schema, nanoseconds)
        .map_err(|error| unsupported(String::new(), error.to_string()))?;
    let fields: Vec<Field> = schema
        .fields
        .iter()
        .map(|f| loose(f, old_timestamps > 0))
        .collect();
    let mut columns = BTreeMap::new();
    for (place, leaf) in described.columns().iter().enumerate() {
        let path = leaf.path().parts().to_vec();
        if leaf.max_rep_level() == 0
            && let Some(data_type) = type_at(&fields, &path)
        {
            columns.insert(path, column_stats(metadata, place, leaf, data_type));
        }
    }
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    Ok(Footer {
        rows,
        fields,
        columns,
    })
}

/// The type of a leaf that Delta readers would not read as it is.
fn unreadable(leaf: &ColumnDescriptor) -> Option<String> {
    use parquet::basic::ConvertedType;
    let logical = leaf.logical_type_ref();
    let converted = leaf.converted_type();
    if matches!(
        converted,
        ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    ) {
        return Some(format!("{converted:?}"));
    }
    match (leaf.physical_type(), logical) {
        (_, Some(LogicalType::Integer(integer))) if !integer.is_signed => {
            Some(format!("{logical:?}"))
        }
        (_, Some(LogicalType::Timestamp(timestamp))) if timestamp.unit == TimeUnit::NANOS => {
            Some(format!("{logical:?}"))
        }
        (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Decimal(_))) => None,
        (Physical::FIXED_LEN_BYTE_ARRAY, _) if leaf.type_precision() <= 0 => {
            Some(format!("FIXED_LEN_BYTE_ARRAY, {logical:?}"))
        }
        _ => None,
    }
}

/// The field with all of it nullable, and timestamps of the old 96-bit form as instants.
fn loose(field: &Field, old_timestamps: bool) -> Field {
    Field {
        nullable: true,
        data_type: loose_type(&field.data_type, old_timestamps),
        ..field.clone()
    }
}

fn loose_type(data_type: &DataType, old_timestamps: bool) -> DataType {
    match data_type {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|f| loose(f, old_timestamps)).collect())
        }
        DataType::Array { element, .. } => DataType::Array {
            element: Box::new(loose_type(element, old_timestamps)),
            contains_null: true,
        },
        DataType::Map { key, value, .. } => DataType::Map {
            key: Box::new(loose_type(key, old_timestamps)),
            value: Box::new(loose_type(value, old_timestamps)),
            value_contains_null: true,
        },
        // A file with the old form has no other timestamps without a zone, as far as is known.
        DataType::TimestampNtz if old_timestamps => DataType::Timestamp,
        other => other.clone(),
    }
}

/// The type of the field at `path`, through structs only.
fn type_at<'a>(fields: &'a [Field], path: &[String]) -> Option<&'a DataType> {
    let (first, rest) = path.split_first()?;
    let field = fields.iter().find(|field| field.name == *first)?;
    match (&field.data_type, rest) {
        (data_type, []) => Some(data_type),
        (DataType::Struct(fields), rest) => type_at(fields, rest),
        _ => None,
    }
}

/// Statistics of one leaf over all row groups; what one of them does not state is not known.
fn column_stats(
    metadata: &ParquetMetaData,
    place: usize,
    leaf: &ColumnDescriptor,
    data_type: &DataType,
) -> ColumnStats {
    let mut nulls = Some(0_u64);
    let mut bounds: Option<(Scalar, Scalar)> = None;
    let mut bounded = true;
    for group in metadata.row_groups() {
        let stated = group
            .columns()
            .get(place)
            .and_then(|column| column.statistics());
        let group_nulls = stated.and_then(Stated::null_count_opt);
        nulls = nulls
            .zip(group_nulls)
            .map(|(sum, more)| sum.saturating_add(more));
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        if group_nulls == Some(rows) {
            continue;
        }
        match stated.and_then(|stated| range(stated, leaf, data_type)) {
            Some((min, max)) => {
                bounds = Some(match bounds {
                    None => (min, max),
                    Some((low, high)) => (
                        if min < low { min } else { low },
                        if max > high { max } else { high },
                    ),
                });
            }
            None => bounded = false,
        }
    }
    let (min, max) = bounds.filter(|_| bounded).unzip();
    ColumnStats {
        min,
        max,
        null_count: nulls,
    }
}

/// Bounds of one row group in the table's type, where they are to be trusted.
fn range(
    stated: &Stated,
    leaf: &ColumnDescriptor,
    data_type: &DataType,
) -> Option<(Scalar, Scalar)> {
    match stated {
        Stated::Int32(stated) => {
            let scalar = |value: i32| match data_type {
                DataType::Byte | DataType::Short | DataType::Integer => {
                    Some(Scalar::Long(value.into()))
                }
                DataType::Date => Some(Scalar::Date(value)),
                DataType::Decimal { scale, .. } => Some(Scalar::Decimal(value.into(), *scale)),
                _ => None,
            };
            Some((scalar(*stated.min_opt()?)?, scalar(*stated.max_opt()?)?))
        }
        Stated::Int64(stated) => {
            let scalar = |value: i64| match data_type {
                DataType::Long => Some(Scalar::Long(value)),
                DataType::Decimal { scale, .. } => Some(Scalar::Decimal(value.into(), *scale)),
                DataType::Timestamp | DataType::TimestampNtz if is_micros(leaf) => {
                    Some(Scalar::TimestampMicros(value))
                }
                _ => None,
            };
            Some((scalar(*stated.min_opt()?)?, scalar(*stated.max_opt()?)?))
        }
        // The old form of these bounds has no order that is known.
        Stated::ByteArray(bytes)
            if *data_type == DataType::String && !stated.is_min_max_deprecated() =>
        {
            let min = std::str::from_utf8(bytes.min_opt()?.data()).ok()?;
            let max = std::str::from_utf8(bytes.max_opt()?.data()).ok()?;
            let min = truncated_min(min).to_owned();
            Some((Scalar::String(min), Scalar::String(truncated_max(max)?)))
        }
        _ => None,
    }
}

fn is_micros(leaf: &ColumnDescriptor) -> bool {
    match leaf.logical_type_ref() {
        Some(LogicalType::Timestamp(timestamp)) => timestamp.unit == TimeUnit::MICROS,
        _ => leaf.converted_type() == parquet::basic::ConvertedType::TIMESTAMP_MICROS,
    }
}
