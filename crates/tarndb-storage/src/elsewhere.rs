//! `Elsewhere`: objects of other stores under keys of this one.
//!
//! Invariant: a key `<dir>/<url>/<rest>` is the object `<rest>` of the store at `url` (percent-
//! encoded into one segment); every other key is this store's own. Which store a key leads to
//! follows from the key alone, so nobody has to register anything. Opening makes no request.
//! Does not: let a key leave the store that its URL names.
//! Spec: docs/format/log.md, "Attached tables".

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::StoreError;
use crate::meter::{Meter, MeteredStore};
use crate::store::Store;

/// What a URL keeps in a key.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Deletions under way at the same time.
const DELETES_AT_ONCE: usize = 16;

/// How the store of a URL is opened; makes no request.
pub type OpenStore = dyn Fn(&str) -> std::result::Result<Store, StoreError> + Send + Sync;

/// The key below `dir` under which the store at `url` is reached; `None` for a URL that cannot
/// be part of a key.
pub fn elsewhere_key(dir: &str, url: &str) -> Option<Path> {
    Path::parse(format!("{dir}/{}", utf8_percent_encode(url, ENCODED))).ok()
}

/// The stores that were reached so far. Clones are one.
#[derive(Clone)]
pub(crate) struct Elsewhere(Arc<Shared>);

struct Shared {
    dir: String,
    open: Arc<OpenStore>,
    meter: Meter,
    opened: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
}

/// A store and where its keys begin.
struct Place {
    objects: Arc<dyn ObjectStore>,
    prefix: String,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Elsewhere").field(&self.0.dir).finish()
    }
}

impl Elsewhere {
    pub(crate) fn new(dir: &str, open: Arc<OpenStore>, meter: Meter) -> Self {
        Self(Arc::new(Shared {
            dir: dir.to_owned(),
            open,
            meter,
            opened: Mutex::default(),
        }))
    }

    /// The store that a key leads to, and the key there; `None` for this store's own.
    fn place(&self, key: &Path) -> Result<Option<(Place, Path)>> {
        let rest = key.as_ref().strip_prefix(self.0.dir.as_str());
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix('/')) else {
            return Ok(None);
        };
        let (segment, inner) = rest.split_once('/').unwrap_or((rest, ""));
        let place = Place {
            objects: self.opened(segment)?,
            prefix: format!("{}/{segment}", self.0.dir),
        };
        Ok(Some((place, Path::parse(inner)?)))
    }

    fn opened(&self, segment: &str) -> Result<Arc<dyn ObjectStore>> {
        let mut opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = opened.get(segment) {
            return Ok(Arc::clone(known));
        }
        let url = percent_decode_str(segment).decode_utf8_lossy();
        let store = (self.0.open)(&url).map_err(StoreError::into_objects)?;
        let metered = MeteredStore::new(store.direct().objects(), self.0.meter.clone());
        let objects: Arc<dyn ObjectStore> = Arc::new(metered);
        opened.insert(segment.to_owned(), Arc::clone(&objects));
        Ok(objects)
    }
}

impl Place {
    /// The key here of an object there.
    fn outer(&self, inner: &Path) -> Result<Path> {
        Ok(Path::parse(format!("{}/{inner}", self.prefix))?)
    }

    fn outer_meta(&self, meta: ObjectMeta) -> Result<ObjectMeta> {
        Ok(ObjectMeta {
            location: self.outer(&meta.location)?,
            ..meta
        })
    }

    fn listed(
        self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        listed
            .map(move |meta| meta.and_then(|meta| self.outer_meta(meta)))
            .boxed()
    }
}

/// An object store that reaches into others.
#[derive(Debug)]
pub(crate) struct ReachingStore {
    inner: Arc<dyn ObjectStore>,
    elsewhere: Elsewhere,
}

impl ReachingStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, elsewhere: Elsewhere) -> Self {
        Self { inner, elsewhere }
    }

    /// Both keys in one store.
    fn pair(&self, from: &Path, to: &Path) -> Result<(Arc<dyn ObjectStore>, Path, Path)> {
        match (self.elsewhere.place(from)?, self.elsewhere.place(to)?) {
            (None, None) => Ok((Arc::clone(&self.inner), from.clone(), to.clone())),
            (Some((place, from)), Some((other, to))) if place.prefix == other.prefix => {
                Ok((place.objects, from, to))
            }
            _ => Err(Error::NotSupported {
                source: "an object is not moved from one store to another".into(),
            }),
        }
    }
}

impl fmt::Display for ReachingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn failed<T: Send + 'static>(error: Error) -> BoxStream<'static, Result<T>> {
    futures::stream::once(futures::future::ready(Err(error))).boxed()
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for ReachingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        match self.elsewhere.place(location)? {
            Some((place, key)) => place.objects.put_opts(&key, payload, opts).await,
            None => self.inner.put_opts(location, payload, opts).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.elsewhere.place(location)? {
            Some((place, key)) => place.objects.put_multipart_opts(&key, opts).await,
            None => self.inner.put_multipart_opts(location, opts).await,
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.elsewhere.place(location)? {
            Some((place, key)) => {
                let mut result = place.objects.get_opts(&key, options).await?;
                result.meta.location = location.clone();
                Ok(result)
            }
            None => self.inner.get_opts(location, options).await,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.elsewhere.place(location)? {
            Some((place, key)) => place.objects.get_ranges(&key, ranges).await,
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, elsewhere) = (Arc::clone(&self.inner), self.elsewhere.clone());
        locations
            .map(move |location| {
                let (inner, elsewhere) = (Arc::clone(&inner), elsewhere.clone());
                async move {
                    let location = location?;
                    match elsewhere.place(&location)? {
                        Some((place, key)) => place.objects.delete(&key).await?,
                        None => inner.delete(&location).await?,
                    }
                    Ok(location)
                }
            })
            .buffered(DELETES_AT_ONCE)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match prefix
            .map(|prefix| self.elsewhere.place(prefix))
            .transpose()
        {
            Err(error) => failed(error),
            Ok(Some(Some((place, prefix)))) => {
                let listed = place.objects.list(Some(&prefix));
                place.listed(listed)
            }
            Ok(_) => self.inner.list(prefix),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let Some(place) = prefix.map(|prefix| self.elsewhere.place(prefix)) else {
            return self.inner.list_with_offset(prefix, offset);
        };
        match place {
            Err(error) => failed(error),
            Ok(None) => self.inner.list_with_offset(prefix, offset),
            Ok(Some((place, prefix))) => match self.elsewhere.place(offset) {
                Err(error) => failed(error),
                Ok(Some((other, offset))) if other.prefix == place.prefix => {
                    let listed = place.objects.list_with_offset(Some(&prefix), &offset);
                    place.listed(listed)
                }
                // An offset outside says nothing about the names here.
                Ok(_) => {
                    let (listed, offset) = (place.objects.list(Some(&prefix)), offset.clone());
                    let after =
                        move |meta: &ObjectMeta| futures::future::ready(meta.location > offset);
                    place.listed(listed).try_filter(after).boxed()
                }
            },
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let place = prefix
            .map(|prefix| self.elsewhere.place(prefix))
            .transpose()?;
        let Some((place, prefix)) = place.flatten() else {
            return self.inner.list_with_delimiter(prefix).await;
        };
        let listed = place.objects.list_with_delimiter(Some(&prefix)).await?;
        let prefixes = listed.common_prefixes.iter().map(|key| place.outer(key));
        let objects = listed
            .objects
            .into_iter()
            .map(|meta| place.outer_meta(meta));
        Ok(ListResult {
            common_prefixes: prefixes.collect::<Result<_>>()?,
            objects: objects.collect::<Result<_>>()?,
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (objects, from, to) = self.pair(from, to)?;
        objects.copy_opts(&from, &to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (objects, from, to) = self.pair(from, to)?;
        objects.rename_opts(&from, &to, options).await
    }
}

#[cfg(test)]
mod tests;
