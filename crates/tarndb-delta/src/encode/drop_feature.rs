//! Dropping a table feature: what must be gone before, and what the protocol becomes.
//!
//! Invariant: a feature goes only when nothing of the table uses it any more; otherwise the
//! error names what does. After a feature that readers must know, the checkpoint of the dropping
//! version is protected, for versions before it need a reader that knows the feature.
//! Does not: rewrite data or shorten the history.
//! Spec: Delta PROTOCOL, "Checkpoint Protection"; docs/format/delta.md, "Dropping a feature".

use tarndb_table::{Commit, DataType, Field, TableState};

use super::draft::Draft;
use super::row_ids;
use crate::action::{Change, Protocol};
use crate::clustering::{self, CLUSTERING_DOMAIN};
use crate::error::DeltaError;
use crate::feature;
use crate::property::is_on;
use crate::state::DeltaState;

/// Key of the version before which checkpoints are kept.
const PROTECTED_BEFORE: &str = "delta.requireCheckpointProtectionBeforeVersion";

/// What must not be there any more.
enum Use {
    /// Nothing can be in the way.
    None,
    /// A switch that is on, and may be left out of the properties then.
    Switch(&'static str),
    /// A property with a value other than this.
    Other(&'static str, &'static str),
    /// A property whose key begins so.
    KeyPrefix(&'static str),
    /// A field whose metadata has a key that begins so.
    FieldKey(&'static str),
    /// A column that must not be NULL.
    NotNull,
    /// A column of a type.
    Type(DataType),
    /// A file with deleted rows, or leave to write one.
    Vectors,
    /// Clustering columns.
    Clustering,
    /// It stays, for the reason.
    Stays(&'static str),
}

const DATABASE: &str = "every table of a database needs it";

/// Features that can be dropped, and what uses them.
fn uses(name: &str) -> Option<Vec<Use>> {
    Some(match name {
        "appendOnly" => vec![Use::Switch("delta.appendOnly")],
        "invariants" => vec![Use::NotNull, Use::FieldKey("delta.invariants")],
        "checkConstraints" => vec![Use::KeyPrefix("delta.constraints.")],
        "changeDataFeed" => vec![Use::Switch("delta.enableChangeDataFeed")],
        "generatedColumns" => vec![Use::FieldKey("delta.generationExpression")],
        "identityColumns" => vec![Use::FieldKey("delta.identity.")],
        "allowColumnDefaults" => vec![Use::FieldKey("CURRENT_DEFAULT")],
        "columnMapping" => vec![Use::Other("delta.columnMapping.mode", "none")],
        "typeWidening" => vec![
            Use::Switch("delta.enableTypeWidening"),
            Use::FieldKey("delta.typeChanges"),
        ],
        "deletionVectors" => vec![Use::Vectors],
        "timestampNtz" => vec![Use::Type(DataType::TimestampNtz)],
        "v2Checkpoint" => vec![Use::Other("delta.checkpointPolicy", "classic")],
        "vacuumProtocolCheck" => vec![Use::None],
        "rowTracking" => vec![Use::Switch(row_ids::ENABLED)],
        "clustering" => vec![Use::Clustering],
        "checkpointProtection" => vec![Use::Stays("versions before a dropped feature are there")],
        "domainMetadata" | "inCommitTimestamp" | feature::MANAGED => vec![Use::Stays(DATABASE)],
        _ => return None,
    })
}

/// Drops the feature `name` from the table as the draft has it.
///
/// # Errors
/// `FeatureInUse`, `FeatureMissing`.
pub(super) fn drop_feature(
    draft: &mut Draft,
    commit: &Commit<'_>,
    name: &str,
) -> Result<(), DeltaError> {
    let in_use = |by: String| DeltaError::FeatureInUse {
        feature: name.to_owned(),
        by,
    };
    let Some(head) = commit.head else {
        return Err(in_use("the table is only being created".to_owned()));
    };
    let legacy = draft.protocol.writer_features.is_none();
    if legacy {
        return Err(in_use(
            "the table's protocol has no list of features".to_owned(),
        ));
    }
    if !draft.protocol.lists_writer_feature(name) {
        return Err(DeltaError::FeatureMissing {
            feature: name.to_owned(),
        });
    }
    let uses = uses(name).ok_or_else(|| in_use("this build does not know it".to_owned()))?;
    for found in &uses {
        if let Some(by) = found.by(draft, head)? {
            return Err(in_use(by));
        }
    }
    for found in uses {
        found.clear(draft);
    }
    let readers = draft.protocol.lists_reader_feature(name);
    draft.protocol = without(&draft.protocol, name);
    draft.dropped.insert(name.to_owned());
    draft.changes.push(Change::DropFeature {
        name: name.to_owned(),
    });
    if readers {
        draft.raise(feature::CHECKPOINT_PROTECTION);
        let version = commit.stamp.version.0.to_string();
        let configuration = &mut draft.metadata.configuration;
        configuration.insert(PROTECTED_BEFORE.to_owned(), version);
    }
    Ok(())
}

/// The protocol without a feature: the lowest that has the others.
fn without(protocol: &Protocol, name: &str) -> Protocol {
    let mut lower = protocol.clone();
    if let Some(writers) = &mut lower.writer_features {
        writers.remove(name);
    }
    if let Some(readers) = &mut lower.reader_features {
        readers.remove(name);
        if readers.is_empty() {
            lower.reader_features = None;
            lower.min_reader_version = 1;
        }
    }
    lower
}

impl Use {
    /// What uses the feature, in words, when something does.
    fn by(&self, draft: &Draft, head: &TableState) -> Result<Option<String>, DeltaError> {
        let configuration = &draft.metadata.configuration;
        let fields = &draft.schema.fields;
        Ok(match self {
            Self::None => None,
            Self::Switch(key) => {
                is_on(configuration, key).then(|| format!("{key} is true (set it to false first)"))
            }
            Self::Other(key, harmless) => configuration
                .get(*key)
                .filter(|value| !value.trim().eq_ignore_ascii_case(harmless))
                .map(|value| format!("{key} is {value}")),
            Self::KeyPrefix(prefix) => {
                let mut keys = configuration.keys();
                keys.find(|key| key.starts_with(prefix)).cloned()
            }
            Self::FieldKey(prefix) => find_field(fields, &|field| {
                field.metadata.keys().any(|key| key.starts_with(prefix))
            })
            .map(|name| format!("column {name} has it")),
            Self::NotNull => find_field(fields, &|field| !field.nullable)
                .map(|name| format!("column {name} is NOT NULL")),
            Self::Type(data_type) => {
                let has = |field: &Field| field.data_type == *data_type;
                find_field(fields, &has).map(|name| format!("column {name} is of that type"))
            }
            Self::Vectors => vectors(configuration, head),
            Self::Clustering => {
                let columns = clustering::columns_of(&DeltaState::of(head)?.domains);
                let first = columns.first().map(|column| column.join("."));
                first.map(|name| format!("data is clustered by {name} (CLUSTER BY NONE first)"))
            }
            Self::Stays(reason) => Some((*reason).to_owned()),
        })
    }

    /// Takes away what only says that the feature is not in use.
    fn clear(self, draft: &mut Draft) {
        let configuration = &mut draft.metadata.configuration;
        match self {
            Self::Switch(key) | Self::Other(key, _) => {
                configuration.remove(key);
            }
            Self::Clustering => draft.domains.set(CLUSTERING_DOMAIN, None),
            _ => {}
        }
    }
}

fn vectors(
    configuration: &std::collections::BTreeMap<String, String>,
    head: &TableState,
) -> Option<String> {
    let is = |key: &str, word: &str| {
        let value = configuration.get(key);
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case(word))
    };
    if !is("delta.enableDeletionVectors", "false") {
        let advice = "delta.enableDeletionVectors is not false (set it to false first)";
        return Some(advice.to_owned());
    }
    let files = head.files.without_statistics();
    let count = files.filter(|file| !file.deletion.is_none()).count();
    (count > 0).then(|| {
        format!("files with deleted rows: {count} (compact the table with all files first)")
    })
}

/// The first field, nested ones included, for which `test` holds.
fn find_field(fields: &[Field], test: &dyn Fn(&Field) -> bool) -> Option<String> {
    fields.iter().find_map(|field| {
        let inside = |data_type: &DataType| match data_type {
            DataType::Struct(fields) => find_field(fields, test).is_some(),
            other => test(&Field::new("", other.clone(), true)),
        };
        let found = test(field) || field.data_type.any(&inside);
        found.then(|| field.name.clone())
    })
}
