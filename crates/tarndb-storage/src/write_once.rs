//! `WriteOnce`: an object that is never written again, so that what was read of it may be kept.
//!
//! Invariant: only what a caller reads through here can be in the cache on disk, and of that
//! only objects whose name holds a UUID: such a name is never used twice, not even after the
//! object was deleted. Names that can be used again (records, hints, versions of a table's own
//! log, files of other writers without an id) are always asked of the store, and so is whether
//! an object exists at all.
//! Spec: docs/performance.md, "Reading".

use std::ops::Range;

use bytes::Bytes;
use object_store::path::Path;
use tarndb_types::Uuid;

use crate::derived::ObjectId;
use crate::error::StoreError;
use crate::ranges::cut;
use crate::store::Store;

/// A data file or another object that is complete once it exists.
#[derive(Clone, Debug)]
pub struct WriteOnce {
    store: Store,
    id: ObjectId,
}

impl WriteOnce {
    pub(crate) fn new(store: Store, id: ObjectId) -> Self {
        Self { store, id }
    }

    /// Which object it is.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// The store it is in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Exactly the bytes of each range.
    ///
    /// # Cost
    /// One request for each group of ranges that are at most 1 MiB apart, and for each 8 MiB of
    /// a longer group, all at the same time. None for what is held or in the cache on disk.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::ShortRead`] when the object ends within a range.
    pub async fn get_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StoreError> {
        let key = &self.id.key;
        let Some(cache) = self.store.disk_cache().filter(|_| has_uuid(key)) else {
            return self.ask(ranges).await;
        };
        if ranges.iter().any(|range| range.end > self.id.size_bytes) {
            return self.ask(ranges).await;
        }
        if let Some(held) = self.store.held()
            && let Some(bytes) = held.find(key).await?
        {
            return whole(key, &bytes, ranges);
        }
        cache
            .read(&self.id, ranges, |missing| self.ask_owned(missing))
            .await
    }

    async fn ask_owned(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>, StoreError> {
        self.ask(&ranges).await
    }

    async fn ask(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StoreError> {
        let got = self.store.objects().get_ranges(&self.id.key, ranges).await;
        got.map_err(|error| StoreError::from_objects("read", &self.id.key, error))
    }
}

/// Ranges of an object that is in memory.
fn whole(key: &Path, bytes: &Bytes, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StoreError> {
    let pieces = [(0, bytes.clone())];
    let cut = ranges.iter().map(|range| {
        let part = cut(range, &pieces);
        let got = part.len() as u64;
        if got == range.end.saturating_sub(range.start) {
            return Ok(part);
        }
        Err(StoreError::ShortRead {
            key: key.to_string(),
            start: range.start,
            end: range.end,
            got,
        })
    });
    cut.collect()
}

/// Whether the last part of a key holds a UUID in its usual form.
fn has_uuid(key: &Path) -> bool {
    const LENGTH: usize = 36;
    let name = key.filename().unwrap_or_default();
    let starts = 0..=name.len().saturating_sub(LENGTH);
    starts
        .filter_map(|start| name.get(start..start + LENGTH))
        .any(|text| text.contains('-') && Uuid::try_parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::has_uuid;

    #[test]
    fn names_with_an_id_are_told_from_names_that_can_be_used_again() {
        for (key, expected) in [
            ("t/part-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f.parquet", true),
            (
                "t/deletion_vector_0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f.bin",
                true,
            ),
            (
                "t/a=1/part-00000-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f.c000.snappy.parquet",
                true,
            ),
            (
                "t-0190163c-cf3e-7a0b-8a4c-5d3f4b1d2e6f/_delta_log/_last_checkpoint",
                false,
            ),
            ("t/part-00000.parquet", false),
            ("_tarndb/log/00000000000000000001.json", false),
            (
                "t/_delta_log/00000000000000000010.checkpoint.parquet",
                false,
            ),
            ("t/00000000000000000000000000000000.parquet", false),
            ("", false),
        ] {
            assert_eq!(has_uuid(&Path::from(key)), expected, "{key}");
        }
    }
}
