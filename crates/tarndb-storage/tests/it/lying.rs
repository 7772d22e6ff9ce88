//! A store that ignores conditions must be found out.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tarndb_storage::fault::{FaultPlan, FaultStore};
use tarndb_storage::{Context, Store, StoreError, conformance};

/// How a store fails to honour put-if-absent.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Overwrites and says that it created.
    Overwrites,
    /// Overwrites and says that it refused.
    OverwritesAndRefuses,
    /// Says that it cannot do it.
    NotImplemented,
}

#[derive(Debug)]
struct Liar {
    inner: InMemory,
    lie: Lie,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Liar({:?})", self.lie)
    }
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        if opts.mode != PutMode::Create {
            return self.inner.put_opts(location, payload, opts).await;
        }
        opts.mode = PutMode::Overwrite;
        match self.lie {
            Lie::Overwrites => self.inner.put_opts(location, payload, opts).await,
            Lie::OverwritesAndRefuses => {
                self.inner.put_opts(location, payload, opts).await?;
                Err(Error::AlreadyExists {
                    path: location.to_string(),
                    source: "lie".into(),
                })
            }
            Lie::NotImplemented => Err(Error::NotImplemented {
                operation: "create".to_owned(),
                implementer: "liar".to_owned(),
            }),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn liar(lie: Lie) -> Store {
    let objects = Arc::new(Liar {
        inner: InMemory::new(),
        lie,
    });
    Store::new(objects, "liar://", Context::seeded(3))
}

#[tokio::test]
async fn probe_finds_a_store_that_overwrites() {
    for lie in [Lie::Overwrites, Lie::OverwritesAndRefuses] {
        let store = liar(lie);
        let result = store.probe(&Path::from("_tarndb")).await;
        assert!(
            matches!(result, Err(StoreError::ConditionalPutIgnored { .. })),
            "{result:?}"
        );
        let left = store.list_after(&Path::ROOT, None).await.unwrap();
        assert_eq!(left, vec![], "the probe object stays behind");
    }
}

#[tokio::test]
async fn probe_finds_a_store_without_put_if_absent() {
    let result = liar(Lie::NotImplemented)
        .probe(&Path::from("_tarndb"))
        .await;
    assert!(
        matches!(result, Err(StoreError::Unsupported { .. })),
        "{result:?}"
    );
}

#[tokio::test]
#[should_panic(expected = "winners")]
async fn the_suite_fails_a_store_that_overwrites() {
    conformance::create_has_one_winner(&liar(Lie::Overwrites)).await;
}

#[tokio::test]
async fn probe_passes_a_good_store_that_loses_answers() {
    for seed in 0..50 {
        let plan = FaultPlan {
            seed,
            error_before: 0.1,
            lost_answer: 0.1,
            self_conflict: 0.1,
            phantom_conflict: 0.1,
            late_effect: 0.1,
            ..FaultPlan::default()
        };
        let context = Context::seeded(seed);
        let faults = FaultStore::new(Arc::new(InMemory::new()), plan, context.clone());
        let store = Store::new(Arc::new(faults), "fault://", context);
        let result = store.probe(&Path::from("_tarndb")).await;
        let accused = matches!(result, Err(StoreError::ConditionalPutIgnored { .. }));
        assert!(!accused, "seed {seed}: {result:?}");
    }
}
