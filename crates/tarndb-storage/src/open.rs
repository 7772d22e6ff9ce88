//! From a URL and options to a store.
//!
//! Invariant: opening makes no request and creates nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

use crate::context::Context;
use crate::elsewhere::OpenStore;
use crate::environment::Environment;
use crate::error::StoreError;
use crate::local::DurableLocal;
use crate::location::{self, Cloud, Location};
use crate::options::{StoreOptions, invalid};
use crate::remote::Wanted;
use crate::retry::RetryPolicy;
use crate::store::Store;

/// Stores behind `memory://` URLs, by name, for as long as the process lives.
static MEMORY: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

/// Opens what `url` names; see [`StoreError::InvalidUrl`] for the accepted forms. Makes no
/// request and creates nothing: a folder appears with the first write.
///
/// # Errors
/// The text is no database URL, an option is unknown, refused or missing, or the path names a
/// file.
pub fn open(url: &str, options: &StoreOptions, context: Context) -> Result<Store, StoreError> {
    open_in(&Environment::of_process(), url, options, context)
}

/// The same in an environment that is not the process's.
///
/// # Errors
/// As [`open`].
pub fn open_in(
    environment: &Environment,
    url: &str,
    options: &StoreOptions,
    context: Context,
) -> Result<Store, StoreError> {
    let location = location::parse(url)?;
    let shown = shown(&location);
    let policy = options.retry_policy(match location {
        Location::Folder(_) => RetryPolicy::of_folder(),
        Location::Memory { .. } => RetryPolicy::default(),
        Location::Cloud { .. } => RetryPolicy::of_cloud(),
    })?;
    let objects: Arc<dyn ObjectStore> = match location {
        Location::Folder(path) => folder(path, options, &context)?,
        Location::Memory { name, prefix } => {
            no_cloud_options(options)?;
            let mut stores = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            let store = stores
                .entry(name)
                .or_insert_with(|| Arc::new(InMemory::new()));
            rooted(Arc::clone(store) as Arc<dyn ObjectStore>, prefix)
        }
        Location::Cloud {
            cloud,
            bucket,
            host,
            prefix,
        } => {
            let client = crate::remote::build(&Wanted {
                cloud,
                bucket: &bucket,
                host: host.as_deref(),
                options,
                environment,
                context: &context,
            })?;
            rooted(client, prefix)
        }
    };
    let objects = with_faults(objects, options, &context)?;
    let opener = opener(environment, options, &context);
    let store = Store::new(objects, &shown, context)
        .retrying(policy)
        .opening(opener);
    Ok(match options.disk_cache()? {
        None => store,
        Some(cache) => store.caching(cache, &identity(&shown, options, environment)),
    })
}

/// How the stores at other URLs are opened: in the same environment, with the options that
/// concern them.
fn opener(environment: &Environment, options: &StoreOptions, context: &Context) -> Arc<OpenStore> {
    let (environment, options) = (environment.clone(), options.clone());
    let context = context.clone();
    Arc::new(move |url| {
        let of_cloud = matches!(location::parse(url)?, Location::Cloud { .. });
        let options = options.elsewhere(of_cloud);
        open_in(&environment, url, &options, context.clone())
    })
}

/// What tells the store of a URL from all others: another endpoint or account may have buckets
/// of the same name.
fn identity(shown: &str, options: &StoreOptions, environment: &Environment) -> String {
    const TELLING: [&str; 3] = ["endpoint", "account", "profile"];
    let given = options.cloud();
    let ambient = environment.variables.iter();
    let ambient = ambient.map(|(name, value)| (name.as_str(), value.as_str()));
    let mut telling: Vec<String> = given
        .chain(ambient)
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| TELLING.iter().any(|word| name.contains(word)))
        .filter(|(name, _)| !name.contains("key"))
        .map(|(name, value)| format!("\n{name}={value}"))
        .collect();
    telling.sort_unstable();
    telling.insert(0, shown.to_owned());
    telling.concat()
}

fn folder(
    path: PathBuf,
    options: &StoreOptions,
    context: &Context,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    no_cloud_options(options)?;
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
        return Err(StoreError::NotAFolder {
            path: path.display().to_string(),
        });
    }
    Ok(Arc::new(DurableLocal::new(
        path,
        options.durability()?,
        context.clone(),
    )))
}

fn no_cloud_options(options: &StoreOptions) -> Result<(), StoreError> {
    options.durability()?;
    match options.cloud().next() {
        None => Ok(()),
        Some((key, _)) => Err(invalid(
            key,
            "not an option of a folder or of memory; docs/guide/storage.md lists the options",
        )),
    }
}

fn rooted(objects: Arc<dyn ObjectStore>, prefix: Path) -> Arc<dyn ObjectStore> {
    if prefix.is_root() {
        objects
    } else {
        Arc::new(PrefixStore::new(objects, prefix))
    }
}

/// The URL as shown to people; built from its parts, so that nothing secret can be in it.
pub(crate) fn shown(location: &Location) -> String {
    match location {
        Location::Folder(path) => path.display().to_string(),
        Location::Memory { name, prefix } => join(&format!("memory://{name}"), prefix),
        Location::Cloud {
            cloud,
            bucket,
            host,
            prefix,
        } => {
            let root = match (cloud, host) {
                (Cloud::Azure, Some(host)) => format!("abfss://{bucket}@{host}"),
                (Cloud::Azure, None) => format!("az://{bucket}"),
                (Cloud::S3, _) => format!("s3://{bucket}"),
                (Cloud::Gcs, _) => format!("gs://{bucket}"),
            };
            join(&root, prefix)
        }
    }
}

fn join(root: &str, prefix: &Path) -> String {
    if prefix.is_root() {
        root.to_owned()
    } else {
        format!("{root}/{prefix}")
    }
}

#[cfg(any(debug_assertions, feature = "test-util"))]
fn with_faults(
    objects: Arc<dyn ObjectStore>,
    options: &StoreOptions,
    context: &Context,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match crate::fault::FaultPlan::from_options(options)? {
        None => Ok(objects),
        Some(plan) => {
            let faults = crate::fault::FaultStore::reporting(objects, plan, context.clone())?;
            Ok(Arc::new(faults))
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "test-util")))]
fn with_faults(
    objects: Arc<dyn ObjectStore>,
    options: &StoreOptions,
    _context: &Context,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match options.fault().next() {
        None => Ok(objects),
        Some((key, _)) => Err(invalid(
            &format!("fault.{key}"),
            "faults are injected by debug builds only",
        )),
    }
}

#[cfg(test)]
mod tests;
