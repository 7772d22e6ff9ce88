//! Changes of a table's definition in short words.
//!
//! Invariant: each is one `MetadataChange`, re-applied to the head at commit; what others change
//! beside it stays.
//! Spec: docs/conflicts.md, "Aspects".

use tarndb_table::Field;
use tarndb_table::codec::MetadataChange;
use tarndb_types::TableId;

use super::Transaction;
use crate::error::DbError;

impl Transaction {
    /// Adds a column at the end; rows that are there have NULL in it. The same column added by
    /// others meanwhile is one column.
    ///
    /// # Errors
    /// A name that is taken, a type that cannot be stored, NOT NULL.
    pub async fn add_column(&mut self, id: TableId, field: Field) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::AddColumn(field))
            .await
    }

    /// Sets or (`None`) removes the comment of a column, or of the table itself.
    ///
    /// # Errors
    /// A column that is not there.
    pub async fn set_comment(
        &mut self,
        id: TableId,
        column: Option<&str>,
        text: Option<&str>,
    ) -> Result<(), DbError> {
        let change = MetadataChange::SetComment {
            column: column.map(str::to_owned),
            text: text.map(str::to_owned),
        };
        self.change_metadata(id, change).await
    }

    /// Sets or (`None`) removes a property of the table.
    ///
    /// # Errors
    /// A property or value that this build cannot obey.
    pub async fn set_property(
        &mut self,
        id: TableId,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), DbError> {
        let key = key.to_owned();
        let change = match value {
            Some(value) => MetadataChange::SetProperty {
                key,
                value: value.to_owned(),
            },
            None => MetadataChange::UnsetProperty { key },
        };
        self.change_metadata(id, change).await
    }
}
