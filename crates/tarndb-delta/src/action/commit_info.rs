//! `commitInfo`: what a commit says about itself, and what TarnDB adds to it.
//!
//! Invariant: free-form JSON never fails a read: a member of an unexpected type counts as
//! absent. The member `tarndb` tells exactly which metadata a commit changed, so that its
//! effects can be decoded without the state before it.
//! Spec: Delta PROTOCOL, "Commit Provenance Information"; docs/format/publishing.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::DeltaError;

/// One change of metadata, told in `commitInfo.tarndb.changes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A column was added.
    AddColumn {
        /// Its path: names joined by dots, one that has a dot in it in back-ticks.
        name: String,
        /// Type as Delta spells it; nested types as JSON.
        r#type: String,
        /// Always true for now.
        nullable: bool,
    },
    /// A column got another name.
    RenameColumn {
        /// Its path before.
        from: String,
        /// Its path afterwards.
        to: String,
    },
    /// A column was dropped.
    DropColumn {
        /// Its path.
        name: String,
    },
    /// A column got a type that holds all values of the old one.
    WidenColumn {
        /// Its path.
        column: String,
        /// Its new type, as Delta spells it.
        r#type: String,
    },
    /// A column may not be NULL any more.
    SetNotNull {
        /// Its path.
        column: String,
    },
    /// A column may be NULL from now on.
    DropNotNull {
        /// Its path.
        column: String,
    },
    /// The whole schema was replaced; the commit's `metaData` says by what.
    ReplaceSchema,
    /// A comment was set or, without text, dropped.
    Comment {
        /// Column; none = the table.
        #[serde(skip_serializing_if = "Option::is_none")]
        column: Option<String>,
        /// Text.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A property was set.
    Set {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// A property was dropped.
    Unset {
        /// Key.
        key: String,
    },
    /// A column's default was set or, without text, dropped.
    Default {
        /// Column.
        column: String,
        /// Spark SQL.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Values of an identity column were given out.
    Identity {
        /// Column.
        column: String,
        /// The furthest of them.
        mark: i64,
    },
    /// A domain was set or, without configuration, removed.
    Domain {
        /// Its name.
        domain: String,
        /// Its configuration.
        #[serde(skip_serializing_if = "Option::is_none")]
        configuration: Option<String>,
    },
    /// A table feature was dropped.
    DropFeature {
        /// Its name.
        name: String,
    },
    /// A table feature was added.
    AddFeature {
        /// Its name.
        name: String,
    },
}

/// What TarnDB adds to `commitInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TarnInfo {
    /// The commit created the table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Changes of metadata, complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A commit's own words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitInfo {
    /// ms since 1970 UTC.
    pub timestamp: Option<i64>,
    /// Strictly growing per table where in-commit timestamps are on.
    pub in_commit_timestamp: Option<i64>,
    /// What was done.
    pub operation: Option<String>,
    /// Parameters; values that are not strings are kept as JSON text.
    pub operation_parameters: BTreeMap<String, String>,
    /// Metrics, likewise.
    pub operation_metrics: BTreeMap<String, String>,
    /// Version that the commit read.
    pub read_version: Option<i64>,
    /// Isolation level.
    pub isolation_level: Option<String>,
    /// Only adds, and nothing was read.
    pub is_blind_append: Option<bool>,
    /// Who wrote it.
    pub engine_info: Option<String>,
    /// The transaction.
    pub txn_id: Option<String>,
    /// Tags, by which engines know some commits.
    pub tags: BTreeMap<String, String>,
    /// TarnDB's own part; `None` = another engine's commit.
    pub tarndb: Option<TarnInfo>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_commit_timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    operation_parameters: &'a BTreeMap<String, String>,
    operation_metrics: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation_level: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_blind_append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_info: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txn_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tarndb: Option<&'a TarnInfo>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InfoLine<'a> {
    commit_info: Body<'a>,
}

impl CommitInfo {
    pub(super) fn from_map(map: Map<String, Value>) -> Self {
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| map.get(key).and_then(Value::as_i64);
        Self {
            timestamp: number("timestamp"),
            in_commit_timestamp: number("inCommitTimestamp"),
            operation: text("operation"),
            operation_parameters: texts(map.get("operationParameters")),
            operation_metrics: texts(map.get("operationMetrics")),
            read_version: number("readVersion"),
            isolation_level: text("isolationLevel"),
            is_blind_append: map.get("isBlindAppend").and_then(Value::as_bool),
            engine_info: text("engineInfo"),
            txn_id: text("txnId"),
            tags: texts(map.get("tags")),
            tarndb: map
                .get("tarndb")
                .and_then(|value| TarnInfo::deserialize(value).ok()),
        }
    }

    pub(super) fn to_line(&self) -> Result<String, DeltaError> {
        let line = InfoLine {
            commit_info: Body {
                timestamp: self.timestamp,
                in_commit_timestamp: self.in_commit_timestamp,
                operation: self.operation.as_deref(),
                operation_parameters: &self.operation_parameters,
                operation_metrics: &self.operation_metrics,
                read_version: self.read_version,
                isolation_level: self.isolation_level.as_deref(),
                is_blind_append: self.is_blind_append,
                engine_info: self.engine_info.as_deref(),
                txn_id: self.txn_id.as_deref(),
                tags: &self.tags,
                tarndb: self.tarndb.as_ref(),
            },
        };
        serde_json::to_string(&line).map_err(|source| DeltaError::Encode { source })
    }
}

/// A JSON object as texts: strings as they are, anything else as its JSON.
fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(map)) = value else {
        return BTreeMap::new();
    };
    map.iter()
        .map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), text)
        })
        .collect()
}
