//! In which pieces a checkpoint file is read.
//!
//! Invariant: every row belongs to exactly one window, in the order of the file; the bytes held
//! at once follow [`WINDOW_BYTES`], not the size of a row group. Some writers put a million
//! files into one row group of hundreds of megabytes.
//! Does not: cut a row group whose pages are not listed (no offset index): each window would
//! fetch all of it again.
//! Spec: Apache Parquet format, "Page Index".

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;

/// Compressed bytes of a row group that are read at once.
pub(super) const WINDOW_BYTES: u64 = 16 << 20;

/// Rows of one row group that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The row group's number.
    pub(super) group: usize,
    /// Rows of the group before the window.
    pub(super) skip: usize,
    /// Rows of the window.
    pub(super) take: usize,
    /// Whether it is the whole row group.
    pub(super) whole: bool,
}

impl Window {
    /// The rows as the Parquet reader takes them; `None` for a whole row group.
    pub(super) fn selection(&self) -> Option<RowSelection> {
        (!self.whole)
            .then(|| vec![RowSelector::skip(self.skip), RowSelector::select(self.take)].into())
    }
}

/// Whether a row group is so large that it is worth reading where its pages are.
pub(super) fn wants_pages(footer: &ParquetMetaData, window_bytes: u64) -> bool {
    footer
        .row_groups()
        .iter()
        .any(|group| bytes_of(group.compressed_size()) > window_bytes)
}

/// The windows of a file.
pub(super) fn windows(footer: &ParquetMetaData, window_bytes: u64) -> Vec<Window> {
    let mut windows = Vec::new();
    for (number, group) in footer.row_groups().iter().enumerate() {
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let paged = footer
            .offset_index()
            .and_then(|index| index.get(number))
            .is_some_and(|columns| {
                columns.len() == group.num_columns()
                    && columns.iter().all(|c| !c.page_locations().is_empty())
            });
        let bytes = if paged {
            bytes_of(group.compressed_size())
        } else {
            0
        };
        cut(
            number,
            rows,
            bytes.div_ceil(window_bytes.max(1)),
            &mut windows,
        );
    }
    windows
}

/// Cuts a row group into about `count` windows of equal length.
fn cut(group: usize, rows: usize, count: u64, into: &mut Vec<Window>) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let take = rows.div_ceil(count.clamp(1, rows.max(1))).max(1);
    let mut skip = 0;
    while skip < rows {
        let rows_here = take.min(rows - skip);
        into.push(Window {
            group,
            skip,
            take: rows_here,
            whole: rows_here == rows,
        });
        skip += rows_here;
    }
}

fn bytes_of(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::cut;

    fn rows(rows: usize, count: u64) -> Vec<(usize, usize, bool)> {
        let mut windows = Vec::new();
        cut(3, rows, count, &mut windows);
        assert!(windows.iter().all(|window| window.group == 3));
        windows.iter().map(|w| (w.skip, w.take, w.whole)).collect()
    }

    #[test]
    fn a_row_group_is_cut_into_windows_that_cover_each_row_once() {
        assert_eq!(rows(0, 0), []);
        assert_eq!(rows(10, 0), [(0, 10, true)]);
        assert_eq!(rows(10, 1), [(0, 10, true)]);
        assert_eq!(rows(10, 3), [(0, 4, false), (4, 4, false), (8, 2, false)]);
        // More windows than rows: one row each.
        assert_eq!(rows(2, 100), [(0, 1, false), (1, 1, false)]);
    }
}
