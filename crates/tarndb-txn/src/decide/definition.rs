//! Rules about schema, comments, properties and features.
//!
//! Invariant: equal changes are one change (a rebase, which finds it done), different ones of
//! the same thing never silently win over each other.
//! Does not merge: a rebase re-applies our change to the head's definition.
//! Spec: docs/conflicts.md, "Schema and properties".

use super::Outcome;
use crate::aspect::Part;
use crate::effects::{ConfigEffect, SchemaEffect};
use crate::property::{ENABLE_DELETION_VECTORS, Obeyed, binds_existing_data, change_obeyed};
use crate::reason::{Reason, value};
use crate::rule::Rule;

/// Dispatches the rules of this file.
pub(super) fn decide(rule: Rule, ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let replaced = Reason::SchemaReplaced {
        by_us: !replaces(theirs),
    };
    match (rule, ours, theirs) {
        (Rule::SameColumn, Part::Schema(ours), Part::Schema(theirs)) => same_column(ours, theirs),
        (Rule::SameComment, Part::Schema(ours), Part::Schema(theirs)) => same_comment(ours, theirs),
        (Rule::SameSchema, Part::Schema(ours), Part::Schema(theirs)) if ours == theirs => {
            Outcome::Rebase
        }
        (Rule::SameSchema, ..) => Outcome::Conflict(Reason::SchemasDiffer),
        (Rule::ColumnsReplaced, Part::Schema(ours), Part::Schema(theirs))
            if is_table_comment(ours) || is_table_comment(theirs) =>
        {
            Outcome::Rebase
        }
        (Rule::RequiredColumn, ours, theirs) => required_column(ours, theirs),
        (Rule::ColumnUsed, _, Part::Schema(change)) => Outcome::Conflict(Reason::ColumnUsed {
            column: columns_of(change).join(" and "),
            change: column_text(change),
        }),
        (Rule::Widened, ours, theirs) => widened(ours, theirs),
        (Rule::SameKey, Part::Config(ours), Part::Config(theirs)) => same_key(ours, theirs),
        (Rule::ObeyedKey, ours, Part::Config(change)) => obeyed_key(ours, change),
        (Rule::BindsExisting, Part::Config(change), _) => binds_existing(change),
        (Rule::ObeyedFeature, ours, theirs) => obeyed_feature(ours, theirs),
        // SchemaReplaced itself, and what the matrix pairs wrongly.
        _ => Outcome::Conflict(replaced),
    }
}

const fn replaces(part: Part<'_>) -> bool {
    matches!(part, Part::Schema(SchemaEffect::Replace { .. }))
}

const fn is_table_comment(effect: &SchemaEffect) -> bool {
    matches!(effect, SchemaEffect::SetComment { column: None, .. })
}

fn same_column(ours: &SchemaEffect, theirs: &SchemaEffect) -> Outcome {
    if ours == theirs {
        return Outcome::Rebase;
    }
    let lower = |effect| -> Vec<String> {
        let columns = columns_of(effect).into_iter();
        columns.map(str::to_lowercase).collect()
    };
    let ours_lower = lower(ours);
    let common = lower(theirs)
        .iter()
        .position(|column| ours_lower.iter().any(|ours| overlap(ours, column)));
    let column = common.and_then(|at| columns_of(theirs).get(at).map(|name| (*name).to_owned()));
    column.map_or(Outcome::Rebase, |column| {
        Outcome::Conflict(Reason::Column {
            column,
            ours: column_text(ours),
            theirs: column_text(theirs),
        })
    })
}

/// Whether one column is the other, or lies in it.
fn overlap(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(one, other) || within(other, one)
}

/// Columns that a change concerns.
fn columns_of(effect: &SchemaEffect) -> Vec<&str> {
    match effect {
        SchemaEffect::AddColumn { name, .. } | SchemaEffect::DropColumn { name } => vec![name],
        SchemaEffect::RenameColumn { from, to } => vec![from, to],
        SchemaEffect::Widen { column, .. }
        | SchemaEffect::SetNotNull { column }
        | SchemaEffect::DropNotNull { column } => vec![column],
        SchemaEffect::SetComment { column, .. } => column.as_deref().into_iter().collect(),
        SchemaEffect::Replace { .. } => Vec::new(),
    }
}

fn column_text(effect: &SchemaEffect) -> String {
    match effect {
        SchemaEffect::AddColumn {
            name,
            type_text,
            nullable,
        } => {
            format!(
                "{name} {type_text}{}",
                if *nullable { "" } else { " NOT NULL" }
            )
        }
        SchemaEffect::DropColumn { .. } => "dropped".to_owned(),
        SchemaEffect::RenameColumn { from, to } => format!("{from} renamed to {to}"),
        SchemaEffect::Widen { type_text, .. } => format!("widened to {type_text}"),
        SchemaEffect::SetNotNull { .. } => "NOT NULL".to_owned(),
        SchemaEffect::DropNotNull { .. } => "without NOT NULL".to_owned(),
        SchemaEffect::SetComment { text, .. } => format!("with comment {}", value(text.as_deref())),
        SchemaEffect::Replace { .. } => String::new(),
    }
}

fn widened(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let name = |part: Part<'_>| match part {
        Part::Schema(SchemaEffect::Widen { column, .. }) => Some(column.clone()),
        _ => None,
    };
    let (column, by_us) = match (name(ours), name(theirs)) {
        (Some(name), _) => (name, true),
        (None, name) => (name.unwrap_or_default(), false),
    };
    Outcome::Conflict(Reason::Widened { column, by_us })
}

fn same_comment(ours: &SchemaEffect, theirs: &SchemaEffect) -> Outcome {
    let (
        SchemaEffect::SetComment {
            column: our_column,
            text: our_text,
        },
        SchemaEffect::SetComment {
            column: their_column,
            text: their_text,
        },
    ) = (ours, theirs)
    else {
        return Outcome::Conflict(Reason::SchemasDiffer);
    };
    let lower = |column: &Option<String>| column.as_deref().map(str::to_lowercase);
    if lower(our_column) != lower(their_column) || our_text == their_text {
        return Outcome::Rebase;
    }
    Outcome::Conflict(Reason::Comment {
        column: their_column.clone(),
        ours: our_text.clone(),
        theirs: their_text.clone(),
    })
}

fn required_column(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let name = |part: Part<'_>| match part {
        Part::Schema(
            SchemaEffect::AddColumn { name, .. } | SchemaEffect::SetNotNull { column: name },
        ) => Some(name.clone()),
        _ => None,
    };
    let (column, by_us) = match (name(ours), name(theirs)) {
        (Some(name), _) => (name, true),
        (None, name) => (name.unwrap_or_default(), false),
    };
    Outcome::Conflict(Reason::RequiredColumn { column, by_us })
}

/// The key of a property change and its new value.
fn property(change: &ConfigEffect) -> Option<(&str, Option<&str>)> {
    match change {
        ConfigEffect::Set { key, value } => Some((key, Some(value))),
        ConfigEffect::Unset { key } => Some((key, None)),
        ConfigEffect::AddFeature { .. } | ConfigEffect::TakeIdentity { .. } => None,
    }
}

fn same_key(ours: &ConfigEffect, theirs: &ConfigEffect) -> Outcome {
    if let (
        ConfigEffect::TakeIdentity { column: ours, .. },
        ConfigEffect::TakeIdentity { column: theirs, .. },
    ) = (ours, theirs)
    {
        // Equal marks are no equal change: both gave the same values to different rows.
        return match ours.to_lowercase() == theirs.to_lowercase() {
            true => Outcome::Conflict(Reason::IdentityTaken {
                column: theirs.clone(),
            }),
            false => Outcome::Rebase,
        };
    }
    let (Some((our_key, our_value)), Some((their_key, their_value))) =
        (property(ours), property(theirs))
    else {
        return Outcome::Rebase;
    };
    if our_key != their_key || our_value == their_value {
        return Outcome::Rebase;
    }
    // A statement that writes the first vector raises the property by itself; beside a user who
    // turns vectors off it must run again (as copy-on-write), not fail.
    if our_key == ENABLE_DELETION_VECTORS && change_obeyed(ours) == Obeyed::ByNobody {
        return Outcome::Conflict(Reason::ObeyedProperty {
            key: our_key.to_owned(),
            by_us: false,
        });
    }
    Outcome::Conflict(Reason::Property {
        key: our_key.to_owned(),
        ours: our_value.map(str::to_owned),
        theirs: their_value.map(str::to_owned),
    })
}

fn obeyed_key(ours: Part<'_>, change: &ConfigEffect) -> Outcome {
    let deletes = match ours {
        Part::Deletes(_) | Part::Removes(_) => true,
        Part::OverwriteWhere {
            deletions, removes, ..
        } => !deletions.is_empty() || !removes.is_empty(),
        _ => false,
    };
    let Some((key, _)) = property(change) else {
        return obeyed_feature(ours, Part::Config(change));
    };
    match change_obeyed(change) {
        Obeyed::ByNobody => Outcome::Compatible,
        Obeyed::ByDeletes if !deletes => Outcome::Compatible,
        Obeyed::ByDeletes | Obeyed::ByData => Outcome::Conflict(Reason::ObeyedProperty {
            key: key.to_owned(),
            by_us: false,
        }),
    }
}

fn binds_existing(change: &ConfigEffect) -> Outcome {
    match property(change) {
        Some((key, _)) if binds_existing_data(key) => Outcome::Conflict(Reason::ObeyedProperty {
            key: key.to_owned(),
            by_us: true,
        }),
        Some(_) => Outcome::Compatible,
        None => Outcome::Conflict(Reason::SchemasDiffer),
    }
}

fn obeyed_feature(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let name = |part: Part<'_>| match part {
        Part::Config(ConfigEffect::AddFeature { name }) => Some(name.clone()),
        _ => None,
    };
    let (name, by_us) = match (name(ours), name(theirs)) {
        (Some(name), _) => (name, true),
        (None, name) => (name.unwrap_or_default(), false),
    };
    Outcome::Conflict(Reason::ObeyedFeature { name, by_us })
}
