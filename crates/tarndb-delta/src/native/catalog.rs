//! Tables whose commits a catalog decides: read with what the catalog says.
//!
//! Invariant: the catalog's copy of a commit is used whatever was published; nothing above the
//! catalog's latest version is read; staged commits are never found by listing.
//! Does not: ask a catalog, or commit through one.
//! Spec: Delta PROTOCOL, "Catalog-Managed Tables".

use std::sync::Arc;

use bytes::Bytes;
use tarndb_storage::{Path, Store};
use tarndb_table::{Entry, LoadRequest, TableError, TableState};
use tarndb_types::TableVersion;

use crate::error::DeltaError;
use crate::load::load_by_catalog;
use crate::state::DeltaState;
use crate::{feature, path};

/// Where the content of a ratified commit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RatifiedContent {
    /// In a file of `_delta_log/_staged_commits`, by its bare name.
    Staged(String),
    /// Kept by the catalog.
    Inline(Bytes),
}

/// A commit that the catalog still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RatifiedCommit {
    /// Its version.
    pub version: u64,
    /// Its content.
    pub content: RatifiedContent,
}

/// What a catalog says of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogTail {
    /// The latest version.
    pub latest: u64,
    /// The commits it still holds: contiguous, up to `latest`, in any order. What is below them
    /// is published.
    pub commits: Vec<RatifiedCommit>,
}

/// Opens the table at the root of `store` by its catalog's word, at `version` or the latest.
///
/// # Errors
/// `BadCatalogTail`, `NotCatalogManaged`; else as [`super::open_native`].
///
/// # Cost
/// As [`super::open_native`], and one GET per staged commit.
pub async fn open_with_tail(
    store: &Store,
    tail: &CatalogTail,
    version: Option<u64>,
) -> Result<TableState, TableError> {
    Ok(open(store, tail, version).await?)
}

async fn open(
    store: &Store,
    tail: &CatalogTail,
    version: Option<u64>,
) -> Result<TableState, DeltaError> {
    let target = version.unwrap_or(tail.latest);
    if target > tail.latest {
        return Err(bad(format!(
            "version {target} is above the latest, {}",
            tail.latest
        )));
    }
    let commits = in_order(tail)?;
    let published = match commits.first() {
        Some(first) => first.version.checked_sub(1),
        None => Some(tail.latest),
    };
    let root = Path::default();
    let mut entries = Vec::new();
    for commit in commits.iter().filter(|commit| commit.version <= target) {
        entries.push(Arc::new(entry(store, &root, commit).await?));
    }
    let state = load_by_catalog(LoadRequest {
        store,
        location: &root,
        target: TableVersion(target),
        published: published.map(TableVersion),
        tail: &entries,
    })
    .await?;
    // An older version may be from before the catalog took over.
    let protocol = &DeltaState::of(&state)?.protocol;
    if target == tail.latest && !protocol.lists_reader_feature(feature::CATALOG_MANAGED) {
        return Err(DeltaError::NotCatalogManaged);
    }
    Ok(state)
}

fn bad(reason: String) -> DeltaError {
    DeltaError::BadCatalogTail { reason }
}

/// The commits ascending, when they are contiguous and end at the latest version.
fn in_order(tail: &CatalogTail) -> Result<Vec<&RatifiedCommit>, DeltaError> {
    let mut commits: Vec<_> = tail.commits.iter().collect();
    commits.sort_by_key(|commit| commit.version);
    for pair in commits.windows(2) {
        if let [one, next] = pair
            && one.version.checked_add(1) != Some(next.version)
        {
            return Err(bad(format!(
                "version {} is followed by {}",
                one.version, next.version
            )));
        }
    }
    match commits.last() {
        Some(last) if last.version != tail.latest => Err(bad(format!(
            "the commits end at {}, the latest is {}",
            last.version, tail.latest
        ))),
        _ => Ok(commits),
    }
}

async fn entry(store: &Store, root: &Path, commit: &RatifiedCommit) -> Result<Entry, DeltaError> {
    let (bytes, file) = match &commit.content {
        RatifiedContent::Inline(bytes) => (bytes.clone(), "a commit of the catalog".to_owned()),
        RatifiedContent::Staged(name) => {
            let staged = path::log_dir(root).join("_staged_commits");
            if name.contains('/') {
                return Err(bad(format!("not the name of a staged commit: {name:?}")));
            }
            let key = path::data_key(&staged, name)?;
            (store.get_required(&key).await?, key.to_string())
        }
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| DeltaError::NotText { file })?;
    Ok(Entry {
        version: TableVersion(commit.version),
        lines: text.lines().map(str::to_owned).collect(),
    })
}
