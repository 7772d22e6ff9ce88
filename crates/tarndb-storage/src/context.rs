//! Where time and randomness come from.
//!
//! Invariant: no other module of the workspace asks the machine for the time, for random
//! numbers or for ids, so that a test or a simulation can replay a run from one seed.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::BoxFuture;
use tarndb_types::{TimestampMs, Uuid};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall clock, milliseconds since 1970 UTC.
    fn now(&self) -> TimestampMs;
    /// Time since some fixed point; does not go backwards and counts time spent suspended.
    fn monotonic(&self) -> Duration;
    /// Completes after `duration` of this clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A source of randomness.
pub trait Random: Send + Sync + fmt::Debug {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Time and randomness of one database handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Context {
    /// A context over the given sources.
    pub fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self { clock, random }
    }

    /// The machine's clocks and random numbers.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemRandom))
    }

    /// The machine's clocks, but random numbers from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SeededRandom::new(seed)))
    }

    /// Wall clock, milliseconds since 1970 UTC.
    pub fn now(&self) -> TimestampMs {
        self.clock.now()
    }

    /// Time since some fixed point, never backwards.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Completes after `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// The next 64 random bits.
    pub fn random_u64(&self) -> u64 {
        self.random.next_u64()
    }

    /// A time-ordered id (UUID version 7).
    pub fn uuid(&self) -> Uuid {
        let millis = u64::try_from(self.now().0).unwrap_or(0);
        let mut bytes = [0_u8; 10];
        let (low, high) = (
            self.random_u64().to_le_bytes(),
            self.random_u64().to_le_bytes(),
        );
        for (target, source) in bytes.iter_mut().zip(low.into_iter().chain(high)) {
            *target = source;
        }
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    /// A duration between half of `upper` and `upper`, to keep retrying clients apart.
    pub fn jittered(&self, upper: Duration) -> Duration {
        let share = (self.random_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        upper.mul_f64(0.5 + share / 2.0)
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the machine"
    )]
    fn now(&self) -> TimestampMs {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        TimestampMs(since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }

    fn monotonic(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the machine"
    )]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[derive(Debug)]
struct SystemRandom;

impl Random for SystemRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the machine"
    )]
    fn next_u64(&self) -> u64 {
        let (_, low) = Uuid::new_v4().as_u64_pair();
        let (high, _) = Uuid::new_v4().as_u64_pair();
        // Version and variant bits of a v4 id are fixed; mixing two ids hides them.
        low.rotate_left(32) ^ high.rotate_left(7)
    }
}

/// Random numbers that repeat for the same seed (splitmix64).
#[derive(Debug)]
pub struct SeededRandom {
    state: Mutex<u64>,
}

impl SeededRandom {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(seed),
        }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
