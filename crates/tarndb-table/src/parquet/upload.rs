//! `Upload`: the bytes of one new object, as they come.
//!
//! Invariant: an object of at most [`SMALL_BYTES`] costs one PUT, or none when it is small
//! enough to be held; nothing is visible before `finish` returns, and then it is durable or held.
//! Spec: docs/format/log.md, "What the store must do".

use std::fmt;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};
use tarndb_storage::{HeldFile, Store, StoreError};

/// Up to here an object is kept in memory and stored by one request.
pub(super) const SMALL_BYTES: usize = 8 << 20;
/// Parts of one upload on their way at the same time.
const PARTS_IN_FLIGHT: usize = 3;

/// Small files stored at the same time.
const FILES_IN_FLIGHT: usize = 8;

pub(super) struct Upload {
    store: Store,
    key: Path,
    buffered: Vec<u8>,
    multipart: Option<WriteMultipart>,
    bytes: u64,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, bytes) = (&self.key, &self.bytes);
        f.debug_struct("Upload")
            .field("key", key)
            .field("bytes", bytes)
            .finish_non_exhaustive()
    }
}

impl Upload {
    pub(super) fn new(store: Store, key: Path) -> Self {
        Self {
            store,
            key,
            buffered: Vec::new(),
            multipart: None,
            bytes: 0,
        }
    }

    /// Bytes in memory that are not on their way yet.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.buffered.len()
    }

    /// Takes more bytes; waits while too many parts are on their way.
    pub(super) async fn push(&mut self, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.bytes += bytes.len() as u64;
        if self.multipart.is_none() && self.buffered.len() + bytes.len() <= SMALL_BYTES {
            if self.buffered.is_empty() {
                self.buffered = bytes;
            } else {
                self.buffered.extend_from_slice(&bytes);
            }
            return Ok(());
        }
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            none => {
                tracing::debug!(target: "tarndb::step", key = %self.key, "data_file.begin");
                let upload = self.store.objects().put_multipart(&self.key).await;
                let upload = upload.map_err(|error| failed(&self.key, error))?;
                none.insert(WriteMultipart::new_with_chunk_size(upload, SMALL_BYTES))
            }
        };
        for piece in [std::mem::take(&mut self.buffered), bytes] {
            let waited = multipart.wait_for_capacity(PARTS_IN_FLIGHT).await;
            waited.map_err(|error| failed(&self.key, error))?;
            multipart.put(Bytes::from(piece));
        }
        Ok(())
    }

    /// Completes the object: its size in bytes. One of at most `held_bytes_max` bytes is not
    /// stored but held, where the store has room for that.
    pub(super) async fn finish(
        self,
        held_bytes_max: usize,
    ) -> Result<(u64, Option<HeldFile>), StoreError> {
        let key = &self.key;
        let is_small = self.multipart.is_none() && self.buffered.len() <= held_bytes_max;
        if let Some(room) = self.store.held().filter(|_| is_small) {
            let file = room.hold(self.key.clone(), Bytes::from(self.buffered));
            return Ok((self.bytes, Some(file)));
        }
        match self.multipart {
            None => {
                tracing::debug!(target: "tarndb::step", key = %key, "data_file.begin");
                let (store, at) = (self.store.clone(), key.clone());
                let put = async move { store.put(&at, Bytes::from(self.buffered)).await };
                self.store.carry_out(key, put).await?;
            }
            Some(multipart) => {
                let at = key.clone();
                let finish = async move {
                    let finished = multipart.finish().await;
                    finished.map(drop).map_err(|error| failed(&at, error))
                };
                self.store.carry_out(key, finish).await?;
            }
        }
        tracing::debug!(target: "tarndb::step", key = %key, bytes = self.bytes, "data_file.end");
        Ok((self.bytes, None))
    }

    /// Gives the upload up; what cannot be cleaned away stays as garbage.
    pub(super) async fn abort(self) {
        if let Some(multipart) = self.multipart
            && let Err(error) = multipart.abort().await
        {
            tracing::debug!(key = %self.key, %error, "an abandoned upload was not cleaned away");
        }
    }
}

/// Stores files that were only held, a few at a time.
///
/// # Cost
/// One PUT per file that is not stored yet.
pub async fn store_held(
    store: &Store,
    files: impl IntoIterator<Item = HeldFile>,
) -> Result<(), StoreError> {
    let files: Vec<_> = files.into_iter().filter(|file| !file.is_stored()).collect();
    let stored = futures::stream::iter(files).map(|file| async move {
        let (key, bytes) = (file.key(), file.bytes().len());
        tracing::debug!(target: "tarndb::step", key = %key, "data_file.begin");
        store.store_held(&file).await?;
        tracing::debug!(target: "tarndb::step", key = %key, bytes, "data_file.end");
        Ok(())
    });
    stored.buffer_unordered(FILES_IN_FLIGHT).try_collect().await
}

fn failed(key: &Path, error: object_store::Error) -> StoreError {
    StoreError::from_objects("write", key, error)
}
