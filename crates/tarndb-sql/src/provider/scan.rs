//! The physical plan of a table scan.
//!
//! Invariant: each file comes with a selection of its live rows, loaded before the plan
//! exists, so that no plan can be without its mask; a scan without columns reads no file when the
//! log says how many rows there are.
//! Spec: Delta PROTOCOL, "Deletion Vectors", "Partition Value Serialization".

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use parquet::arrow::RowNumber;
use tarndb_table::{
    DataFile, TableError, parquet_row_count, parse_partition_value, scalar_to_array,
};

use crate::error::translate::carry_table;
use crate::name::same;
use crate::provider::damage::OfTable;
use crate::provider::kept::Numbered;
use crate::provider::reader::Readers;
use crate::provider::statistics::{self, Place};
use crate::provider::{Hidden, Pinned, TarnTable, counted, own, prune, selection, sought};

/// Deletion vectors and row counts loaded at the same time.
const PARALLEL_LOADS: usize = 16;

/// The hidden column with the index of a row's file.
pub(crate) fn file_field(hidden: &Hidden) -> FieldRef {
    Arc::new(Field::new(&hidden.file, DataType::UInt32, false))
}

/// The hidden column with a row's position, which the Parquet reader fills in.
pub(crate) fn position_field(hidden: &Hidden) -> FieldRef {
    let field = Field::new(&hidden.position, DataType::Int64, false);
    Arc::new(field.with_extension_type(RowNumber))
}

/// Plans a scan.
///
/// # Cost
/// One ranged GET for each stored deletion vector of the files that stay.
pub(crate) async fn plan(
    table: &TarnTable,
    session: &dyn Session,
    projection: Option<&Vec<usize>>,
    filters: &[Expr],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let projection = match projection {
        Some(indices) => indices.clone(),
        None => (0..table.folded.fields().len()).collect(),
    };
    let output = Arc::new(table.folded.project(&projection)?);
    if projection.is_empty()
        && filters.is_empty()
        && let Some(rows) = counted::plan(table, session, limit)?
    {
        return Ok(rows);
    }
    let kept = prune::matching(session, table, filters, limit)?;
    let kept = sought::retain(table, kept)?;
    let kept = table.kept.number(kept);
    if kept.is_empty() {
        return Ok(Arc::new(EmptyExec::new(output)));
    }
    let partitions = session.config_options().execution.target_partitions.max(1);
    if own::is_needed(&table.pinned.state.schema) {
        return own::plan(table, &projection, output, &kept, partitions, limit);
    }
    let layout = Layout::of(table);
    let places = layout.of_projection(&projection);
    let files = load_files(table, &layout, &places, &kept).await?;
    let unknown = Statistics::new_unknown(layout.schema.table_schema());
    let statistics = statistics::of_scan(unknown, &places, &kept, table.pinned.is_own());
    let options = TableParquetOptions {
        global: session.config_options().execution.parquet.clone(),
        ..Default::default()
    };
    let readers = Readers(table.pinned.store.clone());
    let source = ParquetSource::new(layout.schema.clone())
        .with_table_parquet_options(options)
        .with_parquet_file_reader_factory(Arc::new(readers));
    let indices = projection
        .iter()
        .map(|index| layout.position(*index))
        .collect();
    let config = FileScanConfigBuilder::new(table.pinned.store_url.clone(), Arc::new(source))
        .with_file_groups(FileGroup::new(files).split_files(partitions))
        .with_statistics(statistics)
        .with_projection_indices(Some(indices))?
        .with_limit(limit)
        .build();
    rename(DataSourceExec::from_data_source(config), &output)
}

/// Gives the columns their folded names, where these differ from the files'.
fn rename(plan: Arc<dyn ExecutionPlan>, output: &Schema) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let pairs = schema.fields().iter().zip(output.fields());
    if pairs
        .clone()
        .all(|(given, wanted)| given.name() == wanted.name())
    {
        return Ok(plan);
    }
    let columns = pairs
        .enumerate()
        .map(|(index, (given, wanted))| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(given.name(), index));
            (column, wanted.name().clone())
        })
        .collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}

/// How the columns lie in a scan: those of the files, partition columns, the file's index, the
/// position.
struct Layout {
    schema: TableSchema,
    /// Place in the scan of each column of the table, hidden ones last.
    positions: Vec<usize>,
    /// Partition columns in scan order.
    partitions: Vec<tarndb_table::Field>,
    /// The columns of the table, without the hidden ones.
    columns: Vec<Place>,
}

impl Layout {
    fn of(table: &TarnTable) -> Self {
        let state = &table.pinned.state;
        let fields = state.schema.fields.iter().zip(table.stored.fields());
        let is_partition = |name: &str| {
            state
                .partition_columns
                .iter()
                .any(|column| same(column, name))
        };
        let mut file_fields = Vec::<FieldRef>::new();
        let mut partition_fields = Vec::<FieldRef>::new();
        let mut partitions = Vec::new();
        let mut places = Vec::new();
        for (field, arrow) in fields {
            let stored = match field.physical {
                None => Arc::clone(arrow),
                Some(_) => Arc::new(arrow.as_ref().clone().with_name(field.stored_name())),
            };
            if is_partition(&field.name) {
                places.push((true, partition_fields.len()));
                partition_fields.push(stored);
                partitions.push(field.clone());
            } else {
                places.push((false, file_fields.len()));
                file_fields.push(stored);
            }
        }
        if let Some(hidden) = &table.hidden {
            places.push((true, partition_fields.len()));
            partition_fields.push(file_field(hidden));
        }
        let first_partition = file_fields.len();
        let mut positions = places
            .iter()
            .map(|(partition, place)| {
                if *partition {
                    first_partition + place
                } else {
                    *place
                }
            })
            .collect::<Vec<_>>();
        let mut virtual_fields = Vec::<FieldRef>::new();
        if let Some(hidden) = &table.hidden {
            positions.push(first_partition + partition_fields.len());
            virtual_fields.push(position_field(hidden));
        }
        let schema = TableSchema::builder(Arc::new(Schema::new(file_fields)))
            .with_table_partition_cols(partition_fields)
            .with_virtual_columns(Fields::from(virtual_fields))
            .build();
        let fields = state.schema.fields.iter().zip(&positions).zip(&places);
        let columns = fields.map(|((field, index), (is_partition, _))| Place {
            index: *index,
            field: field.clone(),
            is_partition: *is_partition,
        });
        Self {
            schema,
            columns: columns.collect(),
            positions,
            partitions,
        }
    }

    /// The columns that a scan gives out, without the hidden ones.
    fn of_projection(&self, projection: &[usize]) -> Vec<Place> {
        let columns = projection
            .iter()
            .filter_map(|index| self.columns.get(*index));
        columns.cloned().collect()
    }

    fn position(&self, column: usize) -> usize {
        self.positions.get(column).copied().unwrap_or(column)
    }
}

async fn load_files(
    table: &TarnTable,
    layout: &Layout,
    places: &[Place],
    kept: &[Numbered],
) -> Result<Vec<PartitionedFile>> {
    let hidden = table.hidden.is_some();
    let (width, own) = (
        layout.schema.file_schema().fields().len(),
        table.pinned.is_own(),
    );
    let loads: Vec<_> = kept
        .iter()
        .map(|(number, file)| async move {
            let known = statistics::of_file(width, places, file, kept.len(), own);
            let mut loaded = load_file(&table.pinned, layout, file, *number, hidden).await?;
            // Without those of partition columns, which the engine takes from their values.
            loaded.statistics = known.map(Arc::new);
            Ok(loaded)
        })
        .collect();
    let loads = futures::stream::iter(loads).buffered(PARALLEL_LOADS);
    loads
        .map_err(|error| carry_table(&table.pinned.name, error))
        .try_collect()
        .await
}

async fn load_file(
    pinned: &Pinned,
    layout: &Layout,
    file: &DataFile,
    index: usize,
    hidden: bool,
) -> Result<PartitionedFile, TableError> {
    let key = file.key(&pinned.location)?;
    let mut values = layout
        .partitions
        .iter()
        .map(|field| partition_scalar(file, field))
        .collect::<Result<Vec<_>, _>>()?;
    if hidden {
        values.push(ScalarValue::UInt32(u32::try_from(index).ok()));
    }
    let modified = chrono::DateTime::from_timestamp_millis(file.modification_time_ms);
    let meta = ObjectMeta {
        location: key.clone(),
        last_modified: modified.unwrap_or_default(),
        size: file.size_bytes,
        e_tag: None,
        version: None,
    };
    let scanned = PartitionedFile::new_from_meta(meta)
        .with_partition_values(values)
        .with_extension(OfTable(pinned.name.as_str().into()));
    if file.deletion.is_none() {
        return Ok(scanned);
    }
    let deleted = pinned.deleted_rows(&file.deletion).await?;
    let rows = match file.num_records() {
        Some(rows) => rows,
        None => parquet_row_count(&pinned.store, &pinned.location, file).await?,
    };
    let live = selection::live_rows(&file.path, rows, &deleted)?;
    Ok(scanned.with_extension(ParquetRowSelection::new(live)))
}

fn partition_scalar(
    file: &DataFile,
    field: &tarndb_table::Field,
) -> Result<ScalarValue, TableError> {
    let text = file
        .partition_values
        .iter()
        .find(|(key, _)| same(key, field.stored_name()));
    let text = text.and_then(|(_, value)| value.as_deref());
    let scalar = parse_partition_value(text, &field.data_type)?;
    let array = scalar_to_array(scalar.as_ref(), &field.data_type, 1)?;
    ScalarValue::try_from_array(&array, 0).map_err(|_| TableError::MalformedPartitionValue {
        data_type: field.data_type.to_string(),
        text: text.unwrap_or_default().to_owned(),
    })
}
