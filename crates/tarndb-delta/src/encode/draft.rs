//! `Draft`: protocol and metadata of the commit being encoded.
//!
//! Invariant: starts from the head's actions; `changes` tells every difference to them.
//! Spec: Delta PROTOCOL, "Change Metadata", "Protocol Evolution".

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tarndb_table::row_id::{ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN};
use tarndb_table::rules::CONSTRAINT_PREFIX;
use tarndb_table::{Commit, MetadataChange, NamePath, Schema, TableDefinition};

use super::domains::Domains;
use super::mapping::chosen_mode;
use super::membership::IN_COMMIT_TIMESTAMPS;
use super::property::{Asks, judge, judge_unset};
use super::rules::check_rules;
use super::{Authority, cloned, row_ids};
use crate::action::{Change, Format, Metadata, Protocol};
use crate::clustering::{self, CLUSTERING_DOMAIN};
use crate::column_mapping::{self, MappingMode, table_schema};
use crate::error::DeltaError;
use crate::feature;
use crate::native::permit::{check_native_write, is_unused};
use crate::native::protocol::{has_feature, lowest_protocol, missing, with_room_for};
use crate::property::is_on;
use crate::schema_json::schema_string;
use crate::state::DeltaState;

/// Protocol and metadata under change.
pub(super) struct Draft {
    pub(super) authority: Authority,
    pub(super) base: Option<(Protocol, Metadata)>,
    pub(super) protocol: Protocol,
    pub(super) metadata: Metadata,
    pub(super) schema: Schema,
    pub(super) features: BTreeSet<&'static str>,
    /// Clustering columns, by their names in files.
    pub(super) clustering: Vec<Vec<String>>,
    pub(super) domains: Domains,
    /// Features that the commit drops.
    pub(super) dropped: BTreeSet<String>,
    /// The definition is one that the table had.
    pub(super) restored: bool,
    /// The commit is the last of its database.
    pub(super) released: bool,
    /// What differs from the head, for `commitInfo`.
    pub(super) changes: Vec<Change>,
}

impl Draft {
    /// The head's, or that of a new table.
    pub(super) fn start(commit: &Commit<'_>, authority: Authority) -> Result<Self, DeltaError> {
        match (commit.head, commit.create) {
            (Some(head), None) => {
                let delta = DeltaState::of(head)?;
                let metadata = delta.metadata.as_ref().clone();
                Ok(Self {
                    authority,
                    protocol: delta.protocol.as_ref().clone(),
                    schema: table_schema(&delta.protocol, &metadata)?,
                    base: Some((delta.protocol.as_ref().clone(), metadata.clone())),
                    metadata,
                    features: BTreeSet::new(),
                    clustering: clustering::columns_of(&delta.domains),
                    domains: Domains::default(),
                    dropped: BTreeSet::new(),
                    restored: false,
                    released: false,
                    changes: Vec::new(),
                })
            }
            (None, Some(definition)) => match cloned::source(commit) {
                Some(source) => Self::cloned(definition, source, commit, authority),
                None => Self::create(definition, commit, authority),
            },
            (head, _) => Err(DeltaError::IllegalCommit {
                rule: "a commit either creates a table or changes one",
                detail: format!("head={}", head.is_some()),
            }),
        }
    }

    fn create(
        definition: &TableDefinition,
        commit: &Commit<'_>,
        authority: Authority,
    ) -> Result<Self, DeltaError> {
        let partition_columns =
            checked_partitioning(&definition.schema, &definition.partition_columns)?;
        let mut features = feature::features_of(&definition.schema.fields);
        let mut configuration = BTreeMap::new();
        for (key, value) in &definition.properties {
            if key == column_mapping::MODE
                && chosen_mode(value).is_some_and(|mode| mode != MappingMode::None)
            {
                features.insert(feature::COLUMN_MAPPING);
            }
            if key.starts_with(CONSTRAINT_PREFIX) {
                features.insert(feature::CHECK_CONSTRAINTS);
                configuration.insert(key.clone(), value.clone());
                continue;
            }
            match judge(key, value, authority)? {
                Asks::OnlyFeature(name) => {
                    features.insert(name);
                    continue;
                }
                Asks::Feature(name) => {
                    features.insert(name);
                }
                Asks::Nothing => {}
            }
            configuration.insert(key.clone(), value.clone());
        }
        check_rules(&definition.schema, &configuration)?;
        name_row_id_columns(&mut configuration, &definition.id.to_string())?;
        let protocol = if authority.is_database() {
            configuration.insert(IN_COMMIT_TIMESTAMPS.to_owned(), "true".to_owned());
            feature::managed_protocol(&features)
        } else {
            lowest_protocol(&features)
        };
        let metadata = Metadata {
            id: definition.id.to_string(),
            name: Some(definition.name.clone()),
            description: definition.description.clone(),
            format: Format::default(),
            schema_string: schema_string(&definition.schema)?,
            partition_columns,
            created_time: Some(commit.stamp.timestamp.0),
            configuration,
        };
        let mut draft = Self {
            authority,
            base: None,
            protocol,
            metadata,
            schema: definition.schema.clone(),
            features,
            clustering: Vec::new(),
            domains: Domains::default(),
            dropped: BTreeSet::new(),
            restored: false,
            released: false,
            changes: Vec::new(),
        };
        draft.map_new_table(definition.id.0)?;
        draft.check_schema()?;
        Ok(draft)
    }

    /// Applies one change of metadata.
    pub(super) fn change(&mut self, change: &MetadataChange) -> Result<(), DeltaError> {
        match change {
            MetadataChange::AddColumn(new) => self.add_column(new),
            MetadataChange::RenameColumn { column, to } => self.rename_column(column, to),
            MetadataChange::DropColumn { column } => self.drop_column(column),
            MetadataChange::WidenColumn { column, to } => self.widen_column(column, to),
            MetadataChange::SetNullable { column, nullable } => {
                self.set_nullable(column, *nullable)
            }
            MetadataChange::SetProperty { key, value } => self.set_property(key, value),
            MetadataChange::UnsetProperty { key } => {
                judge_unset(key)?;
                if key == column_mapping::MODE && self.mapping_mode() != MappingMode::None {
                    return self.set_mapping_mode("none");
                }
                if self.metadata.configuration.remove(key).is_some() {
                    self.changes.push(Change::Unset { key: key.clone() });
                }
                Ok(())
            }
            MetadataChange::SetComment { column, text } => self.set_comment(column, text),
            MetadataChange::Rule(change) => self.change_rule(change),
            // They need more than the draft; see `drop_feature` and `restore`.
            MetadataChange::DropFeature(_)
            | MetadataChange::Restore(_)
            | MetadataChange::Release => Err(DeltaError::IllegalCommit {
                rule: "a change that looks at the whole table is made by itself",
                detail: format!("{change:?}").chars().take(40).collect(),
            }),
            // Where the draft began, if at all; see `cloned`.
            MetadataChange::CloneOf(_) => self.check_cloned(),
            MetadataChange::ClusterBy(columns) => self.cluster_by(columns),
            MetadataChange::SetDomain {
                domain,
                configuration,
            } => self.set_domain(domain, configuration.as_deref()),
            MetadataChange::ReplaceSchema {
                schema,
                partition_columns,
                seed,
            } => {
                self.metadata.partition_columns = checked_partitioning(schema, partition_columns)?;
                let mut schema = schema.clone();
                self.name_in_files(&mut schema.fields, *seed)?;
                self.schema = schema;
                self.check_schema()?;
                self.end_clustering();
                self.features
                    .extend(feature::features_of(&self.schema.fields));
                self.changes.push(Change::ReplaceSchema);
                self.refresh_schema()
            }
        }
    }

    fn set_property(&mut self, key: &str, value: &str) -> Result<(), DeltaError> {
        if key == column_mapping::MODE {
            return self.set_mapping_mode(value);
        }
        match judge(key, value, self.authority)? {
            Asks::OnlyFeature(name) => {
                self.features.insert(name);
                return Ok(());
            }
            Asks::Feature(name) => {
                self.features.insert(name);
            }
            Asks::Nothing => {}
        }
        self.store_property(key, value);
        name_row_id_columns(&mut self.metadata.configuration, &self.metadata.id)
    }

    /// Was the switch on before the commit?
    pub(super) fn was_on(&self, key: &str) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|(_, metadata)| is_on(&metadata.configuration, key))
    }

    pub(super) fn store_property(&mut self, key: &str, value: &str) {
        let old = self
            .metadata
            .configuration
            .insert(key.to_owned(), value.to_owned());
        // Told even when nothing changes: a rebase must see that this commit wanted it so.
        if old.as_deref() != Some(value) || self.base.is_some() {
            self.changes.push(Change::Set {
                key: key.to_owned(),
                value: value.to_owned(),
            });
        }
    }

    fn cluster_by(&mut self, columns: &[NamePath]) -> Result<(), DeltaError> {
        let partitions = &self.metadata.partition_columns;
        let configuration = clustering::configuration(columns, &self.schema, partitions)?;
        self.features.insert(feature::CLUSTERING);
        self.changes.push(Change::Domain {
            domain: CLUSTERING_DOMAIN.to_owned(),
            configuration: Some(configuration.clone()),
        });
        self.clustering = clustering::columns_in(&configuration);
        self.domains.set(CLUSTERING_DOMAIN, Some(configuration));
        Ok(())
    }

    /// Other columns, which may not have the names of those before.
    fn end_clustering(&mut self) {
        if self.protocol.lists_writer_feature(feature::CLUSTERING) {
            self.domains.set(CLUSTERING_DOMAIN, None);
        }
        self.clustering.clear();
    }

    fn set_domain(&mut self, domain: &str, configuration: Option<&str>) -> Result<(), DeltaError> {
        self.domains.set_by_user(domain, configuration)?;
        self.features.insert(feature::DOMAIN_METADATA);
        self.changes.push(Change::Domain {
            domain: domain.to_owned(),
            configuration: configuration.map(str::to_owned),
        });
        Ok(())
    }

    fn set_comment(
        &mut self,
        column: &Option<String>,
        text: &Option<String>,
    ) -> Result<(), DeltaError> {
        self.changes.push(Change::Comment {
            column: column.clone(),
            text: text.clone(),
        });
        let Some(column) = column else {
            self.metadata.description.clone_from(text);
            return Ok(());
        };
        let place = self.schema.field(column).map(|(place, _)| place);
        let field = place.and_then(|place| self.schema.fields.get_mut(place));
        let Some(field) = field else {
            return Err(DeltaError::NoSuchColumn {
                column: column.clone(),
            });
        };
        match text {
            Some(text) => field
                .metadata
                .insert("comment".to_owned(), Value::from(text.as_str())),
            None => field.metadata.remove("comment"),
        };
        self.refresh_schema()
    }

    pub(super) fn refresh_schema(&mut self) -> Result<(), DeltaError> {
        self.metadata.schema_string = schema_string(&self.schema)?;
        Ok(())
    }

    /// Lets the commit store deletion vectors. A table of its own log must have asked for them.
    pub(super) fn enable_deletion_vectors(&mut self) -> Result<(), DeltaError> {
        let key = "delta.enableDeletionVectors";
        if !self.is_on(key) {
            if !self.authority.is_database() {
                return Err(DeltaError::IllegalCommit {
                    rule: "deletion vectors are written where the table enables them",
                    detail: key.to_owned(),
                });
            }
            self.store_property(key, "true");
        }
        self.features.insert(feature::DELETION_VECTORS);
        Ok(())
    }

    /// States since when the table has in-commit timestamps, where this commit turns them on in
    /// a table that is there already.
    pub(super) fn enable_in_commit_timestamps(&mut self, commit: &Commit<'_>) {
        let was_on =
            |(_, base): &(Protocol, Metadata)| is_on(&base.configuration, IN_COMMIT_TIMESTAMPS);
        let begins = self.base.as_ref().is_some_and(|base| !was_on(base));
        if begins && self.is_on(IN_COMMIT_TIMESTAMPS) {
            for (key, value) in [
                ("Version", commit.stamp.version.to_string()),
                ("Timestamp", commit.stamp.timestamp.to_string()),
            ] {
                let key = format!("delta.inCommitTimestampEnablement{key}");
                self.metadata.configuration.insert(key, value);
            }
        }
    }

    /// Must the commit state its in-commit timestamp?
    pub(super) fn has_in_commit_timestamps(&self) -> bool {
        self.is_on(IN_COMMIT_TIMESTAMPS)
            && self
                .protocol
                .lists_writer_feature(feature::IN_COMMIT_TIMESTAMP)
    }

    /// Are row ids to be kept when rows are copied?
    pub(super) fn keeps_row_ids(&self) -> bool {
        let listed = self.protocol.lists_writer_feature(feature::ROW_TRACKING);
        listed && self.is_on(row_ids::ENABLED)
    }

    pub(super) fn is_on(&self, key: &str) -> bool {
        is_on(&self.metadata.configuration, key)
    }

    /// May this build commit to the table as it becomes?
    pub(super) fn check_write(&self) -> Result<(), DeltaError> {
        if self.authority.is_database() {
            let is_unused = |name: &str| is_unused(name, &self.metadata, &self.schema);
            return feature::check_write(&self.protocol, is_unused);
        }
        check_native_write(&self.protocol, &self.metadata, &self.schema)
    }

    /// Asks for a feature.
    pub(super) fn raise(&mut self, name: &'static str) {
        self.features.insert(name);
    }

    /// Raises the protocol by what the changes need.
    pub(super) fn raise_features(&mut self) -> Result<(), DeltaError> {
        if let Some((base, metadata)) = &self.base {
            // What the table is already comes first: without writer lists it is not managed.
            if self.authority.is_database() {
                let schema = table_schema(base, metadata)?;
                feature::check_write(base, |name| is_unused(name, metadata, &schema))?;
            } else {
                check_native_write(base, metadata, &table_schema(base, metadata)?)?;
            }
        }
        let needed = self.features.iter();
        let mut contradicting = needed.filter(|name| self.dropped.contains(**name));
        if let Some(name) = contradicting.next() {
            return Err(DeltaError::FeatureInUse {
                feature: (*name).to_owned(),
                by: "the same transaction uses it".to_owned(),
            });
        }
        let base = if self.authority.is_database() {
            self.protocol.clone()
        } else {
            with_room_for(&self.protocol, &self.features)
        };
        let raised = feature::raise(&base, &missing(&base, &self.features));
        for name in &self.features {
            if self.base.is_some() && !has_feature(&self.protocol, name) {
                self.changes.push(Change::AddFeature {
                    name: (*name).to_owned(),
                });
            }
        }
        self.protocol = raised;
        Ok(())
    }

    /// The protocol, when the commit must state it.
    pub(super) fn new_protocol(&self) -> Option<Protocol> {
        let same = self
            .base
            .as_ref()
            .is_some_and(|(base, _)| *base == self.protocol);
        (!same).then(|| self.protocol.clone())
    }

    /// The metadata, when the commit must state it: also when it replaces the schema by an equal
    /// one, which others judge it by.
    pub(super) fn new_metadata(&self) -> Option<Metadata> {
        let same = self
            .base
            .as_ref()
            .is_some_and(|(_, base)| *base == self.metadata);
        let stated = !same || self.changes.contains(&Change::ReplaceSchema);
        stated.then(|| self.metadata.clone())
    }

    /// May rows be removed from the table?
    pub(super) fn is_append_only(&self) -> bool {
        self.is_on("delta.appendOnly")
    }
}

/// Where row ids are to be kept, names the columns that hold them: by the table's id, so that
/// every attempt and everybody who enables them at the same time gives the same names, which no
/// column has.
fn name_row_id_columns(
    configuration: &mut BTreeMap<String, String>,
    id: &str,
) -> Result<(), DeltaError> {
    if !is_on(configuration, row_ids::ENABLED) {
        return Ok(());
    }
    if is_on(configuration, row_ids::SUSPENDED) {
        return Err(DeltaError::PropertyRefused {
            key: row_ids::ENABLED.to_owned(),
            value: "true".to_owned(),
            reason: "row tracking is either enabled or suspended (delta.rowTrackingSuspended)",
        });
    }
    for (key, prefix) in [
        (ROW_ID_COLUMN, "_row-id-col-"),
        (ROW_COMMIT_VERSION_COLUMN, "_row-commit-version-col-"),
    ] {
        let name = || format!("{prefix}{id}");
        configuration.entry(key.to_owned()).or_insert_with(name);
    }
    Ok(())
}

/// The partition columns, spelled as in the schema.
pub(crate) fn checked_partitioning(
    schema: &Schema,
    partition_columns: &[String],
) -> Result<Vec<String>, DeltaError> {
    tarndb_table::check_partition_columns(schema, partition_columns)
        .map_err(DeltaError::from_table)?;
    let spelled = |name: &String| schema.field(name).map(|(_, field)| field.name.clone());
    Ok(partition_columns.iter().filter_map(spelled).collect())
}
