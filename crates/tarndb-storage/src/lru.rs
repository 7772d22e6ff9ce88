//! A bounded map that forgets what was used longest ago.
//!
//! Invariant: never holds more than its capacity, nor (but for one entry) more weight than it
//! may. Only what never changes is kept, so an entry is never stale.
//! Does not: lock.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// The cache; not synchronised.
pub struct Lru<K, V> {
    entries: BTreeMap<K, Slot<V>>,
    /// Keys by the moment of their last use.
    by_use: BTreeMap<u64, K>,
    tick: u64,
    capacity: usize,
    weight: usize,
    weight_max: usize,
}

struct Slot<V> {
    value: V,
    used: u64,
    weight: usize,
}

impl<K: Ord + Clone, V: Clone> Lru<K, V> {
    /// A cache of at most `capacity` entries, and at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
            tick: 0,
            capacity: capacity.max(1),
            weight: 0,
            weight_max: usize::MAX,
        }
    }

    /// Bounds the sum of the weights, which [`Self::insert_weighing`] states, too.
    pub fn with_weight_max(mut self, weight_max: usize) -> Self {
        self.weight_max = weight_max;
        self
    }

    /// The value, which was used just now.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.tick += 1;
        let slot = self.entries.get_mut(key)?;
        self.by_use.remove(&slot.used);
        self.by_use.insert(self.tick, key.clone());
        slot.used = self.tick;
        Some(slot.value.clone())
    }

    /// Forgets an entry.
    pub fn remove(&mut self, key: &K) {
        if let Some(gone) = self.entries.remove(key) {
            self.by_use.remove(&gone.used);
            self.weight = self.weight.saturating_sub(gone.weight);
        }
    }

    /// The entry with the greatest key in the range.
    pub fn newest_in(&mut self, range: RangeInclusive<K>) -> Option<(K, V)> {
        self.tick += 1;
        let (key, slot) = self.entries.range_mut(range).next_back()?;
        self.by_use.remove(&slot.used);
        self.by_use.insert(self.tick, key.clone());
        slot.used = self.tick;
        Some((key.clone(), slot.value.clone()))
    }

    /// Keeps a value that weighs nothing.
    pub fn insert(&mut self, key: K, value: V) {
        self.insert_weighing(key, value, 0);
    }

    /// Keeps a value, and forgets others until all bounds are kept.
    pub fn insert_weighing(&mut self, key: K, value: V, weight: usize) {
        self.tick += 1;
        let slot = Slot {
            value,
            used: self.tick,
            weight,
        };
        self.weight = self.weight.saturating_add(weight);
        self.by_use.insert(self.tick, key.clone());
        if let Some(before) = self.entries.insert(key, slot) {
            self.by_use.remove(&before.used);
            self.weight = self.weight.saturating_sub(before.weight);
        }
        self.shrink();
    }

    /// Lowers or raises the bound of the weights.
    pub fn set_weight_max(&mut self, weight_max: usize) {
        self.weight_max = weight_max;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.entries.len() > self.capacity
            || (self.weight > self.weight_max && self.entries.len() > 1)
        {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                return;
            };
            self.remove(&oldest);
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

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn the_longest_unused_goes_when_there_are_too_many_or_they_weigh_too_much() {
        let mut cache = Lru::new(3).with_weight_max(10);
        for key in 0..3 {
            cache.insert_weighing(key, key, 4);
        }
        assert_eq!(
            [0, 1, 2].map(|key| cache.get(&key)),
            [None, Some(1), Some(2)]
        );
        cache.insert_weighing(1, 1, 1);
        cache.insert_weighing(3, 3, 1);
        cache.insert_weighing(4, 4, 1);
        assert_eq!(
            [1, 2, 3, 4].map(|key| cache.get(&key)),
            [Some(1), None, Some(3), Some(4)]
        );
        cache.insert_weighing(5, 5, 100);
        assert_eq!(cache.get(&5), Some(5));
        assert_eq!(cache.entries.len(), 1);
        cache.remove(&5);
        assert_eq!((cache.entries.len(), cache.by_use.len()), (0, 0));
        assert_eq!(cache.weight, 0);
        for key in 0..3 {
            cache.insert_weighing(key, key, 3);
        }
        cache.set_weight_max(6);
        assert_eq!(
            [0, 1, 2].map(|key| cache.get(&key)),
            [None, Some(1), Some(2)]
        );
    }
}
