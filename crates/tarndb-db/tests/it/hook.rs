//! A store that lets the test in before and after its writes and reads.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::clock::HandClock;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    BeforePut,
    AfterPut,
    BeforeGet,
    BeforeDelete,
    BeforeList,
    BeforeCopy,
    AfterCopy,
}

/// A request at some point.
pub(crate) struct Call<'a> {
    pub(crate) when: When,
    pub(crate) key: &'a str,
    /// What is put.
    pub(crate) bytes: &'a [u8],
}

/// What the test does with it.
pub(crate) enum Reaction {
    Pass,
    /// The client sees an error. Before a put, nothing is stored.
    Fail,
    /// The client sees "already exists".
    Refuse,
    /// Something happens meanwhile.
    Run(BoxFuture<'static, ()>),
    /// Something happens meanwhile, then the client sees an error.
    RunAndFail(BoxFuture<'static, ()>),
}

type Hook = Box<dyn FnMut(&Call<'_>) -> Reaction + Send>;

/// The store; clones share the hook.
#[derive(Clone)]
pub(crate) struct HookStore {
    inner: Arc<dyn ObjectStore>,
    hook: Arc<Mutex<Hook>>,
    clock: Arc<HandClock>,
}

impl HookStore {
    /// `clock`: that of the client, which does not time out while the test is at work.
    pub(crate) fn new(inner: &Arc<dyn ObjectStore>, clock: &Arc<HandClock>) -> Self {
        Self {
            inner: Arc::clone(inner),
            clock: Arc::clone(clock),
            hook: Arc::new(Mutex::new(Box::new(|_| Reaction::Pass))),
        }
    }

    pub(crate) fn set(&self, hook: impl FnMut(&Call<'_>) -> Reaction + Send + 'static) {
        *self.hook.lock().unwrap() = Box::new(hook);
    }

    async fn call(&self, when: When, key: &Path, bytes: &[u8]) -> Result<()> {
        let call = Call {
            when,
            key: key.as_ref(),
            bytes,
        };
        let reaction = (self.hook.lock().unwrap())(&call);
        let failed = || Error::Generic {
            store: "hook",
            source: "the test says so".into(),
        };
        match reaction {
            Reaction::Pass => Ok(()),
            Reaction::Fail => Err(failed()),
            Reaction::Refuse => Err(Error::AlreadyExists {
                path: key.to_string(),
                source: "the test says so".into(),
            }),
            Reaction::Run(work) => {
                self.clock.hold(work).await;
                Ok(())
            }
            Reaction::RunAndFail(work) => {
                self.clock.hold(work).await;
                Err(failed())
            }
        }
    }
}

impl fmt::Debug for HookStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookStore({:?})", self.inner)
    }
}

impl fmt::Display for HookStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for HookStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let bytes = Bytes::from(payload.clone());
        self.call(When::BeforePut, location, &bytes).await?;
        let put = self.inner.put_opts(location, payload, opts).await?;
        self.call(When::AfterPut, location, &bytes).await?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.call(When::BeforeGet, location, &[]).await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let asked = locations.then(move |location| {
            let store = store.clone();
            async move {
                let location = location?;
                store.call(When::BeforeDelete, &location, &[]).await?;
                Ok(location)
            }
        });
        self.inner.delete_stream(asked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, dir) = (self.clone(), prefix.cloned().unwrap_or_default());
        let listed = self.inner.list(prefix);
        let asked = async move { store.call(When::BeforeList, &dir, &[]).await };
        futures::stream::once(asked)
            .map_ok(move |()| futures::stream::empty())
            .try_flatten()
            .chain(listed)
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call(When::BeforeCopy, to, &[]).await?;
        self.inner.copy_opts(from, to, options).await?;
        self.call(When::AfterCopy, to, &[]).await
    }
}
