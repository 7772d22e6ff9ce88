//! The table that UPDATE or DELETE changes, and the query that finds its rows.
//!
//! Invariant: the query's last two columns are the hidden ones; the rest is as the caller
//! asked. Names in it are folded.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tarndb_table::{Origin, RowSet, parquet_row_count};
use tarndb_types::{TableId, Uuid};

use crate::error::SqlError;
use crate::function::{TARGET, Target};
use crate::name::fold;
use crate::parser::TableName;
use crate::provider::kept::Kept;
use crate::provider::{Pinned, TarnTable};
use crate::query::Scope;

/// The target of a change.
#[derive(Clone, Debug)]
pub(crate) struct ChangeTarget {
    /// Of a table of the database; nil for one by path.
    pub(crate) id: TableId,
    pub(crate) provider: Arc<TarnTable>,
    /// How columns are qualified: the alias, else the table's name.
    pub(crate) qualifier: String,
    alias: Option<String>,
    reference: TableReference,
    twice: Twice,
}

/// What it means that a row of the target is found again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Twice {
    /// A subquery gave it two values.
    #[default]
    Subquery,
    /// Two rows of other tables change it.
    Joined,
    /// Nothing: it goes once.
    Allowed,
}

impl ChangeTarget {
    /// Finds the table.
    pub(crate) async fn find(
        scope: &Scope<'_>,
        name: &TableName,
        alias: Option<&str>,
    ) -> Result<Self, SqlError> {
        let (id, pinned) = scope.pin(name).await?;
        let entry = scope.txn.entry(id)?;
        let (schema, table) = (fold(&entry.schema), fold(&entry.name));
        let alias = alias.map(fold);
        Ok(Self {
            id,
            provider: Arc::new(TarnTable::target(pinned).with_log(scope.scan_log())),
            qualifier: alias.clone().unwrap_or_else(|| table.clone()),
            alias,
            reference: TableReference::partial(schema, table),
            twice: Twice::default(),
        })
    }

    /// A table by path, at a version.
    pub(crate) fn by_path_of(pinned: Arc<Pinned>, alias: Option<&str>) -> Self {
        let path = pinned.name.trim_end_matches('/');
        let table = fold(path.rsplit('/').next().unwrap_or(path));
        let alias = alias.map(fold);
        Self {
            id: TableId(Uuid::nil()),
            provider: Arc::new(TarnTable::target(pinned)),
            qualifier: alias.clone().unwrap_or_else(|| table.clone()),
            alias,
            reference: TableReference::bare(table),
            twice: Twice::default(),
        }
    }

    /// For the planner.
    pub(crate) fn target(&self) -> Target {
        Target {
            reference: self.reference.clone(),
            provider: Arc::clone(&self.provider),
            source: None,
        }
    }

    /// The same for a change whose query joins other tables.
    pub(crate) fn with_twice(mut self, twice: Twice) -> Self {
        self.twice = twice;
        self
    }

    /// No row found yet.
    pub(crate) fn nothing_found(&self) -> Found {
        Found {
            rows: BTreeMap::new(),
            twice: self.twice,
            table: self.name().to_owned(),
        }
    }

    /// Its alias, folded.
    pub(crate) fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// `schema.name`.
    pub(crate) fn name(&self) -> &str {
        &self.provider.pinned().name
    }

    /// A column of the target as an expression.
    pub(crate) fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![quoted(&self.qualifier), quoted(&fold(name))])
    }

    /// `SELECT items, file, position FROM target WHERE filter`.
    pub(crate) fn query(
        &self,
        items: Vec<SelectItem>,
        filter: Option<Expr>,
    ) -> Result<Query, SqlError> {
        self.joined(items, &[], filter)
    }

    /// The same `FROM target, others`.
    pub(crate) fn joined(
        &self,
        mut items: Vec<SelectItem>,
        others: &[TableWithJoins],
        filter: Option<Expr>,
    ) -> Result<Query, SqlError> {
        let hidden = self.provider.hidden().ok_or_else(internal)?;
        items.push(SelectItem::UnnamedExpr(self.column(&hidden.file)));
        items.push(SelectItem::UnnamedExpr(self.column(&hidden.position)));
        let mut query = Parser::new(&PostgreSqlDialect {})
            .try_with_sql("SELECT 1 FROM t")
            .and_then(|mut parser| parser.parse_query())
            .map_err(|_| internal())?;
        let SetExpr::Select(select) = query.body.as_mut() else {
            return Err(internal());
        };
        select.projection = items;
        select.selection = filter;
        let from = select.from.first_mut().ok_or_else(internal)?;
        let TableFactor::Table { name, alias, .. } = &mut from.relation else {
            return Err(internal());
        };
        *name = ObjectName(vec![ObjectNamePart::Identifier(quoted(TARGET))]);
        *alias = self.alias.as_ref().map(|alias| TableAlias {
            explicit: true,
            name: quoted(alias),
            columns: Vec::new(),
            at: None,
        });
        select.from.extend_from_slice(others);
        Ok(*query)
    }

    /// Paths of the files with the rows found in them. When rows go, files that were looked at
    /// and have no rows at all are named too, so that they go with them: other writers leave
    /// such files, and to delete a partition is to delete all of its files.
    ///
    /// # Cost
    /// None beyond the scan's, which read the footers of the files whose rows the log does not
    /// count.
    pub(crate) async fn by_path(&self, found: Found) -> Result<BTreeMap<String, RowSet>, SqlError> {
        let pinned = self.provider.pinned();
        let mut by_path = BTreeMap::new();
        let Found { mut rows, .. } = found;
        if rows.is_empty() {
            return Ok(by_path);
        }
        for (number, file) in self.provider.kept().all() {
            if let Some(rows) = rows.remove(&number) {
                by_path.insert(file.path.clone(), rows);
                continue;
            }
            let count = match file.num_records() {
                Some(count) => count,
                None => parquet_row_count(&pinned.store, &pinned.location, &file)
                    .await
                    .map_err(SqlError::table(&pinned.name))?,
            };
            if count == 0 {
                by_path.insert(file.path.clone(), RowSet::new());
            }
        }
        Ok(by_path)
    }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn internal() -> SqlError {
    SqlError::Internal {
        context: "building the query of a change",
    }
}

/// Rows found, by index of their file.
#[derive(Debug)]
pub(crate) struct Found {
    rows: BTreeMap<u32, RowSet>,
    twice: Twice,
    table: String,
}

impl Found {
    /// Takes the rows that the last two columns of `batch` name, in `all` files of the target;
    /// gives back where each of them is.
    ///
    /// # Errors
    /// A row that was named before, unless that is allowed.
    pub(crate) fn take(
        &mut self,
        batch: &RecordBatch,
        all: &Kept,
    ) -> Result<Vec<Origin>, SqlError> {
        let width = batch.num_columns();
        let column = |back: usize| batch.columns().get(width.checked_sub(back)?);
        let files = column(2).and_then(|c| c.as_primitive_opt::<UInt32Type>());
        let positions = column(1).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let (Some(files), Some(positions)) = (files, positions) else {
            return Err(internal());
        };
        let mut origins = Vec::with_capacity(batch.num_rows());
        for (file, position) in files.values().iter().zip(positions.values()) {
            let found = all.file(*file).ok_or_else(internal)?;
            let position = u64::try_from(*position).map_err(|_| internal())?;
            self.insert(*file, position)?;
            origins.push(Origin {
                file: found,
                position,
            });
        }
        Ok(origins)
    }

    /// How many rows.
    pub(crate) fn len(&self) -> u64 {
        self.rows.values().map(RowSet::len).sum()
    }

    /// Takes one row.
    pub(crate) fn insert(&mut self, file: u32, position: u64) -> Result<(), SqlError> {
        if self.rows.entry(file).or_default().insert(position) {
            return Ok(());
        }
        match self.twice {
            Twice::Allowed => Ok(()),
            Twice::Subquery => Err(SqlError::SubqueryRows),
            Twice::Joined => Err(SqlError::MatchedTwice {
                table: self.table.clone(),
            }),
        }
    }
}
