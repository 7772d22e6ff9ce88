//! Kinds: the operations of the Lance specification, by name only.
//!
//! Invariant: the order is that of the matrix, names are the specification's.
//! Does not carry what an operation touches; `LanceOp` does.
//! Spec: docs/conflicts.md, "Strict matrix".

use std::fmt;

macro_rules! kinds {
    ($($variant:ident $short:literal $doc:literal,)*) => {
        /// What a Lance transaction does, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LanceKind { $(#[doc = $doc] $variant,)* }

        impl LanceKind {
            /// Every kind, in the order of the matrix.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The specification's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// Three or four letters, as in the printed matrix.
            #[must_use]
            pub const fn short(self) -> &'static str {
                match self { $(Self::$variant => $short,)* }
            }

            /// What it does.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

kinds! {
    Append "App" "adds fragments",
    Delete "Del" "deletes rows, removes fragments left empty",
    Update "Upd" "moves changed rows to new fragments, or rewrites columns in place",
    Overwrite "Ovw" "replaces the data, and if wanted schema and configuration",
    CreateIndex "Idx" "adds, replaces or removes index segments",
    Rewrite "Rwr" "moves rows without changing them (compaction)",
    Merge "Mrg" "adds or retypes columns, with a new list of all fragments",
    Project "Prj" "drops, renames or tightens columns",
    Restore "Rst" "goes back to an earlier version",
    ReserveFragments "Rsv" "reserves fragment ids for a later Rewrite",
    Clone "Cln" "starts a table from another one",
    UpdateConfig "Cfg" "sets or deletes configuration and metadata of table, schema or fields",
    DataReplacement "Rep" "replaces column files of fragments, row for row",
    DataOverlay "Ovl" "lays new values of some cells over fragments",
    UpdateMemWalState "MemW" "records generations of the in-memory write-ahead log",
    UpdateBases "Bas" "adds base paths",
    Unknown "Unk" "an operation number that this version does not know",
}

impl fmt::Display for LanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
