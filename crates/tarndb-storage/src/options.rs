//! Storage options: ours, and those that a cloud client understands.
//!
//! Invariant: values may be secrets; `Debug` and errors show names only.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::StoreError;

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
/// Ours: `durability` = `full` (default) | `none`; in debug builds `fault.*`. Everything else
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

    /// The options that are not ours.
    pub(crate) fn cloud(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        all.filter(|(key, _)| *key != "durability" && !key.starts_with("fault."))
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
