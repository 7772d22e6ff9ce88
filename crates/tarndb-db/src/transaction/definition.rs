//! Changes of a table's definition in short words.
//!
//! Invariant: each is one `MetadataChange`, re-applied to the head at commit; what others change
//! beside it stays.
//! Spec: docs/conflicts.md, "Aspects".

use tarndb_table::codec::MetadataChange;
use tarndb_table::{ColumnPath, DataType, Field, NamePath, NewColumn};
use tarndb_types::TableId;

use super::Transaction;
use crate::error::DbError;

impl Transaction {
    /// Adds a column, or a field to a struct, at any place; rows that are there have NULL in it.
    ///
    /// # Errors
    /// As those of [`Self::add_column`]; a parent or neighbour that is not there.
    pub async fn add_column_at(&mut self, id: TableId, column: NewColumn) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::AddColumn(column))
            .await
    }

    /// Renames a column or a field. No file is written anew: columns are mapped from then on,
    /// which older readers cannot read (a notice tells so).
    ///
    /// # Errors
    /// A column that is not there or that something refers to by name, a name that is taken.
    pub async fn rename_column(
        &mut self,
        id: TableId,
        column: ColumnPath,
        to: &str,
    ) -> Result<(), DbError> {
        let to = to.to_owned();
        self.change_metadata(id, MetadataChange::RenameColumn { column, to })
            .await
    }

    /// Drops a column or a field. No file is written anew, as with [`Self::rename_column`]; one
    /// that is added later under the same name has nothing of it.
    ///
    /// # Errors
    /// A column that is not there, is the last one, partitions or clusters the table, or that
    /// something refers to by name.
    pub async fn drop_column(&mut self, id: TableId, column: ColumnPath) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::DropColumn { column })
            .await
    }

    /// Gives a column a wider type. No file is written anew: their values are widened when they
    /// are read, which older readers cannot do (a notice tells so).
    ///
    /// # Errors
    /// A column that is not there or that an expression uses, a type that does not hold all
    /// values of the present one.
    pub async fn widen_column(
        &mut self,
        id: TableId,
        column: ColumnPath,
        to: DataType,
    ) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::WidenColumn { column, to })
            .await
    }

    /// Allows NULL in a column or a field, or forbids it after a look at the rows that are there.
    ///
    /// # Errors
    /// A column that is not there; a row that has NULL in it.
    ///
    /// # Cost
    /// Where NULL is forbidden, the column is read of the files whose statistics do not rule it
    /// out; nothing else.
    pub async fn set_nullable(
        &mut self,
        id: TableId,
        column: ColumnPath,
        nullable: bool,
    ) -> Result<(), DbError> {
        if !nullable {
            self.check_no_null(id, &column).await?;
        }
        let change = MetadataChange::SetNullable { column, nullable };
        self.change_metadata(id, change).await
    }

    /// Adds a column at the end; rows that are there have NULL in it. The same column added by
    /// others meanwhile is one column.
    ///
    /// # Errors
    /// A name that is taken, a type that cannot be stored, NOT NULL.
    pub async fn add_column(&mut self, id: TableId, field: Field) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::AddColumn(field.into()))
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

    /// Sets or (`None`) removes a domain of the table: a text that other engines keep and
    /// programs can use.
    ///
    /// # Errors
    /// A domain of the table format or of TarnDB itself.
    pub async fn set_domain(
        &mut self,
        id: TableId,
        domain: &str,
        configuration: Option<&str>,
    ) -> Result<(), DbError> {
        let change = MetadataChange::SetDomain {
            domain: domain.to_owned(),
            configuration: configuration.map(str::to_owned),
        };
        self.change_metadata(id, change).await
    }

    /// Clusters new data by columns, or by none: they always have statistics.
    ///
    /// # Errors
    /// A column that is not there or has no bounds, a partitioned table.
    pub async fn cluster_by(&mut self, id: TableId, columns: Vec<NamePath>) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::ClusterBy(columns))
            .await
    }

    /// Drops a feature of the table format that nothing of the table uses any more.
    ///
    /// # Errors
    /// What is in the way, by name.
    pub async fn drop_feature(&mut self, id: TableId, name: &str) -> Result<(), DbError> {
        self.change_metadata(id, MetadataChange::DropFeature(name.to_owned()))
            .await
    }
}
