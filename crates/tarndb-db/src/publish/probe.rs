//! Finding out what others have published already.
//!
//! Invariant: reads only. A version counts as published when its file has exactly our bytes;
//! publishers go in order, so everything below it then is published too, and they store the
//! data files that ride in records before, so these are at their paths.
//! Spec: docs/format/publishing.md.

use std::collections::BTreeMap;

use bytes::Bytes;
use tarndb_storage::Path;
use tarndb_types::TableVersion;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::{DbError, Divergence};

/// What a table's own log holds of the versions that are not known to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// Published up to here; `None`: nothing is.
    UpTo(Option<TableVersion>),
    /// A file with other content.
    Diverged(Divergence),
}

/// Our bytes of a version and the key they belong at.
pub(crate) async fn our_file(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
) -> Result<(Path, Bytes), DbError> {
    let codec = inner.codec(&table.format, &table.display_name())?;
    let entry = inner.entry(table, version).await?;
    Ok((
        codec.published_key(&table.location, version),
        codec.published_bytes(&entry),
    ))
}

/// What the file of a version holds: `None` when it is absent, else whether it is ours.
async fn is_ours(
    inner: &Inner,
    table: &TableEntry,
    version: TableVersion,
) -> Result<Option<bool>, DbError> {
    let (key, ours) = our_file(inner, table, version).await?;
    Ok(inner.store.get(&key).await?.map(|found| found == ours))
}

/// Looks at the unpublished versions of a table up to `last`.
///
/// # Cost
/// 1 GET when `last` is published (the usual case) or is the only one in question; else 1 LIST
/// and a GET more.
pub(crate) async fn probe_published(
    inner: &Inner,
    table: &TableEntry,
    last: TableVersion,
) -> Result<Probed, DbError> {
    let first = table.first_unpublished();
    if last < first {
        return Ok(Probed::UpTo(table.published));
    }
    match is_ours(inner, table, last).await? {
        Some(true) => return Ok(Probed::UpTo(Some(last))),
        Some(false) => return first_foreign(inner, table, first, last).await,
        None if last == first => return Ok(Probed::UpTo(table.published)),
        None => {}
    }
    let Some(newest) = newest_listed(inner, table, first, last).await? else {
        return Ok(Probed::UpTo(table.published));
    };
    match is_ours(inner, table, newest).await? {
        Some(true) => Ok(Probed::UpTo(Some(newest))),
        // It was listed, so an absence now is somebody's cleanup: nothing is known.
        None => Ok(Probed::UpTo(table.published)),
        Some(false) => first_foreign(inner, table, first, newest).await,
    }
}

/// The newest version in `first..last` that has a file.
async fn newest_listed(
    inner: &Inner,
    table: &TableEntry,
    first: TableVersion,
    last: TableVersion,
) -> Result<Option<TableVersion>, DbError> {
    let codec = inner.codec(&table.format, &table.display_name())?;
    let keys: BTreeMap<Path, TableVersion> = (first.0..last.0)
        .map(TableVersion)
        .map(|version| (codec.published_key(&table.location, version), version))
        .collect();
    let Some((lowest, _)) = keys.first_key_value() else {
        return Ok(None);
    };
    let dir = parent(lowest);
    let after = first
        .previous()
        .map(|version| codec.published_key(&table.location, version));
    let listed = inner.store.list_after(&dir, after.as_ref()).await?;
    Ok(listed
        .iter()
        .filter_map(|object| keys.get(&object.key).copied())
        .max())
}

fn parent(key: &Path) -> Path {
    let folder = key
        .as_ref()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    Path::parse(folder).unwrap_or_default()
}

/// The first version that is not ours, when `last` is not.
async fn first_foreign(
    inner: &Inner,
    table: &TableEntry,
    first: TableVersion,
    last: TableVersion,
) -> Result<Probed, DbError> {
    let mut version = first;
    while version < last && is_ours(inner, table, version).await? != Some(false) {
        version = version.next();
    }
    let codec = inner.codec(&table.format, &table.display_name())?;
    let key = codec.published_key(&table.location, version).to_string();
    Ok(Probed::Diverged(Divergence {
        table: table.id,
        version,
        key,
    }))
}
