//! Rules about configuration and metadata.
//!
//! Invariant: two changes of one key meet whatever they set; deleting a configuration key twice
//! is one change.
//! Does not look at values.
//! Spec: docs/conflicts.md, "Strict matrix".

use std::collections::BTreeSet;

use super::{Meeting, Outcome};
use crate::strict::config::{ConfigChange, MetadataChange};
use crate::strict::operation::LanceOp;
use crate::strict::reason::{MetadataOf, Reason};

/// Note f: two Overwrites.
pub(super) fn overwritten(meeting: Meeting<'_>) -> Outcome {
    let key = common_key(meeting.ours, meeting.theirs);
    Outcome::of(key, |key| Reason::ConfigKey { key })
        .or_else(|| Outcome::Conflict(Reason::Overwritten))
}

/// Note g: configuration of either side against that of the other.
pub(super) fn config_keys(meeting: Meeting<'_>) -> Outcome {
    let metadata = match (meeting.ours, meeting.theirs) {
        (LanceOp::UpdateConfig(ours), LanceOp::UpdateConfig(theirs)) => {
            common_metadata(ours, theirs).map(|of| Reason::SameMetadata { of })
        }
        (LanceOp::UpdateConfig(ours), LanceOp::Overwrite { .. }) => {
            let refers = ours.schema.is_some() || !ours.fields.is_empty();
            refers.then_some(Reason::MetadataBesideSchema { merge: false })
        }
        (LanceOp::Overwrite { .. }, LanceOp::UpdateConfig(_)) => None,
        _ => return Outcome::MISPLACED,
    };
    let key = common_key(meeting.ours, meeting.theirs);
    Outcome::of(key, |key| Reason::ConfigKey { key })
        .or_else(|| Outcome::of(metadata, |reason| reason))
}

/// Note y: metadata of schema or fields against a Merge or a Restore.
pub(super) fn schema_metadata(meeting: Meeting<'_>) -> Outcome {
    let (config, merge) = match (meeting.ours, meeting.theirs) {
        (LanceOp::UpdateConfig(config), LanceOp::Merge(_))
        | (LanceOp::Merge(_), LanceOp::UpdateConfig(config)) => (config, true),
        (LanceOp::UpdateConfig(config), LanceOp::Restore)
        | (LanceOp::Restore, LanceOp::UpdateConfig(config)) => (config, false),
        _ => return Outcome::MISPLACED,
    };
    Outcome::of(config.changes_schema().then_some(merge), |merge| {
        Reason::MetadataBesideSchema { merge }
    })
}

/// A configuration key that one side sets and the other sets or deletes.
fn common_key(ours: &LanceOp, theirs: &LanceOp) -> Option<String> {
    let (our_sets, our_deletes) = config_of(ours);
    let (their_sets, their_deletes) = config_of(theirs);
    let mut common = our_sets
        .intersection(&their_sets)
        .chain(our_sets.intersection(&their_deletes))
        .chain(our_deletes.intersection(&their_sets));
    common.next().map(|key| (*key).to_owned())
}

type Keys<'a> = BTreeSet<&'a str>;

/// Keys set and keys deleted.
fn config_of(op: &LanceOp) -> (Keys<'_>, Keys<'_>) {
    fn borrowed(keys: &BTreeSet<String>) -> Keys<'_> {
        keys.iter().map(String::as_str).collect()
    }
    match op {
        LanceOp::Overwrite { config } => (borrowed(config), Keys::new()),
        LanceOp::UpdateConfig(change) => (borrowed(&change.upserted), borrowed(&change.deleted)),
        _ => (Keys::new(), Keys::new()),
    }
}

fn common_metadata(ours: &ConfigChange, theirs: &ConfigChange) -> Option<MetadataOf> {
    let table = ours.table.as_ref().zip(theirs.table.as_ref());
    let schema = ours.schema.as_ref().zip(theirs.schema.as_ref());
    let field = ours.fields.keys().find(|id| theirs.fields.contains_key(id));
    table
        .and_then(|(ours, theirs)| common_table_key(ours, theirs))
        .or_else(|| schema.map(|_| MetadataOf::Schema))
        .or_else(|| field.map(|id| MetadataOf::Field(*id)))
}

fn common_table_key(ours: &MetadataChange, theirs: &MetadataChange) -> Option<MetadataOf> {
    if ours.replaces || theirs.replaces {
        return Some(MetadataOf::Table(None));
    }
    let key = ours.keys.intersection(&theirs.keys).next();
    key.map(|key| MetadataOf::Table(Some(key.clone())))
}
