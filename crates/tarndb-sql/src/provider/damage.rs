//! Data files that cannot be read, named.
//!
//! Invariant: an error of the Parquet library that leaves a scan names the table and the file.
//! The scan reads several files at a time and its error does not say which one it was; so,
//! once a scan has failed, its files are read until one fails again.
//! Does not: change a scan that succeeds, or what EXPLAIN shows of it.

use std::any::Any;
use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::ArrowError;
use bytes::Bytes;
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use tarndb_db::{ErrorKind, table_kind};
use tarndb_storage::{Path, StoreError};
use tarndb_table::TableError;

use crate::error::SqlError;
use crate::error::translate::{carry, carry_table};

/// The table that a file of a scan belongs to, for messages; travels with the file.
#[derive(Clone, Debug)]
pub(crate) struct OfTable(pub(crate) Arc<str>);

/// Lets every Parquet scan of a finished plan name the file it failed on. The last rule: the
/// others look for the scans as the engine made them.
#[derive(Debug)]
pub(crate) struct NameDamage;

impl PhysicalOptimizerRule for NameDamage {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(named(&node).map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "name_damage"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn named(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let scan = node.downcast_ref::<DataSourceExec>()?;
    let (config, _) = scan.downcast_to_file_source::<ParquetSource>()?;
    let source: Arc<dyn DataSource> = Arc::new(NamedScan(Arc::new(config.clone())));
    Some(Arc::new(DataSourceExec::new(source)))
}

/// A Parquet scan that names the file it fails on.
#[derive(Debug)]
struct NamedScan(Arc<FileScanConfig>);

impl NamedScan {
    fn name_errors(
        &self,
        stream: SendableRecordBatchStream,
        context: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let (config, schema) = (Arc::clone(&self.0), stream.schema());
        let stream = stream.then(move |batch| {
            let (config, context) = (Arc::clone(&config), Arc::clone(&context));
            async move {
                match batch {
                    Err(error) => Err(explain(error, &config, &context).await),
                    batch => batch,
                }
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }
}

impl DataSource for NamedScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let context = Arc::clone(&args.context);
        let stream = self.0.open_with_args(args)?;
        Ok(self.name_errors(stream, context))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        self.0.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.0.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.0.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.0.partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.0.with_fetch(limit)
    }

    fn fetch(&self) -> Option<usize> {
        self.0.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.0.metrics()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        self.0.try_swapping_with_projection(projection)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn DataSource>> {
        self.0.with_new_state(state)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.create_sibling_state(config)
    }
}

/// The error with the file that caused it, when it is about one.
///
/// # Cost
/// Reads the files of the scan up to the damaged one, unless the error names its file.
async fn explain(
    error: DataFusionError,
    config: &FileScanConfig,
    context: &TaskContext,
) -> DataFusionError {
    if let Some((path, source)) = store_error(&error) {
        return match file_at(config, &path) {
            Some(file) => named_error(file, source),
            None => error,
        };
    }
    if !is_of_parquet(&error) {
        return error;
    }
    let Ok(store) = context.runtime_env().object_store(&config.object_store_url) else {
        return error;
    };
    let mut seen = BTreeSet::new();
    for file in config.file_groups.iter().flat_map(|group| group.iter()) {
        if seen.insert(&file.object_meta.location)
            && let Err(source) = read_all(Arc::clone(&store), file).await
        {
            return named_error(file, file_error(store.as_ref(), file, source).await);
        }
    }
    carry(SqlError::Engine {
        message: "a data file could not be read, though now all can: try again".to_owned(),
        sqlstate: "58030",
        kind: ErrorKind::Unavailable,
        hint: None,
    })
}

/// What is wrong with a file that was read again. Stores have their own words for a range that
/// an object does not have, so its size is looked at.
async fn file_error(
    store: &dyn ObjectStore,
    file: &PartitionedFile,
    source: ParquetError,
) -> TableError {
    let meta = &file.object_meta;
    let path = meta.location.to_string();
    let source = match source {
        ParquetError::External(source) => match source.downcast::<object_store::Error>() {
            Ok(source) => source,
            Err(source) => {
                let source = ParquetError::External(source);
                return TableError::DataFile { path, source };
            }
        },
        source => return TableError::DataFile { path, source },
    };
    if let Ok(found) = store.head(&meta.location).await
        && found.size < meta.size
    {
        return TableError::Store(StoreError::ShortRead {
            key: path,
            start: 0,
            end: meta.size,
            got: found.size,
        });
    }
    match StoreError::from_objects("read", &meta.location, *source) {
        StoreError::NotFound { key } => TableError::FileMissing { path: key },
        source => TableError::Store(source),
    }
}

/// The error of the table's file, or of a file that belongs to none.
fn named_error(file: &PartitionedFile, error: TableError) -> DataFusionError {
    match file.extension::<OfTable>() {
        Some(table) => carry_table(&table.0, error),
        None => carry(SqlError::Engine {
            message: match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
            sqlstate: "XX001",
            kind: table_kind(&error),
            hint: None,
        }),
    }
}

fn file_at<'a>(config: &'a FileScanConfig, path: &str) -> Option<&'a PartitionedFile> {
    let mut files = config.file_groups.iter().flat_map(|group| group.iter());
    files.find(|file| file.object_meta.location.as_ref() == path)
}

async fn read_all(store: Arc<dyn ObjectStore>, file: &PartitionedFile) -> Result<(), ParquetError> {
    let reader = Reader {
        store,
        meta: file.object_meta.clone(),
    };
    let mut rows = ParquetRecordBatchStreamBuilder::new(reader)
        .await?
        .build()?;
    while rows.try_next().await?.is_some() {}
    Ok(())
}

/// Reads an object and gives the store's errors on as they are.
struct Reader {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let bytes = self.store.get_range(&self.meta.location, range);
        bytes
            .map_err(|error| ParquetError::External(Box::new(error)))
            .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let size = self.meta.size;
        let read = async move {
            ParquetMetaDataReader::new()
                .load_and_finish(self, size)
                .await
        };
        read.map_ok(Arc::new).boxed()
    }
}

/// What the store said about which object: cut off, or not there.
fn store_error(error: &DataFusionError) -> Option<(String, TableError)> {
    let ours = causes(error).find_map(|cause| cause.downcast_ref::<StoreError>());
    let found = causes(error).find_map(|cause| cause.downcast_ref::<object_store::Error>());
    if let Some(StoreError::NotFound { key }) = ours {
        let path = key.clone();
        return Some((path.clone(), TableError::FileMissing { path }));
    }
    if let Some(StoreError::ShortRead {
        key,
        start,
        end,
        got,
    }) = ours.or_else(|| StoreError::find_short_read(found?))
    {
        let source = StoreError::ShortRead {
            key: key.clone(),
            start: *start,
            end: *end,
            got: *got,
        };
        return Some((key.to_string(), TableError::Store(source)));
    }
    match found? {
        object_store::Error::NotFound { path, .. } => {
            let path = Path::from(path.as_str()).to_string();
            Some((path.clone(), TableError::FileMissing { path }))
        }
        _ => None,
    }
}

fn is_of_parquet(error: &DataFusionError) -> bool {
    causes(error).any(|cause| {
        cause.is::<ParquetError>()
            || matches!(
                cause.downcast_ref::<DataFusionError>(),
                Some(DataFusionError::ParquetError(_))
            )
            || matches!(
                cause.downcast_ref::<ArrowError>(),
                Some(ArrowError::ParquetError(_))
            )
    })
}

/// The error and its causes; the engine and Parquet do not give all of theirs by `source`.
fn causes<'a>(error: &'a DataFusionError) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |&cause| {
        if let Some(error) = cause.downcast_ref::<DataFusionError>() {
            return match error {
                DataFusionError::ParquetError(source) => Some(source.as_ref()),
                DataFusionError::ObjectStore(source) => Some(source.as_ref()),
                DataFusionError::External(source) => Some(source.as_ref()),
                DataFusionError::ArrowError(source, _) => Some(source.as_ref()),
                DataFusionError::Context(_, source) => Some(source.as_ref()),
                DataFusionError::Shared(source) => Some(source.as_ref()),
                _ => None,
            };
        }
        match (
            cause.downcast_ref::<ParquetError>(),
            cause.downcast_ref::<ArrowError>(),
        ) {
            (Some(ParquetError::External(source)), _) => Some(source.as_ref()),
            (_, Some(ArrowError::ExternalError(source))) => Some(source.as_ref()),
            _ => cause.source(),
        }
    })
}
