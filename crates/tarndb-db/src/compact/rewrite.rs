//! Writing files anew: the live rows of some files into others, in the same order.
//!
//! Invariant: each live row of the inputs is in the outputs once, and the row map says where.
//! Memory is bounded by the writer's bound and a few small inputs read ahead.
//! Does not commit; what it wrote is garbage until somebody does.
//! Spec: docs/conflicts.md, "Row maps".

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use tarndb_table::parquet::read::{LiveRows, ReadOptions, read_file_rows};
use tarndb_table::{
    DataFile, Deletion, RowIdColumns, Schema, TableError, TableState, TableWriter, WriteOptions,
    Written,
};
use tarndb_txn::{RowMap, Source};
use tarndb_types::{DbVersion, TableId};

use super::cluster::Order;
use super::plan::Bin;
use super::row_map;
use super::trail::Trail;
use crate::catalog::TableEntry;
use crate::error::DbError;
use crate::record::RowMapNote;
use crate::snapshot::Snapshot;

/// Inputs up to this size are read whole, several at a time.
const SMALL_BYTES: u64 = 1 << 20;
const READ_AHEAD: usize = 8;

pub(super) type Rows = BoxStream<'static, Result<LiveRows, TableError>>;

/// Files written anew, not yet committed. Whoever commits them, they are judged from the
/// version at which they were read.
#[derive(Clone, Debug)]
pub struct Rewritten {
    pub(crate) table: TableId,
    pub(crate) base: DbVersion,
    pub(crate) sources: BTreeMap<String, Arc<DataFile>>,
    pub(crate) files: Vec<DataFile>,
    /// `None`: the rows went in more runs than a map is kept for.
    pub(crate) row_map: Option<(Arc<RowMap>, RowMapNote)>,
    /// What the table's history tells of it.
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) rows: u64,
}

impl Rewritten {
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The database version whose rows were rewritten.
    pub fn base(&self) -> DbVersion {
        self.base
    }

    /// Paths of the files that were read.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    /// The new files.
    pub fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// Where the rows went; `None` for a clustering of more rows than a map is kept for.
    pub fn row_map(&self) -> Option<&RowMap> {
        self.row_map.as_ref().map(|(map, _)| map.as_ref())
    }

    /// Rows in the new files.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether the row map lies in a file of its own rather than in the record.
    pub fn row_map_in_file(&self) -> bool {
        matches!(self.row_map, Some((_, RowMapNote::File(_))))
    }
}

/// Rewrites each bin into new files of about `target_bytes`, in the order of `order` if there is
/// one.
///
/// # Cost
/// About two GETs per input, one PUT (or multipart upload) per output, one more for a large row
/// map; with several columns of an order these are read once more before.
pub(super) async fn rewrite(
    snapshot: &Snapshot,
    id: TableId,
    bins: &[Bin],
    target_bytes: u64,
    order: Option<Order<'_>>,
) -> Result<Rewritten, DbError> {
    let job = Arc::new(Job {
        snapshot: snapshot.clone(),
        table: Arc::clone(snapshot.entry(id)?),
        state: snapshot.table(id).await?,
        target_bytes,
    });
    let mut map = Some(RowMap::default());
    let mut first = 0;
    let mut files = Vec::new();
    let mut rows = 0;
    for bin in bins {
        let mut trail = match order {
            None => Trail::default(),
            Some(order) => Trail::bounded(order.runs_max),
        };
        let written = job.rewrite_bin(bin, first, &mut trail, order).await?;
        first += bin.files.len();
        let targets = match trail.is_lost() {
            true => None,
            false => Some(trail.targets(&written.files).ok_or(DbError::Internal {
                what: "a rewrite lost count of its rows",
            })?),
        };
        map = map.zip(targets).map(|(mut map, targets)| {
            map.sources.extend(bin.files.iter().map(source));
            map.targets.extend(targets);
            map
        });
        files.extend(written.files);
        rows += written.rows;
    }
    if let Some(order) = order.filter(|order| order.clustering.marks) {
        order.mark(&mut files);
    }
    let row_map = match map {
        None => None,
        Some(map) => {
            let store = snapshot.database().store();
            let note = row_map::store(store, &job.table.location, &map).await?;
            Some((Arc::new(map), note))
        }
    };
    let sources = bins.iter().flat_map(|bin| &bin.files);
    Ok(Rewritten {
        table: id,
        base: snapshot.version(),
        sources: sources
            .map(|file| (file.path.clone(), Arc::clone(file)))
            .collect(),
        files,
        row_map,
        parameters: order.map(|order| order.parameters()).unwrap_or_default(),
        rows,
    })
}

fn source(file: &Arc<DataFile>) -> Source {
    let vector = match &file.deletion {
        Deletion::Stored(descriptor) => Some(descriptor.unique_id()),
        Deletion::None | Deletion::Loaded(_) => None,
    };
    Source {
        path: file.path.clone(),
        vector,
    }
}

/// One table whose files are written anew.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) snapshot: Snapshot,
    pub(super) table: Arc<TableEntry>,
    pub(super) state: Arc<TableState>,
    target_bytes: u64,
}

impl Job {
    async fn rewrite_bin(
        self: &Arc<Self>,
        bin: &Bin,
        first_source: usize,
        trail: &mut Trail,
        order: Option<Order<'_>>,
    ) -> Result<Written, DbError> {
        let mut writer = self.writer(bin)?;
        let copied = match order {
            None => self.copy(bin, first_source, trail, &mut writer).await,
            Some(order) => {
                let copied = order.copy(self, bin, first_source, trail, &mut writer);
                copied.boxed().await
            }
        };
        match copied {
            Ok(()) => writer.finish().await.map_err(self.failed()),
            Err(error) => {
                writer.abort().await;
                Err(error)
            }
        }
    }

    fn writer(&self, bin: &Bin) -> Result<TableWriter, DbError> {
        let options = WriteOptions::of_table(&self.state);
        let options = options.map_err(self.failed())?;
        // What was planned as one file becomes one, though the estimate was a little low.
        let target_file_bytes = if bin.live_bytes <= self.target_bytes {
            self.target_bytes.saturating_mul(2)
        } else {
            self.target_bytes
        };
        let writer = TableWriter::new(
            self.snapshot.database().store().clone(),
            self.table.location.clone(),
            Arc::clone(&self.state.schema),
            self.state.partition_columns.clone(),
            WriteOptions {
                target_file_bytes,
                ..options
            },
        );
        Ok(match self.row_ids() {
            Some(ids) => writer.with_hidden(&ids.fields()),
            None => writer,
        })
    }

    /// The columns of row ids, which go with their rows.
    pub(super) fn row_ids(&self) -> Option<RowIdColumns> {
        RowIdColumns::of(&self.state.properties)
    }

    async fn copy(
        &self,
        bin: &Bin,
        first_source: usize,
        trail: &mut Trail,
        writer: &mut TableWriter,
    ) -> Result<(), DbError> {
        let ids = self.row_ids();
        // Boxed, so that the compiler sees that this future can be sent.
        let opened: Vec<_> = bin
            .files
            .iter()
            .map(|file| self.open(file).boxed())
            .collect();
        let mut inputs = futures::stream::iter(opened)
            .buffered(READ_AHEAD)
            .enumerate();
        while let Some((at, input)) = inputs.next().await {
            let source = u32::try_from(first_source + at).map_err(|_| DbError::Internal {
                what: "more files than a row map can name",
            })?;
            let mut input = input?;
            let file = bin.files.get(at);
            while let Some(live) = input.try_next().await.map_err(self.failed())? {
                trail.note(source, &live.positions);
                let batch = match (&ids, file) {
                    (Some(ids), Some(file)) => ids.resolved(file, &live).map_err(self.failed())?,
                    _ => live.batch,
                };
                writer.write(&batch).await.map_err(self.failed())?;
            }
        }
        Ok(())
    }

    pub(super) async fn open(&self, file: &DataFile) -> Result<Rows, DbError> {
        let columns = self.row_ids().map(|ids| ids.added_to(&self.state.schema));
        let columns = columns.as_ref().unwrap_or(&self.state.schema);
        let rows = self.open_columns(file, columns).await?;
        if file.size_bytes > SMALL_BYTES {
            return Ok(rows);
        }
        let read: Vec<LiveRows> = rows.try_collect().await.map_err(self.failed())?;
        Ok(futures::stream::iter(read.into_iter().map(Ok)).boxed())
    }

    /// The live rows of a file with these columns only.
    pub(super) async fn open_columns(
        &self,
        file: &DataFile,
        columns: &Schema,
    ) -> Result<Rows, DbError> {
        let inner = &self.snapshot.database().inner;
        let deleted = inner.deleted_rows(&self.table, &file.deletion).await?;
        let rows = read_file_rows(
            &inner.store,
            &self.table.location,
            file,
            columns,
            &self.state.partition_columns,
            Some(&deleted),
            ReadOptions::default(),
        );
        rows.await.map_err(self.failed())
    }

    pub(super) fn failed(&self) -> impl FnOnce(TableError) -> DbError {
        DbError::table(self.table.display_name())
    }
}
