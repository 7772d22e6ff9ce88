//! What a command lists, as one batch, so that `--format` holds for it too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, TimestampMillisecondArray, UInt64Array};
use arrow::record_batch::RecordBatch;
use tarndb::TimestampMs;

use super::Output;
use crate::failure::Failure;

/// Columns of equal length.
#[derive(Default)]
pub(super) struct Listing {
    columns: Vec<(&'static str, ArrayRef, bool)>,
}

impl Listing {
    pub(super) fn text<T: Into<String>>(
        mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<T>>,
    ) -> Self {
        let array: StringArray = values.map(|value| value.map(Into::into)).collect();
        self.columns.push((name, Arc::new(array), true));
        self
    }

    pub(super) fn number(
        mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<u64>>,
    ) -> Self {
        self.columns
            .push((name, Arc::new(values.collect::<UInt64Array>()), true));
        self
    }

    pub(super) fn time(
        mut self,
        name: &'static str,
        values: impl Iterator<Item = TimestampMs>,
    ) -> Self {
        let array = TimestampMillisecondArray::from_iter_values(values.map(|time| time.0));
        self.columns
            .push((name, Arc::new(array.with_timezone_utc()), true));
        self
    }

    /// Leaves the column out when it holds only NULL.
    pub(super) fn without_empty(mut self, name: &str) -> Self {
        self.columns
            .retain(|(column, array, _)| *column != name || array.null_count() < array.len());
        self
    }

    pub(super) fn show(self, output: &mut Output) -> Result<(), Failure> {
        let batch = RecordBatch::try_from_iter_with_nullable(self.columns)
            .map_err(|error| Failure::bug(error.to_string()))?;
        output.batch(&batch)
    }
}
