//! Views, tags and tables that come back: their lines in a record and in a checkpoint.
//!
//! Invariant: a view is its text and what is needed to read it the same later; nothing here
//! says whether that text means anything.
//! Spec: docs/format/log.md, "Actions".

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tarndb_types::{DbVersion, TableId};

/// Writer feature of a record with a view: a build that does not know views could give the name
/// of one to a table, and would write checkpoints without them.
pub const VIEW_FEATURE: &str = "view";

/// Writer feature of a record with a tag: a build that does not know tags would delete what
/// they keep.
pub const TAG_FEATURE: &str = "tag";

/// Reader feature of a record that brings a dropped table back: to a build that does not know
/// it, the entries that follow name no table.
pub const UNDROP_FEATURE: &str = "undropTable";

/// A view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewDefinition {
    /// The schema it lies in, as written.
    pub schema: String,
    /// Its name, as written.
    pub name: String,
    /// Its query, as written.
    pub query: String,
    /// The schema in which the query's names without one are looked up.
    pub search_schema: String,
    /// Its columns, in order.
    pub columns: Vec<ViewColumn>,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewColumn {
    /// Its name, as written.
    pub name: String,
    /// The name that the query gives it, when that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl ViewDefinition {
    /// `schema.name`, for people.
    pub fn display_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Its line.
    pub(crate) fn value(&self) -> Value {
        // A struct of texts always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// A dropped table that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndropAction {
    /// The table.
    pub id: TableId,
    /// Schema it comes to lie in.
    pub schema: String,
    /// Its name.
    pub name: String,
}

/// A name for a version of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagAction {
    /// As written.
    pub name: String,
    /// The version.
    pub version: DbVersion,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DropViewLine {
    pub(super) schema: String,
    pub(super) name: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TagLine {
    pub(super) name: String,
    pub(super) version: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DropTagLine {
    pub(super) name: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UndropLine {
    pub(super) id: String,
    pub(super) schema: String,
    pub(super) name: String,
}
