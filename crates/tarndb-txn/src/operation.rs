//! What a transaction does, in one word, and how isolated it wants to be.
//!
//! Invariant: names are unique and stable, so a record can store one and read it back.
//! Does not decide anything: verdicts follow effects, the operation only names them.
//! Spec: docs/conflicts.md, "Operations".

use std::fmt;
use std::str::FromStr;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// The kind of change, used in messages and in the history of a table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Operation { $($(#[$doc])* $variant,)* }

        impl Operation {
            /// Every operation, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Stable upper-case name, as users meet it in logs and errors.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

operations! {
    /// Adds rows.
    Append => "WRITE",
    /// Deletes rows.
    Delete => "DELETE",
    /// Replaces rows by new forms of them.
    Update => "UPDATE",
    /// Updates, inserts and deletes in one statement (SQL's MERGE).
    Upsert => "MERGE",
    /// Replaces the data of a table.
    Overwrite => "OVERWRITE",
    /// Removes all data of a table.
    Truncate => "TRUNCATE",
    /// Moves rows without changing them (compaction, clustering).
    Rewrite => "OPTIMIZE",
    /// Adds columns (the Lance specification's "Merge"; SQL's MERGE is [`Self::Upsert`]).
    Merge => "ADD COLUMNS",
    /// Drops or renames columns.
    Project => "CHANGE COLUMNS",
    /// Adds, replaces or removes an index (native Lance tables only).
    CreateIndex => "CREATE INDEX",
    /// Replaces column files of fragments (native Lance tables only).
    DataReplacement => "REPLACE COLUMN DATA",
    /// Reserves fragment ids for a later rewrite (native Lance tables only).
    ReserveFragments => "RESERVE FRAGMENTS",
    /// Adds places where files may be (native Lance tables only).
    UpdateBases => "UPDATE BASES",
    /// Moves generations of the in-memory write-ahead index (native Lance tables only).
    UpdateMemWalState => "UPDATE MEM WAL STATE",
    /// Sets or removes properties or comments, or raises a table feature.
    UpdateConfig => "SET TBLPROPERTIES",
    /// Replaces definition and data of a table.
    ReplaceTable => "REPLACE TABLE",
    /// Goes back to an earlier version.
    Restore => "RESTORE",
    /// Copies a table, or references its files.
    Clone => "CLONE",
    /// Creates a table.
    CreateTable => "CREATE TABLE",
    /// Creates a table and fills it.
    CreateTableAsSelect => "CREATE TABLE AS SELECT",
    /// Drops a table.
    DropTable => "DROP TABLE",
    /// Takes a table that is there into the database.
    AttachTable => "ATTACH TABLE",
    /// Gives a table of the database back to its own log.
    DetachTable => "DETACH TABLE",
    /// Gives a table another name or schema.
    RenameTable => "RENAME TABLE",
    /// Creates a schema.
    CreateSchema => "CREATE SCHEMA",
    /// Drops a schema.
    DropSchema => "DROP SCHEMA",
    /// Creates or replaces a view, or gives it another name.
    CreateView => "CREATE VIEW",
    /// Drops a view.
    DropView => "DROP VIEW",
    /// Brings a dropped table back.
    UndropTable => "UNDROP TABLE",
    /// Names a version of the database.
    CreateTag => "CREATE TAG",
    /// Drops a tag.
    DropTag => "DROP TAG",
    /// Takes the database back to an earlier version.
    RestoreDatabase => "RESTORE DATABASE",
    /// Only reads (serializable transactions are judged by their reads too).
    Read => "READ",
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no operation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperation {
    /// The name given.
    pub name: String,
}

impl fmt::Display for UnknownOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not an operation known to this version: name={:?}",
            self.name
        )
    }
}

impl std::error::Error for UnknownOperation {}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| UnknownOperation {
                name: name.to_owned(),
            })
    }
}

/// What a transaction may not notice of those committed since its snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Reads one snapshot; only writes conflict. Write skew is possible.
    #[default]
    Snapshot,
    /// As if transactions ran one after the other: reads conflict too.
    Serializable,
}

impl Isolation {
    /// Lower-case name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
