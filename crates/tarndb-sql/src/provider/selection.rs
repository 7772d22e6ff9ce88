//! From deleted rows to what the Parquet reader selects.
//!
//! Invariant: a selection covers exactly the physical rows of its file; a deleted row beyond
//! them is damage, not something to read over.

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use tarndb_table::{RowSet, TableError};

/// The live rows of a file with `rows` physical rows, of which `deleted` are gone.
pub(crate) fn live_rows(
    path: &str,
    rows: u64,
    deleted: &RowSet,
) -> Result<RowSelection, TableError> {
    if let Some(last) = deleted.max().filter(|last| *last >= rows) {
        let path = path.to_owned();
        return Err(TableError::DeletedRowBeyondFile {
            path,
            row: last,
            rows,
        });
    }
    let length = |from: u64, to: u64| usize::try_from(to - from).unwrap_or(usize::MAX);
    let mut selectors = Vec::new();
    let (mut run_start, mut run_end) = (0, 0);
    for row in deleted {
        if row == run_end {
            run_end += 1;
            continue;
        }
        if run_end > run_start {
            selectors.push(RowSelector::skip(length(run_start, run_end)));
        }
        selectors.push(RowSelector::select(length(run_end, row)));
        (run_start, run_end) = (row, row + 1);
    }
    if run_end > run_start {
        selectors.push(RowSelector::skip(length(run_start, run_end)));
    }
    if rows > run_end {
        selectors.push(RowSelector::select(length(run_end, rows)));
    }
    Ok(RowSelection::from(selectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: u64, deleted: &[u64], expected: &str) {
        let deleted = deleted.iter().copied().collect::<RowSet>();
        let selection = live_rows("f", rows, &deleted).unwrap();
        let text = selection
            .iter()
            .map(|s| format!("{}{}", if s.skip { '-' } else { '+' }, s.row_count))
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(text, expected);
    }

    #[test]
    fn runs_of_deleted_rows_become_skips() {
        check(10, &[], "+10");
        check(10, &[0], "-1 +9");
        check(10, &[9], "+9 -1");
        check(10, &[0, 1, 2, 5, 6, 9], "-3 +2 -2 +2 -1");
        check(3, &[0, 1, 2], "-3");
    }

    #[test]
    fn a_row_beyond_the_file_is_damage() {
        let deleted = [3].into_iter().collect::<RowSet>();
        assert!(matches!(
            live_rows("f", 3, &deleted),
            Err(TableError::DeletedRowBeyondFile {
                row: 3,
                rows: 3,
                ..
            })
        ));
    }
}
