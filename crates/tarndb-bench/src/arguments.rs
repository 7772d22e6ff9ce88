//! Arguments of the form `key=value`.
//!
//! Invariant: a key that no measurement takes is an error, so that a typing mistake never
//! measures something else.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::error::BenchError;

/// What stands after the name of the measurement.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    values: BTreeMap<String, String>,
}

impl Arguments {
    /// Splits each word at its first `=`.
    ///
    /// # Errors
    /// A word without `=`, or a key given twice.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let mut values = BTreeMap::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(bad(&word, "write key=value"));
            };
            if values.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(bad(key, "given twice"));
            }
        }
        Ok(Self { values })
    }

    /// Takes the value of `key`, or its default.
    ///
    /// # Errors
    /// A value of another type.
    pub fn take<T: FromStr>(&mut self, key: &str, default: &str) -> Result<T, BenchError> {
        let text = self.values.remove(key);
        let text = text.unwrap_or_else(|| default.to_owned());
        text.parse()
            .map_err(|_| bad(key, &format!("cannot be {text:?}")))
    }

    /// Takes all that begin with `prefix`, without it.
    pub fn take_prefixed(&mut self, prefix: &str) -> BTreeMap<String, String> {
        let all = std::mem::take(&mut self.values);
        let mut taken = BTreeMap::new();
        for (key, value) in all {
            match key.strip_prefix(prefix) {
                Some(rest) => taken.insert(rest.to_owned(), value),
                None => self.values.insert(key, value),
            };
        }
        taken
    }

    /// Takes a list of values separated by commas.
    ///
    /// # Errors
    /// A value of another type.
    pub fn take_list<T: FromStr>(
        &mut self,
        key: &str,
        default: &str,
    ) -> Result<Vec<T>, BenchError> {
        let text: String = self.take(key, default)?;
        let parsed = text.split(',').map(str::parse);
        let parsed: Result<Vec<T>, _> = parsed.collect();
        parsed.map_err(|_| bad(key, &format!("cannot be {text:?}")))
    }

    /// Says that everything was taken.
    ///
    /// # Errors
    /// The first key that was not.
    pub fn finish(self) -> Result<(), BenchError> {
        match self.values.into_keys().next() {
            None => Ok(()),
            Some(key) => Err(bad(&key, "this measurement does not take it")),
        }
    }
}

fn bad(key: &str, reason: &str) -> BenchError {
    BenchError::Argument {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}
