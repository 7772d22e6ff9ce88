//! Storage options: ours, and those that a cloud client understands.
//!
//! Invariant: values may be secrets; `Debug` and errors show names only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::disk_cache::DiskCacheOptions;
use crate::error::StoreError;
use crate::retry::RetryPolicy;

/// What the names of our options about repeated requests begin with.
const RETRY: &str = "retry.";

/// Bound of a cache on disk that is given none.
const CACHE_BYTES: u64 = 10 << 30;
/// A smaller bound would keep next to nothing.
const CACHE_BYTES_LEAST: u64 = 16 << 20;

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
/// ([`RetryPolicy`]); `cache.dir`, `cache.max_bytes`; in debug builds `fault.*`. Everything else
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

    /// The options `cache.dir`, a folder, and `cache.max_bytes`, a number of bytes or one with
    /// a unit (`500MiB`, `10GiB`; 10 GiB if not given). `None` without a folder.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] for another `cache.` option, for a size that is none, and
    /// for a size without a folder.
    pub fn disk_cache(&self) -> Result<Option<DiskCacheOptions>, StoreError> {
        let mut bytes_max = None;
        for (key, value) in &self.values {
            match key.strip_prefix("cache.") {
                None | Some("dir") => {}
                Some("max_bytes") => {
                    let size = parse_size(value).filter(|size| *size >= CACHE_BYTES_LEAST);
                    let reason =
                        "use a number of bytes or one with a unit, such as 10GiB; at least 16MiB";
                    bytes_max = Some(size.ok_or_else(|| invalid(key, reason))?);
                }
                Some(_) => return Err(invalid(key, "use cache.dir or cache.max_bytes")),
            }
        }
        match (self.values.get("cache.dir"), bytes_max) {
            (Some(folder), _) if folder.is_empty() => Err(invalid("cache.dir", "name a folder")),
            (Some(folder), bytes_max) => Ok(Some(DiskCacheOptions {
                folder: folder.into(),
                bytes_max: bytes_max.unwrap_or(CACHE_BYTES),
            })),
            (None, Some(_)) => Err(invalid(
                "cache.max_bytes",
                "name a folder with cache.dir too",
            )),
            (None, None) => Ok(None),
        }
    }

    /// The options that are not ours.
    pub(crate) fn cloud(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        all.filter(|(key, _)| {
            let ours = ["fault.", "cache.", RETRY];
            *key != "durability" && !ours.iter().any(|prefix| key.starts_with(prefix))
        })
    }

    /// Those of the options that concern a store that is opened beside the one they were given
    /// for: no cache of its own, and those of a cloud only where `of_cloud`.
    pub(crate) fn elsewhere(&self, of_cloud: bool) -> Self {
        let foreign: BTreeSet<&str> = self.cloud().map(|(key, _)| key).collect();
        let kept = self.values.iter().filter(|(key, _)| {
            let cached = key.starts_with("cache.");
            !cached && (of_cloud || !foreign.contains(key.as_str()))
        });
        Self {
            values: kept
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }

    /// The options that begin with `fault.`, without that prefix.
    pub(crate) fn fault(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.values.iter();
        all.filter_map(|(key, value)| Some((key.strip_prefix("fault.")?, value.as_str())))
    }
}

/// A number of bytes, with or without a unit of 1,024s.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text
        .get(digits.len()..)?
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// An error that names the option and never its value.
pub(crate) fn invalid(key: &str, reason: impl Into<String>) -> StoreError {
    StoreError::InvalidOption {
        key: key.to_owned(),
        reason: reason.into(),
    }
}
