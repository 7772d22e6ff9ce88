//! Clients of S3, Google Cloud Storage and Azure Blob Storage.
//!
//! Invariant: a conditional write is sent once per call, since a client that repeats it by
//! itself is told "already exists" by its own first attempt. Everything else is repeated.
//! Does not: show option values in any error.
//! Spec: docs/format/log.md, "What the store must do".

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    RenameTargetMode, Result, RetryConfig,
};

use crate::error::StoreError;
use crate::location::Cloud;
use crate::options::{StoreOptions, invalid};

/// How long an unconditional request is repeated: long enough to sit out throttling, short
/// enough that a store which is not there is reported while the user still waits.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the client of a bucket; makes no request.
///
/// # Errors
/// [`StoreError::InvalidOption`] for an option that this cloud's client does not know or accept.
pub(crate) fn build(
    cloud: Cloud,
    bucket: &str,
    host: Option<&str>,
    options: &StoreOptions,
) -> std::result::Result<Arc<dyn ObjectStore>, StoreError> {
    let never = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let patient = RetryConfig {
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let client = |retry: RetryConfig| match cloud {
        Cloud::S3 => s3(bucket, options, retry),
        Cloud::Gcs => gcs(bucket, options, retry),
        Cloud::Azure => azure(bucket, host, options, retry),
    };
    let (once, patient) = (client(never)?, client(patient)?);
    Ok(Arc::new(SplitRetry { once, patient }))
}

type Client = std::result::Result<Arc<dyn ObjectStore>, StoreError>;

fn key<K: FromStr>(name: &str, cloud: &str) -> std::result::Result<K, StoreError> {
    let lower = name.to_ascii_lowercase();
    K::from_str(&lower).map_err(|_| invalid(name, format!("not an option of {cloud}")))
}

fn s3(bucket: &str, options: &StoreOptions, retry: RetryConfig) -> Client {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry);
    for (name, value) in options.cloud() {
        builder = builder.with_config(key::<AmazonS3ConfigKey>(name, "S3")?, value);
    }
    builder
        .build()
        .map(wrap)
        .map_err(|error| unbuilt("S3", &error))
}

fn gcs(bucket: &str, options: &StoreOptions, retry: RetryConfig) -> Client {
    let builder = GoogleCloudStorageBuilder::from_env();
    let mut builder = builder.with_bucket_name(bucket).with_retry(retry);
    for (name, value) in options.cloud() {
        builder = builder.with_config(key::<GoogleConfigKey>(name, "GCS")?, value);
    }
    builder
        .build()
        .map(wrap)
        .map_err(|error| unbuilt("GCS", &error))
}

fn azure(
    container: &str,
    host: Option<&str>,
    options: &StoreOptions,
    retry: RetryConfig,
) -> Client {
    let builder = MicrosoftAzureBuilder::from_env().with_retry(retry);
    let mut builder = match host {
        Some(host) => builder.with_url(format!("abfss://{container}@{host}/")),
        None => builder.with_container_name(container),
    };
    for (name, value) in options.cloud() {
        builder = builder.with_config(key::<AzureConfigKey>(name, "Azure")?, value);
    }
    builder
        .build()
        .map(wrap)
        .map_err(|error| unbuilt("Azure", &error))
}

fn wrap<T: ObjectStore>(store: T) -> Arc<dyn ObjectStore> {
    Arc::new(store)
}

/// The builder's message may repeat a value, so only what it is about is told.
fn unbuilt(cloud: &str, error: &object_store::Error) -> StoreError {
    tracing::debug!(cloud, "the client could not be built");
    let reason = match error {
        object_store::Error::UnknownConfigurationKey { key, .. } => {
            return invalid(key, format!("not an option of {cloud}"));
        }
        _ => {
            "the client refused its options or the environment's; \
              check account, region, endpoint and credentials"
        }
    };
    invalid(cloud, reason)
}

/// Two clients of one bucket: `once` for conditional writes, `patient` for everything else.
struct SplitRetry {
    once: Arc<dyn ObjectStore>,
    patient: Arc<dyn ObjectStore>,
}

impl fmt::Debug for SplitRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The clients' own Debug shows their options.
        f.debug_struct("SplitRetry").finish_non_exhaustive()
    }
}

impl fmt::Display for SplitRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patient.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for SplitRetry {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let client = match opts.mode {
            PutMode::Create | PutMode::Update(_) => &self.once,
            PutMode::Overwrite => &self.patient,
        };
        client.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.patient.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.patient.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.patient.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.patient.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.patient.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.patient.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.patient.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let client = match options.mode {
            CopyMode::Create => &self.once,
            CopyMode::Overwrite => &self.patient,
        };
        client.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let client = match options.target_mode {
            RenameTargetMode::Create => &self.once,
            RenameTargetMode::Overwrite => &self.patient,
        };
        client.rename_opts(from, to, options).await
    }
}
