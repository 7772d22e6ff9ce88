//! Deciding: what a rule says of two parts.
//!
//! Invariant: a rule that meets parts it was not made for is a bug of the matrix and answers
//! with the strictest it has, never with "compatible".
//! Does not know which matrix it serves.
//! Spec: docs/conflicts.md, "Rules".

pub(crate) mod catalog;
mod definition;
mod files;
mod relied;

use crate::aspect::Part;
use crate::matrix::Matrix;
use crate::reason::Reason;
use crate::rule::Rule;
use crate::verdict::{Conflict, Verdict};

pub(crate) use relied::{Known, asks_matching, keys_tell};

/// A verdict before the conflict knows its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Compatible,
    Rebase,
    Conflict(Reason),
}

impl Outcome {
    pub(crate) fn into_verdict(self, conflict: impl FnOnce(Reason) -> Conflict) -> Verdict {
        match self {
            Self::Compatible => Verdict::Compatible,
            Self::Rebase => Verdict::Rebase,
            Self::Conflict(reason) if reason.is_retryable() => Verdict::Retryable(conflict(reason)),
            Self::Conflict(reason) => Verdict::Incompatible(conflict(reason)),
        }
    }
}

/// Our part of a table against theirs; `known`: what a look into their data told.
pub(crate) fn table(
    matrix: &Matrix,
    ours: Part<'_>,
    theirs: Part<'_>,
    known: Known<'_>,
) -> Outcome {
    let Some(rule) = matrix.rule(ours.aspect(), theirs.aspect()) else {
        return Outcome::Conflict(Reason::IdTaken);
    };
    match rule {
        Rule::Compatible => Outcome::Compatible,
        Rule::Rebase => Outcome::Rebase,
        Rule::SameRows => files::same_rows(ours, theirs),
        Rule::RowMap => files::row_map(ours, theirs),
        Rule::SameFiles => files::same_files(ours, theirs),
        Rule::TakesHead => takes_head(ours),
        Rule::Overwritten => Outcome::Conflict(Reason::Overwritten),
        Rule::OverwrittenMove => Outcome::Conflict(Reason::OverwrittenMove),
        Rule::Dropped => Outcome::Conflict(Reason::Dropped {
            by_us: !matches!(theirs, Part::Drop),
        }),
        Rule::Renamed => Outcome::Conflict(Reason::Renamed),
        Rule::SameAppTxn => same_app_txn(ours, theirs),
        Rule::AddedKeys => relied::added_keys(ours, theirs, known),
        Rule::AddedMatching => relied::added_matching(ours, known),
        Rule::TouchedFiles => relied::touched_files(ours, theirs),
        Rule::RowsRead => relied::rows_read(ours, theirs, known),
        Rule::ReadChanged => Outcome::Conflict(Reason::ReadChanged {
            change: theirs.aspect().name(),
        }),
        Rule::SameColumn
        | Rule::ColumnUsed
        | Rule::Widened
        | Rule::SameComment
        | Rule::SameSchema
        | Rule::SchemaReplaced
        | Rule::ColumnsReplaced
        | Rule::RequiredColumn
        | Rule::SameKey
        | Rule::ObeyedKey
        | Rule::BindsExisting
        | Rule::ObeyedFeature => definition::decide(rule, ours, theirs),
        Rule::IdTaken
        | Rule::SameSchemaName
        | Rule::InSchema
        | Rule::SameTableName
        | Rule::SameView
        | Rule::SameTag
        | Rule::SharesFiles
        | Rule::NameRead => Outcome::Conflict(Reason::IdTaken),
    }
}

fn takes_head(ours: Part<'_>) -> Outcome {
    match ours {
        Part::Overwrite {
            source_read_target: false,
        } => Outcome::Rebase,
        _ => Outcome::Conflict(Reason::OverwriteSource),
    }
}

fn same_app_txn(ours: Part<'_>, theirs: Part<'_>) -> Outcome {
    let (Part::AppTxns(ours), Part::AppTxns(theirs)) = (ours, theirs) else {
        return Outcome::Conflict(Reason::IdTaken);
    };
    let common = ours
        .iter()
        .find_map(|(id, version)| Some((id, version, theirs.get(id)?)));
    common.map_or(Outcome::Compatible, |(app_id, ours, theirs)| {
        let app_id = app_id.clone();
        Outcome::Conflict(Reason::AppTxn {
            app_id,
            ours: *ours,
            theirs: *theirs,
        })
    })
}
