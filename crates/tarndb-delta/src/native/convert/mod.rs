//! Converting: a folder of Parquet files becomes a table, where it lies.
//!
//! Invariant: no data file is moved, rewritten or read beyond its footer; the table appears at
//! once, by version 0 put if absent, so that whoever converts twice or at the same time gets one
//! table. Every file of the folder is understood, or nothing is converted.
//! Does not: infer the types of partition columns; these are given.
//! Spec: docs/format/native.md, "Converting".

mod error;
mod footer;
mod partition;

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::{ObjectInfo, Path, Store};
use tarndb_table::{DataFile, Deletion, Field, Schema, TableDefinition, uri_encode};
use tarndb_txn::Operation;
use tarndb_types::{TableId, TableVersion};

pub use error::ConvertError;

use self::footer::{Footer, read_footer};
use self::partition::partition_values;
use super::commit::Change;
use super::error::NativeError;
use super::table::NativeTable;

/// Footers read at the same time.
const FOOTERS_AHEAD: usize = 16;

/// What became of a folder.
#[derive(Debug)]
pub struct Converted {
    /// The table.
    pub table: NativeTable,
    /// Its files and rows, when this call converted it; `None` when it was a table already.
    pub made: Option<(usize, u64)>,
}

/// Makes the Parquet files below the root of `store` a Delta table. `partitions`: the columns that
/// the folders `column=value` name, from the outermost, with their types.
///
/// # Errors
/// `Convert` with the file that does not fit; nothing is written then.
///
/// # Cost
/// One LIST, one or two GETs per file, two PUTs.
pub async fn convert_to_delta(
    store: &Store,
    partitions: Vec<Field>,
) -> Result<Converted, NativeError> {
    match NativeTable::open(store).await {
        Ok(table) => return Ok(Converted { table, made: None }),
        Err(error) if error.is_no_table() => {}
        Err(error) => return Err(error),
    }
    let listing = store.list_after(&Path::default(), None).await?;
    let found: Vec<ObjectInfo> = listing.into_iter().filter(is_data).collect();
    if found.is_empty() {
        let location = store.url().to_owned();
        return Err(ConvertError::NoFiles { location }.into());
    }
    let mut values = Vec::with_capacity(found.len());
    for object in &found {
        values.push(partition_values(object.key.as_ref(), &partitions)?);
    }
    let footers: Vec<_> = found
        .iter()
        .map(|object| read_footer(store, object))
        .collect();
    let footers = futures::stream::iter(footers);
    let footers: Vec<Footer> = footers.buffered(FOOTERS_AHEAD).try_collect().await?;
    let schema = united(&found, &footers, &partitions)?;
    let rows = footers.iter().map(|footer| footer.rows).sum();
    let parts = found.into_iter().zip(footers).zip(values);
    let files: Vec<DataFile> = parts
        .map(|((object, footer), values)| data_file(&object, footer, values, &schema))
        .collect();
    let mut change = Change::new(Operation::CreateTable);
    let parameters = [
        ("convertedFrom", "parquet".to_owned()),
        ("numFiles", files.len().to_string()),
    ];
    let parameters = parameters.map(|(key, value)| (key.to_owned(), value));
    change.parameters = parameters.into_iter().collect();
    change.create = Some(definition(store, schema, &partitions));
    let made = Some((files.len(), rows));
    change.adds = files;
    let mut table = NativeTable::nothing(store);
    match table.create_by(change).await {
        Ok(commit) => {
            debug_assert_eq!(commit.version, TableVersion::ZERO);
            Ok(Converted { table, made })
        }
        // Another converted it at the same time.
        Err(NativeError::Exists { .. }) => Ok(Converted {
            table: NativeTable::open(store).await?,
            made: None,
        }),
        Err(error) => Err(error),
    }
}

fn definition(store: &Store, schema: Schema, partitions: &[Field]) -> TableDefinition {
    let url = store.url().trim_end_matches('/');
    TableDefinition {
        id: TableId(store.context().uuid()),
        name: url.rsplit('/').next().unwrap_or(url).to_owned(),
        schema,
        partition_columns: partitions.iter().map(|field| field.name.clone()).collect(),
        properties: BTreeMap::new(),
        description: None,
    }
}

/// Is the object a data file? Names that begin with `_` or `.` are hidden, but for folders of a
/// partition column.
fn is_data(object: &ObjectInfo) -> bool {
    let hidden = |segment: &str| segment.starts_with(['_', '.']) && !segment.contains('=');
    let key = object.key.as_ref();
    key.ends_with(".parquet") && !key.split('/').any(hidden)
}

/// The columns of all files, then those of the partitions that the files do not have.
fn united(
    found: &[ObjectInfo],
    footers: &[Footer],
    partitions: &[Field],
) -> Result<Schema, ConvertError> {
    let mut schema = Schema::new(Vec::new());
    for (object, footer) in found.iter().zip(footers) {
        for field in &footer.fields {
            let by_folder = partitions
                .iter()
                .any(|partition| partition.name.to_lowercase() == field.name.to_lowercase());
            // A column of the files that the folders name too: the folder's value counts.
            if by_folder {
                continue;
            }
            match schema.field(&field.name) {
                None => schema.fields.push(field.clone()),
                Some((_, known)) if known.data_type == field.data_type => {}
                Some((_, known)) => {
                    return Err(ConvertError::Types {
                        column: field.name.clone(),
                        file: object.key.to_string(),
                        one: field.data_type.to_string(),
                        other: known.data_type.to_string(),
                    });
                }
            }
        }
    }
    schema.fields.extend(partitions.iter().cloned());
    Ok(schema)
}

fn data_file(
    object: &ObjectInfo,
    footer: Footer,
    partition_values: BTreeMap<String, Option<String>>,
    schema: &Schema,
) -> DataFile {
    DataFile {
        path: object.key.to_string(),
        raw_path: uri_encode(object.key.as_ref()),
        partition_values,
        size_bytes: object.size_bytes,
        modification_time_ms: object.last_modified.0,
        stats: Some(std::sync::Arc::new(footer.statistics(schema))),
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    }
}
