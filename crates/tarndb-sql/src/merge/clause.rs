//! The clauses of a MERGE, with a value or a rule for every column of the table.
//!
//! Invariant: the cells of a clause stand in the table's order; what a clause cannot see (the
//! table where no row matched, the source where none did) is refused before anything is read.
//! Spec: docs/sql/merge.md, "Clauses".

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use tarndb_table::{RowRules, Schema, Supplied, Supply};

use super::names::{Names, Sees};
use crate::dml::defaults::is_default;
use crate::error::SqlError;
use crate::name::{fold, near, same};
use crate::parser::{MergeAction, MergeClause, MergeWhen};

/// Where the value of a column comes from.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// The row has it.
    Kept,
    /// The table's rules.
    Omitted,
    /// An expression.
    Given(Box<Expr>),
}

/// What a clause does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Nothing,
    Delete,
    Update(Vec<Cell>),
    Insert(Vec<Cell>),
}

/// One clause.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) when: MergeWhen,
    pub(super) condition: Option<Expr>,
    pub(super) act: Act,
    /// Where the columns of the rows that it writes come from.
    pub(super) supplied: Supplied,
}

impl Clause {
    /// The cells of the rows that it writes.
    pub(super) fn cells(&self) -> Option<&[Cell]> {
        match &self.act {
            Act::Update(cells) | Act::Insert(cells) => Some(cells),
            Act::Nothing | Act::Delete => None,
        }
    }
}

/// What clauses are resolved against.
pub(super) struct Resolver<'a> {
    /// `schema.name` of the table.
    pub(super) table: &'a str,
    pub(super) schema: &'a Schema,
    pub(super) rules: &'a RowRules,
    pub(super) names: Names<'a>,
    /// Whether columns that the source lacks may be left out of `*`.
    pub(super) evolve: bool,
}

impl Resolver<'_> {
    /// Resolves a clause.
    ///
    /// # Errors
    /// A column that is not there or is named twice; a number of values that is not that of the
    /// columns; a name that the clause does not see; a NOT NULL column without a value.
    pub(super) fn resolve(&self, clause: &MergeClause) -> Result<Clause, SqlError> {
        let sees = match clause.when {
            MergeWhen::Matched => Sees::Both,
            MergeWhen::NotMatched => Sees::Source,
            MergeWhen::NotMatchedBySource => Sees::Target,
        };
        let mut condition = clause.condition.clone();
        if let Some(condition) = &mut condition {
            self.names.qualify(condition, sees)?;
        }
        let mut act = match &clause.action {
            MergeAction::Nothing => Act::Nothing,
            MergeAction::Delete => Act::Delete,
            MergeAction::Update(assignments) => Act::Update(self.assigned(assignments)?),
            MergeAction::UpdateAll => Act::Update(self.all(&Cell::Kept)?),
            MergeAction::Insert { columns, values } => Act::Insert(self.inserted(columns, values)?),
            MergeAction::InsertAll => Act::Insert(self.all(&Cell::Omitted)?),
        };
        if let Act::Update(cells) | Act::Insert(cells) = &mut act {
            for cell in cells {
                if let Cell::Given(expr) = cell {
                    self.names.qualify(expr, sees)?;
                }
            }
        }
        if let Act::Insert(cells) = &act {
            self.check_not_null(cells)?;
        }
        Ok(Clause {
            when: clause.when,
            condition,
            supplied: self.supplied(&act),
            act,
        })
    }

    fn assigned(&self, assignments: &[(String, Expr)]) -> Result<Vec<Cell>, SqlError> {
        let names = assignments.iter().map(|(name, _)| name);
        self.check_columns(names)?;
        let cells = self.schema.fields.iter().map(|field| {
            let mut assignments = assignments.iter();
            match assignments.find(|(name, _)| same(name, &field.name)) {
                None => Cell::Kept,
                Some((_, expr)) => given(expr),
            }
        });
        Ok(cells.collect())
    }

    fn inserted(&self, columns: &[String], values: &[Expr]) -> Result<Vec<Cell>, SqlError> {
        self.check_columns(columns.iter())?;
        let fields = &self.schema.fields;
        let expected = match columns.len() {
            0 => fields.len(),
            named => named,
        };
        if values.len() != expected {
            return Err(SqlError::InsertWidth {
                table: self.table.to_owned(),
                expected,
                given: values.len(),
            });
        }
        let cells = fields.iter().enumerate().map(|(place, field)| {
            let at = match columns.is_empty() {
                true => Some(place),
                false => columns.iter().position(|name| same(name, &field.name)),
            };
            at.and_then(|at| values.get(at))
                .map_or(Cell::Omitted, given)
        });
        Ok(cells.collect())
    }

    /// The columns of the source by name; `lacking` where it has none.
    fn all(&self, lacking: &Cell) -> Result<Vec<Cell>, SqlError> {
        let fields = self.schema.fields.iter().enumerate();
        let cells = fields.map(|(place, field)| {
            let name = fold(&field.name);
            if self.names.source_columns.contains(&name) {
                let qualified = vec![
                    Ident::with_quote('"', self.names.source),
                    Ident::with_quote('"', name),
                ];
                return Ok(Cell::Given(Box::new(Expr::CompoundIdentifier(qualified))));
            }
            if self.evolve || self.rules.fills(place) {
                return Ok(lacking.clone());
            }
            Err(SqlError::UnknownColumn {
                name: field.name.clone(),
                table: Some(format!("{} (the source, for *)", self.names.source)),
                near: Vec::new(),
            })
        });
        cells.collect()
    }

    fn check_columns<'s>(&self, names: impl Iterator<Item = &'s String>) -> Result<(), SqlError> {
        let mut seen = BTreeSet::new();
        for name in names {
            if self.schema.field(name).is_none() {
                let known = self.schema.fields.iter().map(|f| f.name.as_str());
                return Err(SqlError::UnknownColumn {
                    name: name.clone(),
                    table: Some(self.table.to_owned()),
                    near: near(name, known),
                });
            }
            if !seen.insert(fold(name)) {
                return Err(SqlError::DuplicateColumn { name: name.clone() });
            }
        }
        Ok(())
    }

    fn check_not_null(&self, cells: &[Cell]) -> Result<(), SqlError> {
        let fields = self.schema.fields.iter().zip(cells).enumerate();
        let mut lacking = fields.filter(|(place, (field, cell))| {
            matches!(cell, Cell::Omitted) && !field.nullable && !self.rules.fills(*place)
        });
        match lacking.next() {
            None => Ok(()),
            Some((_, (field, _))) => Err(SqlError::MissingNotNull {
                table: self.table.to_owned(),
                column: field.name.clone(),
            }),
        }
    }

    fn supplied(&self, act: &Act) -> Supplied {
        match act {
            Act::Nothing | Act::Delete => Supplied::all(self.schema),
            Act::Insert(cells) => {
                let supply = cells.iter().map(|cell| match cell {
                    Cell::Given(_) => Supply::Given,
                    Cell::Kept | Cell::Omitted => Supply::Omitted,
                });
                Supplied::new(supply.collect())
            }
            Act::Update(cells) => {
                let is_assigned =
                    |place: usize| matches!(cells.get(place), Some(Cell::Given(_) | Cell::Omitted));
                let by_rules = self.rules.supplied_by_update(is_assigned);
                let supply = cells.iter().enumerate().map(|(place, cell)| match cell {
                    Cell::Omitted => Supply::Omitted,
                    Cell::Given(_) | Cell::Kept => by_rules.of(place),
                });
                Supplied::new(supply.collect())
            }
        }
    }
}

fn given(expr: &Expr) -> Cell {
    match is_default(expr) {
        true => Cell::Omitted,
        false => Cell::Given(Box::new(expr.clone())),
    }
}
