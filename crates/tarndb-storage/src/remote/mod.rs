//! Clients of S3, Google Cloud Storage and Azure Blob Storage.
//!
//! Invariant: building makes no request; no option's value gets into an error.
//! Spec: docs/format/log.md, "What the store must do"; docs/guide/storage.md.
//!
//! - `client`: the seam above the clients of the `object_store` crate, one operation at a time.
//! - `operation`: its id, what was answered, the error that tells. `http`: the wire below.
//! - `limits`: how long. `settings`, `profile`, `connection_string`: from options and
//!   environment. `secrets`: what no message may repeat.

mod client;
mod connection_string;
mod http;
mod limits;
mod operation;
mod profile;
mod secrets;
mod settings;

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, RetryConfig};

use self::client::Remote;
use self::http::WatchedConnector;
pub use self::operation::RemoteFailure;
use self::secrets::Secrets;
use self::settings::{Setting, Settings};
use crate::context::Context;
use crate::environment::Environment;
use crate::error::StoreError;
use crate::location::Cloud;
use crate::options::{StoreOptions, invalid};

/// What a client is made of.
pub(crate) struct Wanted<'a> {
    pub(crate) cloud: Cloud,
    /// Bucket or container.
    pub(crate) bucket: &'a str,
    /// Azure only: the account's host of an abfss URL.
    pub(crate) host: Option<&'a str>,
    pub(crate) options: &'a StoreOptions,
    pub(crate) environment: &'a Environment,
    pub(crate) context: &'a Context,
}

type Built = (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>, Secrets);

/// Builds the client of a bucket; makes no request.
///
/// # Errors
/// [`StoreError::InvalidOption`] for an option that this cloud's client does not know or
/// accept, and for one that is missing.
pub(crate) fn build(wanted: &Wanted<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let (once, patient, secrets) = match wanted.cloud {
        Cloud::S3 => s3(wanted)?,
        Cloud::Gcs => gcs(wanted)?,
        Cloud::Azure => azure(wanted)?,
    };
    Ok(Arc::new(Remote {
        once,
        patient,
        context: wanted.context.clone(),
        secrets: Arc::new(secrets),
    }))
}

fn s3(wanted: &Wanted<'_>) -> Result<Built, StoreError> {
    let settings: Settings<AmazonS3ConfigKey> = settings::s3(wanted.options, wanted.environment)?;
    let connector = WatchedConnector::new(wanted.context);
    let blank = || {
        AmazonS3Builder::new()
            .with_bucket_name(wanted.bucket)
            .with_client_options(limits::client_options())
            .with_http_connector(connector.clone())
    };
    let client = |retry: RetryConfig| {
        let builder = settings.all.iter().fold(blank(), |builder, setting| {
            builder.with_config(setting.key, setting.value.as_str())
        });
        builder
            .with_bucket_name(wanted.bucket)
            .with_retry(retry)
            .build()
    };
    let accepted = |setting: &Setting<AmazonS3ConfigKey>| {
        let alone = blank().with_config(setting.key, setting.value.as_str());
        let credential = [
            AmazonS3ConfigKey::AccessKeyId,
            AmazonS3ConfigKey::SecretAccessKey,
        ];
        credential.contains(&setting.key) || alone.build().is_ok()
    };
    built(wanted, &settings, client, accepted)
}

fn gcs(wanted: &Wanted<'_>) -> Result<Built, StoreError> {
    let settings: Settings<GoogleConfigKey> = settings::gcs(wanted.options, wanted.environment)?;
    let connector = WatchedConnector::new(wanted.context);
    let blank = || {
        GoogleCloudStorageBuilder::new()
            .with_client_options(limits::client_options())
            .with_http_connector(connector.clone())
    };
    let client = |retry: RetryConfig| {
        let builder = settings.all.iter().fold(blank(), |builder, setting| {
            builder.with_config(setting.key, setting.value.as_str())
        });
        builder
            .with_bucket_name(wanted.bucket)
            .with_retry(retry)
            .build()
    };
    let accepted = |setting: &Setting<GoogleConfigKey>| {
        let alone = blank().with_bucket_name(wanted.bucket);
        alone
            .with_config(setting.key, setting.value.as_str())
            .build()
            .is_ok()
    };
    built(wanted, &settings, client, accepted)
}

fn azure(wanted: &Wanted<'_>) -> Result<Built, StoreError> {
    let named = wanted.host.is_some();
    let settings: Settings<AzureConfigKey> =
        settings::azure(wanted.options, wanted.environment, named)?;
    let connector = WatchedConnector::new(wanted.context);
    let blank = || {
        MicrosoftAzureBuilder::new()
            .with_client_options(limits::client_options())
            .with_http_connector(connector.clone())
    };
    let place = |builder: MicrosoftAzureBuilder| match wanted.host {
        Some(host) => builder.with_url(format!("abfss://{}@{host}/", wanted.bucket)),
        None => builder.with_container_name(wanted.bucket),
    };
    let client = |retry: RetryConfig| {
        let builder = settings.all.iter().fold(blank(), |builder, setting| {
            builder.with_config(setting.key, setting.value.as_str())
        });
        place(builder).with_retry(retry).build()
    };
    let accepted = |setting: &Setting<AzureConfigKey>| {
        let alone = blank()
            .with_account("account")
            .with_container_name("container");
        alone
            .with_config(setting.key, setting.value.as_str())
            .build()
            .is_ok()
    };
    built(wanted, &settings, client, accepted)
}

fn built<K, T: ObjectStore>(
    wanted: &Wanted<'_>,
    settings: &Settings<K>,
    client: impl Fn(RetryConfig) -> object_store::Result<T>,
    is_accepted: impl Fn(&Setting<K>) -> bool,
) -> Result<Built, StoreError> {
    // The client's message may repeat a value, so only what it is about is told.
    let refused = |_| {
        let cloud = settings::name(wanted.cloud);
        match settings::culprits(settings, &is_accepted).first() {
            Some(name) => invalid(
                name,
                format!("{cloud} does not accept its value; see docs/guide/storage.md"),
            ),
            None => invalid(
                cloud,
                "the client refused its settings together; check account, endpoint and \
                 credentials",
            ),
        }
    };
    let once: Arc<dyn ObjectStore> = Arc::new(client(limits::once()).map_err(refused)?);
    let patient: Arc<dyn ObjectStore> = Arc::new(client(limits::patient()).map_err(refused)?);
    Ok((once, patient, settings.secrets.clone()))
}
