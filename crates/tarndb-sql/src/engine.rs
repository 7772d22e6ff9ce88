//! The engine of one session: its settings, memory, and the hooks that make it ours.
//!
//! Invariant: names reach the engine folded and its own normalisation is off; instants keep
//! their zone (UTC); no string or binary views anywhere; a memory limit makes sorts spill.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::TableReference;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use tarndb_db::Database;

use crate::catalog::Catalogs;
use crate::error::{SqlError, translate::translate};
use crate::function::{FunctionPlanner, Functions};
use crate::name::{Spelling, same};
use crate::options::SessionOptions;
use crate::provider::damage::NameDamage;
use crate::provider::float_bounds::NoFloatBounds;
use crate::provider::pushdown::ByUniqueName;
use crate::provider::yielding::YieldingJoins;
use crate::rewrite::analyzer_rules;
use crate::types::TableTypes;

/// The engine's name for the database.
pub(crate) const CATALOG: &str = "tarndb";
/// Schema of names that say none.
pub(crate) const DEFAULT_SCHEMA: &str = "main";
/// Bytes of Parquet footers kept.
const METADATA_CACHE: usize = 64 << 20;

/// The engine of one session.
pub(crate) struct Engine {
    /// The engine itself.
    pub(crate) context: SessionContext,
    /// What statements see.
    pub(crate) catalogs: Arc<Catalogs>,
    /// Table functions and files of the statement being planned.
    pub(crate) functions: Arc<Functions>,
    /// Under which the engine knows the database's store.
    pub(crate) store_url: ObjectStoreUrl,
    /// The settings a session begins with, for RESET.
    pub(crate) defaults: BTreeMap<String, Option<String>>,
    /// The options a session begins with, likewise.
    pub(crate) given: SessionOptions,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("store_url", &self.store_url)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine over the store of `db`.
    pub(crate) fn new(db: &Database, options: &SessionOptions) -> Result<Self, SqlError> {
        let plain = |error| translate(error, &Spelling::default());
        let runtime = runtime(options).map_err(plain)?;
        if let Some(bytes) = options.pool_bytes() {
            db.store().derived().limit(METADATA_CACHE.min(bytes / 8));
        }
        let url = format!("tarndb://{}", db.id().0.simple());
        let store_url = ObjectStoreUrl::parse(&url).map_err(plain)?;
        runtime.register_object_store(store_url.as_ref(), db.store().objects());
        let catalogs = Arc::new(Catalogs::default());
        let functions = Arc::new(Functions::default());
        let config = config(options);
        let defaults = settings(config.options());
        let mut rules = ByUniqueName::around(PhysicalOptimizer::new().rules);
        rules.push(Arc::new(NoFloatBounds));
        rules.push(Arc::new(NameDamage));
        rules.push(Arc::new(YieldingJoins));
        let mut builder = SessionStateBuilder::new()
            .with_analyzer_rules(analyzer_rules())
            .with_physical_optimizer_rules(rules)
            .with_config(config)
            .with_runtime_env(Arc::new(runtime))
            .with_default_features()
            .with_catalog_list(Arc::clone(&catalogs) as _)
            .with_type_planner(Arc::new(TableTypes));
        builder
            .relation_planners()
            .get_or_insert_default()
            .insert(0, Arc::new(FunctionPlanner(Arc::clone(&functions))));
        builder
            .expr_planners()
            .get_or_insert_default()
            .insert(0, Arc::new(FieldNames));
        let context = SessionContext::new_with_state(builder.build());
        crate::function::now::register(&context);
        crate::function::version::register(&context);
        crate::function::alias::register(&context);
        Ok(Self {
            context,
            catalogs,
            functions,
            store_url,
            defaults,
            given: options.clone(),
        })
    }
}

/// Name and value of every setting of the engine.
pub(crate) fn settings(options: &ConfigOptions) -> BTreeMap<String, Option<String>> {
    options
        .entries()
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect()
}

fn config(options: &SessionOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA);
    let settings = config.options_mut();
    settings.sql_parser.enable_ident_normalization = false;
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.sql_parser.parse_float_as_decimal = true;
    settings.execution.time_zone = Some("UTC".into());
    // Bounds in Parquet footers leave NaN out, so they answer no max() and filter no rows.
    settings.execution.collect_statistics = false;
    settings.execution.parquet.pushdown_filters = false;
    settings.execution.parquet.schema_force_view_types = false;
    settings.execution.parquet.coerce_int96 = Some("us".to_owned());
    limit(&mut config, options);
    config
}

/// What the engine is told of threads and memory.
pub(crate) fn limit(config: &mut SessionConfig, options: &SessionOptions) {
    let plain = ConfigOptions::default().execution;
    let execution = &mut config.options_mut().execution;
    execution.target_partitions = options
        .target_partitions
        .map_or(plain.target_partitions, |threads| threads.max(1));
    execution.sort_spill_reservation_bytes = plain.sort_spill_reservation_bytes;
    execution.sort_in_place_threshold_bytes = plain.sort_in_place_threshold_bytes;
    if let Some(pool) = options.pool_bytes() {
        let reservation = plain.sort_spill_reservation_bytes;
        execution.sort_spill_reservation_bytes = reservation.min(pool / 16);
        execution.sort_in_place_threshold_bytes = 1 << 20;
    }
}

fn runtime(options: &SessionOptions) -> Result<RuntimeEnv> {
    let mut builder = RuntimeEnvBuilder::new().with_metadata_cache_limit(METADATA_CACHE);
    if let Some(bytes) = options.pool_bytes() {
        builder = builder
            .with_memory_pool(crate::resource::pool(options))
            .with_metadata_cache_limit(METADATA_CACHE.min(bytes / 8));
    }
    if let Some(folder) = &options.temp_dir {
        let mode = DiskManagerMode::Directories(vec![folder.clone()]);
        builder = builder.with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode));
    }
    builder.build()
}

/// Finds the fields of structs without regard to case.
#[derive(Debug)]
struct FieldNames;

impl ExprPlanner for FieldNames {
    fn plan_field_access(
        &self,
        mut access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if let GetFieldAccess::NamedStructField { name } = &mut access.field_access
            && let Some(text) = name.try_as_str().flatten()
            && let Ok(data_type) = access.expr.get_type(schema)
            && let Some(spelled) = spelled_field(&data_type, text)
        {
            *name = ScalarValue::from(spelled);
        }
        Ok(PlannerResult::Original(access))
    }

    fn plan_compound_identifier(
        &self,
        field: &arrow_schema::Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let column = datafusion::common::Column::new(qualifier.cloned(), field.name());
        let mut expr = Expr::Column(column);
        let mut data_type = field.data_type().clone();
        for name in nested_names {
            let Some(spelled) = spelled_field(&data_type, name) else {
                return Ok(PlannerResult::Original(vec![]));
            };
            if let DataType::Struct(fields) = &data_type
                && let Some((_, inner)) = fields.find(&spelled)
            {
                expr = get_field(expr, spelled.as_str());
                data_type = inner.data_type().clone();
            }
        }
        Ok(PlannerResult::Planned(expr))
    }
}

fn spelled_field(data_type: &DataType, name: &str) -> Option<String> {
    let DataType::Struct(fields) = data_type else {
        return None;
    };
    let exact = fields.iter().find(|field| field.name() == name);
    let found = exact.or_else(|| fields.iter().find(|field| same(field.name(), name)));
    found.map(|field| field.name().clone())
}
