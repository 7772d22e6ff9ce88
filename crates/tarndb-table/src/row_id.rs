//! Row tracking: which row is which, through every rewrite of the file that holds it.
//!
//! Invariant: a row's stable id is the value of its materialised column, or where that is NULL
//! or missing the id of the file's first row plus the row's position; likewise the version that
//! last changed it. Whoever copies a row writes both into the new file. A row of a file that no
//! commit has numbered yet has none, and gets one with its file.
//! Does not: give out ids; the codec does when it encodes a commit.
//! Spec: Delta PROTOCOL, "Row Tracking"; docs/format/delta.md, "Row tracking".

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema as ArrowSchema;
use futures::TryStreamExt;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::deletion_vector::RowSet;
use crate::error::TableError;
use crate::fragment::DataFile;
use crate::parquet::read::{FileToRead, LiveRows, ReadOptions, Wanted};
use crate::schema::{DataType, Field, Schema};

/// Property that makes row ids something to rely on.
pub const ENABLE_ROW_TRACKING: &str = "delta.enableRowTracking";
/// Property that names the column of materialised row ids.
pub const ROW_ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";
/// Property that names the column of materialised row commit versions.
pub const ROW_COMMIT_VERSION_COLUMN: &str =
    "delta.rowTracking.materializedRowCommitVersionColumnName";

/// The columns of a table's files that hold materialised ids. They are not in its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowIdColumns {
    /// Of row ids.
    pub id: String,
    /// Of row commit versions.
    pub version: String,
}

/// Id and commit version of a row, as far as they are known.
pub type StableId = (Option<i64>, Option<i64>);

impl RowIdColumns {
    /// Those of a table whose row ids are to be kept; `None` when they are not.
    pub fn of(properties: &BTreeMap<String, String>) -> Option<Self> {
        let enabled = properties.get(ENABLE_ROW_TRACKING)?;
        if !enabled.trim().eq_ignore_ascii_case("true") {
            return None;
        }
        Some(Self {
            id: properties.get(ROW_ID_COLUMN)?.clone(),
            version: properties.get(ROW_COMMIT_VERSION_COLUMN)?.clone(),
        })
    }

    /// The two columns, for a writer or a reader.
    pub fn fields(&self) -> [Field; 2] {
        [&self.id, &self.version].map(|name| Field::new(name.as_str(), DataType::Long, true))
    }

    /// `schema` with the two columns behind it.
    pub fn added_to(&self, schema: &Schema) -> Schema {
        let mut schema = schema.clone();
        schema.fields.extend(self.fields());
        schema
    }

    /// A batch whose last two columns were read from `file` as they stand there, with the stable
    /// ids of its rows in their place.
    ///
    /// # Errors
    /// `Internal` for a batch that was not read with [`Self::added_to`].
    pub fn resolved(&self, file: &DataFile, rows: &LiveRows) -> Result<RecordBatch, TableError> {
        let batch = &rows.batch;
        let kept = batch.num_columns().checked_sub(2).ok_or(NOT_READ)?;
        let mut columns = batch.columns().to_vec();
        let ids = stable(columns.get(kept), &rows.positions, file.base_row_id, true)?;
        let version = file.default_row_commit_version;
        let versions = stable(columns.get(kept + 1), &rows.positions, version, false)?;
        columns.truncate(kept);
        columns.extend([ids, versions]);
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        // Both columns may be NULL whatever the file says.
        let given = batch.schema();
        let fields = given.fields().iter().enumerate().map(|(at, field)| {
            let field = field.as_ref().clone();
            let nullable = at >= kept || field.is_nullable();
            field.with_nullable(nullable)
        });
        let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|source| {
            TableError::Arrow {
                context: "adding row ids",
                source,
            }
        })
    }
}

const NOT_READ: TableError = TableError::Internal {
    context: "row ids of a batch that was read without them",
};

/// Materialised values where there are any, else those that follow from the file.
fn stable(
    materialised: Option<&ArrayRef>,
    positions: &[u64],
    base: Option<i64>,
    counts: bool,
) -> Result<ArrayRef, TableError> {
    let materialised = materialised
        .and_then(|array| array.as_primitive_opt::<Int64Type>())
        .ok_or(NOT_READ)?;
    let mut values = Int64Builder::with_capacity(positions.len());
    for (row, position) in positions.iter().enumerate() {
        let written = (materialised.is_valid(row)).then(|| materialised.values().get(row).copied());
        let offset = if counts {
            i64::try_from(*position).ok()
        } else {
            Some(0)
        };
        let fresh = || base?.checked_add(offset?);
        values.append_option(written.flatten().or_else(fresh));
    }
    Ok(Arc::new(values.finish()))
}

/// Stable ids of rows as two columns, in the order of the rows.
pub fn id_arrays(ids: &[StableId]) -> [ArrayRef; 2] {
    let row_ids: Int64Array = ids.iter().map(|(id, _)| *id).collect();
    let versions: Int64Array = ids.iter().map(|(_, version)| *version).collect();
    [Arc::new(row_ids), Arc::new(versions)]
}

/// Stable ids of rows of a file, by position.
///
/// # Errors
/// As reading the file; a position beyond it.
///
/// # Cost
/// That of [`FileToRead::open`]; about one ranged GET per row group with a wanted row when the
/// file has materialised ids.
pub async fn stable_ids(
    store: &Store,
    location: &Path,
    file: &DataFile,
    columns: &RowIdColumns,
    positions: &RowSet,
) -> Result<BTreeMap<u64, StableId>, TableError> {
    let schema = Schema::new(columns.fields().to_vec());
    let opened = FileToRead::open(store, location, file, &schema, &[]).await?;
    if !opened.has_any_column() {
        let computed = positions.iter().map(|position| {
            let offset = i64::try_from(position).ok();
            let id = file.base_row_id.zip(offset);
            let id = id.and_then(|(base, offset)| base.checked_add(offset));
            (position, (id, file.default_row_commit_version))
        });
        return Ok(computed.collect());
    }
    let selected = opened.select(Wanted::Only(positions), ReadOptions::default())?;
    let mut rows = selected.into_rows()?;
    let mut found = BTreeMap::new();
    while let Some(rows) = rows.try_next().await? {
        let batch = columns.resolved(file, &rows)?;
        let [ids, versions] = [0, 1].map(|at| {
            let column = batch.columns().get(at);
            column.and_then(|array| array.as_primitive_opt::<Int64Type>())
        });
        let (Some(ids), Some(versions)) = (ids, versions) else {
            return Err(NOT_READ);
        };
        let pairs = ids.iter().zip(versions.iter());
        found.extend(rows.positions.iter().copied().zip(pairs));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;

    use super::*;

    #[test]
    fn materialised_id_wins_and_a_missing_one_follows_from_the_file() {
        let written: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, None]));
        let ids = stable(Some(&written), &[0, 2, 5], Some(100), true).unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![7, 102, 105]));
        assert_eq!(&ids, &expected);
        let versions = stable(Some(&written), &[0, 2, 5], Some(3), false).unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![7, 3, 3]));
        assert_eq!(&versions, &expected);
        let unnumbered = stable(Some(&written), &[0, 2, 5], None, true).unwrap();
        assert_eq!(unnumbered.null_count(), 2);
    }

    #[test]
    fn only_an_enabled_table_with_both_names_has_columns() {
        let mut properties = BTreeMap::from([
            (ROW_ID_COLUMN.to_owned(), "i".to_owned()),
            (ROW_COMMIT_VERSION_COLUMN.to_owned(), "v".to_owned()),
        ]);
        assert_eq!(RowIdColumns::of(&properties), None);
        properties.insert(ENABLE_ROW_TRACKING.to_owned(), "TRUE".to_owned());
        assert!(RowIdColumns::of(&properties).is_some());
        properties.remove(ROW_ID_COLUMN);
        assert_eq!(RowIdColumns::of(&properties), None);
    }
}
