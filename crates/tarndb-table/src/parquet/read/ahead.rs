//! `Ahead`: the row groups of a file that will be read, each fetched while the one before it is
//! decoded.
//!
//! Invariant: at most one row group is fetched ahead, and none above a bound of bytes; what is
//! under way ends with the reader.
//! Does not: know which rows are wanted.

use std::collections::VecDeque;
use std::ops::Range;

use ::parquet::arrow::ProjectionMask;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use bytes::Bytes;
use tarndb_storage::{StoreError, WriteOnce};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::reader::slice;

/// A larger row group is fetched when it is read.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Ranges of the columns that are read, by row group in the order of reading.
    groups: VecDeque<Vec<Range<u64>>>,
    /// Of the first of them.
    running: Option<Running>,
}

/// A request that ends when nobody waits for it any more.
#[derive(Debug)]
struct Running(JoinHandle<Result<Vec<Bytes>, StoreError>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ahead {
    /// The columns of `mask` in the row groups for which `wanted` says so. Empty when the file's
    /// own figures make no sense; they are the decoder's to refuse.
    pub(super) fn of(
        footer: &ParquetMetaData,
        mask: &ProjectionMask,
        wanted: impl IntoIterator<Item = bool>,
    ) -> Self {
        let groups = footer.row_groups().iter().zip(wanted);
        let wanted = groups.filter(|(_, wanted)| *wanted);
        let groups: Option<VecDeque<_>> = wanted.map(|(group, _)| ranges(group, mask)).collect();
        Self {
            groups: groups.unwrap_or_default(),
            running: None,
        }
    }

    /// Stored bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.groups.iter().map(|group| length(group)).sum()
    }

    /// The most of them that are in memory together: one and the next.
    pub(super) fn bytes_held(&self) -> u64 {
        let groups = self.groups.iter().map(|group| length(group));
        groups
            .max()
            .unwrap_or(0)
            .saturating_mul(2)
            .min(self.bytes())
    }

    /// Begins to fetch the next row group, unless that is under way or too much.
    pub(super) fn start(&mut self, object: &WriteOnce) {
        let Some(group) = self.groups.front() else {
            return;
        };
        if self.running.is_some() || length(group) > AHEAD_BYTES_MAX {
            return;
        }
        // Without a runtime there is nobody to fetch anything meanwhile.
        if let Ok(runtime) = Handle::try_current() {
            let (object, group) = (object.clone(), group.clone());
            let fetch = async move { object.get_ranges(&group).await };
            self.running = Some(Running(runtime.spawn(fetch)));
        }
    }

    /// The bytes of `ranges`, which are columns of one row group; begins to fetch the next one.
    /// `None` when they are not among those that were announced.
    pub(super) async fn take(
        &mut self,
        object: &WriteOnce,
        ranges: &[Range<u64>],
    ) -> Option<Result<Vec<Bytes>, StoreError>> {
        let holds = |group: &Vec<Range<u64>>| {
            let inside =
                |one: &Range<u64>, all: &Range<u64>| all.start <= one.start && one.end <= all.end;
            let mut ranges = ranges.iter();
            ranges.all(|one| group.iter().any(|all| inside(one, all)))
        };
        let at = self.groups.iter().position(holds)?;
        // Row groups that are passed over are not read at all.
        self.groups.drain(..at);
        let running = self.running.take().filter(|_| at == 0);
        let group = self.groups.pop_front()?;
        let fetched = match running {
            Some(mut running) => (&mut running.0).await.ok(),
            None => None,
        };
        let fetched = match fetched {
            Some(fetched) => fetched,
            None => object.get_ranges(&group).await,
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return Some(Err(error)),
        };
        self.start(object);
        let find = |range: &Range<u64>| {
            let mut pieces = group.iter().zip(&fetched);
            pieces.find_map(|(piece, bytes)| slice(piece.start, bytes, range))
        };
        ranges.iter().map(|range| find(range).map(Ok)).collect()
    }
}

fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Where the columns of `mask` lie; `None` when that makes no sense.
fn ranges(group: &RowGroupMetaData, mask: &ProjectionMask) -> Option<Vec<Range<u64>>> {
    let columns = group.columns().iter().enumerate();
    let read = columns.filter(|(leaf, _)| mask.leaf_included(*leaf));
    let range = |column: &::parquet::file::metadata::ColumnChunkMetaData| {
        let dictionary = column.dictionary_page_offset();
        let start = dictionary.unwrap_or_else(|| column.data_page_offset());
        let start = u64::try_from(start).ok()?;
        let length = u64::try_from(column.compressed_size()).ok()?;
        Some(start..start.checked_add(length)?)
    };
    read.map(|(_, column)| range(column)).collect()
}
