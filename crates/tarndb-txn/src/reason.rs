//! Reasons: the point at which two transactions meet, in words a person can act on.
//!
//! Invariant: the reason alone says whether running again is right, so a verdict and its
//! explanation cannot disagree.
//! Does not name the table or the transactions; `Conflict` does.
//! Spec: docs/conflicts.md, "Verdicts".

use std::fmt;

use crate::rows::{FileRows, FileSample};

/// Why two transactions cannot both be as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Both delete or update the same rows.
    SameRows {
        /// The rows, by file.
        files: FileSample<FileRows>,
    },
    /// They dropped files in which we delete rows.
    FilesDropped {
        /// The files.
        files: FileSample<String>,
    },
    /// Both change the same files, and rows cannot be told apart.
    SameFiles {
        /// The files.
        files: FileSample<String>,
    },
    /// One side moved files in which the other deletes rows.
    FilesMoved {
        /// The files.
        files: FileSample<String>,
        /// The move is ours.
        by_us: bool,
    },
    /// A move does not know rows that the other side deletes.
    RowsUnmapped {
        /// The rows, by file.
        files: FileSample<FileRows>,
        /// The move is ours.
        by_us: bool,
    },
    /// Both moved the same files.
    BothMoved {
        /// The files.
        files: FileSample<String>,
    },
    /// They replaced the data of the table.
    Overwritten,
    /// They changed data from which our overwrite was computed.
    OverwriteSource,
    /// They added rows with keys that we looked for.
    KeysAdded {
        /// The key's columns.
        columns: String,
        /// What was found.
        found: String,
    },
    /// They added rows whose keys nobody could compare with ours.
    KeysUnknown {
        /// The key's columns.
        columns: String,
        /// Why nobody could.
        why: String,
    },
    /// They added rows that match the predicate of our overwrite.
    OverwriteAdded {
        /// Our predicate.
        predicate: String,
        /// What was found.
        found: String,
    },
    /// They added rows that nobody could compare with the predicate of our overwrite.
    OverwriteUnknown {
        /// Our predicate.
        predicate: String,
        /// Why nobody could.
        why: String,
    },
    /// They touched files of which our overwrite replaces rows.
    OverwriteTouched {
        /// The files.
        files: FileSample<String>,
    },
    /// They replaced the data that we compacted.
    OverwrittenMove,
    /// One side replaced the schema.
    SchemaReplaced {
        /// We did.
        by_us: bool,
    },
    /// One side added a column NOT NULL or made one so, the other wrote rows that may lack it.
    RequiredColumn {
        /// The column.
        column: String,
        /// We did.
        by_us: bool,
    },
    /// They gave out values of an identity column that our rows have too.
    IdentityTaken {
        /// The column.
        column: String,
    },
    /// One side changed a property that binds what the other wrote.
    ObeyedProperty {
        /// The property.
        key: String,
        /// We changed it.
        by_us: bool,
    },
    /// One side raised a feature that binds what the other wrote.
    ObeyedFeature {
        /// The feature.
        name: String,
        /// We raised it.
        by_us: bool,
    },
    /// They changed a table that we read (serializable).
    ReadChanged {
        /// What they did to it.
        change: &'static str,
    },
    /// They changed rows that we read (serializable).
    ReadMatched {
        /// What they did.
        change: &'static str,
        /// What was found.
        found: String,
    },
    /// They changed rows that nobody could compare with what we read (serializable).
    ReadUnknown {
        /// What they did.
        change: &'static str,
        /// Why nobody could.
        why: String,
    },
    /// They changed a column that our key or predicate may use.
    ColumnUsed {
        /// The column.
        column: String,
        /// What they did to it.
        change: String,
    },
    /// One side widened a column beside data.
    Widened {
        /// The column.
        column: String,
        /// We did.
        by_us: bool,
    },
    /// They changed what a name means that we looked up (serializable).
    NameChanged {
        /// Schema.
        schema: String,
        /// Table.
        name: String,
        /// What they did to it.
        change: &'static str,
    },
    /// Both define one column differently.
    Column {
        /// Its name (theirs).
        column: String,
        /// Our definition.
        ours: String,
        /// Their definition.
        theirs: String,
    },
    /// Both set one comment differently.
    Comment {
        /// The column; `None`: the table.
        column: Option<String>,
        /// Our text; `None`: removed.
        ours: Option<String>,
        /// Their text; `None`: removed.
        theirs: Option<String>,
    },
    /// Both replaced the schema, differently.
    SchemasDiffer,
    /// Both set one property differently.
    Property {
        /// The property.
        key: String,
        /// Our value; `None`: removed.
        ours: Option<String>,
        /// Their value; `None`: removed.
        theirs: Option<String>,
    },
    /// One side dropped the table.
    Dropped {
        /// We did.
        by_us: bool,
    },
    /// They renamed the table that we rename or drop, or dropped the one that we rename.
    Renamed,
    /// They used the identity of a table that we create.
    IdTaken,
    /// They committed our application transaction.
    AppTxn {
        /// The application id.
        app_id: String,
        /// Our version of it.
        ours: i64,
        /// The version committed.
        theirs: i64,
    },
    /// They created or dropped the schema that we create or drop.
    SchemaChanged {
        /// The schema.
        schema: String,
    },
    /// One side dropped the schema in which the other changed a table.
    SchemaDropped {
        /// The schema.
        schema: String,
        /// We did.
        by_us: bool,
    },
    /// They took the name that we give to a table.
    NameTaken {
        /// Schema.
        schema: String,
        /// Table.
        name: String,
    },
    /// One side detached the table whose files the other's new table shares.
    SourceDetached {
        /// We did.
        by_us: bool,
    },
    /// They dropped or replaced the view that we drop or replace.
    ViewChanged {
        /// Schema.
        schema: String,
        /// View.
        name: String,
    },
    /// They created or dropped the tag that we create or drop.
    TagChanged {
        /// The tag.
        name: String,
    },
    /// They changed the catalog, which we take back as a whole.
    CatalogChanged {
        /// What they did, in a few words.
        change: &'static str,
    },
    /// They put a table in, around or at the place of ours.
    LocationTaken {
        /// Our place.
        ours: String,
        /// Theirs.
        theirs: String,
    },
}

impl Reason {
    /// Running the statements again on the new snapshot is right.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::SameRows { .. }
            | Self::FilesDropped { .. }
            | Self::SameFiles { .. }
            | Self::FilesMoved { .. }
            | Self::RowsUnmapped { .. }
            | Self::BothMoved { .. }
            | Self::KeysAdded { .. }
            | Self::KeysUnknown { .. }
            | Self::OverwriteAdded { .. }
            | Self::OverwriteUnknown { .. }
            | Self::OverwriteTouched { .. }
            | Self::Overwritten
            | Self::OverwriteSource
            | Self::SchemaReplaced { .. }
            | Self::RequiredColumn { .. }
            | Self::IdentityTaken { .. }
            | Self::ObeyedProperty { .. }
            | Self::ObeyedFeature { .. }
            | Self::ReadChanged { .. }
            | Self::ReadMatched { .. }
            | Self::ReadUnknown { .. }
            | Self::ColumnUsed { .. }
            | Self::Widened { .. }
            | Self::CatalogChanged { .. }
            | Self::SourceDetached { .. }
            | Self::NameChanged { .. } => true,
            Self::OverwrittenMove
            | Self::Column { .. }
            | Self::Comment { .. }
            | Self::SchemasDiffer
            | Self::Property { .. }
            | Self::Dropped { .. }
            | Self::Renamed
            | Self::IdTaken
            | Self::AppTxn { .. }
            | Self::SchemaChanged { .. }
            | Self::SchemaDropped { .. }
            | Self::NameTaken { .. }
            | Self::ViewChanged { .. }
            | Self::TagChanged { .. }
            | Self::LocationTaken { .. } => false,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::AppTxn { .. } => {
                "go on after the committed version, this one is already in the table"
            }
            Self::OverwrittenMove => "nothing is left to compact; compact again if needed",
            Self::NameTaken { .. } | Self::LocationTaken { .. } => {
                "choose another one, or use the table that is there now"
            }
            Self::IdTaken => "create the table anew, which gives it another identity",
            _ if self.is_retryable() => "run the transaction again on the new snapshot",
            _ => "look at what is there now and decide whether the change is still wanted",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameRows { files } => write!(f, "both delete or update {files}"),
            Self::FilesDropped { files } => {
                write!(
                    f,
                    "this transaction deletes or updates rows of {files}, dropped meanwhile"
                )
            }
            Self::SameFiles { files } => {
                write!(
                    f,
                    "both change {files}, which cannot be told apart by row (copy-on-write)"
                )
            }
            Self::FilesMoved { files, by_us: true } => write!(
                f,
                "this transaction compacts, without a row map, {files}, of which rows were deleted \
                 meanwhile"
            ),
            Self::FilesMoved {
                files,
                by_us: false,
            } => write!(
                f,
                "this transaction deletes or updates rows of {files}, compacted meanwhile without \
                 a row map"
            ),
            Self::RowsUnmapped { files, by_us } => write!(
                f,
                "{} compacts, with a row map that lacks them, {files}, deleted or updated by the \
                 other",
                if *by_us { "this transaction" } else { "theirs" }
            ),
            Self::BothMoved { files } => write!(f, "both compact {files}"),
            Self::Overwritten => f.write_str("the data of the table was replaced"),
            Self::OverwriteSource => f.write_str(
                "the new data was computed from this table, and the table's data has changed",
            ),
            Self::OverwrittenMove => f.write_str("the data to be compacted was replaced"),
            Self::KeysAdded { .. }
            | Self::KeysUnknown { .. }
            | Self::OverwriteAdded { .. }
            | Self::OverwriteUnknown { .. }
            | Self::OverwriteTouched { .. }
            | Self::ReadMatched { .. }
            | Self::ReadUnknown { .. }
            | Self::ColumnUsed { .. } => self.fmt_relied(f),
            Self::ReadChanged { change } => {
                write!(
                    f,
                    "this transaction read the table (serializable), and theirs {change}"
                )
            }
            Self::NameChanged {
                schema,
                name,
                change,
            } => write!(
                f,
                "this transaction looked up the name {schema}.{name} (serializable), and theirs \
                 {change}"
            ),
            Self::AppTxn {
                app_id,
                ours,
                theirs,
            } => write!(
                f,
                "application transaction {app_id} is committed at {theirs} (this one carries \
                 {ours})"
            ),
            Self::ViewChanged { schema, name } => {
                write!(f, "the view {schema}.{name} was dropped or replaced")
            }
            Self::CatalogChanged { change } => {
                write!(
                    f,
                    "the catalog was taken back as a whole, and theirs {change}"
                )
            }
            Self::SourceDetached { by_us: false } => {
                f.write_str("the table whose files this transaction's clone shares was detached")
            }
            Self::SourceDetached { by_us: true } => f.write_str(
                "a clone was made that shares files of the table that this transaction detaches",
            ),
            Self::TagChanged { name } => write!(f, "the tag {name} was created or dropped"),
            Self::NameTaken { schema, name } => write!(f, "the name {schema}.{name} is taken"),
            Self::LocationTaken { ours, theirs } => {
                write!(f, "the place {ours} is taken by a table at {theirs}")
            }
            other => other.fmt_definition(f),
        }
    }
}

impl Reason {
    /// The part of `Display` about what our transaction relied on.
    fn fmt_relied(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeysAdded { columns, found } => write!(
                f,
                "rows with keys ({columns}) of this transaction were added meanwhile: {found}"
            ),
            Self::KeysUnknown { columns, why } => write!(
                f,
                "rows were added meanwhile that may have keys ({columns}) of this transaction: {why}"
            ),
            Self::OverwriteAdded { predicate, found } => write!(
                f,
                "rows were added meanwhile where {predicate}, which this transaction replaces: \
                 {found}"
            ),
            Self::OverwriteUnknown { predicate, why } => write!(
                f,
                "rows were added meanwhile, perhaps where {predicate}, which this transaction \
                 replaces: {why}"
            ),
            Self::OverwriteTouched { files } => write!(
                f,
                "this transaction replaces rows of {files}, in which rows were deleted or moved \
                 meanwhile"
            ),
            Self::ReadMatched { change, found } => write!(
                f,
                "this transaction read rows (serializable) that changed, theirs {change}: {found}"
            ),
            Self::ReadUnknown { change, why } => write!(
                f,
                "this transaction read rows (serializable) that may have changed, theirs {change}: \
                 {why}"
            ),
            Self::ColumnUsed { column, change } => write!(
                f,
                "the column {column}, on which a key or predicate of this transaction may rely, is \
                 now {change}"
            ),
            // The rest is Display's own.
            _ => Ok(()),
        }
    }

    /// The part of `Display` about schemas, properties and the table as a whole.
    fn fmt_definition(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SchemaReplaced { by_us: false } => f.write_str("the table's schema was replaced"),
            Self::SchemaReplaced { by_us: true } => {
                f.write_str("this transaction replaces the schema on which theirs relied")
            }
            Self::RequiredColumn {
                column,
                by_us: false,
            } => {
                write!(
                    f,
                    "column {column} became NOT NULL, and the rows written may lack it"
                )
            }
            Self::RequiredColumn {
                column,
                by_us: true,
            } => {
                write!(
                    f,
                    "rows were written that may lack column {column}, which becomes NOT NULL here"
                )
            }
            Self::Widened { column, by_us } => write!(
                f,
                "the type of column {column} {} beside data written",
                if *by_us {
                    "is widened here"
                } else {
                    "was widened"
                }
            ),
            Self::IdentityTaken { column } => write!(
                f,
                "values of the identity column {column} were given out that these rows have too"
            ),
            Self::ObeyedProperty { key, by_us } => write!(
                f,
                "the property {key}, which writers must obey, {} beside data written",
                if *by_us {
                    "is changed here"
                } else {
                    "was changed"
                }
            ),
            Self::ObeyedFeature { name, by_us } => write!(
                f,
                "the table feature {name}, which writers must obey, {} beside data written",
                if *by_us {
                    "is raised here"
                } else {
                    "was raised"
                }
            ),
            Self::Column {
                column,
                ours,
                theirs,
            } => {
                write!(f, "column {column} is now {theirs}, not {ours}")
            }
            Self::Comment {
                column,
                ours,
                theirs,
            } => {
                match column {
                    Some(column) => write!(f, "the comment of column {column}")?,
                    None => f.write_str("the comment of the table")?,
                }
                write!(
                    f,
                    " is now {}, not {}",
                    value(theirs.as_deref()),
                    value(ours.as_deref())
                )
            }
            Self::SchemasDiffer => f.write_str("both replace the schema, with different ones"),
            Self::Property { key, ours, theirs } => write!(
                f,
                "the property {key} is now {}, not {}",
                value(theirs.as_deref()),
                value(ours.as_deref())
            ),
            Self::Dropped { by_us: false } => f.write_str("the table was dropped"),
            Self::Dropped { by_us: true } => {
                f.write_str("this transaction drops the table, which was changed")
            }
            Self::Renamed => f.write_str("the table was renamed or dropped"),
            Self::IdTaken => f.write_str("a table with the same identity is there"),
            Self::SchemaChanged { schema } => {
                write!(f, "the schema {schema} was created or dropped")
            }
            Self::SchemaDropped {
                schema,
                by_us: false,
            } => {
                write!(f, "the schema {schema} was dropped")
            }
            Self::SchemaDropped {
                schema,
                by_us: true,
            } => {
                write!(f, "a table was changed in the schema {schema} dropped here")
            }
            // The rest is Display's own.
            _ => Ok(()),
        }
    }
}

/// A text in quotes, or that there is none.
pub(crate) fn value(text: Option<&str>) -> String {
    text.map_or_else(|| "unset".to_owned(), |text| format!("{text:?}"))
}
