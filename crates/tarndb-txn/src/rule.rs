//! Rules: the possible entries of the conflict matrix.
//!
//! Invariant: a rule depends on the two parts that meet and on nothing else. Most rules have
//! one outcome; the others look at rows, files, names or values of the two parts.
//! Does not decide here: `decide` does, one function per rule.
//! Spec: docs/conflicts.md, "Rules".

/// A rule set: its rules with their codes and texts. The strict rules use it too.
macro_rules! rules {
    ($(#[doc = $doc:literal])* $($variant:ident $code:literal $text:literal,)*) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule { $(#[doc = $text] $variant,)* }

        impl Rule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Short form, used in the printed matrix.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// What it says.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}
pub(crate) use rules;

rules! {
    /// What happens when one aspect of ours meets one of theirs.
    Compatible "." "compatible",
    Rebase "rebase" "rebase: encoded anew against the head, nothing of either side is lost",
    SameRows "rows" "by row: files only one side touches are compatible; in common files disjoint \
        rows are a rebase (the union of the vectors), common rows are retryable; a file dropped \
        whole, rewritten (copy-on-write) or whose rows are unknown counts as all of its rows",
    RowMap "map" "by file: deletions in a file that the other side moved (compacted) are carried \
        through the row map of the move (a rebase); retryable without a row map, with one that \
        does not know the rows, and where a file of ours was rewritten (copy-on-write); other \
        files are compatible",
    SameFiles "files" "by file: moving the same file twice is retryable, other files are compatible",
    TakesHead "head" "rebase: the overwrite removes what is live at the head; retryable when its \
        new data was computed from the table",
    Overwritten "over" "retryable: the table's data was replaced",
    OverwrittenMove "moot" "incompatible: what was to be compacted was replaced",
    SameColumn "column" "by column: the same change is one change (rebase), two changes of one \
        column, or of a struct and a field in it, are incompatible, other columns are a rebase",
    SameComment "text" "by target: the same text is one change (rebase), different texts are \
        incompatible, other targets are a rebase",
    SameSchema "schema" "the same new schema is one change (rebase), another one is incompatible",
    SchemaReplaced "replaced" "retryable: one side replaced the schema that the other relied on",
    ColumnsReplaced "columns" "a table comment is a rebase beside a replaced schema, a column's is \
        retryable",
    RequiredColumn "required" "retryable: rows that may lack a column meet its NOT NULL",
    SameKey "key" "by key: the same value is one change (rebase), different values are \
        incompatible (retryable where ours only raised deletion vectors), other keys are a rebase",
    ObeyedKey "obeyed" "retryable when our data had to obey the property they changed, \
        otherwise compatible",
    BindsExisting "binds" "retryable when the property we change also binds data that is there \
        (constraints, row tracking, ..), compatible when it binds later writers only",
    ObeyedFeature "feature" "retryable: a feature that writers obey was raised beside data",
    Dropped "dropped" "incompatible: one side dropped the table that the other changed",
    Renamed "renamed" "incompatible: both sides renamed the table, or one renamed what the other \
        dropped",
    IdTaken "id" "incompatible: two tables with one identity",
    SameAppTxn "app" "incompatible when both carry the same application transaction id, \
        otherwise compatible",
    AddedKeys "keys" "by key: compatible when the key sets of both sides tell that no row was \
        added with a key of ours; else the added rows are looked at: none with such a key is \
        compatible, one is retryable, and so is what could not be looked at",
    AddedMatching "matching" "by row: compatible when no added row matches our predicate; one that \
        does is retryable, and so is what could not be looked at, and any when our new data was \
        computed from the table",
    TouchedFiles "touched" "by file: retryable when both touch a file, and always for data that \
        was computed from the table when rows were deleted; other files are compatible",
    ColumnUsed "uses" "retryable: a column changed that our key or our predicate may use",
    Widened "widened" "retryable: the type of a column was widened beside data",
    RowsRead "rows read" "under serializable: compatible when a look at the rows added, deleted and \
        replaced finds none that matches what was read; else retryable, as it is when the \
        whole table was read or the rows could not be looked at",
    ReadChanged "read" "retryable under serializable: what was read has changed",
    SameSchemaName "same" "incompatible when both change the schema of the same name",
    InSchema "inside" "incompatible when one side drops the schema in which the other creates, \
        drops or renames a table or view",
    SameTableName "name" "incompatible when both take the same name, or places of which one lies \
        in the other",
    SharesFiles "shares" "retryable when one side detaches the table whose files the other's new \
        table shares, otherwise compatible",
    SameView "view" "incompatible when both drop or replace the view of the same name",
    SameTag "tag" "incompatible when both create or drop the tag of the same name",
    NameRead "lookup" "retryable under serializable when a name that was looked up now means \
        something else",
}
