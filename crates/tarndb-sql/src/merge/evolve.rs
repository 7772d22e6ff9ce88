//! MERGE WITH SCHEMA EVOLUTION: columns that the source has and the table lacks.
//!
//! Invariant: only clauses with `*` bring columns in, at the end of the table and nullable; rows
//! that are there have NULL in them. The change of the table is part of the same transaction.
//! Does not: add fields inside structs, or widen types.
//! Spec: docs/sql/merge.md, "Schema evolution".

use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use tarndb_table::{NewColumn, Position, Schema};
use tarndb_types::Uuid;

use crate::ddl::storable;
use crate::dml::Change;
use crate::error::SqlError;
use crate::parser::{Merge, MergeAction};
use crate::query::{Planned, output_schema};

/// Adds the columns.
pub(super) async fn evolve(
    change: &mut Change<'_>,
    merge: &Merge,
    source: &Planned,
) -> Result<(), SqlError> {
    let takes_all =
        |action: &MergeAction| matches!(action, MergeAction::UpdateAll | MergeAction::InsertAll);
    if !merge.clauses.iter().any(|clause| takes_all(&clause.action)) {
        return Ok(());
    }
    let id = change.scope().find(&merge.table)?;
    let state = change.txn.table(id).await?;
    let name = change.txn.entry(id)?.display_name();
    let given = output_schema(source.plan.schema().as_arrow(), &source.spelling);
    let missing = given
        .fields()
        .iter()
        .filter(|field| state.schema.field(field.name()).is_none())
        .map(|field| ArrowField::clone(field).with_nullable(true));
    let missing = ArrowSchema::new(missing.collect::<Vec<_>>());
    let missing = Schema::from_arrow(&storable(&missing)).map_err(SqlError::table(&name))?;
    for field in missing.fields {
        let new = NewColumn {
            parents: Vec::new(),
            field,
            position: Position::Last,
            seed: Uuid::nil(),
        };
        change.txn.add_column_at(id, new).await?;
    }
    Ok(())
}
