//! Planning on a snapshot: physical changes and the effects the algebra sees.
//!
//! Invariant: every intent sees the snapshot only; nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};

use tarndb_txn::{
    CatalogEffect, ConfigEffect, Effects, Isolation, OverwriteKind, Read, Removal, RowSet,
    SchemaEffect, Touched,
};
use tarndb_types::TableId;

use super::{Act, Db, File, Intent, Outcome, Rows, Target, id, refuse};

/// A planned transaction: effects as the algebra sees them, and what they bring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) effects: Effects,
    pub(super) base: Db,
    pub(super) files: BTreeMap<TableId, BTreeMap<String, File>>,
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
                effects.read = Some(Read::All);
                let ids = self.matching(id, rows);
                if matches!(rows, Rows::Ids(wanted) if *wanted != ids) {
                    return refuse("a row is gone");
                }
                let hit = |row: &u64| ids.contains(row);
                let mut written = Vec::new();
                for (path, file) in &table.files {
                    let positions: RowSet = file
                        .live()
                        .filter(|(_, (row, _))| hit(row))
                        .map(|(at, _)| at)
                        .collect();
                    if positions.is_empty() {
                        continue;
                    }
                    let live = file.live().map(|(_, row)| row);
                    let touched = match &intent.act {
                        Act::Update(_, by) => {
                            let hits = live.filter(|(row, _)| hit(row));
                            written.extend(hits.map(|(row, value)| (row, value + by)));
                            Touched::Rows(positions)
                        }
                        Act::CopyDelete(_) => {
                            written.extend(live.filter(|(row, _)| !hit(row)));
                            Touched::WholeFile
                        }
                        _ if positions.len() == file.live().count() as u64 => {
                            effects.removes.insert(path.clone(), Removal::Deleted);
                            continue;
                        }
                        _ => Touched::Rows(positions),
                    };
                    effects.deletions.insert(path.clone(), touched);
                }
                if !written.is_empty() {
                    effects.adds = true;
                    // A copy keeps the order of columns; what it lacked, it still lacks.
                    let lacking = table.files.values().map(|file| file.columns.clone());
                    let common = lacking.fold(columns, |a, b| &a & &b);
                    write(written, common, fingerprint);
                }
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
            Act::Compact => {
                if table.files.is_empty() {
                    return refuse("nothing to compact");
                }
                let moved = table
                    .files
                    .keys()
                    .map(|path| (path.clone(), Removal::Moved));
                effects.removes.extend(moved);
                let live = table
                    .files
                    .values()
                    .flat_map(File::live)
                    .map(|(_, row)| row);
                let lacking = table.files.values().map(|file| file.columns.clone());
                let common = lacking.fold(columns, |a, b| &a & &b);
                write(live.collect(), common, fingerprint);
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
                change
                    .effects
                    .catalog
                    .push(CatalogEffect::DropTable { id, schema, name });
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

/// The effects as somebody else reads them from the log: a file written anew is a file dropped.
pub(crate) fn as_committed(effects: &Effects) -> Effects {
    let mut effects = effects.clone();
    for table in effects.tables.values_mut() {
        table.read = None;
        let (whole, rows): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut table.deletions)
            .into_iter()
            .partition(|(_, touched)| *touched == Touched::WholeFile);
        table
            .removes
            .extend(whole.into_keys().map(|path| (path, Removal::Deleted)));
        table.deletions = rows;
    }
    effects.names_read.clear();
    effects.isolation = Isolation::Snapshot;
    effects
}
