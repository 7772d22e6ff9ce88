//! Committing a planned change onto a head, and what every table must obey.
//!
//! Invariant: what would lose a row, delete one twice or break a property is an error.

use std::collections::{BTreeMap, BTreeSet};

use tarndb_txn::{CatalogEffect, ConfigEffect, Removal, SchemaEffect, TableEffects, Touched};

use super::{Change, Db, File, Name, Outcome, Table, refuse};

impl Db {
    /// Puts a planned change onto this head. `rebase`: vectors are united with the head's and
    /// metadata changes re-applied to it; otherwise they are written as they were planned.
    /// Whatever would lose a row, delete one twice or break a property is an error.
    pub(crate) fn commit(&self, change: &Change, rebase: bool) -> Outcome<Self> {
        let mut db = self.clone();
        for (id, effects) in &change.effects.tables {
            let brings = change.files.get(id);
            if effects.created || (brings.is_none() && is_read_only(effects)) {
                continue;
            }
            let base = &change.base.tables[id];
            let Some(table) = db.tables.get_mut(id) else {
                return refuse("table is gone");
            };
            table.commit_files(effects, base, brings, rebase)?;
            table.commit_definition(effects, base, rebase)?;
            table.check()?;
        }
        for effect in &change.effects.catalog {
            db.commit_catalog(effect)?;
        }
        Ok(db)
    }

    fn commit_catalog(&mut self, effect: &CatalogEffect) -> Outcome<()> {
        let take = |db: &Self, name: &Name| {
            let taken = db.tables.values().any(|table| table.name == *name);
            if taken || !db.schemas.contains(&name.0) {
                refuse("no place")
            } else {
                Ok(())
            }
        };
        let done = match effect {
            CatalogEffect::CreateSchema { name } => self.schemas.insert(name.clone()),
            CatalogEffect::DropSchema { name } => {
                !self.tables.values().any(|table| table.name.0 == *name)
                    && self.schemas.remove(name)
            }
            CatalogEffect::CreateTable {
                id, schema, name, ..
            } => {
                let name = (schema.clone(), name.clone());
                take(self, &name)?;
                let table = Table {
                    name,
                    ..Table::default()
                };
                self.tables.insert(*id, table).is_none()
            }
            CatalogEffect::DropTable { id, .. } => self.tables.remove(id).is_some(),
            CatalogEffect::RenameTable {
                id, to_schema, to, ..
            } => {
                let name = (to_schema.clone(), to.clone());
                take(self, &name)?;
                self.tables
                    .get_mut(id)
                    .map(|table| table.name = name)
                    .is_some()
            }
            _ => false,
        };
        if done {
            Ok(())
        } else {
            refuse("catalog changed")
        }
    }
}

fn is_read_only(effects: &TableEffects) -> bool {
    let read = effects.read.clone();
    *effects
        == TableEffects {
            read,
            ..TableEffects::default()
        }
}

impl Table {
    fn commit_files(
        &mut self,
        effects: &TableEffects,
        base: &Self,
        brings: Option<&BTreeMap<String, File>>,
        rebase: bool,
    ) -> Outcome<()> {
        let property = |key: &str, value: &str| {
            self.definition
                .properties
                .get(key)
                .is_some_and(|v| v == value)
        };
        let deletes = !effects.deletions.is_empty()
            || effects
                .removes
                .values()
                .any(|removal| *removal == Removal::Deleted);
        let vectors = effects
            .deletions
            .values()
            .any(|t| matches!(t, Touched::Rows(_)));
        if property("delta.appendOnly", "true") && (deletes || effects.overwrites_all()) {
            return refuse("table is append-only");
        }
        if property("tarndb.deletionVectors", "off") && vectors {
            return refuse("table is copy-on-write");
        }
        if effects.overwrites_all() {
            if !rebase && self.files != base.files {
                return refuse("removes what is not there, or leaves what is");
            }
            self.files.clear();
        }
        for (path, touched) in &effects.deletions {
            let Some(file) = self.files.get_mut(path) else {
                return refuse("file is gone");
            };
            let planned = base.files.get(path);
            match touched {
                Touched::Rows(rows) => {
                    if !rebase {
                        let planned = planned.map(|file| file.deleted.clone());
                        file.deleted = planned.unwrap_or_default();
                    }
                    if !rows.iter().all(|row| file.deleted.insert(row)) {
                        return refuse("row deleted twice");
                    }
                    if file.live().next().is_none() {
                        self.files.remove(path);
                    }
                }
                Touched::WholeFile if Some(&*file) == planned => drop(self.files.remove(path)),
                Touched::WholeFile => return refuse("file changed"),
            }
        }
        for (path, removal) in &effects.removes {
            let (there, planned) = (self.files.remove(path), base.files.get(path));
            let carried = rebase && *removal == Removal::Moved;
            // A file that lost rows since, or all of them: what is brought has lost them too.
            let has_fewer = match (&there, planned) {
                (Some(there), Some(planned)) => {
                    there.rows == planned.rows && there.deleted.is_superset(&planned.deleted)
                }
                (there, _) => there.is_none(),
            };
            if there.as_ref() != planned && !(carried && has_fewer) {
                return refuse("file changed");
            }
        }
        for (path, file) in brings.into_iter().flatten() {
            let mut file = file.clone();
            let carried = effects.carried.get(path);
            file.deleted.extend(carried.into_iter().flatten());
            if carried.is_none() || file.live().next().is_some() {
                self.files.insert(path.clone(), file);
            }
        }
        Ok(())
    }

    fn commit_definition(
        &mut self,
        effects: &TableEffects,
        base: &Self,
        rebase: bool,
    ) -> Outcome<()> {
        let redefines = !effects.schema.is_empty() || !effects.config.is_empty();
        if redefines && !rebase {
            self.definition = base.definition.clone();
        }
        let definition = &mut self.definition;
        for effect in &effects.schema {
            match effect {
                SchemaEffect::AddColumn {
                    name,
                    type_text,
                    nullable,
                } => {
                    let new = (type_text.clone(), *nullable);
                    let old = definition.columns.insert(name.clone(), new.clone());
                    if old.is_some_and(|old| old != new) {
                        return refuse("column exists");
                    }
                }
                SchemaEffect::DropColumn { name } => {
                    definition.columns.remove(name);
                    definition.comments.remove(&Some(name.clone()));
                }
                SchemaEffect::RenameColumn { from, to } => {
                    let Some(column) = definition.columns.remove(from) else {
                        continue;
                    };
                    definition.columns.insert(to.clone(), column);
                    if let Some(text) = definition.comments.remove(&Some(from.clone())) {
                        definition.comments.insert(Some(to.clone()), text);
                    }
                }
                SchemaEffect::Widen { column, type_text } => {
                    let Some((kind, _)) = definition.columns.get_mut(column) else {
                        return refuse("no such column");
                    };
                    kind.clone_from(type_text);
                }
                SchemaEffect::Replace { fingerprint } => {
                    definition.fingerprint = fingerprint.clone();
                    definition.columns.retain(|name, _| name == "v");
                    definition.comments.retain(|column, _| column.is_none());
                }
                SchemaEffect::SetComment {
                    column,
                    text: Some(text),
                } => {
                    if column
                        .as_ref()
                        .is_some_and(|c| !definition.columns.contains_key(c))
                    {
                        return refuse("no such column");
                    }
                    definition.comments.insert(column.clone(), text.clone());
                }
                SchemaEffect::SetComment { column, .. } => {
                    definition.comments.remove(column);
                }
                _ => return refuse("unknown effect"),
            }
        }
        for effect in &effects.config {
            match effect {
                ConfigEffect::Set { key, value } => {
                    definition.properties.insert(key.clone(), value.clone());
                }
                ConfigEffect::Unset { key } => drop(definition.properties.remove(key)),
                ConfigEffect::AddFeature { name } => drop(definition.features.insert(name.clone())),
                _ => return refuse("unknown effect"),
            }
        }
        for (app, version) in &effects.app_txns {
            if self
                .apps
                .insert(app.clone(), *version)
                .is_some_and(|old| old >= *version)
            {
                return refuse("application transaction is committed");
            }
        }
        Ok(())
    }

    /// What every table must obey, whoever wrote it.
    fn check(&self) -> Outcome<()> {
        let required = |(_, nullable): &(String, bool)| !nullable;
        let needs: BTreeSet<_> = self
            .definition
            .columns
            .iter()
            .filter(|(_, d)| required(d))
            .map(|(n, _)| n)
            .collect();
        let mut there = BTreeSet::new();
        let mut rows = self.files.values().flat_map(File::live);
        if !rows.all(|(_, (row, _))| there.insert(row)) {
            return refuse("a row is there twice");
        }
        for file in self.files.values() {
            if file.live().next().is_some() && needs.iter().any(|n| !file.columns.contains(*n)) {
                return refuse("NOT NULL column without values");
            }
            if file.fingerprint != self.definition.fingerprint {
                return refuse("file of another schema");
            }
        }
        // A feature nobody knows may mean anything; this one means the same as the constraint.
        let constrained = self.definition.features.contains("onlyPositive")
            || self
                .definition
                .properties
                .keys()
                .any(|key| key.starts_with("delta.constraints."));
        let values = || {
            self.files
                .values()
                .flat_map(File::live)
                .map(|(_, (_, value))| value)
        };
        if constrained && values().any(|value| value < 0) {
            return refuse("constraint violated");
        }
        Ok(())
    }
}
