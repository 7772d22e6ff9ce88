//! Two clients of one bucket behind one seam: each operation has an id, a budget and a told
//! error.
//!
//! Invariant: a conditional write is sent once per call, since a client that repeats it by
//! itself is told "already exists" by its own first attempt; only an answer by which the store
//! itself says that it did nothing and asks to try again is followed. "Already exists" is said
//! only when an object was in the way.
//! Spec: docs/format/log.md, "What the store must do".

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result, UploadPart,
};

use super::limits::{self, within};
use super::operation::Operation;
use super::secrets::Secrets;
use crate::context::Context;
use crate::ranges;

/// Attempts of a conditional write which the store asks to try again.
const ASKED_AGAIN_MAX: u32 = 4;
/// The pause before the second of them; each next one is twice as long.
const ASKED_AGAIN_PAUSE: Duration = Duration::from_millis(50);

/// A bucket: `once` for conditional writes, `patient` for everything else.
pub(super) struct Remote {
    pub(super) once: Arc<dyn ObjectStore>,
    pub(super) patient: Arc<dyn ObjectStore>,
    pub(super) context: Context,
    pub(super) secrets: Arc<Secrets>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The clients' own Debug shows their options.
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patient.fmt(f)
    }
}

impl Remote {
    fn operation(&self) -> Arc<Operation> {
        Operation::new(self.context.random_u64(), &self.secrets)
    }

    /// Runs one operation within its budget.
    async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        bounded(&self.context, &self.operation(), work).await
    }

    /// A conditional write. The answer "try again" (S3: 409 ConditionalRequestConflict) comes
    /// out of the client as "already exists".
    async fn put_once(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let operation = self.operation();
        let mut pause = ASKED_AGAIN_PAUSE;
        for attempt in 1.. {
            let put = self.once.put_opts(location, payload.clone(), opts.clone());
            let error = match bounded(&self.context, &operation, put).await {
                Ok(stored) => return Ok(stored),
                Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => error,
                Err(other) => return Err(other),
            };
            if !asks_to_try_again(operation.refusal()) {
                return Err(error);
            }
            if attempt >= ASKED_AGAIN_MAX {
                break;
            }
            self.context.sleep(self.context.jittered(pause)).await;
            pause *= 2;
        }
        // Nothing is known to be in the way: who asks must look.
        Err(operation.failed("the store keeps asking to try again"))
    }
}

/// Whether a refusal with a conflict's status says that there was another request, not that
/// there is an object. A pure function of status and code.
fn asks_to_try_again(refusal: Option<(u16, Option<String>)>) -> bool {
    match refusal {
        Some((409, Some(code))) => code != "BlobAlreadyExists",
        _ => false,
    }
}

async fn bounded<T>(
    context: &Context,
    operation: &Arc<Operation>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    match within(context, limits::OPERATION, operation.run(work)).await {
        Some(result) => result,
        None => Err(operation.failed("it took longer than an operation may")),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Remote {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        match opts.mode {
            PutMode::Create | PutMode::Update(_) => self.put_once(location, payload, opts).await,
            PutMode::Overwrite => {
                self.run(self.patient.put_opts(location, payload, opts))
                    .await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let operation = self.operation();
        let begun = self.patient.put_multipart_opts(location, opts);
        let upload = bounded(&self.context, &operation, begun).await?;
        Ok(Box::new(RemoteUpload {
            upload,
            operation,
            context: self.context.clone(),
            bucket: Arc::clone(&self.patient),
            location: location.clone(),
            bytes: 0,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = self.operation();
        let get = self.patient.get_opts(location, options);
        let mut result = bounded(&self.context, &operation, get).await?;
        result.payload = match result.payload {
            GetResultPayload::Stream(stream) => GetResultPayload::Stream(operation.stream(stream)),
            other => other,
        };
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = |range| self.patient.get_range(location, range);
        self.run(ranges::fetch(ranges, read)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.operation()
            .stream(self.patient.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.operation().stream(self.patient.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.patient.list_with_offset(prefix, offset);
        self.operation().stream(listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.run(self.patient.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let client = match options.mode {
            CopyMode::Create => &self.once,
            CopyMode::Overwrite => &self.patient,
        };
        self.run(client.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let client = match options.target_mode {
            RenameTargetMode::Create => &self.once,
            RenameTargetMode::Overwrite => &self.patient,
        };
        self.run(client.rename_opts(from, to, options)).await
    }
}

/// An upload whose requests all belong to one operation; each has a budget of its own.
#[derive(Debug)]
struct RemoteUpload {
    upload: Box<dyn MultipartUpload>,
    operation: Arc<Operation>,
    context: Context,
    bucket: Arc<dyn ObjectStore>,
    location: Path,
    /// Of all parts.
    bytes: u64,
}

#[async_trait]
impl MultipartUpload for RemoteUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.bytes += data.content_length() as u64;
        let part = self.upload.put_part(data);
        let (context, operation) = (self.context.clone(), Arc::clone(&self.operation));
        async move { bounded(&context, &operation, part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (context, operation) = (&self.context, &self.operation);
        let error = match bounded(context, operation, self.upload.complete()).await {
            Ok(stored) => return Ok(stored),
            Err(error) => error,
        };
        // The store no longer knows an upload that it has completed: so it answers the
        // repetition of a request whose answer was lost.
        if operation.refusal().and_then(|(_, code)| code).as_deref() != Some("NoSuchUpload") {
            return Err(error);
        }
        match bounded(context, operation, self.bucket.head(&self.location)).await {
            Ok(found) if found.size == self.bytes => Ok(PutResult {
                e_tag: found.e_tag,
                version: found.version,
            }),
            _ => Err(error),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        bounded(&self.context, &self.operation, self.upload.abort()).await
    }
}
