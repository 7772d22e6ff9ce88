//! Aspects and parts: effects taken apart into the units that the matrix compares.
//!
//! Invariant: the parts of some effects are all of them; an overwrite swallows the additions
//! and removals that belong to it, because they are taken anew when it commits.
//! Does not compare.
//! Spec: docs/conflicts.md, "Aspects".

use std::collections::BTreeMap;

use crate::effects::{CatalogEffect, ConfigEffect, OverwriteKind, SchemaEffect, TableEffects};
use crate::operation::Operation;
use crate::property::{Obeyed, change_obeyed};
use crate::rows::{Removal, RowSet, Touched};

macro_rules! aspects {
    ($(#[$doc:meta])* $type:ident, $($variant:ident $name:literal $operation:ident,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $(#[doc = $name] $variant,)* }

        impl $type {
            /// Every aspect, in the order of the matrix.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// A few words.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The operation it suggests when effects name none.
            #[must_use]
            pub const fn operation(self) -> Operation {
                match self { $(Self::$variant => Operation::$operation,)* }
            }
        }
    };
}

aspects! {
    /// One way in which a transaction touches a table.
    Aspect,
    Adds "adds rows" Append,
    Deletes "deletes rows" Delete,
    Removes "drops files" Delete,
    Moves "moves files" Rewrite,
    Overwrite "overwrites" Overwrite,
    AddColumn "adds nullable column" Merge,
    AddRequired "adds NOT NULL column" Merge,
    Comment "comments" UpdateConfig,
    ReplaceSchema "replaces schema" ReplaceTable,
    Property "sets free property" UpdateConfig,
    ObeyedProperty "sets obeyed property" UpdateConfig,
    Feature "raises free feature" UpdateConfig,
    ObeyedFeature "raises obeyed feature" UpdateConfig,
    Create "creates table" CreateTable,
    Drop "drops table" DropTable,
    Rename "renames table" RenameTable,
    AppTxn "sets application id" Append,
    Read "reads (serializable)" Read,
}

impl Aspect {
    /// Theirs: all but reads, which are over once they have committed.
    pub fn committed() -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(|aspect| *aspect != Self::Read)
    }
}

aspects! {
    /// One way in which a transaction touches the catalog.
    CatalogAspect,
    CreateSchema "creates schema" CreateSchema,
    DropSchema "drops schema" DropSchema,
    CreateTable "creates table" CreateTable,
    DropTable "drops table" DropTable,
    RenameTable "renames table" RenameTable,
    NameRead "looks up name (serializable)" Read,
}

impl CatalogAspect {
    /// Theirs: all but look-ups.
    pub fn committed() -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(|aspect| *aspect != Self::NameRead)
    }

    /// The aspect of a catalog change.
    #[must_use]
    pub const fn of(effect: &CatalogEffect) -> Self {
        match effect {
            CatalogEffect::CreateSchema { .. } => Self::CreateSchema,
            CatalogEffect::DropSchema { .. } => Self::DropSchema,
            CatalogEffect::CreateTable { .. } => Self::CreateTable,
            CatalogEffect::DropTable { .. } => Self::DropTable,
            CatalogEffect::RenameTable { .. } => Self::RenameTable,
        }
    }
}

/// What becomes of a table as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lifecycle {
    pub(crate) created: bool,
    pub(crate) dropped: bool,
    pub(crate) renamed: bool,
}

/// An aspect with what it concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Adds,
    Deletes(&'a BTreeMap<String, Touched>),
    Removes(&'a BTreeMap<String, Removal>),
    Moves(&'a BTreeMap<String, Removal>),
    Overwrite(&'a OverwriteKind),
    Schema(&'a SchemaEffect),
    Config(&'a ConfigEffect),
    Create,
    Drop,
    Rename,
    AppTxns(&'a BTreeMap<String, i64>),
    Read,
}

/// How much of a file a part touches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    Rows(&'a RowSet),
    Whole,
}

impl<'a> Part<'a> {
    /// Takes a table's effects apart. `reads`: whether what was read counts.
    pub(crate) fn of(effects: &'a TableEffects, lifecycle: Lifecycle, reads: bool) -> Vec<Self> {
        let mut parts = Vec::new();
        if let Some(kind) = &effects.overwrite {
            parts.push(Part::Overwrite(kind));
        } else {
            if effects.adds {
                parts.push(Part::Adds);
            }
            if !effects.deletions.is_empty() {
                parts.push(Part::Deletes(&effects.deletions));
            }
            let has = |wanted| effects.removes.values().any(|removal| *removal == wanted);
            if has(Removal::Deleted) {
                parts.push(Part::Removes(&effects.removes));
            }
            if has(Removal::Moved) {
                parts.push(Part::Moves(&effects.removes));
            }
        }
        parts.extend(effects.schema.iter().map(Part::Schema));
        parts.extend(effects.config.iter().map(Part::Config));
        let whole = [
            (effects.created || lifecycle.created, Part::Create),
            (effects.dropped || lifecycle.dropped, Part::Drop),
            (effects.renamed || lifecycle.renamed, Part::Rename),
            (reads && effects.read.is_some(), Part::Read),
        ];
        parts.extend(
            whole
                .into_iter()
                .filter(|(present, _)| *present)
                .map(|(_, part)| part),
        );
        if !effects.app_txns.is_empty() {
            parts.push(Part::AppTxns(&effects.app_txns));
        }
        parts
    }

    /// Its row or column of the matrix.
    pub(crate) fn aspect(self) -> Aspect {
        match self {
            Part::Adds => Aspect::Adds,
            Part::Deletes(_) => Aspect::Deletes,
            Part::Removes(_) => Aspect::Removes,
            Part::Moves(_) => Aspect::Moves,
            Part::Overwrite(OverwriteKind::All { .. }) => Aspect::Overwrite,
            Part::Schema(SchemaEffect::AddColumn { nullable: true, .. }) => Aspect::AddColumn,
            Part::Schema(SchemaEffect::AddColumn {
                nullable: false, ..
            }) => Aspect::AddRequired,
            Part::Schema(SchemaEffect::Replace { .. }) => Aspect::ReplaceSchema,
            Part::Schema(SchemaEffect::SetComment { .. }) => Aspect::Comment,
            Part::Config(change) => {
                let free = change_obeyed(change) == Obeyed::ByNobody;
                match (change, free) {
                    (ConfigEffect::AddFeature { .. }, true) => Aspect::Feature,
                    (ConfigEffect::AddFeature { .. }, false) => Aspect::ObeyedFeature,
                    (_, true) => Aspect::Property,
                    (_, false) => Aspect::ObeyedProperty,
                }
            }
            Part::Create => Aspect::Create,
            Part::Drop => Aspect::Drop,
            Part::Rename => Aspect::Rename,
            Part::AppTxns(_) => Aspect::AppTxn,
            Part::Read => Aspect::Read,
        }
    }

    /// Files that it touches, ascending.
    pub(crate) fn files(self) -> Vec<(&'a str, Extent<'a>)> {
        let whole = |removes: &'a BTreeMap<String, Removal>, wanted: Removal| {
            removes
                .iter()
                .filter(|(_, removal)| **removal == wanted)
                .map(|(file, _)| (file.as_str(), Extent::Whole))
                .collect()
        };
        match self {
            Part::Deletes(deletions) => deletions
                .iter()
                .map(|(file, touched)| match touched {
                    Touched::Rows(rows) => (file.as_str(), Extent::Rows(rows)),
                    Touched::WholeFile => (file.as_str(), Extent::Whole),
                })
                .collect(),
            Part::Removes(removes) => whole(removes, Removal::Deleted),
            Part::Moves(removes) => whole(removes, Removal::Moved),
            _ => Vec::new(),
        }
    }
}
