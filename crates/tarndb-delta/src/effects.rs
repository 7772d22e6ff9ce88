//! Effects: what a committed entry did, decoded from its lines alone.
//!
//! Invariant: never less than what the entry did. What its lines do not tell exactly (another
//! engine's change of metadata, vectors that were not asked for) counts as the largest
//! change it can be.
//! Spec: docs/conflicts.md, "Effects".

use std::collections::{BTreeMap, BTreeSet};

use tarndb_storage::{Path, Store};
use tarndb_table::rules::CONSTRAINT_PREFIX;
use tarndb_table::{Deletion, Entry, RowSet, RuleChange, Schema, TableError};
use tarndb_txn::{
    ConfigEffect, Operation, OverwriteKind, Removal, SchemaEffect, TableEffects, Touched,
};

use crate::action::{Action, Add, Change, CommitInfo, DeletionVector, Metadata, Remove};
use crate::encode::checked_partitioning;
use crate::error::DeltaError;
use crate::load::entry_actions;
use crate::schema_json::schema_string;
use crate::{dv, path};

/// Parameter of `commitInfo` that names how data was written.
pub const MODE_PARAMETER: &str = "mode";
/// Value of [`MODE_PARAMETER`] for a commit that replaces all data.
pub const MODE_OVERWRITE: &str = "Overwrite";
/// Parameter that names the rows that an overwrite replaces, as the user wrote it. Such a commit
/// counts as the rows that it adds and deletes; without it an overwrite replaces all data.
pub const PREDICATE_PARAMETER: &str = "predicate";
/// Parameter that says whether an overwrite's source read the table itself.
pub const SOURCE_READ_TARGET: &str = "sourceReadTarget";

/// Decodes the effects of an entry; see `TableCodec::effects`.
pub(crate) async fn effects(
    store: &Store,
    location: &Path,
    entry: &Entry,
    rows_for: &BTreeSet<String>,
) -> Result<TableEffects, DeltaError> {
    let actions = entry_actions(entry, &path::log_dir(location))?;
    let parts = Parts::of(&actions)?;
    let mut effects = TableEffects {
        operation: parts
            .info
            .and_then(|info| info.operation.as_deref()?.parse().ok()),
        created: entry.version.0 == 0,
        overwrite: parts.info.and_then(overwrite),
        app_txns: parts.app_txns,
        ..TableEffects::default()
    };
    if !effects.created {
        (effects.schema, effects.config) =
            metadata_effects(parts.info, parts.metadata, parts.protocol);
    }
    for (path, add) in &parts.adds {
        match parts.removes.get(path) {
            None if add.data_change => {
                effects.adds = true;
                effects.added_files.insert(path.clone());
            }
            None => {}
            Some(remove) => {
                let wanted = rows_for.contains(path);
                if let Some(touched) = touched(store, location, add, remove, wanted).await? {
                    effects.deletions.insert(path.clone(), touched);
                }
            }
        }
    }
    for (path, remove) in &parts.removes {
        if !parts.adds.contains_key(path) {
            let removal = if remove.data_change {
                Removal::Deleted
            } else {
                Removal::Moved
            };
            effects.removes.insert(path.clone(), removal);
        }
    }
    Ok(effects)
}

/// The actions of one entry by kind; files by canonical path.
#[derive(Default)]
struct Parts<'a> {
    info: Option<&'a CommitInfo>,
    metadata: Option<&'a Metadata>,
    protocol: bool,
    adds: BTreeMap<String, &'a Add>,
    removes: BTreeMap<String, &'a Remove>,
    app_txns: BTreeMap<String, i64>,
}

impl<'a> Parts<'a> {
    fn of(actions: &'a [Action]) -> Result<Self, DeltaError> {
        let mut parts = Self::default();
        for action in actions {
            match action {
                Action::CommitInfo(info) => parts.info = Some(info),
                Action::Metadata(metadata) => parts.metadata = Some(metadata),
                Action::Protocol(_) => parts.protocol = true,
                Action::Add(add) => {
                    parts.adds.insert(path::table_path(&add.path)?, add);
                }
                Action::Remove(remove) => {
                    parts
                        .removes
                        .insert(path::table_path(&remove.path)?, remove);
                }
                Action::Txn(txn) => {
                    parts.app_txns.insert(txn.app_id.clone(), txn.version);
                }
                Action::Domain(_) | Action::Cdc(_) | Action::Sidecar(_) => {}
            }
        }
        Ok(parts)
    }
}

fn overwrite(info: &CommitInfo) -> Option<OverwriteKind> {
    let parameter = |key: &str| info.operation_parameters.get(key).map(String::as_str);
    let by_mode =
        parameter(MODE_PARAMETER).is_some_and(|mode| mode.eq_ignore_ascii_case(MODE_OVERWRITE));
    let operation = info
        .operation
        .as_deref()
        .and_then(|name| name.parse::<Operation>().ok());
    let by_operation = matches!(
        operation,
        Some(
            Operation::Overwrite
                | Operation::Truncate
                | Operation::ReplaceTable
                | Operation::Restore
        )
    );
    // What else replaces data replaces all of it, whatever its parameters say.
    let by_predicate = matches!(
        operation,
        None | Some(Operation::Append | Operation::Overwrite)
    );
    let predicate = parameter(PREDICATE_PARAMETER).filter(|text| by_predicate && names_rows(text));
    let source_read_target = parameter(SOURCE_READ_TARGET) == Some("true");
    (by_mode || by_operation).then(|| match predicate {
        Some(predicate) => OverwriteKind::Where {
            predicate: predicate.to_owned(),
            source_read_target,
        },
        None => OverwriteKind::All { source_read_target },
    })
}

/// Whether the predicate of an overwrite restricts it. Other engines write an empty list, or a
/// predicate that is always true, where there is none.
fn names_rows(predicate: &str) -> bool {
    let bare = predicate.trim_matches(|c: char| c.is_whitespace() || "[]()\"'".contains(c));
    !bare.is_empty() && !bare.eq_ignore_ascii_case("true")
}

/// Rows newly deleted in a file that stays; `None` when only its description changed.
async fn touched(
    store: &Store,
    location: &Path,
    add: &Add,
    remove: &Remove,
    wanted: bool,
) -> Result<Option<Touched>, DeltaError> {
    if add.deletion_vector == remove.deletion_vector {
        return Ok(None);
    }
    if !wanted {
        return Ok(Some(Touched::WholeFile));
    }
    let new = rows(store, location, add.deletion_vector.as_ref()).await?;
    let old = rows(store, location, remove.deletion_vector.as_ref()).await?;
    // Rows that came back to life are more than a set of deleted rows can say.
    if !old.is_subset(&new) {
        return Ok(Some(Touched::WholeFile));
    }
    Ok(Some(Touched::Rows(new - old)))
}

async fn rows(
    store: &Store,
    location: &Path,
    vector: Option<&DeletionVector>,
) -> Result<RowSet, DeltaError> {
    match vector {
        None => Ok(RowSet::new()),
        Some(vector) => dv::load(store, location, &dv::to_descriptor(vector)?).await,
    }
}

/// The rows that `deletion` deletes.
pub(crate) async fn deleted_rows(
    store: &Store,
    location: &Path,
    deletion: &Deletion,
) -> Result<std::sync::Arc<RowSet>, DeltaError> {
    match deletion {
        Deletion::None => Ok(std::sync::Arc::new(RowSet::new())),
        Deletion::Loaded(rows) => Ok(std::sync::Arc::clone(rows)),
        Deletion::Stored(descriptor) => Ok(std::sync::Arc::new(
            dv::load(store, location, descriptor).await?,
        )),
    }
}

fn metadata_effects(
    info: Option<&CommitInfo>,
    metadata: Option<&Metadata>,
    protocol: bool,
) -> (Vec<SchemaEffect>, Vec<ConfigEffect>) {
    let (mut schema, mut config) = (Vec::new(), Vec::new());
    let replaced = || SchemaEffect::Replace {
        fingerprint: metadata.map_or_else(String::new, fingerprint),
    };
    let told = info.and_then(|info| info.tarndb.as_ref());
    let Some(told) = told else {
        if metadata.is_some() || protocol {
            schema.push(replaced());
        }
        return (schema, config);
    };
    for change in &told.changes {
        match change.clone() {
            Change::AddColumn {
                name,
                r#type,
                nullable,
            } => {
                schema.push(SchemaEffect::AddColumn {
                    name,
                    type_text: r#type,
                    nullable,
                });
            }
            Change::RenameColumn { from, to } => {
                schema.push(SchemaEffect::RenameColumn { from, to });
            }
            Change::DropColumn { name } => schema.push(SchemaEffect::DropColumn { name }),
            Change::WidenColumn { column, r#type } => schema.push(SchemaEffect::Widen {
                column,
                type_text: r#type,
            }),
            Change::SetNotNull { column } => schema.push(SchemaEffect::SetNotNull { column }),
            Change::DropNotNull { column } => schema.push(SchemaEffect::DropNotNull { column }),
            Change::ReplaceSchema => schema.push(replaced()),
            Change::Comment { column, text } => {
                schema.push(SchemaEffect::SetComment { column, text });
            }
            Change::Set { key, value } => config.push(ConfigEffect::Set { key, value }),
            Change::Unset { key } => config.push(ConfigEffect::Unset { key }),
            Change::Domain {
                domain,
                configuration,
            } => config.push(ConfigEffect::Set {
                key: domain_key(&domain),
                value: configuration.unwrap_or_default(),
            }),
            // Every writer must look again.
            Change::DropFeature { .. } => config.push(ConfigEffect::Unset {
                key: DROPPED_FEATURES.to_owned(),
            }),
            Change::AddFeature { name } => config.push(ConfigEffect::AddFeature { name }),
            Change::Default { column, text } => config.push(default_effect(&column, text)),
            Change::Identity { column, mark } => {
                config.push(ConfigEffect::TakeIdentity { column, mark });
            }
        }
    }
    if told.changes.is_empty() && (metadata.is_some() || protocol) {
        schema.push(replaced());
    }
    (schema, config)
}

/// The effect of setting or dropping a column's default: it binds nobody, but two different
/// ones are in conflict.
fn default_effect(column: &str, text: Option<String>) -> ConfigEffect {
    let key = format!("default of column {}", column.to_lowercase());
    match text {
        Some(value) => ConfigEffect::Set { key, value },
        None => ConfigEffect::Unset { key },
    }
}

/// The effect of a change of rules, as it is decoded from the commit that makes it.
pub fn rule_effect(change: &RuleChange) -> ConfigEffect {
    let key = |name: &str| format!("{CONSTRAINT_PREFIX}{}", name.to_lowercase());
    match change {
        RuleChange::AddConstraint { name, expression } => ConfigEffect::Set {
            key: key(name),
            value: expression.clone(),
        },
        RuleChange::DropConstraint { name } => ConfigEffect::Unset { key: key(name) },
        RuleChange::SetDefault { column, expression } => {
            default_effect(column, Some(expression.clone()))
        }
        RuleChange::DropDefault { column } => default_effect(column, None),
        RuleChange::MoveIdentity { column, mark } => ConfigEffect::TakeIdentity {
            column: column.clone(),
            mark: *mark,
        },
    }
}

/// The key under which the dropping of features is judged: it concerns every writer.
pub const DROPPED_FEATURES: &str = "delta.features";

/// The key under which a change of a domain is judged: as that of a property that binds nobody.
pub fn domain_key(domain: &str) -> String {
    format!("domain:{domain}")
}

/// Equal for equal schemas and partitionings only.
fn fingerprint(metadata: &Metadata) -> String {
    fingerprint_of(&metadata.schema_string, &metadata.partition_columns)
}

fn fingerprint_of(schema: &str, partition_columns: &[String]) -> String {
    format!("{schema} partitioned by {partition_columns:?}")
}

/// The effect of replacing a table's schema, as it is decoded from the commit that does so.
///
/// # Errors
/// The schema or the partitioning is illegal.
pub fn replaced_schema(
    schema: &Schema,
    partition_columns: &[String],
) -> Result<SchemaEffect, TableError> {
    let partition_columns = checked_partitioning(schema, partition_columns)?;
    let fingerprint = fingerprint_of(&schema_string(schema)?, &partition_columns);
    Ok(SchemaEffect::Replace { fingerprint })
}
