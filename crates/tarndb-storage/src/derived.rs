//! `Derived`: what was computed from objects that never change, kept in memory.
//!
//! Invariant: bounded by bytes, the longest unused is forgotten first. A value belongs to one
//! [`ObjectId`], so an object that somebody replaced by one of another size or time is not
//! taken for the old one.
//! Does not: keep the bytes of objects; know what the values are.
//! Spec: docs/performance.md, "Reading".

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::path::Path;

use crate::lru::Lru;

/// Bytes of all values of a handle.
const BYTES_MAX: usize = 64 << 20;
/// Values of a handle.
const VALUES_MAX: usize = 1 << 16;

/// One object at one time of its life, as the log of a table names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Key relative to the root of the store.
    pub key: Path,
    /// Size in bytes.
    pub size_bytes: u64,
    /// When the log says it was written, milliseconds since 1970 UTC; 0 when it does not say.
    pub modified_ms: i64,
}

type Value = Arc<dyn Any + Send + Sync>;

/// Values by object. Clones are one.
#[derive(Clone)]
pub struct Derived {
    values: Arc<Mutex<Lru<ObjectId, Value>>>,
}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Derived").field(&*self.lock()).finish()
    }
}

impl Default for Derived {
    fn default() -> Self {
        let values = Lru::new(VALUES_MAX).with_weight_max(BYTES_MAX);
        Self {
            values: Arc::new(Mutex::new(values)),
        }
    }
}

impl Derived {
    /// The value of an object, if it is there and of that type.
    pub fn get<T: Any + Send + Sync>(&self, id: &ObjectId) -> Option<Arc<T>> {
        self.lock().get(id)?.downcast().ok()
    }

    /// Keeps a value that takes `bytes` of memory, in place of the object's earlier one.
    pub fn put<T: Any + Send + Sync>(&self, id: ObjectId, value: Arc<T>, bytes: usize) {
        self.lock().insert_weighing(id, value, bytes);
    }

    /// Bounds the bytes of all values; 64 MiB if nothing else is said.
    pub fn limit(&self, bytes_max: usize) {
        self.lock().set_weight_max(bytes_max);
    }

    fn lock(&self) -> MutexGuard<'_, Lru<ObjectId, Value>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
