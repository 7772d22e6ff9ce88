//! Setting and dropping table properties: what becomes of each.
//!
//! Invariant: a property that this build would not obey is refused, never stored; a key that
//! nobody gave a meaning is kept.
//! Spec: docs/format/delta.md, "Properties".

use super::Authority;
use crate::error::DeltaError;
use crate::feature;
use crate::property::{Duty, find};

/// What becomes of a property that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// It is stored.
    Nothing,
    /// It is stored, and the feature is raised.
    Feature(&'static str),
    /// The feature is raised; the property itself is not stored.
    OnlyFeature(&'static str),
}

/// Judges a property that is set.
///
/// # Errors
/// `PropertyRefused`, `PropertyMalformed`.
pub(super) fn judge(key: &str, value: &str, authority: Authority) -> Result<Asks, DeltaError> {
    if let Some(name) = key.strip_prefix("delta.feature.") {
        return judge_feature(key, name, value, authority);
    }
    let Some(property) = find(key) else {
        return Ok(Asks::Nothing);
    };
    if let Duty::Refused(reason) = property.duty {
        return Err(refused(key, value, reason));
    }
    if !property.form.accepts(value) {
        return Err(DeltaError::PropertyMalformed {
            key: key.to_owned(),
            value: value.to_owned(),
            form: property.form.words(),
        });
    }
    let is = |word: &str| value.trim().eq_ignore_ascii_case(word);
    match property.duty {
        Duty::Only(only, reason) if !is(only) => return Err(refused(key, value, reason)),
        _ => {}
    }
    Ok(match property.raises {
        Some((raising, name)) if is(raising) => Asks::Feature(name),
        _ => Asks::Nothing,
    })
}

/// A property that asks for a feature by its name.
fn judge_feature(
    key: &str,
    name: &str,
    value: &str,
    authority: Authority,
) -> Result<Asks, DeltaError> {
    if !value.trim().eq_ignore_ascii_case("supported") {
        return Err(DeltaError::PropertyMalformed {
            key: key.to_owned(),
            value: value.to_owned(),
            form: "'supported'".to_owned(),
        });
    }
    let known = feature::writable(name)
        .filter(|known| authority.is_database() || *known != feature::MANAGED);
    match known {
        Some(name) => Ok(Asks::OnlyFeature(name)),
        None => Err(refused(key, value, "this build does not have the feature")),
    }
}

fn refused(key: &str, value: &str, reason: &'static str) -> DeltaError {
    DeltaError::PropertyRefused {
        key: key.to_owned(),
        value: value.to_owned(),
        reason,
    }
}

/// May the property be dropped?
///
/// # Errors
/// `PropertyRefused`.
pub(super) fn judge_unset(key: &str) -> Result<(), DeltaError> {
    // Without it the default counts, which must be a value that is allowed.
    let Some(property) = find(key) else {
        return Ok(());
    };
    match (property.duty, property.default) {
        (Duty::Refused(reason), _) => Err(refused(key, "", reason)),
        (Duty::Only(only, reason), Some(default)) if only != default => {
            Err(refused(key, "", reason))
        }
        _ => Ok(()),
    }
}
