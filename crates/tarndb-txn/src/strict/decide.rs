//! Deciding: what a strict rule says of two operations.
//!
//! Invariant: a rule that meets operations it was not made for is a bug of the matrix and
//! answers with the strictest it has, never with "compatible".
//! Does not know which matrix it serves.
//! Spec: docs/conflicts.md, "Strict matrix".

mod config;
mod fragments;
mod indices;
mod memwal;
mod rows;
mod schema;

use super::operation::{Base, LanceOp};
use super::reason::{BaseClash, Reason};
use super::rule::Rule;
use super::verdict::{TableFacts, Work};

/// Two operations on one table.
#[derive(Clone, Copy)]
pub(super) struct Meeting<'a> {
    pub(super) table: TableFacts,
    pub(super) ours: &'a LanceOp,
    pub(super) theirs: &'a LanceOp,
}

/// What one rule says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Both can be; the work of a rebase, none when compatible.
    Passes(Vec<Work>),
    Conflict(Reason),
}

impl Outcome {
    const COMPATIBLE: Self = Self::Passes(Vec::new());

    /// A matrix that pairs a rule with operations it was not made for.
    const MISPLACED: Self = Self::Conflict(Reason::Excluded);

    /// A conflict where something is at issue.
    fn of<T>(issue: Option<T>, reason: impl FnOnce(T) -> Reason) -> Self {
        issue.map_or(Self::COMPATIBLE, |issue| Self::Conflict(reason(issue)))
    }

    /// What follows where this one passes without work.
    fn or_else(self, next: impl FnOnce() -> Self) -> Self {
        if self == Self::COMPATIBLE {
            next()
        } else {
            self
        }
    }
}

/// What the rule says of the two.
pub(super) fn decide(rule: Rule, meeting: Meeting<'_>) -> Outcome {
    match rule {
        Rule::Compatible => Outcome::COMPATIBLE,
        Rule::Retryable => Outcome::Conflict(Reason::Preempted),
        Rule::Incompatible => Outcome::Conflict(Reason::Excluded),
        Rule::SameRows => rows::same_rows(meeting),
        Rule::SameFragments => fragments::same_fragments(meeting),
        Rule::SameRewrites => fragments::same_rewrites(meeting),
        Rule::InsertedKeys => rows::inserted_keys(meeting),
        Rule::ModifiedField => schema::modified_field(meeting),
        Rule::Overlaid => rows::overlaid(meeting),
        Rule::Overwritten => config::overwritten(meeting),
        Rule::ConfigKeys => config::config_keys(meeting),
        Rule::SameIndex => indices::same_index(meeting),
        Rule::IndexedMove => indices::indexed_move(meeting),
        Rule::IndexedMerge => indices::indexed_merge(meeting),
        Rule::IndexedReplacement => indices::indexed_replacement(meeting),
        Rule::MovedIndex => indices::moved_index(meeting),
        Rule::Generations => memwal::generations(meeting),
        Rule::MergesGenerations => memwal::merges_generations(meeting),
        Rule::PublishedGenerations => memwal::published_generations(meeting),
        Rule::TargetRemoved => fragments::target_removed(meeting),
        Rule::TargetUpdated => fragments::target_updated(meeting),
        Rule::ReplacedField => schema::replaced_field(meeting),
        Rule::SameCells => fragments::same_cells(meeting),
        Rule::OverlaidMove => rows::overlaid_move(meeting),
        Rule::SameBase => same_base(meeting),
        Rule::UnknownOperation => unknown(meeting),
        Rule::IndexedUpdate => indices::indexed_update(meeting),
        Rule::Nullability => schema::nullability(meeting),
        Rule::SchemaMetadata => config::schema_metadata(meeting),
    }
}

/// Note t: both add one base.
fn same_base(meeting: Meeting<'_>) -> Outcome {
    let (LanceOp::UpdateBases(ours), LanceOp::UpdateBases(theirs)) = (meeting.ours, meeting.theirs)
    else {
        return Outcome::MISPLACED;
    };
    let mut pairs = ours
        .iter()
        .flat_map(|ours| theirs.iter().map(move |theirs| (ours, theirs)));
    let clash = pairs.find_map(|(ours, theirs)| base_clash(ours, theirs));
    Outcome::of(clash, |clash| Reason::Base { clash })
}

fn base_clash(ours: &Base, theirs: &Base) -> Option<BaseClash> {
    if ours.id != 0 && ours.id == theirs.id {
        return Some(BaseClash::Id(ours.id));
    }
    let name = ours
        .name
        .as_ref()
        .filter(|name| theirs.name.as_ref() == Some(name));
    if let Some(name) = name {
        return Some(BaseClash::Name(name.clone()));
    }
    (ours.path == theirs.path).then(|| BaseClash::Path(ours.path.clone()))
}

/// Operations that this version does not know, on either side.
fn unknown(meeting: Meeting<'_>) -> Outcome {
    Outcome::Conflict(match (meeting.ours, meeting.theirs) {
        (LanceOp::Unknown { number }, _) => Reason::Unknown {
            number: *number,
            by_us: true,
        },
        (_, LanceOp::Unknown { number }) => Reason::Unknown {
            number: *number,
            by_us: false,
        },
        _ => Reason::Excluded,
    })
}
