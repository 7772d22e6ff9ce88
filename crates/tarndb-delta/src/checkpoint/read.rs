//! Reading checkpoints: classic, multi-part, V2 with sidecars.
//!
//! Invariant: batch by batch, and by windows of large row groups, so that memory follows the
//! state and not the file; unknown columns are ignored and missing ones are null.
//! Spec: Delta PROTOCOL, "Checkpoints", "Sidecar Files".

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use futures::TryStreamExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::schema::types::SchemaDescriptor;
use tarndb_storage::{ObjectInfo, Path, Store};
use tarndb_table::{guarded, without_int96};

use super::columns::Group;
use super::source::{CheckpointSource, failure};
use super::stats_parsed;
use super::window::{WINDOW_BYTES, wants_pages, windows};
use crate::action::{
    Action, Add, AppTxn, DeletionVector, DomainMetadata, Format, Metadata, Protocol, Remove,
    Sidecar, parse_commit,
};
use crate::error::DeltaError;
use crate::path;
use crate::replay::Replay;

const BATCH_ROWS: usize = 4096;

/// How much of a file is in memory at once.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Files up to here are fetched by one request.
    whole_bytes: u64,
    /// Row groups above are read in pieces of this size.
    window_bytes: u64,
}

const LIMITS: Limits = Limits {
    whole_bytes: 16 << 20,
    window_bytes: WINDOW_BYTES,
};

/// Reads the files of one checkpoint, and their sidecars, into `replay`.
///
/// `listing` gives the sizes of the files.
///
/// # Errors
/// `BadCheckpoint`, `LyingCheckpoint`, `MissingProtocol`, `MissingMetadata`.
///
/// # Cost
/// One GET per file of up to 16 MiB, else one per 8 MiB that are read; a HEAD more per sidecar.
pub(crate) async fn read_checkpoint(
    store: &Store,
    log_dir: &Path,
    files: &[Path],
    listing: &[ObjectInfo],
    replay: &mut Replay,
) -> Result<(), DeltaError> {
    let mut sidecars = Vec::new();
    let size = |file: &Path| {
        listing
            .iter()
            .find(|object| object.key == *file)
            .map(|object| object.size_bytes)
    };
    for file in files {
        read_file(store, (file, size(file)), LIMITS, replay, &mut sidecars).await?;
    }
    let named = files.first().map(ToString::to_string).unwrap_or_default();
    replay.check_complete(&named)?;
    for sidecar in sidecars {
        let key = sidecar_key(log_dir, &sidecar)?;
        let before = replay.checkpointed_so_far();
        read_file(store, (&key, size(&key)), LIMITS, replay, &mut Vec::new()).await?;
        replay.note_sidecar(sidecar, before);
    }
    replay.end_checkpoint(&named)
}

fn sidecar_key(log_dir: &Path, sidecar: &Sidecar) -> Result<Path, DeltaError> {
    let decoded = path::table_path(&sidecar.path)?;
    path::data_key(&log_dir.clone().join("_sidecars"), &decoded)
}

async fn read_file(
    store: &Store,
    (file, size_bytes): (&Path, Option<u64>),
    limits: Limits,
    replay: &mut Replay,
    sidecars: &mut Vec<Sidecar>,
) -> Result<(), DeltaError> {
    if file.as_ref().ends_with(".json") {
        let bytes = store.get_required(file).await?;
        return apply(parse_commit(&bytes, file.as_ref())?, replay, sidecars);
    }
    let fail = |error| failure(file, error);
    let mut source = CheckpointSource::open(store, file, size_bytes, limits.whole_bytes)
        .await
        .map_err(fail)?;
    let loaded = footer(&mut source, limits.window_bytes).await;
    let metadata = loaded.map_err(fail)?;
    for window in windows(metadata.metadata(), limits.window_bytes) {
        let builder =
            ParquetRecordBatchStreamBuilder::new_with_metadata(source.clone(), metadata.clone());
        let mask = projection(builder.parquet_schema());
        let mut builder = builder
            .with_batch_size(BATCH_ROWS)
            .with_projection(mask)
            .with_row_groups(vec![window.group]);
        if let Some(rows) = window.selection() {
            builder = builder.with_row_selection(rows);
        }
        let mut stream = builder.build().map_err(fail)?;
        while let Some(batch) = guarded(stream.try_next()).await.map_err(fail)? {
            let bad = |error: ArrowError| DeltaError::BadCheckpoint {
                file: file.to_string(),
                source: error.into(),
            };
            apply_batch(&batch, replay, sidecars, bad)?;
        }
    }
    Ok(())
}

fn apply_batch(
    batch: &RecordBatch,
    replay: &mut Replay,
    sidecars: &mut Vec<Sidecar>,
    bad: impl Fn(ArrowError) -> DeltaError,
) -> Result<(), DeltaError> {
    let (mut adds, others): (Vec<Action>, Vec<Action>) = batch_actions(batch)
        .map_err(&bad)?
        .into_iter()
        .partition(|action| matches!(action, Action::Add(_)));
    // The schema may come in this very batch.
    apply(others, replay, sidecars)?;
    if let Some(schema) = replay.schema() {
        stats_parsed::attach(batch, &schema, &mut adds).map_err(&bad)?;
    }
    apply(adds, replay, sidecars)
}

/// The footer; INT96 timestamps are read as microseconds, for far dates overflow in nanoseconds.
async fn footer(
    source: &mut CheckpointSource,
    window_bytes: u64,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let mut loaded = guarded(ArrowReaderMetadata::load_async(source, options.clone())).await?;
    if wants_pages(loaded.metadata(), window_bytes) {
        let options = options.with_offset_index_policy(PageIndexPolicy::Optional);
        loaded = guarded(ArrowReaderMetadata::load_async(source, options)).await?;
    }
    let descriptor = loaded.metadata().file_metadata().schema_descr();
    match without_int96(loaded.schema(), descriptor) {
        None => Ok(loaded),
        Some(schema) => {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            ArrowReaderMetadata::try_new(Arc::clone(loaded.metadata()), options)
        }
    }
}

fn apply(
    actions: Vec<Action>,
    replay: &mut Replay,
    sidecars: &mut Vec<Sidecar>,
) -> Result<(), DeltaError> {
    let mut rest = Vec::with_capacity(actions.len());
    for action in actions {
        match action {
            Action::Sidecar(sidecar) => sidecars.push(sidecar),
            Action::CommitInfo(_) => {}
            action => rest.push(action),
        }
    }
    replay.checkpointed(rest)
}

/// All columns that are understood; parsed statistics only where there is no text.
fn projection(schema: &SchemaDescriptor) -> ProjectionMask {
    let has_text = schema
        .columns()
        .iter()
        .any(|column| column.path().string() == "add.stats");
    let wanted = |path: &[String]| {
        let top = path.first().map_or("", String::as_str);
        let second = path.get(1).map_or("", String::as_str);
        match top {
            "add" => match second {
                "stats_parsed" => !has_text,
                "partitionValues_parsed" => false,
                _ => true,
            },
            "remove" | "metaData" | "protocol" | "txn" | "domainMetadata" | "sidecar" => true,
            _ => false,
        }
    };
    let columns = schema.columns().iter().enumerate();
    let leaves = columns.filter(|(_, column)| wanted(column.path().parts()));
    ProjectionMask::leaves(schema, leaves.map(|(index, _)| index))
}

/// The actions of one batch, in the order protocol, metaData, files, others.
fn batch_actions(batch: &RecordBatch) -> Result<Vec<Action>, ArrowError> {
    let group = |name: &str| Group::of(batch.column_by_name(name));
    let mut actions = Vec::new();
    protocols(&group("protocol"), batch.num_rows(), &mut actions)?;
    metadata(&group("metaData"), batch.num_rows(), &mut actions)?;
    adds(&group("add"), batch.num_rows(), &mut actions)?;
    removes(&group("remove"), batch.num_rows(), &mut actions)?;
    others(&group, batch.num_rows(), &mut actions)?;
    Ok(actions)
}

fn protocols(group: &Group, rows: usize, into: &mut Vec<Action>) -> Result<(), ArrowError> {
    if !group.exists() {
        return Ok(());
    }
    let (reader, writer) = (
        group.int("minReaderVersion")?,
        group.int("minWriterVersion")?,
    );
    let (readers, writers) = (
        group.texts("readerFeatures")?,
        group.texts("writerFeatures")?,
    );
    for row in 0..rows {
        let versions = (reader.get(row), writer.get(row));
        let (true, (Some(min_reader_version), Some(min_writer_version))) =
            (group.is_set(row), versions)
        else {
            continue;
        };
        // Some writers put empty lists where the version allows none.
        let list = |found: Option<Vec<String>>, wanted: bool| {
            found
                .filter(|list| wanted || !list.is_empty())
                .map(|list| list.into_iter().collect())
        };
        into.push(Action::Protocol(Protocol {
            min_reader_version,
            min_writer_version,
            reader_features: list(readers.list(row), min_reader_version == 3),
            writer_features: list(writers.list(row), min_writer_version == 7),
        }));
    }
    Ok(())
}

fn metadata(group: &Group, rows: usize, into: &mut Vec<Action>) -> Result<(), ArrowError> {
    if !group.exists() {
        return Ok(());
    }
    let (id, name, description) = (
        group.text("id")?,
        group.text("name")?,
        group.text("description")?,
    );
    let (schema, created) = (group.text("schemaString")?, group.long("createdTime")?);
    let (partitions, configuration) = (
        group.texts("partitionColumns")?,
        group.texts("configuration")?,
    );
    let format = group.group("format");
    let (provider, options) = (format.text("provider")?, format.texts("options")?);
    for row in 0..rows {
        let (true, Some(id), Some(schema_string)) =
            (group.is_set(row), id.get(row), schema.get(row))
        else {
            continue;
        };
        into.push(Action::Metadata(Box::new(Metadata {
            id,
            name: name.get(row),
            description: description.get(row),
            format: Format {
                provider: provider.get(row).unwrap_or_else(|| "parquet".to_owned()),
                options: options.plain_map(row),
            },
            schema_string,
            partition_columns: partitions.list(row).unwrap_or_default(),
            created_time: created.get(row),
            configuration: configuration.plain_map(row),
        })));
    }
    Ok(())
}

/// Reads the descriptor of a row's deletion vector.
struct Vectors {
    group: Group,
    storage: super::columns::Text,
    path: super::columns::Text,
    offset: super::columns::Int,
    size: super::columns::Int,
    cardinality: super::columns::Long,
}

impl Vectors {
    fn of(file: &Group) -> Result<Self, ArrowError> {
        let group = file.group("deletionVector");
        Ok(Self {
            storage: group.text("storageType")?,
            path: group.text("pathOrInlineDv")?,
            offset: group.int("offset")?,
            size: group.int("sizeInBytes")?,
            cardinality: group.long("cardinality")?,
            group,
        })
    }

    fn get(&self, row: usize) -> Option<DeletionVector> {
        if !self.group.is_set(row) {
            return None;
        }
        Some(DeletionVector {
            storage_type: self.storage.get(row)?,
            path_or_inline_dv: self.path.get(row)?,
            offset: self.offset.get(row),
            size_in_bytes: self.size.get(row)?,
            cardinality: self.cardinality.get(row)?,
        })
    }
}

fn adds(group: &Group, rows: usize, into: &mut Vec<Action>) -> Result<(), ArrowError> {
    if !group.exists() {
        return Ok(());
    }
    let (path, size) = (group.text("path")?, group.long("size")?);
    let (time, stats) = (group.long("modificationTime")?, group.text("stats")?);
    let (partitions, tags) = (group.texts("partitionValues")?, group.texts("tags")?);
    let (row_id, row_version) = (
        group.long("baseRowId")?,
        group.long("defaultRowCommitVersion")?,
    );
    let provider = group.text("clusteringProvider")?;
    let vectors = Vectors::of(group)?;
    for row in 0..rows {
        let Some(path) = path.get(row).filter(|_| group.is_set(row)) else {
            continue;
        };
        into.push(Action::Add(Box::new(Add {
            path,
            partition_values: partitions.map(row).unwrap_or_default(),
            size: size.get(row).unwrap_or(0),
            modification_time: time.get(row).unwrap_or(0),
            data_change: false,
            stats: stats.get(row),
            tags: tags.map(row),
            deletion_vector: vectors.get(row),
            base_row_id: row_id.get(row),
            default_row_commit_version: row_version.get(row),
            clustering_provider: provider.get(row),
        })));
    }
    Ok(())
}

fn removes(group: &Group, rows: usize, into: &mut Vec<Action>) -> Result<(), ArrowError> {
    if !group.exists() {
        return Ok(());
    }
    let (path, size) = (group.text("path")?, group.long("size")?);
    let (time, extended) = (
        group.long("deletionTimestamp")?,
        group.flag("extendedFileMetadata")?,
    );
    let partitions = group.texts("partitionValues")?;
    let (row_id, row_version) = (
        group.long("baseRowId")?,
        group.long("defaultRowCommitVersion")?,
    );
    let vectors = Vectors::of(group)?;
    for row in 0..rows {
        let Some(path) = path.get(row).filter(|_| group.is_set(row)) else {
            continue;
        };
        into.push(Action::Remove(Box::new(Remove {
            path,
            deletion_timestamp: time.get(row),
            data_change: false,
            extended_file_metadata: extended.get(row),
            partition_values: partitions.map(row),
            size: size.get(row),
            stats: None,
            tags: None,
            deletion_vector: vectors.get(row),
            base_row_id: row_id.get(row),
            default_row_commit_version: row_version.get(row),
        })));
    }
    Ok(())
}

fn others(
    group: &dyn Fn(&str) -> Group,
    rows: usize,
    into: &mut Vec<Action>,
) -> Result<(), ArrowError> {
    let txn = group("txn");
    let (app, version, updated) = (
        txn.text("appId")?,
        txn.long("version")?,
        txn.long("lastUpdated")?,
    );
    let domain = group("domainMetadata");
    let (name, configuration, removed) = (
        domain.text("domain")?,
        domain.text("configuration")?,
        domain.flag("removed")?,
    );
    let sidecar = group("sidecar");
    let (path, size, time) = (
        sidecar.text("path")?,
        sidecar.long("sizeInBytes")?,
        sidecar.long("modificationTime")?,
    );
    for row in 0..rows {
        if let (true, Some(app_id), Some(version)) =
            (txn.is_set(row), app.get(row), version.get(row))
        {
            into.push(Action::Txn(AppTxn {
                app_id,
                version,
                last_updated: updated.get(row),
            }));
        }
        if let Some(domain) = name.get(row).filter(|_| domain.is_set(row)) {
            into.push(Action::Domain(DomainMetadata {
                domain,
                configuration: configuration.get(row).unwrap_or_default(),
                removed: removed.get(row).unwrap_or(false),
            }));
        }
        if let Some(path) = path.get(row).filter(|_| sidecar.is_set(row)) {
            into.push(Action::Sidecar(Sidecar {
                path,
                size_in_bytes: size.get(row).unwrap_or(0),
                modification_time: time.get(row).unwrap_or(0),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
