//! From a query of our parser to rows: names, tables, plan, execution.
//!
//! Invariant: a query is planned against one view of one transaction; its stream then needs
//! neither the session nor the transaction. Result columns are spelled as their tables spell
//! them and have plain types (no views, no dictionaries).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::common::format::ExplainStatementOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::{ExplainStatement, Statement as EngineStatement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, Statement as AstStatement,
};
use futures::StreamExt;
use tarndb_db::{Database, Transaction};
use tarndb_storage::{Context, StoreOptions};
use tarndb_table::TableCodec;
use tarndb_txn::Isolation;
use tarndb_types::TableId;

use crate::catalog::{INFORMATION_SCHEMA, NamedView, View, ViewSchema, ViewTable as NamedTable};
use crate::engine::{DEFAULT_SCHEMA, Engine};
use crate::error::{SqlError, translate::translate};
use crate::function::{self, EXCLUDED, Named, SOURCE, TARGET, Target, is_file_name};
use crate::name::{Spelling, fold, near, near_tables};
use crate::object::view::Nest;
use crate::outcome::RowStream;
use crate::parser::TableName;
use crate::provider::reads::{Reads, ScanLog};
use crate::provider::{Pinned, TarnTable};
use crate::rewrite::approximate_literals;

/// Marks the number that makes a repeated result name unique while the engine has it.
const REPEAT: char = '\u{1}';

/// How foreign stores and formats are opened.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// Options for URLs in statements.
    pub(crate) options: StoreOptions,
    /// Time and randomness.
    pub(crate) context: Context,
    /// Reads Delta tables.
    pub(crate) codec: Arc<dyn TableCodec>,
}

/// Where a statement runs: the engine and one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) db: &'a Database,
    pub(crate) txn: &'a Transaction,
    pub(crate) storage: &'a Storage,
}

/// A planned query.
#[derive(Debug)]
pub(crate) struct Planned {
    /// The plan, not optimised.
    pub(crate) plan: LogicalPlan,
    /// How the names in it are spelled.
    pub(crate) spelling: Spelling,
    /// What it reads of the database; complete when the physical plan is there.
    pub(crate) reads: Reads,
}

/// How a query is explained.
#[derive(Clone, Debug)]
pub(crate) struct ExplainOptions {
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    pub(crate) format: Option<String>,
}

impl Scope<'_> {
    /// Plans a query. `target`: the table that the statement changes, for [`TARGET`].
    pub(crate) async fn plan(
        &self,
        query: &Query,
        spelling: &Spelling,
        target: Option<Target>,
    ) -> Result<Planned, SqlError> {
        let mut query = query.clone();
        unique_names(&mut query.body);
        approximate_literals(&mut query)?;
        let statement = AstStatement::Query(Box::new(query.clone()));
        self.plan_statement(
            EngineStatement::Statement(Box::new(statement)),
            &query,
            spelling.clone(),
            target,
        )
        .await
    }

    /// Plans the explanation of a query.
    pub(crate) async fn plan_explain(
        &self,
        query: &Query,
        spelling: &Spelling,
        options: ExplainOptions,
    ) -> Result<Planned, SqlError> {
        let mut query = query.clone();
        unique_names(&mut query.body);
        approximate_literals(&mut query)?;
        let inner = AstStatement::Query(Box::new(query.clone()));
        let format = options.format.map(|name| name.parse()).transpose();
        let statement = EngineStatement::Explain(ExplainStatement {
            options: ExplainStatementOptions {
                analyze: options.analyze,
                verbose: options.verbose,
                format: format.map_err(|error| translate(error, spelling))?,
                ..Default::default()
            },
            statement: Box::new(EngineStatement::Statement(Box::new(inner))),
        });
        self.plan_statement(statement, &query, spelling.clone(), None)
            .await
    }

    async fn plan_statement(
        &self,
        statement: EngineStatement,
        query: &Query,
        mut spelling: Spelling,
        target: Option<Target>,
    ) -> Result<Planned, SqlError> {
        let mut reads = self.reads(target.as_ref());
        let mut nest = Nest::default();
        let plan = self
            .plan_with(
                statement,
                query,
                target,
                (&mut spelling, &mut reads, &mut nest),
            )
            .await?;
        Ok(Planned {
            plan,
            spelling,
            reads,
        })
    }

    /// Plans the query of a view.
    pub(crate) async fn plan_view(
        &self,
        query: &Query,
        spelling: &mut Spelling,
        reads: &mut Reads,
        nest: &mut Nest,
    ) -> Result<LogicalPlan, SqlError> {
        let mut query = query.clone();
        unique_names(&mut query.body);
        approximate_literals(&mut query)?;
        let statement = AstStatement::Query(Box::new(query.clone()));
        let statement = EngineStatement::Statement(Box::new(statement));
        self.plan_with(statement, &query, None, (spelling, reads, nest))
            .await
    }

    /// Loads what a statement names, and plans it.
    async fn plan_with(
        &self,
        statement: EngineStatement,
        query: &Query,
        target: Option<Target>,
        (spelling, reads, nest): (&mut Spelling, &mut Reads, &mut Nest),
    ) -> Result<LogicalPlan, SqlError> {
        let state = self.engine.context.state();
        let references = state
            .resolve_table_references(&statement)
            .map_err(|error| translate(error, spelling))?;
        let named = Named::of(query)?;
        let mut view = self.names();
        for reference in references {
            let noted = (&mut *spelling, &mut *reads, &mut *nest);
            self.load(&reference, &named, &mut view, noted).await?;
        }
        let mut plans = BTreeMap::new();
        for call in named.calls {
            let plan = function::open(&call, self, spelling, reads).await?;
            plans.insert(call, plan);
        }
        if let Some(target) = &target {
            for field in &target.provider.pinned().state.schema.fields {
                spelling.note_column(&field.name);
            }
        }
        // The views in it were planned before: from here on nothing else is.
        self.engine.catalogs.set(view);
        self.engine.functions.set(target, plans);
        let plan = state.statement_to_plan(statement).await;
        self.engine.functions.set(None, BTreeMap::new());
        plan.map_err(|error| self.with_near(translate(error, spelling)))
    }

    /// Names functions near one that is not known.
    fn with_near(&self, error: SqlError) -> SqlError {
        let SqlError::UnknownFunction { name, .. } = error else {
            return error;
        };
        let state = self.engine.context.state();
        let known = state
            .scalar_functions()
            .keys()
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys())
            .map(String::as_str);
        let near = near(&name, known);
        SqlError::UnknownFunction { name, near }
    }

    /// All schemas and tables by name, nothing loaded.
    fn names(&self) -> View {
        let catalog = self.txn.catalog();
        let mut view = View::default();
        for schema in catalog.schemas() {
            let tables = catalog.tables_in(&schema.name).into_iter().map(|table| {
                (
                    fold(&table.name),
                    NamedTable {
                        name: table.name.clone(),
                        provider: None,
                    },
                )
            });
            let views = catalog.views_in(&schema.name).into_iter().map(|view| {
                let found = NamedView {
                    entry: Arc::clone(view),
                    expanded: None,
                };
                (fold(&view.definition.name), found)
            });
            let schema = ViewSchema {
                name: schema.name.clone(),
                tables: tables.collect(),
                views: views.collect(),
            };
            view.schemas.insert(fold(&schema.name), schema);
        }
        view
    }

    /// Loads what a name of the statement means.
    async fn load(
        &self,
        reference: &TableReference,
        named: &Named,
        view: &mut View,
        (spelling, reads, nest): (&mut Spelling, &mut Reads, &mut Nest),
    ) -> Result<(), SqlError> {
        let table = reference.table();
        let by_path = |schema: &str| crate::native::names_path(schema, table);
        if table == TARGET
            || table == EXCLUDED
            || table == SOURCE
            || (reference.schema().is_none() && is_file_name(table))
            || reference.schema().is_some_and(by_path)
        {
            return Ok(());
        }
        if named.functions.contains(&fold(table)) {
            return Ok(());
        }
        let schema = reference.schema().unwrap_or(DEFAULT_SCHEMA);
        if schema == INFORMATION_SCHEMA {
            return self.load_all(view).await;
        }
        if let Some(entry) = self.txn.catalog().view(schema, table) {
            let expanded = self.expand(entry, spelling, reads, nest).await?;
            set_view(view, schema, table, expanded);
            return Ok(());
        }
        let name = TableName {
            schema: reference.schema().map(|s| spelling.of(s).to_owned()),
            name: spelling.of(table).to_owned(),
        };
        let (id, pinned) = self.pin(&name).await?;
        let named = (schema.to_owned(), table.to_owned());
        reads.tables.insert(id, named);
        for field in &pinned.state.schema.fields {
            spelling.note_column(&field.name);
        }
        let provider = TarnTable::new(pinned).with_log(reads.log.clone());
        set_provider(view, schema, table, provider);
        Ok(())
    }

    /// Where the scans of a statement are noted; `None` when nobody judges them.
    pub(crate) fn scan_log(&self) -> Option<Arc<ScanLog>> {
        let serializable = self.txn.isolation() == Isolation::Serializable;
        serializable.then(Arc::default)
    }

    /// The reads of a statement, with its target among them.
    fn reads(&self, target: Option<&Target>) -> Reads {
        let Some(target) = target else {
            let log = self.scan_log();
            return Reads {
                log,
                ..Reads::default()
            };
        };
        let mut reads = Reads {
            log: target.provider.log().cloned(),
            ..Reads::default()
        };
        if let Some((_, id)) = &target.provider.pinned().vectors {
            let schema = target.reference.schema().unwrap_or(DEFAULT_SCHEMA);
            let named = (schema.to_owned(), target.reference.table().to_owned());
            reads.tables.insert(*id, named);
        }
        reads
    }

    async fn load_all(&self, view: &mut View) -> Result<(), SqlError> {
        let tables = self.txn.catalog().tables().cloned().collect::<Vec<_>>();
        for table in tables {
            let name = TableName {
                schema: Some(table.schema.clone()),
                name: table.name.clone(),
            };
            let (_, pinned) = self.pin(&name).await?;
            set_provider(view, &table.schema, &table.name, TarnTable::new(pinned));
        }
        for entry in self.txn.catalog().views().cloned().collect::<Vec<_>>() {
            let (mut reads, mut nest) = (Reads::default(), Nest::default());
            let mut spelling = Spelling::default();
            // One that does not work any more has no columns, and is a view all the same.
            let expanded = self
                .expand(&entry, &mut spelling, &mut reads, &mut nest)
                .await;
            if let Ok(expanded) = expanded {
                let (schema, name) = (&entry.definition.schema, &entry.definition.name);
                set_view(view, schema, name, expanded);
            }
        }
        Ok(())
    }

    /// Finds a table and its state in the transaction.
    pub(crate) async fn pin(&self, name: &TableName) -> Result<(TableId, Arc<Pinned>), SqlError> {
        let id = self.find(name)?;
        let state = self.txn.table(id).await?;
        let catalog = self.txn.catalog();
        let display = catalog
            .table(id)
            .map_or_else(|| name.to_string(), |t| t.display_name());
        let pinned = Pinned {
            name: display,
            state,
            store: self.db.store().clone(),
            store_url: self.engine.store_url.clone(),
            location: self.txn.location(id)?,
            codec: Arc::clone(&self.storage.codec),
            vectors: Some((self.txn.snapshot().clone(), id)),
        };
        Ok((id, Arc::new(pinned)))
    }

    /// Finds a table by name.
    pub(crate) fn find(&self, name: &TableName) -> Result<TableId, SqlError> {
        if let Some(path) = crate::native::path_of(name) {
            return Err(crate::native::not_here(path));
        }
        let catalog = self.txn.catalog();
        let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        if let Some(entry) = catalog.find(schema, &name.name) {
            return Ok(entry.id);
        }
        if let Some(view) = self.view_instead(name) {
            return Err(view);
        }
        if catalog.schema(schema).is_none() {
            let near = near(schema, catalog.schemas().map(|s| s.name.as_str()));
            return Err(SqlError::UnknownSchema {
                name: schema.to_owned(),
                near,
            });
        }
        let tables = catalog
            .tables()
            .map(|t| (t.schema.as_str(), t.name.as_str()))
            .chain(
                catalog
                    .views()
                    .map(|v| (v.definition.schema.as_str(), v.definition.name.as_str())),
            );
        let near = near_tables(schema, &name.name, tables, DEFAULT_SCHEMA);
        Err(SqlError::UnknownTable {
            name: name.to_string(),
            near,
        })
    }

    /// The physical plan of a query.
    pub(crate) async fn physical(
        &self,
        planned: &Planned,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let state = self.engine.context.state();
        state
            .create_physical_plan(&planned.plan)
            .await
            .map_err(|error| translate(error, &planned.spelling))
    }

    /// Runs a query.
    pub(crate) async fn run(&self, planned: Planned) -> Result<(SchemaRef, RowStream), SqlError> {
        let physical = self.physical(&planned).await?;
        let schema = output_schema(&physical.schema(), &planned.spelling);
        let stream = execute_stream(physical, self.engine.context.task_ctx())
            .map_err(|error| translate(error, &planned.spelling))?;
        let output = Arc::clone(&schema);
        let spelling = planned.spelling;
        let stream = stream.map(move |batch| {
            let batch = batch.map_err(|error| translate(error, &spelling))?;
            present(&batch, &output)
        });
        Ok((schema, stream.boxed()))
    }
}

fn set_view(view: &mut View, schema: &str, name: &str, expanded: Arc<ViewTable>) {
    let schema = view.schemas.get_mut(&fold(schema));
    if let Some(found) = schema.and_then(|s| s.views.get_mut(&fold(name))) {
        found.expanded = Some(expanded);
    }
}

fn set_provider(view: &mut View, schema: &str, table: &str, provider: TarnTable) {
    let schema = view.schemas.get_mut(&fold(schema));
    if let Some(table) = schema.and_then(|s| s.tables.get_mut(&fold(table))) {
        table.provider = Some(Arc::new(provider));
    }
}

/// Names of a result as users know them.
pub(crate) fn output_name<'a>(name: &'a str, spelling: &'a Spelling) -> &'a str {
    let name = name.split_once(REPEAT).map_or(name, |(before, _)| before);
    spelling.of(name)
}

/// The columns of a result as users know them.
pub(crate) fn output_schema(schema: &Schema, spelling: &Spelling) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let name = output_name(field.name(), spelling);
        Field::new(name, plain_type(field.data_type()), field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The type that says the same without views and dictionaries.
fn plain_type(data_type: &DataType) -> DataType {
    let plain = |field: &Arc<Field>| {
        Arc::new(
            Field::new(
                field.name(),
                plain_type(field.data_type()),
                field.is_nullable(),
            )
            .with_metadata(field.metadata().clone()),
        )
    };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::List(field) | DataType::ListView(field) => DataType::List(plain(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::Map(field, sorted) => DataType::Map(plain(field), *sorted),
        other => other.clone(),
    }
}

/// A batch in the plain types of `schema`.
pub(crate) fn present(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(Arc::clone(column))
            } else {
                arrow::compute::cast(column, field.data_type())
            }
        })
        .collect::<Result<Vec<_>, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    columns
        .and_then(|columns| {
            RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        })
        .map_err(|error| translate(error.into(), &Spelling::default()))
}

/// Names what the outermost SELECT computes by its text, and gives repeated names a number: the
/// engine wants them unique.
fn unique_names(body: &mut SetExpr) {
    match body {
        SetExpr::Query(query) => unique_names(&mut query.body),
        SetExpr::SetOperation { left, .. } => unique_names(left),
        SetExpr::Select(select) => {
            let mut seen = BTreeSet::new();
            for (index, item) in select.projection.iter_mut().enumerate() {
                let Some(name) = item_name(item) else {
                    continue;
                };
                let alias = if !seen.insert(name.clone()) {
                    format!("{name}{REPEAT}{index}")
                } else if is_computed(item) {
                    name
                } else {
                    continue;
                };
                let expr = match item {
                    SelectItem::UnnamedExpr(expr) => expr.clone(),
                    SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
                    _ => continue,
                };
                let alias = Ident::with_quote('"', alias);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        _ => {}
    }
}

/// Whether an item has no name of its own. UNNEST may become several columns and keeps the
/// engine's names.
pub(crate) fn is_computed(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => false,
        SelectItem::UnnamedExpr(Expr::Function(function)) => {
            !function.name.to_string().eq_ignore_ascii_case("unnest")
        }
        SelectItem::UnnamedExpr(_) => true,
        _ => false,
    }
}

fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().map(|ident| ident.value.clone())
        }
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    }
}
