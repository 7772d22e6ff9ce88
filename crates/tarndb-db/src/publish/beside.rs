//! What is published beside a table's newest version: its checksum, and a compaction of the log.
//!
//! Invariant: after the version, of a state that is in memory or follows from one by records
//! that are; a table is never read for it. What fails or is left out costs readers some work.
//! Spec: docs/format/publishing.md, "Beside a version".

use tarndb_types::TableVersion;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;

/// Writes it for `version`; a pass published from `first` on.
pub(super) async fn write(
    inner: &Inner,
    table: &TableEntry,
    first: TableVersion,
    version: TableVersion,
) {
    if let Err(error) = try_write(inner, table, first, version).await {
        tracing::warn!(
            table = table.display_name(),
            version = version.0,
            error = &error as &dyn std::error::Error,
            "no checksum of a published version, or no compaction of the log"
        );
    }
}

async fn try_write(
    inner: &Inner,
    table: &TableEntry,
    first: TableVersion,
    version: TableVersion,
) -> Result<(), DbError> {
    let mut at_version = table.clone();
    at_version.version = version;
    let Some(state) = inner.state_in_memory(&at_version).await? else {
        return Ok(());
    };
    let name = table.display_name();
    let codec = inner.codec(&table.format, &name)?;
    let entry = inner.entry(table, version).await?;
    let txn = codec.published_txn(&codec.published_bytes(&entry));
    codec
        .write_side_files(&inner.store, &table.location, &state, first, txn)
        .await
        .map_err(DbError::table(name))
}
