//! Copying objects from one store to another, through this process.
//!
//! Invariant: little memory, whatever the size; nothing is visible at the target before all of it
//! is there, and then it is durable.
//! Spec: docs/format/log.md, "What the store must do".

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _, WriteMultipart};

use crate::error::StoreError;
use crate::store::Store;

/// Parts of one upload, in bytes; an object of at most one is stored by one request.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one upload on their way at the same time.
const PARTS_IN_FLIGHT: usize = 2;

impl Store {
    /// Copies an object of another store to `to`, overwriting what is there.
    ///
    /// # Cost
    /// A HEAD; per 8 MiB a ranged GET and a part of an upload, for a smaller object a GET and a PUT.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is nothing to copy; [`StoreError::ShortRead`] when it
    /// ends early.
    pub async fn copy_from(&self, source: &Self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let info = source.head(from).await?;
        let size = info.ok_or_else(|| StoreError::NotFound {
            key: from.to_string(),
        })?;
        let size = size.size_bytes;
        if size <= PART_BYTES {
            return self.put(to, source.get_required(from).await?).await;
        }
        let upload = self.objects().put_multipart(to).await;
        let upload: Box<dyn MultipartUpload> = upload.map_err(|error| failed(to, error))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, 8 << 20);
        let mut start = 0;
        while start < size {
            let end = (start + PART_BYTES).min(size);
            let bytes = match source.get_range(from, start..end).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    // What cannot be cleaned away stays as garbage.
                    if let Err(error) = upload.abort().await {
                        tracing::debug!(key = %to, %error, "an abandoned upload was not cleaned away");
                    }
                    return Err(error);
                }
            };
            let waited = upload.wait_for_capacity(PARTS_IN_FLIGHT).await;
            waited.map_err(|error| failed(to, error))?;
            upload.put(bytes);
            start = end;
        }
        upload.finish().await.map_err(|error| failed(to, error))?;
        Ok(())
    }
}

fn failed(key: &Path, error: object_store::Error) -> StoreError {
    StoreError::from_objects("write an object", key, error)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use object_store::path::Path;

    use super::PART_BYTES;
    use crate::{Context, Store, StoreError};

    #[tokio::test]
    async fn objects_of_any_size_arrive_whole() {
        let (ours, theirs) = (
            Store::memory(Context::seeded(1)),
            Store::memory(Context::seeded(2)),
        );
        let (from, to) = (Path::from("a/x"), Path::from("b/y"));
        for size in [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES - 1] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let bytes = Bytes::from(bytes);
            theirs.put(&from, bytes.clone()).await.unwrap();
            ours.copy_from(&theirs, &from, &to).await.unwrap();
            assert!(ours.get(&to).await.unwrap() == Some(bytes), "{size}");
        }
        let missing = ours.copy_from(&theirs, &to, &from).await.unwrap_err();
        assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
    }
}
