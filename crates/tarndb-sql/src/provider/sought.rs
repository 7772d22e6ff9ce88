//! The keys that a scan looks for: files that can hold none of them are left out.
//!
//! Invariant: conservative, as `prune` is: a file without bounds stays. Keys are in the order of
//! their type, which is that of the bounds.
//! Does not: filter rows; the join that the keys come from does.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use arrow::array::make_comparator;
use arrow::compute::SortOptions;
use arrow_array::ArrayRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result};
use tarndb_table::DataFile;

use crate::provider::TarnTable;
use crate::provider::prune::FileBounds;

/// The values that one column must have one of.
#[derive(Clone, Debug)]
pub(crate) struct SortedKeys {
    /// The column, folded.
    pub(crate) column: String,
    /// Ascending, without NULL, in the type of the column.
    pub(crate) values: ArrayRef,
}

/// The keys of each column that is looked for; set at most once, before the scan is planned.
#[derive(Debug, Default)]
pub(crate) struct Sought(OnceLock<Vec<SortedKeys>>);

impl Sought {
    /// Sets them.
    pub(crate) fn set(&self, keys: Vec<SortedKeys>) {
        let _was_set = self.0.set(keys);
    }
}

/// The files that may hold one of the keys of each column.
pub(crate) fn retain(
    table: &TarnTable,
    mut files: Vec<Arc<DataFile>>,
) -> Result<Vec<Arc<DataFile>>> {
    let Some(keys) = table.sought.0.get() else {
        return Ok(files);
    };
    for keys in keys {
        let may = may_hold(table, keys, &files)?;
        let mut may = may.into_iter();
        files.retain(|_| may.next().unwrap_or(true));
    }
    Ok(files)
}

fn may_hold(table: &TarnTable, keys: &SortedKeys, files: &[Arc<DataFile>]) -> Result<Vec<bool>> {
    let bounds = FileBounds {
        schema: &table.pinned.state.schema,
        partition_columns: &table.pinned.state.partition_columns,
        files,
        own: table.pinned.is_own(),
    };
    let column = Column::new_unqualified(&keys.column);
    let (Some(mins), Some(maxs)) = (bounds.min_values(&column), bounds.max_values(&column)) else {
        return Ok(vec![true; files.len()]);
    };
    let same =
        mins.data_type() == keys.values.data_type() && maxs.data_type() == keys.values.data_type();
    if !same {
        return Ok(vec![true; files.len()]);
    }
    let with_min = make_comparator(&keys.values, &mins, SortOptions::default())?;
    let with_max = make_comparator(&keys.values, &maxs, SortOptions::default())?;
    let may = (0..files.len()).map(|file| {
        if mins.is_null(file) || maxs.is_null(file) {
            return true;
        }
        let first = first_from(keys.values.len(), |key| with_min(key, file));
        first < keys.values.len() && with_max(first, file) != Ordering::Greater
    });
    Ok(may.collect())
}

/// The first of `count` ascending keys that is not less.
fn first_from(count: usize, order: impl Fn(usize) -> Ordering) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if order(middle) == Ordering::Less {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
