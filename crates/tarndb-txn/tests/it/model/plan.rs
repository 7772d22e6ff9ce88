//! Planning on a snapshot: physical changes and the effects the algebra sees.
//!
//! Invariant: every intent sees the snapshot only; nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};

use tarndb_txn::{
    CatalogEffect, ConfigEffect, Effects, Isolation, OverwriteKind, Read, Removal, SchemaEffect,
    TableEffects, Touched,
};
use tarndb_types::TableId;

use super::relied::{Relied, key_of, key_set};
use super::{Act, Db, File, Intent, Outcome, Rows, Table, Target, id, refuse};

/// A planned transaction: effects as the algebra sees them, and what they bring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) effects: Effects,
    pub(super) base: Db,
    pub(super) files: BTreeMap<TableId, BTreeMap<String, File>>,
    pub(crate) relied: BTreeMap<TableId, Relied>,
}

impl Change {
    /// Rewrites files, if it was asked to.
    pub(crate) fn rewrites_what_it_should(&self, intents: &[Intent]) -> bool {
        let asked = intents.iter().filter_map(|intent| match &intent.act {
            Act::Compact(_) => self.base.find(&intent.target).ok(),
            _ => None,
        });
        let mut asked = asked.map(|id| &self.effects.tables[&id]);
        asked.all(|table| table.removes.values().any(|r| *r == Removal::Moved))
    }

    /// The same change with rebased effects.
    pub(crate) fn with(&self, effects: Effects) -> Self {
        Self {
            effects,
            ..self.clone()
        }
    }
}

impl Db {
    /// Plans all intents on this snapshot; each sees the snapshot, not the others.
    pub(crate) fn plan(&self, intents: &[Intent], tag: u64) -> Outcome<Change> {
        let mut change = Change {
            base: self.clone(),
            ..Change::default()
        };
        for (index, intent) in intents.iter().enumerate() {
            self.plan_one(intent, tag + index as u64, &mut change)?;
        }
        Ok(change)
    }

    fn plan_one(&self, intent: &Intent, tag: u64, change: &mut Change) -> Outcome<()> {
        if let Target::Name(name) = &intent.target {
            change.effects.names_read.insert(name.clone());
        }
        if matches!(
            intent.act,
            Act::Create | Act::CreateSchema | Act::DropSchema
        ) {
            return self.plan_new(intent, tag, change);
        }
        let id = self.find(&intent.target)?;
        let table = &self.tables[&id];
        let effects = change.effects.tables.entry(id).or_default();
        let new_rows = |values: &[i64]| {
            let rows = values.iter().enumerate();
            rows.map(|(i, value)| (tag * 1000 + i as u64, *value))
                .collect::<Vec<_>>()
        };
        let mut write = |rows: Vec<(u64, i64)>, columns: BTreeSet<String>, fingerprint: &str| {
            let fingerprint = fingerprint.to_owned();
            let file = File {
                rows,
                deleted: BTreeSet::new(),
                columns,
                fingerprint,
            };
            change
                .files
                .entry(id)
                .or_default()
                .insert(format!("new{tag}"), file);
        };
        let columns: BTreeSet<String> = table.definition.columns.keys().cloned().collect();
        let fingerprint = table.definition.fingerprint.as_str();
        match &intent.act {
            Act::Append(values) => {
                effects.adds = true;
                write(new_rows(values), columns, fingerprint);
            }
            Act::AppendCount(source) => {
                effects.adds = true;
                write(new_rows(&[self.count(source)?]), columns, fingerprint);
                let source_id = self.find(&Target::Name(source.clone()))?;
                change.effects.tables.entry(source_id).or_default().read = Some(Read::All);
                change.effects.names_read.insert(source.clone());
            }
            Act::Delete(rows) | Act::Update(rows, _) | Act::CopyDelete(rows) => {
                let relied = change.relied.entry(id).or_default();
                relied.reads.push(rows.clone());
                effects.read = Some(Read::Rows {
                    predicates: vec![format!("{rows:?}")],
                });
                let ids = self.matching(id, rows);
                if matches!(rows, Rows::Ids(wanted) if *wanted != ids) {
                    return refuse("a row is gone");
                }
                let copies = matches!(intent.act, Act::CopyDelete(_));
                let mut written = table.delete(&ids, copies, effects);
                if let Act::Update(_, by) = &intent.act {
                    let hits = table.files.values().flat_map(File::live);
                    let hits = hits.filter(|(_, (row, _))| ids.contains(row));
                    written.extend(hits.map(|(_, (row, value))| (row, value + by)));
                }
                if !written.is_empty() {
                    effects.adds = true;
                    write(written, table.common_columns(), fingerprint);
                }
            }
            Act::Upsert(keys, beside) => {
                let keys: BTreeSet<i64> = keys.iter().map(|key| key_of(*key)).collect();
                effects.read = Some(Read::All);
                effects.keys = key_set(&keys, beside.is_empty());
                let mut absent = keys.clone();
                let mut written = Vec::new();
                for (_, (row, value)) in table.files.values().flat_map(File::live) {
                    if keys.contains(&key_of(value)) {
                        absent.remove(&key_of(value));
                        written.push((row, value + 1000));
                    }
                }
                let hits = written.iter().map(|(row, _)| *row).collect();
                table.delete(&hits, false, effects);
                // The id of a new row tells its key, whichever others are new beside it.
                let new = absent
                    .iter()
                    .map(|key| (tag * 1000 + 500 + *key as u64, *key));
                written.extend(new);
                written.extend(new_rows(beside));
                effects.adds = !written.is_empty();
                if effects.adds {
                    write(written, table.common_columns(), fingerprint);
                }
                change.relied.entry(id).or_default().keys.extend(keys);
            }
            Act::OverwriteWhere(rows, values) => {
                effects.read = Some(Read::All);
                effects.overwrite = Some(OverwriteKind::Where {
                    predicate: format!("{rows:?}"),
                    source_read_target: false,
                });
                effects.adds = !values.is_empty();
                table.delete(&self.matching(id, rows), false, effects);
                if effects.adds {
                    write(new_rows(values), columns, fingerprint);
                }
                let relied = change.relied.entry(id).or_default();
                relied.overwrites.push(rows.clone());
            }
            Act::Overwrite(values) => {
                effects.overwrite = Some(OverwriteKind::All {
                    source_read_target: false,
                });
                write(new_rows(values), columns, fingerprint);
            }
            Act::OverwriteFromSelf => {
                effects.overwrite = Some(OverwriteKind::All {
                    source_read_target: true,
                });
                effects.read = Some(Read::All);
                let live = table.files.values().flat_map(File::live);
                write(
                    live.map(|(_, (row, v))| (row, v + 1)).collect(),
                    columns,
                    fingerprint,
                );
            }
            Act::Compact(how) => {
                let files = table.rewrite(*how, tag, effects);
                if !files.is_empty() {
                    change.files.entry(id).or_default().extend(files);
                }
            }
            Act::ReplaceTable(new) => {
                let fingerprint = new.clone();
                effects.schema.push(SchemaEffect::Replace { fingerprint });
                if !table.files.is_empty() {
                    let source_read_target = false;
                    effects.overwrite = Some(OverwriteKind::All { source_read_target });
                }
            }
            Act::AddColumn {
                name,
                type_text,
                nullable,
            } => {
                let (name, type_text) = (name.clone(), type_text.clone());
                let effect = SchemaEffect::AddColumn {
                    name,
                    type_text,
                    nullable: *nullable,
                };
                effects.schema.push(effect);
            }
            Act::DropColumn(name) => {
                let name = name.clone();
                effects.schema.push(SchemaEffect::DropColumn { name });
            }
            Act::RenameColumn(from, to) => {
                let (from, to) = (from.clone(), to.clone());
                effects.schema.push(SchemaEffect::RenameColumn { from, to });
            }
            Act::Widen(column, type_text) => {
                let (column, type_text) = (column.clone(), type_text.clone());
                effects
                    .schema
                    .push(SchemaEffect::Widen { column, type_text });
            }
            Act::Comment(column, text) => {
                let (column, text) = (column.clone(), text.clone());
                effects
                    .schema
                    .push(SchemaEffect::SetComment { column, text });
            }
            Act::Set(key, value) => {
                let (key, value) = (key.clone(), value.clone());
                effects.config.push(ConfigEffect::Set { key, value });
            }
            Act::Unset(key) => effects
                .config
                .push(ConfigEffect::Unset { key: key.clone() }),
            Act::Raise(name) => {
                effects
                    .config
                    .push(ConfigEffect::AddFeature { name: name.clone() });
            }
            Act::App(app, version) => {
                effects.app_txns.insert(app.clone(), *version);
            }
            Act::Drop => {
                let (schema, name) = table.name.clone();
                change.effects.catalog.push(CatalogEffect::DropTable {
                    id,
                    schema,
                    name,
                    detached: false,
                });
            }
            Act::Rename((to_schema, to)) => {
                let (schema, from) = table.name.clone();
                let (to_schema, to) = (to_schema.clone(), to.clone());
                let effect = CatalogEffect::RenameTable {
                    id,
                    schema,
                    from,
                    to_schema,
                    to,
                };
                change.effects.catalog.push(effect);
            }
            Act::Create | Act::CreateSchema | Act::DropSchema => {}
        }
        Ok(())
    }

    fn plan_new(&self, intent: &Intent, tag: u64, change: &mut Change) -> Outcome<()> {
        let Target::Name((schema, name)) = &intent.target else {
            return refuse("needs a name");
        };
        let catalog = &mut change.effects.catalog;
        match intent.act {
            Act::Create => {
                let (id, schema, name) = (id(u128::from(tag) + 1000), schema.clone(), name.clone());
                let location = format!("tables/{id}");
                catalog.push(CatalogEffect::CreateTable {
                    id,
                    schema,
                    name,
                    location,
                    shares: Vec::new(),
                });
                change.effects.tables.entry(id).or_default().created = true;
            }
            Act::CreateSchema => catalog.push(CatalogEffect::CreateSchema {
                name: schema.clone(),
            }),
            _ => {
                for (id, table) in self.tables.iter().filter(|(_, t)| t.name.0 == *schema) {
                    let (schema, name) = table.name.clone();
                    catalog.push(CatalogEffect::DropTable {
                        detached: false,
                        id: *id,
                        schema,
                        name,
                    });
                }
                catalog.push(CatalogEffect::DropSchema {
                    name: schema.clone(),
                });
            }
        }
        Ok(())
    }
}

impl Table {
    /// Plans the deletion of rows; the rows that a copy keeps.
    fn delete(
        &self,
        ids: &BTreeSet<u64>,
        copies: bool,
        effects: &mut TableEffects,
    ) -> Vec<(u64, i64)> {
        let mut kept = Vec::new();
        for (path, file) in &self.files {
            let (hits, others): (Vec<_>, Vec<_>) =
                file.live().partition(|(_, (row, _))| ids.contains(row));
            if hits.is_empty() {
                continue;
            }
            if copies {
                kept.extend(others.into_iter().map(|(_, row)| row));
                effects.removes.insert(path.clone(), Removal::Deleted);
            } else {
                let rows = hits.into_iter().map(|(at, _)| at).collect();
                effects.deletions.insert(path.clone(), Touched::Rows(rows));
            }
        }
        kept
    }

    /// A copy keeps the order of columns; what one of its files lacked, it still lacks.
    fn common_columns(&self) -> BTreeSet<String> {
        let all = self.definition.columns.keys().cloned().collect();
        let columns = self.files.values().map(|file| &file.columns);
        columns.fold(all, |common, columns| &common & columns)
    }
}

/// The effects of a change that is put onto `head` as somebody else reads them from the log: a
/// file written anew, or without rows, is a file dropped.
pub(crate) fn as_committed(effects: &Effects, head: &Db) -> Effects {
    let mut effects = effects.clone();
    for (id, table) in &mut effects.tables {
        table.read = None;
        table.carried.clear();
        let files = head.tables.get(id).map(|table| &table.files);
        table.deletions.retain(|path, touched| {
            let stays = match (touched, files.and_then(|files| files.get(path))) {
                (Touched::Rows(rows), Some(file)) => file.live().any(|(at, _)| !rows.contains(at)),
                _ => false,
            };
            if !stays {
                table.removes.insert(path.clone(), Removal::Deleted);
            }
            stays
        });
    }
    effects.names_read.clear();
    effects.isolation = Isolation::Snapshot;
    effects
}
