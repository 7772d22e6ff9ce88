//! Writing a checkpoint and the hint to it.
//!
//! Invariant: only a version whose commit is published is checkpointed (the caller sees to
//! it); the hint is written after the checkpoint. Actions go out in batches, so that memory
//! follows the compressed file.
//! Spec: Delta PROTOCOL, "Checkpoints", "Last Checkpoint File".

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use object_store::buffered::BufWriter;
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tarndb_storage::{Path, Store, StoreError};
use tarndb_table::{CheckpointInfo, DataFile, Deletion, TableState};

use super::batch::batch;
use super::retention::{tombstone_cutoff, txn_cutoff};
use super::schema::checkpoint_schema;
use super::stats_form::StatsForm;
use super::v2;
use crate::action::{Action, Add, DomainMetadata};
use crate::error::DeltaError;
use crate::state::DeltaState;
use crate::{dv, path, stats_json};

const BATCH_ROWS: usize = 4096;
const ROW_GROUP_ROWS: usize = 64 * 1024;

/// Writes the checkpoint of `state` and `_last_checkpoint`.
///
/// # Errors
/// `WriteCheckpoint`, `Store`.
///
/// # Cost
/// Two PUTs (a multi-part upload for a file above the writer's buffer); by the V2 specification
/// one more for each new sidecar.
pub(crate) async fn write_checkpoint(
    store: &Store,
    location: &Path,
    state: &TableState,
) -> Result<CheckpointInfo, DeltaError> {
    let log = path::log_dir(location);
    tracing::debug!(target: "tarndb::step", table = %location, "checkpoint.begin");
    let key = log
        .clone()
        .join(format!("{:020}.checkpoint.parquet", state.version.0));
    let (written, files) = if v2::is_asked_for(state)? {
        v2::write(store, &log, &key, state, v2::SIDECAR_FILES).await?
    } else {
        let actions = checkpoint_actions(state, store.context().now().0)?;
        let stats = StatsForm::of(state);
        let schema = checkpoint_schema(&stats);
        let written = write_actions(store, &key, (&schema, &stats), actions).await?;
        (written, vec![key])
    };
    let Written {
        actions,
        adds,
        size_bytes,
    } = written;
    let hint = format!(
        "{{\"version\":{},\"size\":{actions},\"sizeInBytes\":{size_bytes},\"numOfAddFiles\":{adds}}}",
        state.version.0
    );
    store
        .put(&log.join("_last_checkpoint"), hint.into_bytes().into())
        .await?;
    Ok(CheckpointInfo {
        version: state.version,
        files,
        actions,
        size_bytes,
    })
}

/// What one file, or all files of a checkpoint, hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) actions: u64,
    pub(super) adds: u64,
    pub(super) size_bytes: u64,
}

/// Writes actions as one Parquet file.
pub(super) async fn write_actions(
    store: &Store,
    key: &Path,
    (schema, stats): (&SchemaRef, &StatsForm),
    actions: impl Iterator<Item = Action>,
) -> Result<Written, DeltaError> {
    let fail = |error: ParquetError| failure(key, error);
    let mut writer = writer(store, key, schema).map_err(fail)?;
    let mut written = Written::default();
    let mut actions = actions.peekable();
    while actions.peek().is_some() {
        let chunk: Vec<Action> = actions.by_ref().take(BATCH_ROWS).collect();
        written.actions += u64::try_from(chunk.len()).unwrap_or(0);
        let is_add = |action: &Action| u64::from(matches!(action, Action::Add(_)));
        written.adds += chunk.iter().map(is_add).sum::<u64>();
        let rows = batch(&chunk, schema, stats).map_err(|error| fail(error.into()))?;
        writer.write(&rows).await.map_err(fail)?;
    }
    writer.finish().await.map_err(fail)?;
    written.size_bytes = u64::try_from(writer.bytes_written()).unwrap_or(0);
    Ok(written)
}

/// Writes one batch as one Parquet file, and returns its size in bytes.
pub(super) async fn write_batch(
    store: &Store,
    key: &Path,
    rows: &RecordBatch,
) -> Result<u64, DeltaError> {
    let fail = |error: ParquetError| failure(key, error);
    let mut writer = writer(store, key, rows.schema_ref()).map_err(fail)?;
    writer.write(rows).await.map_err(fail)?;
    writer.finish().await.map_err(fail)?;
    Ok(u64::try_from(writer.bytes_written()).unwrap_or(0))
}

fn writer(
    store: &Store,
    key: &Path,
    schema: &SchemaRef,
) -> Result<AsyncArrowWriter<BufWriter>, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let sink = BufWriter::new(store.objects(), key.clone());
    AsyncArrowWriter::try_new_with_options(sink, Arc::clone(schema), options)
}

/// What a failure to write is: mostly one of the store, which the Parquet library wraps twice.
fn failure(key: &Path, error: ParquetError) -> DeltaError {
    let wrap = |source| DeltaError::WriteCheckpoint {
        file: key.to_string(),
        source,
    };
    let source = match error {
        ParquetError::External(source) => source,
        other => return wrap(other.into()),
    };
    let source = match source.downcast::<std::io::Error>() {
        Ok(error)
            if error
                .get_ref()
                .is_some_and(|inner| inner.is::<object_store::Error>()) =>
        {
            match error.into_inner().map(|inner| inner.downcast()) {
                Some(Ok(error)) => {
                    return StoreError::from_objects("write a checkpoint", key, *error).into();
                }
                Some(Err(inner)) => inner,
                None => "the store failed".into(),
            }
        }
        Ok(error) => error,
        Err(other) => other,
    };
    wrap(source)
}

/// The reconciled actions of a state, less what has expired at `now_ms`.
pub(crate) fn checkpoint_actions(
    state: &TableState,
    now_ms: i64,
) -> Result<impl Iterator<Item = Action> + Send + '_, DeltaError> {
    let adds = state
        .files
        .without_statistics()
        .map(move |file| Action::Add(Box::new(live_add(&file, state, false))));
    Ok(other_actions(state, now_ms)?
        .chain(adds)
        .chain(removes(state, now_ms)?))
}

/// All but the actions about files.
pub(super) fn other_actions(
    state: &TableState,
    now_ms: i64,
) -> Result<impl Iterator<Item = Action> + Send + '_, DeltaError> {
    let delta = DeltaState::of(state)?;
    let txns_after = txn_cutoff(&state.properties, now_ms);
    let head = [
        Action::Protocol(delta.protocol.as_ref().clone()),
        Action::Metadata(Box::new(delta.metadata.as_ref().clone())),
    ];
    let txns = delta.txns.values().filter(move |txn| {
        txns_after.is_none_or(|cutoff| txn.last_updated.is_some_and(|updated| updated > cutoff))
    });
    let domains = delta.domains.iter().map(|(domain, configuration)| {
        Action::Domain(DomainMetadata {
            domain: domain.clone(),
            configuration: configuration.clone(),
            removed: false,
        })
    });
    Ok(head
        .into_iter()
        .chain(txns.cloned().map(Action::Txn))
        .chain(domains))
}

/// The tombstones that have not expired.
pub(super) fn removes(
    state: &TableState,
    now_ms: i64,
) -> Result<impl Iterator<Item = Action> + Send + '_, DeltaError> {
    let delta = DeltaState::of(state)?;
    let tombstones_after = tombstone_cutoff(&state.properties, now_ms);
    Ok(delta
        .tombstones
        .values()
        .filter(move |remove| remove.deletion_timestamp.unwrap_or(0) > tombstones_after)
        .map(|remove| {
            let mut remove = remove.as_ref().clone();
            remove.data_change = false;
            Action::Remove(Box::new(remove))
        }))
}

/// The `add` of a live file.
pub(crate) fn live_add(file: &DataFile, state: &TableState, data_change: bool) -> Add {
    let stats = file.raw_stats.clone().or_else(|| {
        file.stats
            .as_ref()
            .map(|statistics| stats_json::write(statistics, &state.schema))
    });
    Add {
        path: file.raw_path.clone(),
        partition_values: file.partition_values.clone(),
        size: i64::try_from(file.size_bytes).unwrap_or(i64::MAX),
        modification_time: file.modification_time_ms,
        data_change,
        stats,
        tags: tags(file),
        deletion_vector: match &file.deletion {
            Deletion::Stored(descriptor) => Some(dv::from_descriptor(descriptor)),
            Deletion::None | Deletion::Loaded(_) => None,
        },
        base_row_id: file.base_row_id,
        default_row_commit_version: file.default_row_commit_version,
        clustering_provider: file.clustering_provider.clone(),
    }
}

/// The tags of a file; `None` when there are none.
pub(crate) fn tags(file: &DataFile) -> Option<std::collections::BTreeMap<String, Option<String>>> {
    let tags = file
        .tags
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    (!file.tags.is_empty()).then(|| tags.collect())
}
