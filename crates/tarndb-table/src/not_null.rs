//! Whether a column has a NULL in the rows of a table.
//!
//! Invariant: a file is left out only where its partition value or its statistics show that it
//! has none.
//! Does not: read files; whoever has the store does.
//! Spec: docs/conflicts.md, "Schema and properties".

use std::sync::Arc;

use crate::deletion_vector::Deletion;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::schema::path::ColumnPath;
use crate::schema::{DataType, Field, Schema};
use crate::state::TableState;

/// What is to be looked at before a column may not be NULL any more.
#[derive(Clone, Debug)]
pub struct NotNullCheck {
    /// The column, as the schema spells it.
    pub column: ColumnPath,
    /// The one column of the table in which it lies, as it is.
    pub present: Schema,
    /// The same as it is to be: batches of rows must conform to it.
    pub required: Schema,
    /// The files that can hold a NULL.
    pub files: Vec<Arc<DataFile>>,
}

impl NotNullCheck {
    /// For a column of `state`; `None` when it is NOT NULL already.
    ///
    /// # Errors
    /// A column that is not there.
    pub fn new(state: &TableState, column: &ColumnPath) -> Result<Option<Self>, TableError> {
        let missing = || TableError::NoSuchColumn {
            column: column.to_string(),
        };
        let (path, field) = state.schema.field_at(column).ok_or_else(missing)?;
        if !field.nullable {
            return Ok(None);
        }
        let (present, required) = schemas(state, &path).ok_or_else(missing)?;
        let files = state.files.values();
        let files = files.filter(|file| may_hold_null(file, &path, field));
        Ok(Some(Self {
            files: files.collect(),
            column: path,
            present,
            required,
        }))
    }

    /// The files with deleted rows, as they are with them: readers see columns before they see
    /// that rows are deleted.
    pub fn whole(&self) -> Vec<Arc<DataFile>> {
        let shrunk = self.files.iter().filter(|file| !file.deletion.is_none());
        let whole = shrunk.map(|file| {
            let mut file = DataFile::clone(file);
            file.deletion = Deletion::None;
            Arc::new(file)
        });
        whole.collect()
    }
}

/// The one column of the table in which the path lies, as it is and as it is to be.
fn schemas(state: &TableState, path: &ColumnPath) -> Option<(Schema, Schema)> {
    let top = path.parts().next()?;
    let (_, field) = state.schema.field(top)?;
    let present = Schema::new(vec![field.clone()]);
    let mut required = present.clone();
    let siblings = required.fields_at_mut(path.parents())?;
    let field = siblings
        .iter_mut()
        .find(|field| field.name == path.leaf())?;
    field.nullable = false;
    Some((present, required))
}

/// Statistics that count no NULL rule it out; those of a field inside of another one also count
/// where the other is NULL, and then say more than there is.
fn may_hold_null(file: &Arc<DataFile>, path: &ColumnPath, field: &Field) -> bool {
    if let Some(value) = file.partition_values.get(field.stored_name())
        && path.is_top()
    {
        return value.is_none();
    }
    if field.data_type.is_nested() || matches!(field.data_type, DataType::Void) || !path.is_top() {
        return true;
    }
    let stats = file.stats.as_ref();
    let column = stats.and_then(|stats| stats.columns.get(&vec![field.stored_name().to_owned()]));
    column.and_then(|column| column.null_count) != Some(0)
}
