//! `Lab`: an empty store in memory at a distance, and the time that passes there.
//!
//! Invariant: everything random comes from one seed, so that a run in virtual time repeats.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tarndb_db::{Database, DbOptions, PublishMode};
use tarndb_storage::{Clock, Context, SeededRandom, Store, SystemClock, VirtualClock};

use crate::delayed::DelayedStore;
use crate::error::BenchError;

/// How far away the store is, and where chance begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Of each request.
    pub latency: Duration,
    /// By which share of it a request takes longer or shorter, at random.
    pub jitter: f64,
    /// Where random numbers start.
    pub seed: u64,
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As on the wall: rates count.
    Real,
    /// Only by waiting: counts count, and rates without the cost of the processor.
    Virtual,
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "real" => Ok(Self::Real),
            "virtual" => Ok(Self::Virtual),
            _ => Err(()),
        }
    }
}

impl Mode {
    /// Its name as an argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        }
    }

    /// Runs a measurement in a lab of its own.
    ///
    /// # Errors
    /// Those of the measurement; a runtime that cannot be made.
    pub fn run<T, F>(
        self,
        setting: Setting,
        measure: impl FnOnce(Arc<Lab>) -> F,
    ) -> Result<T, BenchError>
    where
        F: Future<Output = Result<T, BenchError>>,
    {
        let (clock, runtime): (Arc<dyn Clock>, _) = match self {
            Self::Real => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                (Arc::new(SystemClock), builder.enable_all().build()?)
            }
            Self::Virtual => {
                let clock = VirtualClock::default();
                let runtime = clock.runtime()?;
                (Arc::new(clock), runtime)
            }
        };
        let lab = Lab {
            objects: Arc::new(InMemory::new()),
            clock,
            setting,
            seed: AtomicU64::new(setting.seed.wrapping_mul(1_000_003)),
        };
        runtime.block_on(measure(Arc::new(lab)))
    }
}

/// A store and its time.
#[derive(Debug)]
pub struct Lab {
    objects: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    setting: Setting,
    seed: AtomicU64,
}

impl Lab {
    /// Time since some fixed point.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// A new database, through a handle that is not at a distance.
    ///
    /// # Errors
    /// As [`Database::create`].
    pub async fn create(&self) -> Result<Database, BenchError> {
        let store = self.store(Duration::ZERO);
        Ok(Database::create(store, options(PublishMode::Manual)).await?)
    }

    /// A handle of its own, at the distance of the lab.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub async fn open(&self, publish: PublishMode) -> Result<Database, BenchError> {
        let store = self.store(self.setting.latency);
        Ok(Database::open(store, options(publish)).await?)
    }

    /// A new handle that is not at a distance, to look at the result.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub async fn inspect(&self) -> Result<Database, BenchError> {
        let store = self.store(Duration::ZERO);
        Ok(Database::open(store, options(PublishMode::Manual)).await?)
    }

    fn store(&self, latency: Duration) -> Store {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let random = Arc::new(SeededRandom::new(seed));
        let context = Context::new(Arc::clone(&self.clock), random);
        let objects = Arc::clone(&self.objects);
        let objects = DelayedStore::new(objects, latency, self.setting.jitter, context.clone());
        Store::new(Arc::new(objects), "memory://lab", context)
    }
}

/// The defaults, but for when to publish.
pub fn options(publish: PublishMode) -> DbOptions {
    DbOptions {
        publish,
        ..DbOptions::default()
    }
}
