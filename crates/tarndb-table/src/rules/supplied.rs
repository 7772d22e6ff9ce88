//! `Supplied`: where the values of each column of some rows come from.
//!
//! Invariant: one entry per column of the table, in its order.

use crate::error::TableError;
use crate::schema::Schema;

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Somebody says them.
    Given,
    /// They were in the table and stay what they are.
    Kept,
    /// Nobody says them: the table's rules do, or they are NULL.
    Omitted,
}

/// Where the values of each column come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supplied(Vec<Supply>);

impl Supplied {
    /// Every column is given.
    pub fn all(schema: &Schema) -> Self {
        Self(vec![Supply::Given; schema.fields.len()])
    }

    /// The entries, one per column.
    pub fn new(columns: Vec<Supply>) -> Self {
        Self(columns)
    }

    /// Only the columns named are given, the others omitted.
    ///
    /// # Errors
    /// [`TableError::NoSuchColumn`], [`TableError::DuplicateColumn`].
    pub fn only<S: AsRef<str>>(schema: &Schema, names: &[S]) -> Result<Self, TableError> {
        let mut columns = vec![Supply::Omitted; schema.fields.len()];
        for name in names {
            let name = name.as_ref();
            let missing = || TableError::NoSuchColumn {
                column: name.to_owned(),
            };
            let (place, field) = schema.field(name).ok_or_else(missing)?;
            let entry = columns.get_mut(place).ok_or_else(missing)?;
            if *entry == Supply::Given {
                return Err(TableError::DuplicateColumn {
                    first: field.name.clone(),
                    second: name.to_owned(),
                });
            }
            *entry = Supply::Given;
        }
        Ok(Self(columns))
    }

    /// That of a column by its place; omitted beyond the end.
    pub fn of(&self, place: usize) -> Supply {
        self.0.get(place).copied().unwrap_or(Supply::Omitted)
    }

    /// The schema that rows have before the rules fill them: omitted columns may be NULL.
    pub fn input_schema(&self, schema: &Schema) -> Schema {
        let mut schema = schema.clone();
        for (place, field) in schema.fields.iter_mut().enumerate() {
            field.nullable |= self.of(place) == Supply::Omitted;
        }
        schema
    }
}
