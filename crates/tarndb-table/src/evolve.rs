//! `NewColumn`: a column to be added, and where.
//!
//! Invariant: carries all that encoding it needs, so that it comes out the same, but for its
//! number, whenever it is applied anew to a later version of the table.
//! Does not: check anything (the codec does, against the table).
//! Spec: docs/conflicts.md, "Rebase".

use tarndb_types::Uuid;

use crate::schema::Field;
use crate::schema::path::ColumnPath;

/// Where among its siblings a new column stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// After all others.
    #[default]
    Last,
    /// Before all others.
    First,
    /// Right after another one.
    After(String),
}

/// A column to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewColumn {
    /// Names of the column, and of what is inside, in which it is added; none: it is a column of
    /// the table itself.
    pub parents: Vec<String>,
    /// The column.
    pub field: Field,
    /// Its place.
    pub position: Position,
    /// Random; names of the column in files are made from it where columns are mapped. The
    /// transaction fills it.
    pub seed: Uuid,
}

impl NewColumn {
    /// Where it will be.
    pub fn path(&self) -> ColumnPath {
        let mut parts = self.parents.clone();
        parts.push(self.field.name.clone());
        ColumnPath::new(parts).unwrap_or_else(|| ColumnPath::top(&self.field.name))
    }
}

impl From<Field> for NewColumn {
    fn from(field: Field) -> Self {
        Self {
            parents: Vec::new(),
            field,
            position: Position::Last,
            seed: Uuid::nil(),
        }
    }
}
