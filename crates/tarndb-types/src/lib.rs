//! Newtypes that every crate shares: ids, versions and positions.
//!
//! Invariant: the type says the coordinate (a database version is never a table version).
//! Nothing here computes and nothing depends on more than `uuid`.
//! Spec: docs/format/log.md, "Identifiers".

use std::fmt;
use std::str::FromStr;

pub use uuid::Uuid;

macro_rules! version_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The first version.
            pub const ZERO: Self = Self(0);

            /// The version right after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }

            /// The version right before this one; `None` at zero.
            #[must_use]
            pub const fn previous(self) -> Option<Self> {
                match self.0 {
                    0 => None,
                    n => Some(Self(n - 1)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

version_newtype!(
    /// Position in the database log: record N moves the database from version N-1 to N.
    DbVersion
);
version_newtype!(
    /// Version of one table, counted by the table's own format from 0.
    TableVersion
);

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_newtype!(
    /// Identity of a transaction, chosen by the client before it commits.
    TxnId
);
uuid_newtype!(
    /// Identity of a table; survives renames and is never reused.
    TableId
);
uuid_newtype!(
    /// Identity of a database, fixed by record 0.
    DatabaseId
);

/// What a client keeps to ask for a transaction's outcome later: `<base version>-<uuid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxnRef {
    /// Database version the transaction read; its record, if any, lies above.
    pub base: DbVersion,
    /// The transaction.
    pub id: TxnId,
}

impl fmt::Display for TxnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.base, self.id)
    }
}

impl FromStr for TxnRef {
    type Err = ParseTxnRefError;

    /// A bare uuid, as a client has it that chose the id and was killed, stands for base 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(id) = text.parse() {
            return Ok(Self {
                base: DbVersion::ZERO,
                id,
            });
        }
        let parsed = text.split_once('-').and_then(|(base, id)| {
            Some(Self {
                base: DbVersion(base.parse().ok()?),
                id: id.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| ParseTxnRefError {
            text: text.to_owned(),
        })
    }
}

/// A text that is neither `<base version>-<uuid>` nor a uuid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTxnRefError {
    /// The offending text.
    pub text: String,
}

impl fmt::Display for ParseTxnRefError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not a transaction reference (<base version>-<uuid>, or a chosen uuid): text={:?}",
            self.text
        )
    }
}

impl std::error::Error for ParseTxnRefError {}

/// Physical position of a row in its data file: 0-based, row groups concatenated, counted
/// before any deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowPos(pub u64);

/// Milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(pub i64);

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
