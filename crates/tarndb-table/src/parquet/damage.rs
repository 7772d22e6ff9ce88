//! Damaged Parquet files, which the Parquet library does not survive everywhere.
//!
//! Invariant: a footer whose ranges do not lie in its file is refused before anything is read by
//! it, and a panic inside the library is an error about the file, never one of the process.
//! Does not: look at data pages; the library does, inside [`guarded`].
//! Spec: Apache Parquet format, "Metadata".

use std::any::Any;
use std::panic::AssertUnwindSafe;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use futures::FutureExt;

/// Refuses a footer that cannot be that of a file of `size_bytes`.
///
/// # Errors
/// [`ParquetError::General`] with the row group and column.
pub fn check_footer(footer: &ParquetMetaData, size_bytes: u64) -> Result<()> {
    let bad = |group: usize, column: usize, what: &str| {
        Err(ParquetError::General(format!(
            "the footer is damaged: row group {group}, column {column}: {what}"
        )))
    };
    if footer.file_metadata().num_rows() < 0 {
        return Err(ParquetError::General(
            "the footer is damaged: a negative number of rows".to_owned(),
        ));
    }
    for (number, group) in footer.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return bad(number, 0, "a negative number of rows");
        }
        for (at, column) in group.columns().iter().enumerate() {
            if column.num_values() < 0 || column.uncompressed_size() < 0 {
                return bad(number, at, "a negative size");
            }
            let start = column
                .dictionary_page_offset()
                .unwrap_or_else(|| column.data_page_offset());
            let range = (
                u64::try_from(start),
                u64::try_from(column.compressed_size()),
            );
            let (Ok(start), Ok(length)) = range else {
                return bad(number, at, "a negative place in the file");
            };
            if start.checked_add(length).is_none_or(|end| end > size_bytes) {
                return bad(number, at, "a place beyond the end of the file");
            }
        }
    }
    Ok(())
}

/// Runs work of the Parquet library on a file; a panic there is an error about the file.
///
/// # Errors
/// That of the work; [`ParquetError::General`] for a panic.
pub async fn guarded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done,
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

/// What a panic of the library says about the file.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> ParquetError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no reason was given");
    ParquetError::General(format!("the file cannot be decoded: {text}"))
}

#[cfg(test)]
mod tests;
