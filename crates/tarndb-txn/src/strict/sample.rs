//! Samples: the first items of a set and how many there are, for messages.
//!
//! Invariant: a sample is never used to decide.
//! Does not sort; the caller pushes in order.
//! Spec: docs/conflicts.md, "Verdicts".

use std::fmt;

/// The first items of a set, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample<T> {
    /// At most [`Sample::SHOWN`] items.
    pub first: Vec<T>,
    /// All of them counted.
    pub count: usize,
}

impl<T> Sample<T> {
    /// Items kept.
    pub const SHOWN: usize = 5;

    /// Takes the sample; `None` of nothing.
    pub fn of(items: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut sample = Self {
            first: Vec::new(),
            count: 0,
        };
        for item in items {
            if sample.first.len() < Self::SHOWN {
                sample.first.push(item);
            }
            sample.count += 1;
        }
        (sample.count > 0).then_some(sample)
    }
}

impl<T: fmt::Display> fmt::Display for Sample<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, item) in self.first.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            item.fmt(f)?;
        }
        match self.count.saturating_sub(self.first.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
