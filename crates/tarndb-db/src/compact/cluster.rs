//! Clustering: files written anew with their rows in an order that makes files narrow in some
//! columns, so that queries which filter by these leave most files out.
//!
//! Invariant: as of every rewrite: no row appears, disappears or changes. The rows are put in
//! order by a [`RowSorter`] of the caller, for sorting more than memory holds is the query
//! engine's work; what it gives back is checked by the count of its rows.
//! Does not: choose the columns, or the files (`plan`).
//! Spec: docs/guide/maintenance.md, "Clustering"; docs/conflicts.md, "Row maps".

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::compute::cast;
use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema};
use arrow_schema::{Fields, SchemaRef};
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use tarndb_table::{DataFile, DataType, NamePath, Schema, TableError, TableState, TableWriter};

use super::plan::Bin;
use super::ranges::{Ranges, Samples};
use super::rewrite::Job;
use super::trail::Trail;
use crate::error::DbError;

/// Columns of an order at most.
pub const CLUSTER_COLUMNS_MAX: usize = 8;

/// What the format calls files whose rows are in the order of the table's clustering columns.
const PROVIDER: &str = "liquid";

/// Columns that every sorted batch has behind those of the table.
const OWN_COLUMNS: usize = 3;

/// Batches of rows; an error of the sorter comes as [`DbError::Source`].
pub type SortedRows = BoxStream<'static, Result<RecordBatch, DbError>>;

/// Puts rows in order, more than memory holds.
#[async_trait]
pub trait RowSorter: Debug + Send + Sync {
    /// `rows`, which have this schema, in ascending order of the last three columns: a key
    /// (`Binary`, never NULL), a `UInt32` and a `UInt64`.
    ///
    /// # Errors
    /// [`DbError::Source`] for what the sorting itself fails with; errors of `rows` as they are.
    async fn sort(&self, schema: SchemaRef, rows: SortedRows) -> Result<SortedRows, DbError>;
}

/// By what the rows of files are put in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clustering {
    /// Columns by the names that the table shows, a field of a struct by its path.
    pub columns: Vec<NamePath>,
    /// These are the table's own clustering columns: new files are marked, and files that bear
    /// the mark are left as they are.
    pub marks: bool,
}

impl Clustering {
    /// That of the table itself; `None` for a table without clustering columns.
    pub fn of_table(state: &TableState) -> Option<Self> {
        let columns = state.clustering_columns.iter();
        let columns: Option<Vec<NamePath>> =
            columns.map(|path| shown(path, &state.schema)).collect();
        let columns = columns.filter(|columns| !columns.is_empty())?;
        let marks = true;
        Some(Self { columns, marks })
    }

    /// Whether files can be narrow in the columns.
    ///
    /// # Errors
    /// [`TableError::RefusedChange`]: a column that is not there, is named twice, or whose type
    /// has no bounds; too many.
    pub fn check(&self, state: &TableState) -> Result<(), TableError> {
        let refused = |column: &NamePath, reason: &str| TableError::RefusedChange {
            operation: format!("clustering by {}", column.join(".")),
            reason: reason.to_owned(),
        };
        if let Some(further) = self.columns.get(CLUSTER_COLUMNS_MAX) {
            return Err(refused(further, "these are more than eight columns"));
        }
        for (at, column) in self.columns.iter().enumerate() {
            let key = Key::find(column, &state.schema)
                .ok_or_else(|| refused(column, "there is no such column"))?;
            if !has_bounds(&key.data_type) {
                return Err(refused(column, "there are no bounds of its type"));
            }
            let partitions = state.partition_columns.iter();
            if partitions
                .into_iter()
                .any(|name| same(name, &column.join(".")))
            {
                return Err(refused(column, "the table is partitioned by it already"));
            }
            let earlier = self.columns.iter().take(at);
            if earlier
                .into_iter()
                .any(|other| same(&other.join("."), &column.join(".")))
            {
                return Err(refused(column, "it is named twice"));
            }
        }
        Ok(())
    }
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn has_bounds(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Struct(_)
            | DataType::Array { .. }
            | DataType::Map { .. }
            | DataType::Variant
            | DataType::Binary
            | DataType::Boolean
    )
}

/// The names that the table shows for a path of stored names.
fn shown(stored: &NamePath, schema: &Schema) -> Option<NamePath> {
    let mut fields = &schema.fields;
    let mut path = Vec::new();
    for name in stored {
        let field = fields.iter().find(|field| field.stored_name() == name)?;
        path.push(field.name.clone());
        if let DataType::Struct(inner) = &field.data_type {
            fields = inner;
        }
    }
    Some(path)
}

/// One column of an order.
#[derive(Clone, Debug)]
struct Key {
    /// Places: of the column, and of the fields inside.
    path: Vec<usize>,
    data_type: DataType,
}

impl Key {
    fn find(column: &NamePath, schema: &Schema) -> Option<Self> {
        let mut fields = &schema.fields;
        let mut path = Vec::new();
        let mut data_type = None;
        for name in column {
            let exact = fields.iter().position(|field| field.name == *name);
            let at = exact.or_else(|| fields.iter().position(|field| same(&field.name, name)))?;
            let field = fields.get(at)?;
            path.push(at);
            data_type = Some(field.data_type.clone());
            if let DataType::Struct(inner) = &field.data_type {
                fields = inner;
            }
        }
        let data_type = data_type?;
        Some(Self { path, data_type })
    }

    /// Its values; NULL where a struct around it is.
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
        let missing = || ArrowError::SchemaError("a column of the order is missing".to_owned());
        let (first, inner) = self.path.split_first().ok_or_else(missing)?;
        let mut array = Arc::clone(batch.columns().get(*first).ok_or_else(missing)?);
        for at in inner {
            let of = array.as_struct_opt().ok_or_else(missing)?;
            let field = of.columns().get(*at).ok_or_else(missing)?;
            let nulls = arrow::compute::is_not_null(&array)?;
            let nulls = arrow::compute::not(&nulls)?;
            array = arrow::compute::nullif(field, &nulls)?;
        }
        Ok(array)
    }
}

/// How a bin is put in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order<'a> {
    pub(super) clustering: &'a Clustering,
    pub(super) sorter: &'a dyn RowSorter,
    /// Runs of which a row map is kept at most.
    pub(super) runs_max: usize,
}

impl Order<'_> {
    /// Says of new files that they are clustered.
    pub(super) fn mark(&self, files: &mut [DataFile]) {
        for file in files {
            file.clustering_provider = Some(PROVIDER.to_owned());
        }
    }

    /// What the table's history tells.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let names: Vec<String> = self
            .clustering
            .columns
            .iter()
            .map(|c| c.join("."))
            .collect();
        let names = serde_json::Value::from(names).to_string();
        let key = match self.clustering.marks {
            true => "clusterBy",
            false => "zOrderBy",
        };
        BTreeMap::from([(key.to_owned(), names)])
    }

    /// Copies the live rows of a bin in order.
    pub(super) async fn copy(
        &self,
        job: &Arc<Job>,
        bin: &Bin,
        first_source: usize,
        trail: &mut Trail,
        writer: &mut TableWriter,
    ) -> Result<(), DbError> {
        let keys = self.keys(job)?;
        let ranges = match keys.len() {
            0 | 1 => None,
            _ => Some(sampled(job, bin, &keys).await?),
        };
        let keyed = Keyed {
            schema: keyed_schema(job),
            keys,
            ranges,
        };
        let schema = Arc::clone(&keyed.schema);
        let read = Arc::new(AtomicU64::new(0));
        let rows = keyed_rows(job, bin, first_source, Arc::new(keyed))?;
        let counted = Arc::clone(&read);
        let rows = rows.inspect_ok(move |batch| {
            counted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        });
        let rows = rows.boxed();
        let mut written = 0;
        let mut sorted = self.sorter.sort(Arc::clone(&schema), rows).await?;
        let own = schema.fields().len().saturating_sub(OWN_COLUMNS);
        let columns: Vec<usize> = (0..own).collect();
        while let Some(batch) = sorted.try_next().await? {
            note(&batch, own, trail)?;
            written += batch.num_rows() as u64;
            let rows = batch.project(&columns).map_err(|_| NOT_SORTED)?;
            writer.write(&rows).await.map_err(job.failed())?;
        }
        if written != read.load(Ordering::Relaxed) {
            return Err(DbError::Internal {
                what: "sorting rows gave another number of them",
            });
        }
        Ok(())
    }

    fn keys(&self, job: &Job) -> Result<Vec<Key>, DbError> {
        self.clustering.check(&job.state).map_err(job.failed())?;
        let keys = self.clustering.columns.iter();
        let keys: Option<Vec<Key>> = keys.map(|c| Key::find(c, &job.state.schema)).collect();
        Ok(keys.unwrap_or_default())
    }
}

const NOT_SORTED: DbError = DbError::Internal {
    what: "sorted rows without the columns that say where they are from",
};

/// Notes where the rows of a sorted batch come from.
fn note(batch: &RecordBatch, own: usize, trail: &mut Trail) -> Result<(), DbError> {
    let sources = batch.columns().get(own + 1);
    let sources = sources.and_then(|array| array.as_primitive_opt::<UInt32Type>());
    let positions = batch.columns().get(own + 2);
    let positions = positions.and_then(|array| array.as_primitive_opt::<UInt64Type>());
    let (Some(sources), Some(positions)) = (sources, positions) else {
        return Err(NOT_SORTED);
    };
    for (source, position) in sources.values().iter().zip(positions.values()) {
        trail.note(*source, std::slice::from_ref(position));
    }
    Ok(())
}

/// The table's columns, those of row ids, and ours.
fn keyed_schema(job: &Job) -> SchemaRef {
    let columns = job.row_ids().map(|ids| ids.added_to(&job.state.schema));
    let arrow = columns.as_ref().unwrap_or(&job.state.schema).to_arrow();
    let nullable = |field: &Arc<ArrowField>| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut fields: Vec<_> = arrow.fields().iter().map(nullable).collect();
    for (name, data_type) in [
        ("\u{1}key", ArrowType::Binary),
        ("\u{1}source", ArrowType::UInt32),
        ("\u{1}position", ArrowType::UInt64),
    ] {
        fields.push(Arc::new(ArrowField::new(name, data_type, false)));
    }
    Arc::new(ArrowSchema::new(Fields::from(fields)))
}

/// What gives rows their keys.
struct Keyed {
    schema: SchemaRef,
    keys: Vec<Key>,
    /// For more than one column.
    ranges: Option<Ranges>,
}

impl Keyed {
    fn batch(
        &self,
        batch: &RecordBatch,
        source: u32,
        positions: Vec<u64>,
    ) -> Result<RecordBatch, ArrowError> {
        let values = self.keys.iter().map(|key| key.values(batch));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let key: ArrayRef = match &self.ranges {
            Some(ranges) => ranges.keys(&values, batch.num_rows())?,
            None => plain_keys(values.first(), batch.num_rows())?,
        };
        let wanted = self.schema.fields().iter();
        let mut columns = Vec::with_capacity(wanted.len());
        for (column, field) in batch.columns().iter().zip(wanted) {
            columns.push(match column.data_type() == field.data_type() {
                true => Arc::clone(column),
                // Fields that an older file lacks may be NULL where the table's may not.
                false => cast(column, field.data_type())?,
            });
        }
        columns.push(key);
        columns.push(Arc::new(UInt32Array::from(vec![source; positions.len()])));
        columns.push(Arc::new(UInt64Array::from(positions)));
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Values of one column as they compare.
fn plain_keys(values: Option<&ArrayRef>, rows: usize) -> Result<ArrayRef, ArrowError> {
    let mut keys = BinaryBuilder::with_capacity(rows, rows * 9);
    match values {
        None => (0..rows).for_each(|_| keys.append_value([])),
        Some(values) => {
            super::ranges::each_value(values, |_, value| keys.append_value(value))?;
        }
    }
    Ok(Arc::new(keys.finish()))
}

/// The rows of a bin with their keys, read as they are taken.
fn keyed_rows(
    job: &Arc<Job>,
    bin: &Bin,
    first_source: usize,
    keyed: Arc<Keyed>,
) -> Result<SortedRows, DbError> {
    let mut inputs = Vec::with_capacity(bin.files.len());
    for (at, file) in bin.files.iter().enumerate() {
        let source = u32::try_from(first_source + at).map_err(|_| DbError::Internal {
            what: "more files than a row map can name",
        })?;
        inputs.push((source, Arc::clone(file)));
    }
    let job = Arc::clone(job);
    let opened = futures::stream::iter(inputs).then(move |(source, file)| {
        let (job, keyed) = (Arc::clone(&job), Arc::clone(&keyed));
        async move {
            let ids = job.row_ids();
            let rows = job.open(&file).await?;
            let rows = rows.map(move |live| {
                let live = live.map_err(job.failed())?;
                let batch = match &ids {
                    Some(ids) => ids.resolved(&file, &live).map_err(job.failed())?,
                    None => live.batch,
                };
                let keyed = keyed.batch(&batch, source, live.positions);
                keyed.map_err(|source| arrow_failed(&job, source))
            });
            Ok::<_, DbError>(rows)
        }
        .boxed()
    });
    Ok(opened.try_flatten().boxed())
}

fn arrow_failed(job: &Job, source: ArrowError) -> DbError {
    let context = "ordering rows";
    job.failed()(TableError::Arrow { context, source })
}

/// The ranges into which some rows of a bin divide the values of each column.
async fn sampled(job: &Arc<Job>, bin: &Bin, keys: &[Key]) -> Result<Ranges, DbError> {
    let rows: u64 = bin.files.iter().filter_map(|file| file.num_records()).sum();
    let mut samples = Samples::new(keys.len(), rows);
    // Only the columns that are asked for, each once.
    let mut tops: Vec<usize> = keys
        .iter()
        .filter_map(|key| key.path.first().copied())
        .collect();
    tops.sort_unstable();
    tops.dedup();
    let fields = tops
        .iter()
        .filter_map(|at| job.state.schema.fields.get(*at));
    let schema = Schema::new(fields.cloned().collect());
    let within = |key: &Key| {
        let mut key = key.clone();
        if let Some(first) = key.path.first_mut() {
            *first = tops.iter().position(|at| at == first).unwrap_or(0);
        }
        key
    };
    let keys: Vec<Key> = keys.iter().map(within).collect();
    for file in &bin.files {
        let mut rows = job.open_columns(file, &schema).await?;
        while let Some(live) = rows.try_next().await.map_err(job.failed())? {
            let values = keys.iter().map(|key| key.values(&live.batch));
            let noted = values
                .collect::<Result<Vec<_>, _>>()
                .and_then(|values| samples.note(&values, live.batch.num_rows()));
            noted.map_err(|source| arrow_failed(job, source))?;
        }
    }
    Ok(samples.ranges())
}
