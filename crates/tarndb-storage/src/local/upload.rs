//! Multipart uploads to a folder, for files too large to hold in memory.
//!
//! Invariant: nothing is shown before every part is written and synced; a part whose future
//! was dropped makes `complete` fail instead of leaving a hole.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::blocking;
use super::disk::SyncPoint;
use super::error::{Effect, LocalError};
use super::folder::{Folder, Show};
use super::temp::Temp;

/// An upload in progress.
#[derive(Debug)]
pub(super) struct LocalUpload {
    shared: Arc<Shared>,
    target: PathBuf,
    /// Bytes handed to `put_part` so far; the next part starts here.
    offset: u64,
}

/// The temporary file; its name goes away with the last user.
#[derive(Debug)]
struct Shared {
    temp: Temp,
    written: AtomicU64,
}

impl LocalUpload {
    /// Starts an upload; blocks.
    pub(super) fn start(folder: &Arc<Folder>, target: PathBuf) -> Result<Self> {
        folder.check_root()?;
        folder.ensure_parent(&target)?;
        let shared = Arc::new(Shared {
            temp: folder.create_temp()?,
            written: AtomicU64::new(0),
        });
        Ok(Self {
            shared,
            target,
            offset: 0,
        })
    }
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let shared = Arc::clone(&self.shared);
        let mut offset = self.offset;
        self.offset += u64::try_from(data.content_length()).unwrap_or(u64::MAX);
        Box::pin(blocking(move || {
            for chunk in &data {
                shared.temp.write_at(chunk, offset)?;
                let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                offset += length;
                shared.written.fetch_add(length, Ordering::AcqRel);
            }
            Ok(())
        }))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let shared = Arc::clone(&self.shared);
        let (target, expected) = (self.target.clone(), self.offset);
        blocking(move || {
            let written = shared.written.load(Ordering::Acquire);
            if written != expected {
                let reason = format!("{written} of {expected} bytes were written");
                let source = std::io::Error::other(reason);
                let (action, effect) = ("complete an upload", Effect::None);
                return Err(LocalError {
                    action,
                    path: target,
                    effect,
                    source,
                }
                .into());
            }
            shared.temp.sync(SyncPoint::UploadData)?;
            shared.temp.show(&target, Show::Replace)?;
            Ok(PutResult {
                e_tag: None,
                version: None,
            })
        })
        .await
    }

    async fn abort(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            shared.temp.discard();
            Ok(())
        })
        .await
    }
}
