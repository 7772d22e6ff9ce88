//! Aspects and parts: effects taken apart into the units that the matrix compares.
//!
//! Invariant: the parts of some effects are all of them; an overwrite swallows the additions
//! and removals that belong to it. What a transaction relied on (keys it found absent, a
//! predicate it replaced, rows it read) is a part of ours only: it is over once committed.
//! Does not compare.
//! Spec: docs/conflicts.md, "Aspects".

use std::collections::BTreeMap;

use crate::effects::{
    CatalogEffect, ConfigEffect, OverwriteKind, Read, SchemaEffect, TableEffects,
};
use crate::key_set::KeySet;
use crate::operation::Operation;
use crate::property::{Obeyed, change_obeyed};
use crate::row_map::RowMap;
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
    DropColumn "drops column" Project,
    RenameColumn "renames column" Project,
    Widen "widens column" Project,
    Require "sets NOT NULL" Project,
    Relax "drops NOT NULL" Project,
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
    Keys "relies on keys" Upsert,
    OverwriteWhere "overwrites by predicate" Overwrite,
    Read "reads (serializable)" Read,
}

impl Aspect {
    /// What a transaction relied on, which is over once it has committed: the last of the list.
    pub const OURS_ONLY: &'static [Self] = &[Self::Keys, Self::OverwriteWhere, Self::Read];

    /// Theirs: all but those of [`Self::OURS_ONLY`].
    pub fn committed() -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(|aspect| !Self::OURS_ONLY.contains(aspect))
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
    CreateView "creates view" CreateView,
    DropView "drops view" DropView,
    CreateTag "creates tag" CreateTag,
    DropTag "drops tag" DropTag,
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
            CatalogEffect::CreateView { .. } => Self::CreateView,
            CatalogEffect::DropView { .. } => Self::DropView,
            CatalogEffect::CreateTag { .. } => Self::CreateTag,
            CatalogEffect::DropTag { .. } => Self::DropTag,
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
    Adds {
        /// Keys known of the added rows.
        keys: Option<&'a KeySet>,
    },
    Deletes(&'a BTreeMap<String, Touched>),
    Removes(&'a BTreeMap<String, Removal>),
    Moves {
        removes: &'a BTreeMap<String, Removal>,
        map: Option<&'a RowMap>,
    },
    Overwrite {
        source_read_target: bool,
    },
    Schema(&'a SchemaEffect),
    Config(&'a ConfigEffect),
    Create,
    Drop,
    Rename,
    AppTxns(&'a BTreeMap<String, i64>),
    Keys(&'a KeySet),
    OverwriteWhere {
        predicate: &'a str,
        source_read_target: bool,
        deletions: &'a BTreeMap<String, Touched>,
        removes: &'a BTreeMap<String, Removal>,
    },
    Read(&'a Read),
}

/// Whose effects are taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// With what they rely on.
    Ours {
        /// Whether reads are part of that.
        serializable: bool,
    },
    /// Committed: without.
    Theirs,
}

/// How much of a file a part touches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    Rows(&'a RowSet),
    Whole,
}

impl<'a> Part<'a> {
    /// Takes a table's effects apart.
    pub(crate) fn of(effects: &'a TableEffects, lifecycle: Lifecycle, side: Side) -> Vec<Self> {
        let mut parts = Self::of_data(effects, side);
        parts.extend(effects.schema.iter().map(Part::Schema));
        parts.extend(effects.config.iter().map(Part::Config));
        let whole = [
            (effects.created || lifecycle.created, Part::Create),
            (effects.dropped || lifecycle.dropped, Part::Drop),
            (effects.renamed || lifecycle.renamed, Part::Rename),
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
        if let Side::Ours { serializable } = side {
            parts.extend(effects.keys.as_ref().map(Part::Keys));
            let read = effects.read.as_ref().filter(|_| serializable);
            parts.extend(read.map(Part::Read));
        }
        parts
    }

    /// The parts that concern rows and files.
    fn of_data(effects: &'a TableEffects, side: Side) -> Vec<Self> {
        match (&effects.overwrite, side) {
            (Some(OverwriteKind::All { source_read_target }), _) => {
                let source_read_target = *source_read_target;
                return vec![Part::Overwrite { source_read_target }];
            }
            (
                Some(OverwriteKind::Where {
                    predicate,
                    source_read_target,
                }),
                Side::Ours { .. },
            ) => {
                return vec![Part::OverwriteWhere {
                    predicate,
                    source_read_target: *source_read_target,
                    deletions: &effects.deletions,
                    removes: &effects.removes,
                }];
            }
            (Some(OverwriteKind::Where { .. }), Side::Theirs) | (None, _) => {}
        }
        let mut parts = Vec::new();
        if effects.adds {
            let keys = effects.keys.as_ref();
            parts.push(Part::Adds { keys });
        }
        if !effects.deletions.is_empty() {
            parts.push(Part::Deletes(&effects.deletions));
        }
        let has = |wanted| effects.removes.values().any(|removal| *removal == wanted);
        if has(Removal::Deleted) {
            parts.push(Part::Removes(&effects.removes));
        }
        if has(Removal::Moved) {
            parts.push(Part::Moves {
                removes: &effects.removes,
                map: effects.row_map.as_deref(),
            });
        }
        parts
    }

    /// Its row or column of the matrix.
    pub(crate) fn aspect(self) -> Aspect {
        match self {
            Part::Adds { .. } => Aspect::Adds,
            Part::Deletes(_) => Aspect::Deletes,
            Part::Removes(_) => Aspect::Removes,
            Part::Moves { .. } => Aspect::Moves,
            Part::Overwrite { .. } => Aspect::Overwrite,
            Part::Schema(SchemaEffect::AddColumn { nullable: true, .. }) => Aspect::AddColumn,
            Part::Schema(SchemaEffect::AddColumn {
                nullable: false, ..
            }) => Aspect::AddRequired,
            Part::Schema(SchemaEffect::DropColumn { .. }) => Aspect::DropColumn,
            Part::Schema(SchemaEffect::RenameColumn { .. }) => Aspect::RenameColumn,
            Part::Schema(SchemaEffect::Widen { .. }) => Aspect::Widen,
            Part::Schema(SchemaEffect::SetNotNull { .. }) => Aspect::Require,
            Part::Schema(SchemaEffect::DropNotNull { .. }) => Aspect::Relax,
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
            Part::Keys(_) => Aspect::Keys,
            Part::OverwriteWhere { .. } => Aspect::OverwriteWhere,
            Part::Read(_) => Aspect::Read,
        }
    }

    /// Files that it touches, ascending.
    pub(crate) fn files(self) -> BTreeMap<&'a str, Extent<'a>> {
        match self {
            Part::Deletes(deletions) => deleted_in(deletions).collect(),
            Part::Removes(removes) => removed(removes, Removal::Deleted).collect(),
            Part::Moves { removes, .. } => removed(removes, Removal::Moved).collect(),
            Part::OverwriteWhere {
                deletions, removes, ..
            } => deleted_in(deletions)
                .chain(removed(removes, Removal::Deleted))
                .collect(),
            _ => BTreeMap::new(),
        }
    }
}

fn deleted_in(deletions: &BTreeMap<String, Touched>) -> impl Iterator<Item = (&str, Extent<'_>)> {
    deletions.iter().map(|(file, touched)| match touched {
        Touched::Rows(rows) => (file.as_str(), Extent::Rows(rows)),
        Touched::WholeFile => (file.as_str(), Extent::Whole),
    })
}

fn removed(
    removes: &BTreeMap<String, Removal>,
    wanted: Removal,
) -> impl Iterator<Item = (&str, Extent<'_>)> {
    removes
        .iter()
        .filter(move |(_, removal)| **removal == wanted)
        .map(|(file, _)| (file.as_str(), Extent::Whole))
}
