//! A clock that only tests move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use object_store::ObjectStore;
use tarndb_storage::{Clock, Context, SeededRandom, Store};
use tarndb_types::TimestampMs;

use crate::support::World;

/// The clock, in milliseconds; sleeping moves it, as soon as nobody holds it.
#[derive(Debug, Default)]
pub(crate) struct HandClock {
    pub(crate) wall: Arc<AtomicI64>,
    pub(crate) monotonic: Arc<AtomicI64>,
    held: Arc<AtomicUsize>,
}

impl HandClock {
    /// Its wall clock is right.
    pub(crate) fn right() -> Arc<Self> {
        let clock = Self::default();
        let now = Context::system().now().0;
        clock.wall.store(now, Ordering::SeqCst);
        Arc::new(clock)
    }

    /// Runs something during which no sleep ends.
    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> T {
        self.held.fetch_add(1, Ordering::SeqCst);
        let done = work.await;
        self.held.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// The machine was suspended, and its wall clock stood still.
    pub(crate) fn suspend(&self, duration: Duration) {
        self.monotonic
            .fetch_add(duration.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic.load(Ordering::SeqCst) as u64)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (monotonic, held) = (Arc::clone(&self.monotonic), Arc::clone(&self.held));
        Box::pin(async move {
            while held.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
            monotonic.fetch_add(duration.as_millis() as i64, Ordering::SeqCst);
        })
    }
}

pub(crate) fn store_with(world: &World, clock: &Arc<HandClock>, seed: u64) -> Store {
    store_of(Arc::clone(&world.objects), clock, seed)
}

pub(crate) fn store_of(objects: Arc<dyn ObjectStore>, clock: &Arc<HandClock>, seed: u64) -> Store {
    let clock: Arc<dyn Clock> = Arc::<HandClock>::clone(clock);
    let context = Context::new(clock, Arc::new(SeededRandom::new(seed)));
    Store::new(objects, "memory://test", context)
}
