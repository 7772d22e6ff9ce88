//! Storage options: ours, and those that a cloud client understands.
//!
//! Invariant: values may be secrets; `Debug` and errors show names only.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::StoreError;
use crate::retry::RetryPolicy;

/// What the names of our options about repeated requests begin with.
const RETRY: &str = "retry.";

/// Whether a local write waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged means fsynced.
    #[default]
    Full,
    /// No fsync: for tests and caches. A crash of the machine may lose acknowledged writes.
    None,
}

/// Options of a store by name, as given by `--storage-option K=V`.
///
/// Ours: `durability` = `full` (default) | `none`; `retry.attempt_ms`, `retry.budget_ms`
/// ([`RetryPolicy`]); in debug builds `fault.*`. Everything else
/// goes to the client of the cloud named by the URL (`aws_region`, `google_service_account`, ...).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Values by name.
    pub values: BTreeMap<String, String>,
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl StoreOptions {
    /// These options with one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.values.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The option `durability`.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for a value that is neither `full` nor `none`.
    pub fn durability(&self) -> Result<Durability, StoreError> {
        match self.values.get("durability").map(String::as_str) {
            None | Some("full") => Ok(Durability::Full),
            Some("none") => Ok(Durability::None),
            Some(_) => Err(invalid("durability", "use full or none")),
        }
    }

    /// The options `retry.*`, with `policy` as the default.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for another name, or what is no number of milliseconds
    /// above 0.
    pub fn retry_policy(&self, mut policy: RetryPolicy) -> Result<RetryPolicy, StoreError> {
        let given = self.values.iter();
        for (key, value) in given.filter(|(key, _)| key.starts_with(RETRY)) {
            let target = match key.as_str() {
                "retry.attempt_ms" => &mut policy.attempt,
                "retry.budget_ms" => &mut policy.budget,
                _ => {
                    let reason = "no such option; there are retry.attempt_ms and retry.budget_ms";
                    return Err(invalid(key, reason));
                }
            };
            match value.parse() {
                Ok(millis) if millis > 0 => *target = Duration::from_millis(millis),
                _ => return Err(invalid(key, "a number of milliseconds above 0 is needed")),
            }
        }
        Ok(policy)
    }

    /// The options that are not ours.
    pub(crate) fn cloud(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        all.filter(|(key, _)| {
            *key != "durability" && !key.starts_with("fault.") && !key.starts_with(RETRY)
        })
    }

    /// The options that begin with `fault.`, without that prefix.
    pub(crate) fn fault(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.values.iter();
        all.filter_map(|(key, value)| Some((key.strip_prefix("fault.")?, value.as_str())))
    }
}

/// An error that names the option and never its value.
pub(crate) fn invalid(key: &str, reason: impl Into<String>) -> StoreError {
    StoreError::InvalidOption {
        key: key.to_owned(),
        reason: reason.into(),
    }
}
