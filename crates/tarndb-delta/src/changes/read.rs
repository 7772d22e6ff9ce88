//! The rows of a change feed.
//!
//! Invariant: every row carries its version; a row that a vector deleted before the commit is no
//! part of it.
//! Spec: Delta PROTOCOL, "Change Data Feed" (reader).

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tarndb_storage::{Path, Store};
use tarndb_table::{
    DataFile, DataType, Deletion, Field, FileToRead, ReadOptions, RowSet, Scalar, Schema,
    TableError, Wanted, scalar_to_array,
};

use super::plan::{ChangeFeed, ChangeKind, ChangeRead, VersionChanges};
use super::{CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION};
use crate::effects::deleted_rows;

type Batches = BoxStream<'static, Result<RecordBatch, TableError>>;

/// Columns of a feed: those of the table, then what happened, the version and its time.
pub fn change_schema(schema: &Schema) -> Schema {
    let mut fields: Vec<Field> = schema.fields.clone();
    fields.push(Field::new(CHANGE_TYPE, DataType::String, false));
    fields.push(Field::new(COMMIT_VERSION, DataType::Long, false));
    fields.push(Field::new(COMMIT_TIMESTAMP, DataType::Timestamp, false));
    Schema::new(fields)
}

impl ChangeFeed {
    /// The rows, versions in order, as batches of [`change_schema`] (a column that may be
    /// missing in files is nullable in them).
    ///
    /// # Errors
    /// As `tarndb_table::read_file`; `FileMissing` for files that were vacuumed.
    ///
    /// # Cost
    /// As reading the files, one after the other.
    pub fn batches(self, store: Store, location: Path) -> Batches {
        let source = Arc::new(Source {
            store,
            location,
            schema: self.schema,
            partition_columns: self.partition_columns,
        });
        let reads = self.versions.into_iter().flat_map(|version| {
            let VersionChanges {
                version,
                timestamp_ms,
                reads,
            } = version;
            let stamped = move |read| (version, timestamp_ms, read);
            reads.into_iter().map(stamped)
        });
        let batches = futures::stream::iter(reads).then(move |(version, timestamp_ms, read)| {
            let source = Arc::clone(&source);
            async move { source.batches(read, version, timestamp_ms).await }
        });
        batches.try_flatten().boxed()
    }
}

/// Where the files of a feed are.
struct Source {
    store: Store,
    location: Path,
    schema: Arc<Schema>,
    partition_columns: Vec<String>,
}

impl Source {
    async fn batches(
        &self,
        read: ChangeRead,
        version: u64,
        timestamp_ms: i64,
    ) -> Result<Batches, TableError> {
        let stamp = move |kind| Stamp {
            kind,
            version,
            timestamp_ms,
        };
        match read {
            ChangeRead::Changes(file) => {
                let mut schema = self.schema.as_ref().clone();
                schema
                    .fields
                    .push(Field::new(CHANGE_TYPE, DataType::String, false));
                self.rows(&file, &schema, Wanted::All, stamp(None)).await
            }
            ChangeRead::Whole(kind, file) => {
                let deleted = self.deleted(&file.deletion).await?;
                let wanted = Wanted::AllBut(&deleted);
                self.rows(&file, &self.schema, wanted, stamp(Some(kind)))
                    .await
            }
            ChangeRead::Difference { file, before } => {
                let (before, after) = (
                    self.deleted(&before).await?,
                    self.deleted(&file.deletion).await?,
                );
                let deleted = after.as_ref() - before.as_ref();
                let inserted = before.as_ref() - after.as_ref();
                let mut parts = Vec::new();
                for (kind, rows) in [
                    (ChangeKind::Delete, deleted),
                    (ChangeKind::Insert, inserted),
                ] {
                    if !rows.is_empty() {
                        let wanted = Wanted::Only(&rows);
                        let stamp = stamp(Some(kind));
                        parts.push(self.rows(&file, &self.schema, wanted, stamp).await?);
                    }
                }
                Ok(futures::stream::iter(parts).flatten().boxed())
            }
        }
    }

    async fn deleted(&self, deletion: &Deletion) -> Result<Arc<RowSet>, TableError> {
        Ok(deleted_rows(&self.store, &self.location, deletion).await?)
    }

    async fn rows(
        &self,
        file: &DataFile,
        schema: &Schema,
        wanted: Wanted<'_>,
        stamp: Stamp,
    ) -> Result<Batches, TableError> {
        let opened = FileToRead::open(
            &self.store,
            &self.location,
            file,
            schema,
            &self.partition_columns,
        )
        .await?;
        let selected = opened.select(wanted, ReadOptions::default())?;
        let rows = selected.into_rows()?;
        Ok(rows.map(move |rows| stamp.onto(&rows?.batch)).boxed())
    }
}

/// What is said of all rows of a read.
#[derive(Clone, Copy)]
struct Stamp {
    /// `None`: the rows say it themselves, in their last column.
    kind: Option<ChangeKind>,
    version: u64,
    timestamp_ms: i64,
}

impl Stamp {
    fn onto(self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let rows = batch.num_rows();
        let mut fields: Vec<_> = batch.schema_ref().fields().iter().cloned().collect();
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        let version = i64::try_from(self.version).unwrap_or(i64::MAX);
        let time = Scalar::TimestampMicros(self.timestamp_ms.saturating_mul(1000));
        let kind = self
            .kind
            .map(|kind| Scalar::String(kind.as_str().to_owned()));
        let stamps = [
            (CHANGE_TYPE, DataType::String, kind),
            (COMMIT_VERSION, DataType::Long, Some(Scalar::Long(version))),
            (COMMIT_TIMESTAMP, DataType::Timestamp, Some(time)),
        ];
        for (name, data_type, value) in stamps {
            if let Some(value) = value {
                columns.push(scalar_to_array(Some(&value), &data_type, rows)?);
                fields.push(Arc::new(Field::new(name, data_type, false).to_arrow()));
            }
        }
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|source| {
            TableError::Arrow {
                context: "assembling a batch of changes",
                source,
            }
        })
    }
}
