//! `DurableLocal`: a folder as an object store whose writes survive a power cut.
//!
//! Invariant: acknowledged means on the disk, and a create has one winner; see `folder`.
//! Keys are literal file names below the root. Does not: sync deletions; support attributes
//! or conditional updates.
//! Spec: docs/format/log.md, "What the store must do"; docs/durability.md.

mod disk;
mod error;
mod folder;
mod list;
mod names;
#[cfg(any(test, feature = "test-util"))]
pub mod powercut;
mod root;
mod temp;
mod upload;

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode,
    Result,
};

use crate::context::Context;
use crate::error::StoreError;
use crate::options::Durability;

pub use self::disk::SyncPoint;
use self::disk::{Disk, SystemDisk};
use self::error::failed;
pub use self::error::{Effect, LocalError};
use self::folder::{Folder, Show, Shown};
use self::upload::LocalUpload;

/// Reads of at most this many bytes come back at once, larger ones as an open file.
const READ_AT_ONCE_BYTES: u64 = 8 << 20;
/// Deletions of one stream that run side by side.
const DELETE_CONCURRENCY: usize = 8;

/// A folder as an object store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DurableLocal {
    folder: Arc<Folder>,
}

impl DurableLocal {
    /// A store over `root`, an absolute path, which need not exist. Touches nothing.
    pub fn new(root: impl Into<PathBuf>, durability: Durability, context: Context) -> Self {
        Self::over(root.into(), Box::new(SystemDisk { durability }), &context)
    }

    fn over(root: PathBuf, disk: Box<dyn Disk>, context: &Context) -> Self {
        // The process id keeps processes with equal seeds apart.
        let prefix = format!("{}-{}", std::process::id(), context.uuid().simple());
        Self {
            folder: Arc::new(Folder::new(root, disk, prefix)),
        }
    }
}

impl fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableLocal({})", self.folder.root().display())
    }
}

/// Runs blocking work where it may block.
async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

fn already_exists(key: &Path) -> Error {
    Error::AlreadyExists {
        path: key.to_string(),
        source: "the file exists".into(),
    }
}

fn finished(key: &Path, shown: Shown) -> Result<()> {
    match shown {
        Shown::Done => Ok(()),
        Shown::Exists => Err(already_exists(key)),
    }
}

fn not_implemented(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "the local folder store".to_owned(),
    }
}

/// An error of a read: absence is told as such.
/// A range that begins behind the end says that the file was cut off.
fn out_of_range(
    key: &Path,
    wanted: &GetRange,
    size_bytes: u64,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    match wanted {
        GetRange::Bounded(range) if !range.is_empty() => StoreError::ShortRead {
            key: key.to_string(),
            start: range.start,
            end: range.end,
            got: size_bytes.saturating_sub(range.start),
        }
        .into_objects(),
        _ => Error::Generic {
            store: "local folder",
            source: Box::new(error),
        },
    }
}

fn read_failed(key: &Path, path: &std::path::Path, error: std::io::Error) -> Error {
    if list::is_absent(&error) {
        return Error::NotFound {
            path: key.to_string(),
            source: Box::new(error),
        };
    }
    failed("read", path, Effect::None)(error).into()
}

fn read_range(file: &File, range: &Range<u64>) -> std::io::Result<Bytes> {
    let length = usize::try_from(range.end.saturating_sub(range.start));
    let mut buffer = vec![0; length.map_err(std::io::Error::other)?];
    file.read_exact_at(&mut buffer, range.start)?;
    Ok(buffer.into())
}

impl Folder {
    fn open(&self, key: &Path) -> Result<(PathBuf, File, ObjectMeta)> {
        let path = self.path(key)?;
        self.check_root()?;
        let file = File::open(&path).map_err(|error| read_failed(key, &path, error))?;
        let metadata = file
            .metadata()
            .map_err(|error| read_failed(key, &path, error))?;
        if !metadata.is_file() {
            return Err(Error::NotFound {
                path: key.to_string(),
                source: "not a file".into(),
            });
        }
        self.require_durable(&path, &metadata)?;
        Ok((path, file, list::object_meta(key.clone(), &metadata)))
    }

    fn get(&self, key: &Path, options: &GetOptions) -> Result<GetResult> {
        let (path, file, meta) = self.open(key)?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            None => 0..meta.size,
            Some(wanted) => wanted
                .as_range(meta.size)
                .map_err(|error| out_of_range(key, wanted, meta.size, error))?,
        };
        let length = range.end.saturating_sub(range.start);
        let payload = if options.head {
            GetResultPayload::Stream(futures::stream::empty().boxed())
        } else if length > READ_AT_ONCE_BYTES {
            GetResultPayload::File(file, path)
        } else {
            let bytes = read_range(&file, &range).map_err(|e| read_failed(key, &path, e))?;
            GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed())
        };
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: Attributes::default(),
        })
    }

    fn get_ranges(&self, key: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (path, file, meta) = self.open(key)?;
        let read = |range: &Range<u64>| {
            let clamped = range.start.min(meta.size)..range.end.min(meta.size);
            read_range(&file, &clamped).map_err(|error| read_failed(key, &path, error))
        };
        ranges.iter().map(read).collect()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for DurableLocal {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let show = match opts.mode {
            PutMode::Create => Show::Create,
            PutMode::Overwrite => Show::Replace,
            PutMode::Update(_) => return Err(not_implemented("a conditional update")),
        };
        if !opts.attributes.is_empty() {
            return Err(not_implemented("writing attributes"));
        }
        let (folder, key) = (Arc::clone(&self.folder), location.clone());
        blocking(move || {
            finished(&key, folder.put(&key, &payload, show)?)?;
            Ok(PutResult {
                e_tag: None,
                version: None,
            })
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(not_implemented("writing attributes"));
        }
        let (folder, key) = (Arc::clone(&self.folder), location.clone());
        blocking(move || {
            let target = folder.path(&key)?;
            let upload = LocalUpload::start(&folder, target)?;
            Ok(Box::new(upload) as Box<dyn MultipartUpload>)
        })
        .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (folder, key) = (Arc::clone(&self.folder), location.clone());
        blocking(move || folder.get(&key, &options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (folder, key, ranges) = (Arc::clone(&self.folder), location.clone(), ranges.to_vec());
        blocking(move || folder.get_ranges(&key, &ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let folder = Arc::clone(&self.folder);
        let delete = move |location: Result<Path>| {
            let folder = Arc::clone(&folder);
            blocking(move || {
                let key = location?;
                let path = folder.path(&key)?;
                match folder.delete(&path) {
                    Ok(()) => Ok(key),
                    Err(error) => Err(match list::is_absent(&error.source) {
                        true => read_failed(&key, &path, error.source),
                        false => error.into(),
                    }),
                }
            })
        };
        locations.map(delete).buffered(DELETE_CONCURRENCY).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_from(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_from(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (folder, prefix) = (
            Arc::clone(&self.folder),
            prefix.cloned().unwrap_or_default(),
        );
        blocking(move || Ok(list::list_shallow(&folder, &prefix)?)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let show = match options.mode {
            CopyMode::Create => Show::Create,
            CopyMode::Overwrite => Show::Replace,
        };
        let (folder, from, to) = (Arc::clone(&self.folder), from.clone(), to.clone());
        blocking(move || match folder.copy(&from, &to, show) {
            Ok(shown) => finished(&to, shown),
            Err(error) if error.action == "open" => {
                Err(read_failed(&from, &error.path, error.source))
            }
            Err(error) => Err(error.into()),
        })
        .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let mode = match options.target_mode {
            RenameTargetMode::Create => CopyMode::Create,
            RenameTargetMode::Overwrite => CopyMode::Overwrite,
        };
        self.copy_opts(from, to, CopyOptions::new().with_mode(mode))
            .await?;
        self.delete(from).await
    }
}

impl DurableLocal {
    fn list_from(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (folder, prefix) = (
            Arc::clone(&self.folder),
            prefix.cloned().unwrap_or_default(),
        );
        let offset = offset.cloned();
        let listing = blocking(move || {
            let found = list::list(&folder, &prefix, offset.as_ref())?;
            Ok(futures::stream::iter(found.into_iter().map(Ok)))
        });
        futures::stream::once(listing).try_flatten().boxed()
    }
}

#[cfg(test)]
mod tests;
