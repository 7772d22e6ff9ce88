//! `Scan`: the rows of many files of a table, opened and fetched ahead.
//!
//! Invariant: files come in the order given and rows in the file's order, so that a scan repeats
//! exactly. Bytes fetched and not yet read stay within a budget; a row group that is larger than
//! the budget is fetched alone.
//! Does not: decide which files are worth reading.
//! Spec: docs/performance.md, "Reading".

use std::fmt;
use std::sync::Arc;

use futures::future::{ready, try_join};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_table::{
    DataFile, FileToRead, LiveRows, ReadOptions, Schema, Selected, TableError, Wanted,
};
use tokio::sync::Semaphore;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// Files whose footers and deletion vectors are fetched at the same time.
const FILES_AHEAD: usize = 16;
/// Of what the budget is counted in.
const UNIT_BYTES: u64 = 1 << 10;
/// Bytes of all files fetched and not yet read.
const BUDGET_BYTES: u64 = 128 << 20;

/// What is read of each file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    pub(crate) table: &'a TableEntry,
    /// The columns.
    pub(crate) columns: &'a Schema,
    pub(crate) partition_columns: &'a [String],
}

/// A file whose first rows are on their way.
pub(crate) struct Scanned {
    /// The file.
    pub(crate) file: Arc<DataFile>,
    /// Its live rows.
    pub(crate) rows: BoxStream<'static, Result<LiveRows, TableError>>,
}

impl fmt::Debug for Scanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanned")
            .field("file", &self.file.path)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Opens files in order, several ahead. Read or drop the rows of one before asking for the
    /// next: what is fetched ahead waits for room.
    ///
    /// # Cost
    /// For each file that of [`FileToRead::open`], a ranged GET for a stored vector that is not
    /// cached, and about one for each row group. 16 files take two rounds of requests together:
    /// vectors and footers, then rows.
    pub(crate) fn scan<'a>(
        &'a self,
        scan: Scan<'a>,
        files: Vec<Arc<DataFile>>,
    ) -> BoxStream<'a, Result<Scanned, DbError>> {
        let room = usize::try_from(BUDGET_BYTES / UNIT_BYTES).unwrap_or(Semaphore::MAX_PERMITS);
        let budget = Arc::new(Semaphore::new(room));
        // Boxed, so that the compiler sees that they can be sent.
        let opened: Vec<_> = files
            .into_iter()
            .map(|file| Box::pin(self.open_to_scan(scan, file)))
            .collect();
        futures::stream::iter(opened)
            .buffered(FILES_AHEAD)
            .and_then(move |(file, selected)| {
                let (budget, failed) = (Arc::clone(&budget), scan.failed());
                async move {
                    let rows = start(selected, &budget).await?;
                    let rows = rows.map_err(failed)?;
                    Ok(Scanned { file, rows })
                }
            })
            .map(ready)
            .buffered(FILES_AHEAD)
            .boxed()
    }

    async fn open_to_scan(
        &self,
        scan: Scan<'_>,
        file: Arc<DataFile>,
    ) -> Result<(Arc<DataFile>, Selected), DbError> {
        let opening = FileToRead::open(
            &self.store,
            &scan.table.location,
            &file,
            scan.columns,
            scan.partition_columns,
        );
        let opening = async { opening.await.map_err(scan.failed()) };
        let deleted = self.deleted_rows(scan.table, &file.deletion);
        let (deleted, opened) = try_join(deleted, opening).await?;
        let wanted = Wanted::AllBut(&deleted);
        let selected = opened.select(wanted, ReadOptions::default());
        Ok((Arc::clone(&file), selected.map_err(scan.failed())?))
    }
}

impl Scan<'_> {
    fn failed(&self) -> impl FnOnce(TableError) -> DbError + use<> {
        DbError::table(self.table.display_name())
    }
}

type Rows = BoxStream<'static, Result<LiveRows, TableError>>;

/// Begins to fetch rows as soon as there is room for them, which is given back with the stream.
/// Files ask in order, so that the one which is read next never waits for a later one.
async fn start(
    selected: Selected,
    budget: &Arc<Semaphore>,
) -> Result<Result<Rows, TableError>, DbError> {
    let units = selected.bytes_held().min(BUDGET_BYTES) / UNIT_BYTES;
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    let room = Arc::clone(budget).acquire_many_owned(units).await;
    let room = room.map_err(|_| DbError::Internal {
        what: "the budget of a scan was closed",
    })?;
    Ok(selected.started().into_rows().map(|rows| {
        let rows = rows.inspect(move |_| {
            let _held_until_the_stream_ends = &room;
        });
        rows.boxed()
    }))
}
