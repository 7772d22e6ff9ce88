//! What is repeated, for how long, and what is not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use super::RetryPolicy;
use crate::context::{Context, SeededRandom};
use crate::error::{StoreError, StoreErrorKind};
use crate::fault::{Fault, FaultPlan, FaultStore, Operation};
use crate::store::{PutOutcome, Store};
use crate::virtual_clock::VirtualClock;
use crate::{Path, StoreOptions};

/// A store over faults, in virtual time.
#[derive(Clone)]
struct World {
    store: Store,
    faults: FaultStore,
    inner: Arc<InMemory>,
}

impl World {
    async fn holds(&self, key: &Path) -> Option<Bytes> {
        let got = self.inner.get(key).await.ok()?;
        Some(got.bytes().await.unwrap())
    }

    fn elapsed(&self) -> Duration {
        self.store.context().monotonic()
    }
}

fn run<T>(plan: FaultPlan, test: impl AsyncFnOnce(World) -> T) -> T {
    let clock = VirtualClock::default();
    let runtime = clock.runtime().unwrap();
    let context = Context::new(Arc::new(clock), Arc::new(SeededRandom::new(5)));
    let inner = Arc::new(InMemory::new());
    let faults = FaultStore::new(Arc::clone(&inner) as _, plan, context.clone());
    let store = Store::new(Arc::new(faults.clone()), "fault://", context);
    let world = World {
        store: store.retrying(RetryPolicy::default()),
        faults,
        inner,
    };
    runtime.block_on(test(world))
}

fn key() -> Path {
    Path::from("folder/key")
}

const PASSING: [Fault; 3] = [Fault::ErrorBefore, Fault::ErrorAfter, Fault::Stall];

#[test]
fn everything_but_conditional_writes_is_repeated_until_it_is_answered() {
    run(FaultPlan::default(), async |world| {
        let World { store, faults, .. } = &world;
        for operation in [
            Operation::Get,
            Operation::Head,
            Operation::List,
            Operation::Put,
            Operation::Delete,
        ] {
            faults.script_for(operation, PASSING);
        }
        faults.script_for(Operation::Put, [Fault::LostAnswer; 2]);
        faults.script_for(Operation::Get, [Fault::PartialRead; 2]);
        let bytes = Bytes::from(vec![7; 1000]);
        store.put(&key(), bytes.clone()).await.unwrap();
        assert_eq!(store.get(&key()).await.unwrap().unwrap(), bytes);
        assert_eq!(store.head(&key()).await.unwrap().unwrap().size_bytes, 1000);
        let listed = store.list_after(&Path::from("folder"), None).await.unwrap();
        assert_eq!(listed.len(), 1);
        store.delete(&key()).await.unwrap();
        assert_eq!(world.holds(&key()).await, None);
        let counts = faults.injected();
        assert_eq!((counts.faults(), counts.stall), (19, 5), "{counts}");
        assert_eq!(world.elapsed().as_secs(), 5 * 10);
    });
}

#[test]
fn a_conditional_create_is_sent_once_and_left_in_doubt() {
    run(FaultPlan::default(), async |world| {
        for (fault, after) in [
            (Fault::ErrorBefore, 0),
            (Fault::LostAnswer, 0),
            (Fault::LateEffect, 0),
            (Fault::Stall, 10),
        ] {
            world.faults.script([fault]);
            let (before, start) = (world.faults.injected(), world.elapsed());
            let (name, bytes) = (key(), Bytes::from_static(b"x"));
            let outcome = world.store.put_if_absent(&name, bytes).await.unwrap();
            assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
            let counts = world.faults.injected();
            assert_eq!(counts.faults() - before.faults(), 1, "{fault:?}");
            assert_eq!(counts.none, before.none, "{fault:?}");
            assert_eq!((world.elapsed() - start).as_secs(), after, "{fault:?}");
            world.faults.settle().await;
            let _any = world.inner.delete(&key()).await;
        }
    });
}

#[test]
fn what_never_answers_ends_with_the_budget() {
    for (fault, least) in [(Fault::ErrorBefore, 20), (Fault::Stall, 3)] {
        run(FaultPlan::of(fault, 1.0), async |world| {
            let error = world.store.get(&key()).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            let (attempts, waited) = (world.faults.injected().of(fault), world.elapsed());
            assert!((least..60).contains(&attempts), "{fault:?}: {attempts}");
            assert!(waited.as_secs() >= 55, "{fault:?}: {waited:?}");
            assert!(waited.as_secs() < 120, "{fault:?}: {waited:?}");
            let text = std::error::Error::source(&error).unwrap().to_string();
            assert!(text.contains("given up after"), "{text}");
        });
    }
}

#[test]
fn answers_are_not_asked_for_again() {
    run(FaultPlan::default(), async |world| {
        assert_eq!(world.store.get(&key()).await.unwrap(), None);
        assert_eq!(world.store.head(&key()).await.unwrap(), None);
        world.store.delete(&key()).await.unwrap();
        assert_eq!(world.faults.injected().none, 3);
        assert_eq!(world.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_body_that_breaks_off_goes_on_where_it_was() {
    for seed in 0..20 {
        let plan = FaultPlan {
            seed,
            ..FaultPlan::of(Fault::PartialRead, 0.5)
        };
        run(plan, async |world| {
            let bytes: Bytes = (0..=255).cycle().take(5000).collect::<Vec<u8>>().into();
            world.inner.put(&key(), bytes.clone().into()).await.unwrap();
            for range in [0..5000, 17..4000, 4999..5000] {
                let part = bytes.slice(range.start as usize..range.end as usize);
                let read = world.store.get_range(&key(), range.clone()).await;
                match read {
                    Ok(read) => assert_eq!(read, part),
                    // Cut off five times in a row without a byte: taken to be short.
                    Err(error) => assert!(matches!(error, StoreError::ShortRead { .. })),
                }
                let ranges = [range.clone(), 0..1];
                if let Ok(parts) = world.store.objects().get_ranges(&key(), &ranges).await {
                    assert_eq!(parts, [part, bytes.slice(0..1)]);
                }
            }
        });
    }
}

#[test]
fn a_body_of_another_object_is_not_patched_in() {
    run(FaultPlan::default(), async |world| {
        world.inner.put(&key(), vec![1; 5000].into()).await.unwrap();
        world
            .faults
            .script_for(Operation::Get, [Fault::PartialRead]);
        let result = world.store.objects().get(&key()).await.unwrap();
        world.inner.put(&key(), vec![2; 5000].into()).await.unwrap();
        let read: Result<Vec<Bytes>, _> = result.into_stream().try_collect().await;
        let error = read.unwrap_err();
        assert!(
            matches!(error, object_store::Error::Precondition { .. }),
            "{error}"
        );
    });
}

#[test]
fn an_object_that_is_too_short_is_told_soon() {
    run(FaultPlan::default(), async |world| {
        world.inner.put(&key(), vec![1; 10].into()).await.unwrap();
        let error = world.store.get_range(&key(), 5..20).await.unwrap_err();
        assert!(matches!(error, StoreError::ShortRead { .. }), "{error}");
        assert!(world.elapsed() < Duration::from_secs(1));
    });
}

#[test]
fn options_set_the_policy() {
    let default = RetryPolicy::default();
    let policy = |key: &str, value: &str| {
        StoreOptions::default()
            .with(key, value)
            .retry_policy(default)
    };
    let given = policy("retry.attempt_ms", "250").unwrap();
    assert_eq!(given.attempt, Duration::from_millis(250));
    assert_eq!(given.budget, default.budget);
    for (key, value, told) in [
        ("retry.attempt_ms", "0", "milliseconds"),
        ("retry.budget_ms", "a minute", "milliseconds"),
        ("retry.times", "3", "retry.budget_ms"),
    ] {
        let error = policy(key, value).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(told), "{error}");
    }
}
