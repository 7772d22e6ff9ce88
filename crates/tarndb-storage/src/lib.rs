//! What TarnDB asks of a bucket or a folder, and how it asks.
//!
//! Invariant: everything outside the process is reached through [`Store`] and [`Context`].
//! Does not: know records, tables or formats.
//! Spec: docs/format/log.md, "What the store must do".
//!
//! - [`context`]: time and randomness. [`virtual_clock`]: time for simulations.
//! - [`store`]: the seam; outcomes of a put-if-absent. `probe`: proof that a store honours it.
//! - [`location`]: what a URL names. [`placement`]: where it lies as seen from another.
//!   [`options`]: storage options. [`environment`]:
//!   what the process's says about clouds. `open`: from URL to store.
//! - [`local`]: the durable folder. `remote`: S3, GCS, Azure.
//! - [`held`]: objects that can be read before they are stored. `elsewhere`: those of other
//!   stores.
//! - `staged`: what is stored for a change that may still be given up.
//! - `transfer`: objects of one store to another. [`retry`]: repeats what failed in passing. [`meter`]: counts requests.
//! - [`write_once`]: objects that never change. `disk_cache`: their bytes on a disk of this
//!   machine. [`derived`]: what was computed from them. `ranges`: which requests fetch them.
//! - `fault`, `conformance`, `powercut`, `stub`: for tests.

pub mod context;
pub mod derived;
mod disk_cache;
mod elsewhere;
pub mod environment;
pub mod error;
pub mod held;
pub mod local;
pub mod location;
mod lru;
pub mod meter;
mod open;
pub mod options;
pub mod placement;
mod probe;
mod ranges;
mod remote;
pub mod retry;
mod staged;
pub mod store;
mod transfer;
pub mod virtual_clock;
pub mod write_once;

#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
#[cfg(any(debug_assertions, feature = "test-util"))]
pub mod fault;
#[cfg(feature = "test-util")]
pub mod hand_store;
#[cfg(feature = "test-util")]
pub mod stub;

pub use context::{Clock, Context, Random, SeededRandom, SystemClock};
pub use derived::{Derived, ObjectId};
pub use disk_cache::DiskCacheOptions;
pub use elsewhere::{OpenStore, elsewhere_key};
pub use environment::Environment;
pub use error::{StoreError, StoreErrorKind};
pub use held::{Held, HeldFile, Origin};
pub use local::DurableLocal;
#[cfg(any(test, feature = "test-util"))]
pub use local::powercut;
pub use lru::Lru;
pub use meter::{Counts, Meter};
pub use object_store::path::Path;
pub use open::{open, open_in};
pub use options::{Durability, StoreOptions};
pub use remote::RemoteFailure;
pub use retry::RetryPolicy;
pub use staged::Staged;
pub use store::{ObjectInfo, PutOutcome, Store};
pub use virtual_clock::VirtualClock;
pub use write_once::WriteOnce;
