//! A bounded map that forgets what was used longest ago.
//!
//! Invariant: never holds more than its capacity. Only immutable things are cached, so an
//! entry is never stale.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// The cache; not synchronised.
pub(crate) struct Lru<K, V> {
    entries: BTreeMap<K, (V, u64)>,
    tick: u64,
    capacity: usize,
}

impl<K: Ord + Clone, V: Clone> Lru<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            tick: 0,
            capacity: capacity.max(1),
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        self.tick += 1;
        let (value, used) = self.entries.get_mut(key)?;
        *used = self.tick;
        Some(value.clone())
    }

    /// The entry with the greatest key in the range.
    pub(crate) fn newest_in(&mut self, range: RangeInclusive<K>) -> Option<(K, V)> {
        self.tick += 1;
        let (key, (value, used)) = self.entries.range_mut(range).next_back()?;
        *used = self.tick;
        Some((key.clone(), value.clone()))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.tick += 1;
        self.entries.insert(key, (value, self.tick));
        while self.entries.len() > self.capacity {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.entries.remove(&oldest);
        }
    }
}

impl<K, V> fmt::Debug for Lru<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lru")
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}
