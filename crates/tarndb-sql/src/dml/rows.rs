//! How many rows a table has, where its log does not say.
//!
//! Invariant: the number is exact; files whose rows the log counts are not read.

use futures::{StreamExt, TryStreamExt};
use tarndb_table::parquet_row_count;

use crate::error::SqlError;
use crate::provider::Pinned;

/// Footers read at the same time.
const FOOTERS_AHEAD: usize = 16;

/// Live rows of a table.
///
/// # Cost
/// The footer of each file whose rows the log does not count.
pub(crate) async fn live_rows(pinned: &Pinned) -> Result<u64, SqlError> {
    let mut rows = 0_u64;
    let mut uncounted = Vec::new();
    for file in pinned.state.files.values() {
        match file.live_rows() {
            Some(live) => rows += live,
            None => uncounted.push(file),
        }
    }
    let counts = uncounted.into_iter().map(|file| async move {
        let physical = parquet_row_count(&pinned.store, &pinned.location, &file).await?;
        Ok(physical.saturating_sub(file.deletion.cardinality()))
    });
    let mut counts = futures::stream::iter(counts).buffered(FOOTERS_AHEAD);
    while let Some(live) = counts
        .try_next()
        .await
        .map_err(SqlError::table(&pinned.name))?
    {
        rows += live;
    }
    Ok(rows)
}
