//! A naive database of row lists, against which the algebra is checked.
//!
//! It does everything twice. `run` executes intents one after the other, on logical rows, as a
//! reader of SQL would. `plan` executes them on a snapshot and records physical changes and
//! effects, and `commit` puts those onto another head, as the real commit does. The laws
//! demand that both ways agree whenever the algebra lets a transaction pass.
//!
//! Invariant: a row keeps its id for life, and each live row is in exactly one place.

mod commit;
mod plan;
mod relied;
mod rewrite;

use std::collections::{BTreeMap, BTreeSet};

use tarndb_types::{TableId, Uuid};

pub(crate) use plan::{Change, as_committed};
pub(crate) use rewrite::Rewrite;

pub(crate) type Name = (String, String);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    rows: Vec<(u64, i64)>,
    deleted: BTreeSet<u64>,
    columns: BTreeSet<String>,
    fingerprint: String,
}

impl File {
    fn live(&self) -> impl Iterator<Item = (u64, (u64, i64))> {
        let all = (0_u64..).zip(self.rows.iter().copied());
        all.filter(|(position, _)| !self.deleted.contains(position))
    }
}

/// What Delta keeps in one action, which a commit replaces whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Definition {
    columns: BTreeMap<String, (String, bool)>,
    comments: BTreeMap<Option<String>, String>,
    properties: BTreeMap<String, String>,
    features: BTreeSet<String>,
    fingerprint: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    name: Name,
    files: BTreeMap<String, File>,
    definition: Definition,
    apps: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Db {
    schemas: BTreeSet<String>,
    tables: BTreeMap<TableId, Table>,
}

/// Rows, before and after it is known which.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Where { modulo: i64, rest: i64 },
    Ids(BTreeSet<u64>),
}

impl Rows {
    /// Whether a row is among them.
    pub(crate) fn hold(&self, (row, value): (u64, i64)) -> bool {
        match self {
            Self::Where { modulo, rest } => value.rem_euclid(*modulo) == *rest,
            Self::Ids(ids) => ids.contains(&row),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Name(Name),
    Id(TableId),
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Append(Vec<i64>),
    /// Appends the number of rows of another table.
    AppendCount(Name),
    Delete(Rows),
    Update(Rows, i64),
    /// Deletes by writing the files anew.
    CopyDelete(Rows),
    Overwrite(Vec<i64>),
    /// Replaces every value by its successor.
    OverwriteFromSelf,
    Compact(Rewrite),
    /// Adds a thousand to the rows with these keys, and inserts those that are not there; beside
    /// it, appends values without a look at their keys.
    Upsert(Vec<i64>, Vec<i64>),
    /// Replaces the rows by new ones.
    OverwriteWhere(Rows, Vec<i64>),
    ReplaceTable(String),
    AddColumn {
        name: String,
        type_text: String,
        nullable: bool,
    },
    DropColumn(String),
    RenameColumn(String, String),
    Widen(String, String),
    Comment(Option<String>, Option<String>),
    Set(String, String),
    Unset(String),
    Raise(String),
    App(String, i64),
    Drop,
    Rename(Name),
    Create,
    CreateSchema,
    DropSchema,
}

#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) target: Target,
    pub(crate) act: Act,
}

impl Intent {
    /// Deletes or updates no rows at all.
    pub(crate) fn is_nothing(&self) -> bool {
        match &self.act {
            Act::Delete(Rows::Ids(ids)) | Act::CopyDelete(Rows::Ids(ids)) => ids.is_empty(),
            Act::Update(Rows::Ids(ids), _) => ids.is_empty(),
            _ => false,
        }
    }
}

type Outcome<T> = Result<T, String>;

fn refuse<T>(why: &str) -> Outcome<T> {
    Err(why.to_owned())
}

pub(crate) fn id(number: u128) -> TableId {
    TableId(Uuid::from_u128(number))
}

/// Everything readers can see, file layout and order aside.
pub(crate) type View = Vec<(
    TableId,
    Name,
    BTreeSet<(u64, i64)>,
    Definition,
    BTreeMap<String, i64>,
)>;

impl Db {
    /// Schemas `s` and `r`; tables `s.a` and `s.b`, each of two files of four rows, the last of
    /// them deleted; an empty table `s.e`.
    pub(crate) fn sample() -> Self {
        let mut db = Self::default();
        db.schemas.extend(["s".to_owned(), "r".to_owned()]);
        for (number, name, files) in [(1, "a", 2), (2, "b", 2), (3, "e", 0)] {
            let mut table = Table {
                name: ("s".into(), name.into()),
                ..Table::default()
            };
            for column in ["v", "w"] {
                let columns = &mut table.definition.columns;
                columns.insert(column.into(), ("long".into(), true));
            }
            for file in 0..files {
                let first = number as u64 * 100 + file * 4;
                let rows = (first..first + 4).map(|id| (id, id as i64)).collect();
                let file = File {
                    rows,
                    deleted: BTreeSet::from([3]),
                    columns: BTreeSet::from(["v".to_owned(), "w".to_owned()]),
                    fingerprint: String::new(),
                };
                table.files.insert(format!("{name}{first}"), file);
            }
            db.tables.insert(id(number), table);
        }
        db
    }

    pub(crate) fn view(&self) -> (BTreeSet<String>, View) {
        let tables = self.tables.iter().map(|(id, table)| {
            let rows = table
                .files
                .values()
                .flat_map(File::live)
                .map(|(_, row)| row)
                .collect();
            (
                *id,
                table.name.clone(),
                rows,
                table.definition.clone(),
                table.apps.clone(),
            )
        });
        (self.schemas.clone(), tables.collect())
    }

    fn find(&self, target: &Target) -> Outcome<TableId> {
        let found = match target {
            Target::Id(id) => self.tables.contains_key(id).then_some(*id),
            Target::Name(name) => self
                .tables
                .iter()
                .find(|(_, table)| table.name == *name)
                .map(|(id, _)| *id),
        };
        found.ok_or_else(|| "no such table".to_owned())
    }

    /// Fixes what the intent means to what it means here.
    pub(crate) fn pin(&self, intent: &Intent) -> Outcome<Intent> {
        let Ok(id) = self.find(&intent.target) else {
            return Ok(intent.clone());
        };
        let rows = |rows: &Rows| Rows::Ids(self.matching(id, rows));
        let act = match &intent.act {
            Act::Delete(r) => Act::Delete(rows(r)),
            Act::CopyDelete(r) => Act::CopyDelete(rows(r)),
            Act::Update(r, by) => Act::Update(rows(r), *by),
            Act::AppendCount(name) => Act::Append(vec![self.count(name)?]),
            other => other.clone(),
        };
        Ok(Intent {
            target: Target::Id(id),
            act,
        })
    }

    fn count(&self, name: &Name) -> Outcome<i64> {
        let table = &self.tables[&self.find(&Target::Name(name.clone()))?];
        Ok(table.files.values().flat_map(File::live).count() as i64)
    }

    fn matching(&self, id: TableId, rows: &Rows) -> BTreeSet<u64> {
        let live = self.tables[&id].files.values().flat_map(File::live);
        live.filter(|(_, row)| rows.hold(*row))
            .map(|(_, (row, _))| row)
            .collect()
    }

    /// Executes intents here and now. `tag` makes the ids of new rows, files and tables.
    pub(crate) fn run(&self, intents: &[Intent], tag: u64) -> Outcome<Self> {
        let mut db = self.clone();
        for (index, intent) in intents.iter().enumerate() {
            let change = db.plan(std::slice::from_ref(intent), tag * 10 + index as u64)?;
            db = db.commit(&change, true)?;
        }
        Ok(db)
    }
}
