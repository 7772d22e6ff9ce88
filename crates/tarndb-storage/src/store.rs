//! `Store`: what every other crate sees of a bucket or a folder.
//!
//! Invariant: a key is relative to the root of the store and never leaves it; the answer of
//! `put_if_absent` is never better than what is known (`Unknown` when nobody can tell).
//! Does not: retry a conditional write by itself; know what the bytes mean.
//! Spec: docs/format/log.md, "What the store must do".

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
};
use tarndb_types::TimestampMs;

use crate::context::Context;
use crate::derived::{Derived, ObjectId};
use crate::disk_cache::{DiskCache, DiskCacheOptions};
use crate::elsewhere::{Elsewhere, OpenStore, ReachingStore};
use crate::error::StoreError;
use crate::held::{Held, HeldFile, HeldStore, Origin};
use crate::meter::{Meter, MeteredStore};
use crate::options::StoreOptions;
use crate::retry::{RetryPolicy, RetryStore};
use crate::staged::Staged;
use crate::write_once::WriteOnce;

/// The answer to a put-if-absent.
#[derive(Debug)]
pub enum PutOutcome {
    /// The object did not exist and now holds our bytes, durably.
    Created,
    /// Somebody holds the name: another writer, or our own earlier attempt. Read to tell.
    AlreadyExists,
    /// The request may or may not have taken effect. Read to tell.
    Unknown(StoreError),
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Key relative to the root of the store.
    pub key: Path,
    /// Size in bytes.
    pub size_bytes: u64,
    /// When the store says it was written.
    pub last_modified: TimestampMs,
}

/// A rooted object store with a request meter and a context. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    /// What is stored, without what is held.
    stored: Arc<dyn ObjectStore>,
    held: Option<Held>,
    derived: Derived,
    disk_cache: Option<DiskCache>,
    /// How stores at other URLs are opened with the options of this one.
    opener: Option<Arc<OpenStore>>,
    /// Where data files are noted that are written through this clone.
    staged: Option<Staged>,
    url: Arc<str>,
    meter: Meter,
    context: Context,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Wraps `objects`, which must be rooted at the database or table already, with a meter.
    /// `url` is shown to people and must not hold secrets.
    pub fn new(objects: Arc<dyn ObjectStore>, url: &str, context: Context) -> Self {
        let meter = Meter::default();
        let objects: Arc<dyn ObjectStore> = Arc::new(MeteredStore::new(objects, meter.clone()));
        Self {
            stored: Arc::clone(&objects),
            objects,
            held: None,
            derived: Derived::default(),
            disk_cache: None,
            opener: None,
            staged: None,
            url: url.into(),
            meter,
            context,
        }
    }

    /// This store, with requests bounded in time, and repeated where that is safe. Held
    /// objects are not taken along.
    #[must_use]
    pub fn retrying(&self, policy: RetryPolicy) -> Self {
        let inner = Arc::clone(&self.stored);
        let stored: Arc<dyn ObjectStore> =
            Arc::new(RetryStore::new(inner, policy, self.context.clone()));
        Self {
            objects: Arc::clone(&stored),
            stored,
            held: None,
            ..self.clone()
        }
    }

    /// A store of its own in memory.
    pub fn memory(context: Context) -> Self {
        Self::new(Arc::new(InMemory::new()), "memory://", context)
    }

    /// This store, with room for objects that can be read before they are stored; those that
    /// `origin` knows are there at once. Requests are counted together.
    #[must_use]
    pub fn holding(&self, origin: Arc<dyn Origin>) -> Self {
        let held = Held::new(origin);
        let objects = HeldStore::new(Arc::clone(&self.stored), held.clone());
        Self {
            objects: Arc::new(objects),
            held: Some(held),
            ..self.clone()
        }
    }

    /// This store with a cache on disk for what is read by [`Self::write_once`]. `identity`
    /// tells the store from all others, endpoint included.
    #[must_use]
    pub fn caching(self, options: DiskCacheOptions, identity: &str) -> Self {
        let cache = DiskCache::new(options, identity, self.context.clone());
        Self {
            disk_cache: Some(cache),
            ..self
        }
    }

    /// This store, with a way to open those at other URLs.
    #[must_use]
    pub fn opening(self, opener: Arc<OpenStore>) -> Self {
        Self {
            opener: Some(opener),
            ..self
        }
    }

    /// This store, with the objects of others below `dir`: those of the store at a URL under
    /// the keys that begin with its [`elsewhere_key`](crate::elsewhere_key). They are opened
    /// with the options of this one, as far as these concern them. Held objects are not taken
    /// along; requests are counted together.
    #[must_use]
    pub fn reaching(&self, dir: &str) -> Self {
        let opener = self.opener.clone().unwrap_or_else(|| {
            let context = self.context.clone();
            Arc::new(move |url| crate::open(url, &StoreOptions::default(), context.clone()))
        });
        let elsewhere = Elsewhere::new(dir, opener, self.meter.clone());
        let stored: Arc<dyn ObjectStore> =
            Arc::new(ReachingStore::new(Arc::clone(&self.stored), elsewhere));
        Self {
            objects: Arc::clone(&stored),
            stored,
            held: None,
            ..self.clone()
        }
    }

    /// This store, with what is written through [`Self::carry_out`] noted.
    #[must_use]
    pub fn staging(&self, staged: Staged) -> Self {
        Self {
            staged: Some(staged),
            ..self.clone()
        }
    }

    /// Where it is noted, if it is.
    pub(crate) fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// This store without what is held or cached: what anybody else would see.
    #[must_use]
    pub fn direct(&self) -> Self {
        Self {
            objects: Arc::clone(&self.stored),
            held: None,
            derived: Derived::default(),
            disk_cache: None,
            ..self.clone()
        }
    }

    /// Room for objects that can be read before they are stored, if there is any.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// What was computed from objects that never change.
    pub fn derived(&self) -> &Derived {
        &self.derived
    }

    pub(crate) fn disk_cache(&self) -> Option<&DiskCache> {
        self.disk_cache.as_ref()
    }

    /// An object that is never written again once it exists; makes no request.
    pub fn write_once(&self, id: ObjectId) -> WriteOnce {
        WriteOnce::new(self.clone(), id)
    }

    /// Stores a held object, unless that was done before; one request. Durable when it returns.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn store_held(&self, file: &HeldFile) -> Result<(), StoreError> {
        if file.is_stored() {
            return Ok(());
        }
        self.store_held_bytes(file.key(), file.bytes().clone())
            .await
    }

    /// Stores bytes that a writer may hold under `key`; one request. Durable when it returns.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn store_held_bytes(&self, key: &Path, bytes: Bytes) -> Result<(), StoreError> {
        let (store, at) = (self.clone(), key.clone());
        let put = async move { store.put(&at, bytes).await };
        self.carry_out(key, put).await?;
        if let Some(held) = &self.held {
            held.note_stored(key);
        }
        Ok(())
    }

    /// Time and randomness of this handle.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The requests made through this handle and its clones.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Where the root is. Holds no secrets.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The rooted and metered object store, for Parquet files and the query engine.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects)
    }

    /// Creates `key` unless it exists; one request.
    ///
    /// # Errors
    /// The object is definitely not stored by this request: refused before any effect.
    pub async fn put_if_absent(&self, key: &Path, bytes: Bytes) -> Result<PutOutcome, StoreError> {
        let error = match self
            .objects
            .put_opts(key, bytes.into(), PutMode::Create.into())
            .await
        {
            Ok(_) => return Ok(PutOutcome::Created),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                return Ok(PutOutcome::AlreadyExists);
            }
            Err(error) => StoreError::from_objects("create an object", key, error),
        };
        if error.is_not_stored() {
            Err(error)
        } else {
            Ok(PutOutcome::Unknown(error))
        }
    }

    /// Writes `key`, overwriting what is there; one request. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::is_not_stored`] tells whether it can have taken effect.
    pub async fn put(&self, key: &Path, bytes: Bytes) -> Result<(), StoreError> {
        let result = self
            .objects
            .put_opts(key, bytes.into(), PutMode::Overwrite.into())
            .await;
        result
            .map(|_| ())
            .map_err(|error| StoreError::from_objects("write an object", key, error))
    }

    /// Copies an object to another key, overwriting what is there; one request, and no bytes on
    /// the way where the store copies by itself. Durable when it returns. Objects that are only
    /// held are not there to be copied.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is nothing to copy.
    pub async fn copy(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let copied = self.objects.copy_opts(from, to, CopyOptions::new()).await;
        copied.map_err(|error| StoreError::from_objects("copy an object", from, error))
    }

    /// The whole object, or `None` when it does not exist; one request.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn get(&self, key: &Path) -> Result<Option<Bytes>, StoreError> {
        match self.get_required(key).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The whole object; one request.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it does not exist.
    pub async fn get_required(&self, key: &Path) -> Result<Bytes, StoreError> {
        let failed = |error| StoreError::from_objects("read an object", key, error);
        let result = self
            .objects
            .get_opts(key, GetOptions::default())
            .await
            .map_err(failed)?;
        let (start, end) = (result.range.start, result.range.end);
        let bytes = result.bytes().await.map_err(failed)?;
        exact_length(key, start..end, bytes)
    }

    /// Exactly the bytes of `range`; one request, none for an empty range.
    ///
    /// # Errors
    /// [`StoreError::ShortRead`] when the object ends within the range.
    pub async fn get_range(&self, key: &Path, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let failed = |error| StoreError::from_objects("read a range", key, error);
        let options = GetOptions {
            range: Some(range.clone().into()),
            ..GetOptions::default()
        };
        let result = self.objects.get_opts(key, options).await.map_err(failed)?;
        exact_length(key, range, result.bytes().await.map_err(failed)?)
    }

    /// Size and time of an object, or `None` when it does not exist; one request.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn head(&self, key: &Path) -> Result<Option<ObjectInfo>, StoreError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.objects.get_opts(key, options).await {
            Ok(result) => Ok(Some(object_info(result.meta))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::from_objects("look at an object", key, error)),
        }
    }

    /// Every object below `dir`, at any depth, with a key strictly greater than `after` (a full
    /// key), ascending by the bytes of the key; one request per 1,000 names.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn list_after(
        &self,
        dir: &Path,
        after: Option<&Path>,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let prefix = Some(dir);
        let stream = match after {
            Some(offset) => self.objects.list_with_offset(prefix, offset),
            None => self.objects.list(prefix),
        };
        let metas: Vec<ObjectMeta> = stream
            .try_collect()
            .await
            .map_err(|error| StoreError::from_objects("list a folder", dir, error))?;
        // Some stores ignore the offset, and none promises an order.
        let mut infos: Vec<ObjectInfo> = metas
            .into_iter()
            .filter(|meta| after.is_none_or(|offset| meta.location > *offset))
            .map(object_info)
            .collect();
        infos.sort_by(|a, b| a.key.cmp(&b.key));
        infos.dedup_by(|a, b| a.key == b.key);
        Ok(infos)
    }

    /// Deletes an object; one request. One that does not exist is no error.
    ///
    /// # Errors
    /// The store did not answer, or refused.
    pub async fn delete(&self, key: &Path) -> Result<(), StoreError> {
        match self.objects.delete(key).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StoreError::from_objects("delete an object", key, error)),
        }
    }
}

fn exact_length(key: &Path, wanted: Range<u64>, bytes: Bytes) -> Result<Bytes, StoreError> {
    let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if got == wanted.end.saturating_sub(wanted.start) {
        return Ok(bytes);
    }
    let Range { start, end } = wanted;
    Err(StoreError::ShortRead {
        key: key.to_string(),
        start,
        end,
        got,
    })
}

fn object_info(meta: ObjectMeta) -> ObjectInfo {
    ObjectInfo {
        key: meta.location,
        size_bytes: meta.size,
        last_modified: TimestampMs(meta.last_modified.timestamp_millis()),
    }
}
