//! Effects of our transaction, and of transactions that records hold.
//!
//! Invariant: complete for the tables that ours touches or reads; other tables of a record
//! cannot conflict with it and are left out.
//! Spec: docs/conflicts.md, "Effects".

use std::collections::BTreeSet;
use std::sync::Arc;

use tarndb_delta::effects::{DROPPED_FEATURES, domain_key, replaced_schema, rule_effect};
use tarndb_table::TableError;
use tarndb_table::codec::MetadataChange;
use tarndb_txn::{
    CatalogEffect, ConfigEffect, Effects, Isolation, KeySet, Operation, OverwriteKind, Read,
    Removal, SchemaEffect, TableEffects, Touched, rows_needed,
};
use tarndb_types::{DbVersion, TableId, TimestampMs};

use crate::catalog::{Catalog, parse_bases};
use crate::compact::row_map;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, RecordTxn};
use crate::transaction::{Overlay, Transaction};

/// What our transaction does.
pub(crate) fn own_effects(txn: &Transaction) -> Result<Effects, DbError> {
    let changes = &txn.changes;
    let mut catalog = txn.snapshot.catalog().clone();
    let mut effects = Effects {
        isolation: txn.isolation,
        ..Effects::default()
    };
    let version = catalog.version().next();
    let timestamp = catalog.timestamp();
    for action in &changes.actions {
        add_catalog_effect(&mut effects, &mut catalog, action, version, timestamp)?;
    }
    for (id, overlay) in changes.changed_tables() {
        let table = effects.tables.entry(id).or_default();
        fill_table_effects(table, overlay).map_err(|error| {
            let entry = changes.catalog.table(id);
            DbError::table(entry.map_or_else(|| id.to_string(), |e| e.display_name()))(error)
        })?;
    }
    if txn.pin.is_some() {
        // Judged like the reads of a serializable transaction.
        effects.isolation = Isolation::Serializable;
        for table in effects.tables.values_mut() {
            table.read = Some(Read::All);
        }
    }
    if changes.operations.contains(&Operation::RestoreDatabase) {
        effects.isolation = Isolation::Serializable;
    }
    if effects.isolation == Isolation::Serializable {
        for (id, read) in changes.reads.iter() {
            let read = match txn.pin {
                Some(_) => Read::All,
                None => read.effect(),
            };
            effects.tables.entry(id).or_default().read = Some(read);
        }
        effects.names_read = changes.names_read.clone();
    }
    Ok(effects)
}

fn fill_table_effects(table: &mut TableEffects, overlay: &Overlay) -> Result<(), TableError> {
    table.operation = Some(overlay.operation());
    if overlay.moved.is_none() {
        table.adds = !overlay.adds.is_empty();
        table.added_files = overlay.adds.keys().cloned().collect();
    }
    for (path, rows) in &overlay.deletions {
        table
            .deletions
            .insert(path.clone(), Touched::Rows(rows.as_ref().clone()));
    }
    table.keys = overlay.keys.as_ref().map(|keys| KeySet {
        columns: keys.compared(),
        bits: u64::BITS,
        hashes: keys.hashes.clone(),
        covers_adds: overlay.keys_cover_adds(),
    });
    table.app_txns = overlay.app_txns.clone();
    for path in overlay.removes.keys() {
        table.removes.insert(path.clone(), Removal::Deleted);
    }
    if let Some(moved) = &overlay.moved {
        for path in moved.sources.keys() {
            table.removes.insert(path.clone(), Removal::Moved);
        }
        // Without deletion vectors nothing can be carried: then the file is the unit.
        let carries = overlay.state.deletion_vectors_enabled();
        let row_map = moved.row_map.as_ref().filter(|_| carries);
        table.row_map = row_map.map(|(map, _)| Arc::clone(map));
    }
    table.overwrite = match (overlay.overwrite, &overlay.overwritten) {
        (Some(source_read_target), _) => Some(OverwriteKind::All { source_read_target }),
        (None, Some(rows)) => Some(OverwriteKind::Where {
            predicate: rows.text(),
            source_read_target: rows.source_read_target,
        }),
        (None, None) => None,
    };
    for change in &overlay.metadata {
        add_metadata_effect(table, change)?;
    }
    Ok(())
}

fn add_metadata_effect(
    table: &mut TableEffects,
    change: &MetadataChange,
) -> Result<(), TableError> {
    match change {
        MetadataChange::AddColumn(new) => table.schema.push(SchemaEffect::AddColumn {
            name: new.path().to_string(),
            type_text: new.field.data_type.to_string(),
            nullable: new.field.nullable,
        }),
        MetadataChange::RenameColumn { column, to } => {
            table.schema.push(SchemaEffect::RenameColumn {
                from: column.to_string(),
                to: column.sibling(to).to_string(),
            });
        }
        MetadataChange::DropColumn { column } => table.schema.push(SchemaEffect::DropColumn {
            name: column.to_string(),
        }),
        MetadataChange::WidenColumn { column, to } => table.schema.push(SchemaEffect::Widen {
            column: column.to_string(),
            type_text: to.to_string(),
        }),
        MetadataChange::SetNullable { column, nullable } => {
            let column = column.to_string();
            table.schema.push(if *nullable {
                SchemaEffect::DropNotNull { column }
            } else {
                SchemaEffect::SetNotNull { column }
            });
        }
        MetadataChange::SetProperty { key, value } => {
            table.config.push(ConfigEffect::Set {
                key: key.clone(),
                value: value.clone(),
            });
        }
        MetadataChange::UnsetProperty { key } => {
            table.config.push(ConfigEffect::Unset { key: key.clone() });
        }
        MetadataChange::DropFeature(_) | MetadataChange::Release => {
            table.config.push(ConfigEffect::Unset {
                key: DROPPED_FEATURES.to_owned(),
            })
        }
        MetadataChange::ClusterBy(columns) => table.config.push(ConfigEffect::Set {
            key: domain_key("delta.clustering"),
            value: format!("{columns:?}"),
        }),
        MetadataChange::SetDomain {
            domain,
            configuration,
        } => table.config.push(ConfigEffect::Set {
            key: domain_key(domain),
            value: configuration.clone().unwrap_or_default(),
        }),
        MetadataChange::SetComment { column, text } => {
            let (column, text) = (column.clone(), text.clone());
            table.schema.push(SchemaEffect::SetComment { column, text });
        }
        // The table is new: nobody else can have changed it.
        MetadataChange::CloneOf(_) => {}
        MetadataChange::Rule(change) => table.config.push(rule_effect(change)),
        MetadataChange::Restore(earlier) => table.schema.push(replaced_schema(
            &earlier.0.schema,
            &earlier.0.partition_columns,
        )?),
        MetadataChange::ReplaceSchema {
            schema,
            partition_columns,
            ..
        } => table
            .schema
            .push(replaced_schema(schema, partition_columns)?),
    }
    Ok(())
}

/// Adds what `action` does to the catalog, which is moved forward by it.
fn add_catalog_effect(
    effects: &mut Effects,
    catalog: &mut Catalog,
    action: &Action,
    version: DbVersion,
    timestamp: TimestampMs,
) -> Result<(), DbError> {
    let named = |catalog: &Catalog, id: TableId| {
        let table = catalog.table_or_dropped(id);
        table
            .map(|table| (table.schema.clone(), table.name.clone()))
            .unwrap_or_default()
    };
    match action {
        Action::CreateSchema { name } => {
            effects
                .catalog
                .push(CatalogEffect::CreateSchema { name: name.clone() });
        }
        Action::DropSchema { name } => {
            effects
                .catalog
                .push(CatalogEffect::DropSchema { name: name.clone() });
        }
        Action::CreateTable {
            id,
            schema,
            name,
            location,
            bases,
            ..
        } => {
            let bases = parse_bases(bases).unwrap_or_default();
            let shares = bases.iter().filter_map(|base| catalog.at_location(base));
            let shares = shares.map(|table| table.id).collect();
            let (schema, name, location) = (schema.clone(), name.clone(), location.clone());
            let id = *id;
            effects.tables.entry(id).or_default().created = true;
            effects.catalog.push(CatalogEffect::CreateTable {
                id,
                schema,
                name,
                location,
                shares,
            });
        }
        Action::DropTable { id } | Action::DetachTable { id } => {
            let (schema, name) = named(catalog, *id);
            effects.tables.entry(*id).or_default().dropped = true;
            effects.catalog.push(CatalogEffect::DropTable {
                id: *id,
                schema,
                name,
                detached: matches!(action, Action::DetachTable { .. }),
            });
        }
        Action::AttachTable(attach) => {
            effects.tables.entry(attach.id).or_default().created = true;
            effects.catalog.push(CatalogEffect::CreateTable {
                id: attach.id,
                schema: attach.schema.clone(),
                name: attach.name.clone(),
                location: attach.location.clone(),
                shares: Vec::new(),
            });
        }
        Action::RenameTable {
            id,
            schema: to_schema,
            name: to,
        } => {
            let (schema, from) = named(catalog, *id);
            effects.tables.entry(*id).or_default().renamed = true;
            effects.catalog.push(CatalogEffect::RenameTable {
                id: *id,
                schema,
                from,
                to_schema: to_schema.clone(),
                to: to.clone(),
            });
        }
        Action::UndropTable(undrop) => {
            let location = catalog.table_or_dropped(undrop.id);
            let location = location.map(|table| table.place().to_owned());
            effects.tables.entry(undrop.id).or_default().created = true;
            effects.catalog.push(CatalogEffect::CreateTable {
                id: undrop.id,
                schema: undrop.schema.clone(),
                name: undrop.name.clone(),
                location: location.unwrap_or_default(),
                shares: Vec::new(),
            });
        }
        Action::CreateView(view) => effects.catalog.push(CatalogEffect::CreateView {
            schema: view.schema.clone(),
            name: view.name.clone(),
        }),
        Action::DropView { schema, name } => effects.catalog.push(CatalogEffect::DropView {
            schema: schema.clone(),
            name: name.clone(),
        }),
        Action::CreateTag(tag) => effects.catalog.push(CatalogEffect::CreateTag {
            name: tag.name.clone(),
        }),
        Action::DropTag { name } => {
            effects
                .catalog
                .push(CatalogEffect::DropTag { name: name.clone() });
        }
        Action::CreateDatabase { .. }
        | Action::Entry(_)
        | Action::Fence { .. }
        | Action::Vacuum(_)
        | Action::Unknown { .. } => {}
    }
    catalog
        .apply_action(action, version, timestamp)
        .map_err(|violation| DbError::Invariant { version, violation })
}

/// What a transaction of a record does to the catalog, which is moved forward by it.
pub(crate) fn catalog_effects(
    catalog: &mut Catalog,
    version: DbVersion,
    txn: &RecordTxn,
) -> Result<Effects, DbError> {
    let mut effects = Effects::default();
    for action in &txn.actions {
        add_catalog_effect(&mut effects, catalog, action, version, txn.timestamp)?;
    }
    Ok(effects)
}

/// Whether theirs moved a file in which ours deletes rows.
fn moves_from_under(ours: &TableEffects, theirs: &TableEffects) -> bool {
    let moved = |path: &String| theirs.removes.get(path) == Some(&Removal::Moved);
    ours.deletions.keys().any(moved)
}

/// What a committed transaction did to the catalog and to the tables that `ours` touches.
/// `catalog` is the one right before it and is moved to right after it.
///
/// # Cost
/// Ranged GETs for the vectors of files that both sides touch, 1 GET for a row map in a file;
/// nothing else on a warm handle.
pub(crate) async fn stored_effects(
    inner: &Inner,
    catalog: &mut Catalog,
    version: DbVersion,
    txn: &RecordTxn,
    ours: &Effects,
) -> Result<Effects, DbError> {
    let mut effects = catalog_effects(catalog, version, txn)?;
    for action in &txn.actions {
        let Action::Entry(entry) = action else {
            continue;
        };
        let Some(mine) = ours.tables.get(&entry.table) else {
            continue;
        };
        let Some(table) = catalog.table_or_dropped(entry.table).cloned() else {
            continue;
        };
        let codec = inner.codec(&table.format, &table.display_name())?;
        let lines = inner.entry(&table, entry.version).await?;
        let decode = async |rows_for: &BTreeSet<String>| {
            codec
                .effects(&inner.store, &table.location, &lines, rows_for)
                .await
                .map_err(DbError::table(table.display_name()))
        };
        let mut theirs = decode(&BTreeSet::new()).await?;
        let needed = rows_needed(mine, &theirs);
        if !needed.is_empty() {
            theirs = decode(&needed).await?;
        }
        if moves_from_under(mine, &theirs) {
            theirs.row_map = row_map::load(inner, &table, entry.notes.as_deref()).await?;
        }
        let known = effects.tables.entry(entry.table).or_default();
        theirs.keys = entry.notes.as_ref().and_then(|notes| notes.keys.clone());
        theirs.created = known.created;
        theirs.dropped = known.dropped;
        theirs.renamed = known.renamed;
        *known = theirs;
    }
    Ok(effects)
}
