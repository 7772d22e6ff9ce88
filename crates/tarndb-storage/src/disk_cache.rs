//! `DiskCache`: blocks of objects that never change, in a folder of this machine.
//!
//! Invariant: a block is used only when its checksum fits the object, its place and its bytes;
//! anything else is fetched again and replaced. A cache that cannot be written, or is full,
//! never fails a read. Absence of an object is not kept.
//! The folder may be shared by any number of processes: blocks appear by rename, and what
//! another process evicts under a reader is a miss. Each process keeps the folder at about the
//! bound: it looks at all of it after having written a sixteenth of the bound.
//! Does not: fetch a block once for several readers that miss it at the same time; decide which
//! objects never change (`write_once`); fsync, since a block that a crash tore is a miss.
//! Spec: docs/performance.md, "Reading".

mod block;
mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::context::Context;
use crate::derived::ObjectId;
use crate::error::StoreError;
use crate::ranges::cut;

use block::ObjectHash;
use folder::Folder;

/// Bytes of a block; the last one of an object is shorter. As large as the largest gap between
/// ranges that are fetched together, so that a miss costs few bytes beyond those asked for.
const BLOCK_BYTES: u64 = 1 << 20;

/// Where blocks are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The folder; made when it is not there, for this user only.
    pub folder: PathBuf,
    /// Bytes of all blocks in it, by whatever process; about.
    pub bytes_max: u64,
}

/// The cache of one store. Clones are one.
#[derive(Clone)]
pub(crate) struct DiskCache {
    folder: Arc<Folder>,
    /// Tells the stores apart whose blocks are in the folder.
    store: Arc<str>,
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DiskCache").field(&self.folder).finish()
    }
}

impl DiskCache {
    /// A cache for the store that `store` tells from all others: where it is, and through which
    /// endpoint.
    pub(crate) fn new(options: DiskCacheOptions, store: &str, context: Context) -> Self {
        Self {
            folder: Arc::new(Folder::new(options, context)),
            store: store.into(),
        }
    }

    /// Exactly the bytes of each range, which must end within the object. `fetch` is asked once
    /// for all blocks that are missing.
    ///
    /// # Errors
    /// Those of `fetch`.
    pub(crate) async fn read<F>(
        &self,
        id: &ObjectId,
        ranges: &[Range<u64>],
        fetch: impl FnOnce(Vec<Range<u64>>) -> F,
    ) -> Result<Vec<Bytes>, StoreError>
    where
        F: Future<Output = Result<Vec<Bytes>, StoreError>>,
    {
        let object = ObjectHash::of(&self.store, id);
        let wanted: BTreeSet<u64> = ranges.iter().flat_map(blocks_of).collect();
        let mut blocks = self.load(object, id.size_bytes, &wanted).await;
        let missing: Vec<u64> = wanted
            .into_iter()
            .filter(|n| !blocks.contains_key(n))
            .collect();
        if !missing.is_empty() {
            let places = missing.iter().map(|n| place(*n, id.size_bytes)).collect();
            let fetched = fetch(places).await?;
            let new: Vec<(u64, Bytes)> = missing.into_iter().zip(fetched).collect();
            blocks.extend(new.iter().cloned());
            self.keep(object, new).await;
        }
        let pieces: Vec<(u64, Bytes)> = blocks
            .into_iter()
            .map(|(number, bytes)| (number * BLOCK_BYTES, bytes))
            .collect();
        Ok(ranges.iter().map(|range| cut(range, &pieces)).collect())
    }

    async fn load(
        &self,
        object: ObjectHash,
        size_bytes: u64,
        wanted: &BTreeSet<u64>,
    ) -> BTreeMap<u64, Bytes> {
        let (folder, wanted) = (Arc::clone(&self.folder), wanted.clone());
        let read = move || {
            let load = |number: u64| {
                let Range { start, end } = place(number, size_bytes);
                Some((number, folder.load(object, number, end - start)?))
            };
            wanted.into_iter().filter_map(load).collect()
        };
        blocking(read).await.unwrap_or_default()
    }

    async fn keep(&self, object: ObjectHash, blocks: Vec<(u64, Bytes)>) {
        let folder = Arc::clone(&self.folder);
        let write = move || {
            for (number, bytes) in blocks {
                folder.store(object, number, &bytes);
            }
        };
        let _: Option<()> = blocking(write).await;
    }
}

/// Numbers of the blocks in which a range lies.
fn blocks_of(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

/// Where a block lies in an object of a size.
fn place(number: u64, size_bytes: u64) -> Range<u64> {
    let start = number.saturating_mul(BLOCK_BYTES);
    start..start.saturating_add(BLOCK_BYTES).min(size_bytes)
}

/// Runs work on the disk where it may block; `None` when it panicked or the runtime ends.
async fn blocking<T, F>(work: F) -> Option<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.ok(),
        Err(_) => Some(work()),
    }
}

#[cfg(test)]
mod tests;
