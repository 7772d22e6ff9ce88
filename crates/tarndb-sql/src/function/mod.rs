//! Tables that a query reads by path: `delta_scan`, `read_csv`, `read_json`, `read_parquet`, and
//! file names in FROM; tables as they were (`VERSION AS OF`), and `table_changes`.
//!
//! Invariant: planning is not async, so everything a statement names is opened before it is
//! planned and found here by its whole call; what failed to open fails the statement.
//! Table versions, which the engine would read over, never get to it.

pub(crate) mod alias;
mod delta;
pub(crate) mod files;
pub(crate) mod now;
pub(crate) mod travel;
pub(crate) mod version;
mod with;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{self, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, Query, TableFactor, UnaryOperator, Value,
    Visit, Visitor,
};

use crate::error::{SqlError, translate::carry};
use crate::name::{Spelling, fold};
use crate::native::Pins;
use crate::provider::TarnTable;
use with::WithNames;

pub(crate) use delta::{missing, pin_state, store_of};
pub(crate) use files::{is_file_name, register_store};

/// Name under which a change's own table stands in the FROM of its query.
pub(crate) const TARGET: &str = "\u{1}target";

/// Name under which the rows to insert stand there in ON CONFLICT.
pub(crate) const EXCLUDED: &str = "\u{1}excluded";
/// Name under which the source of a MERGE stands in the FROM of its query.
pub(crate) const SOURCE: &str = "\u{1}source";

/// What a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// A Delta table.
    Delta,
    /// CSV.
    Csv,
    /// JSON, one object per line.
    Json,
    /// Parquet.
    Parquet,
    /// A table of the database at an earlier version.
    Version,
    /// The rows that versions of a table of the database changed.
    Changes,
}

impl Reader {
    fn of_function(name: &str) -> Option<Self> {
        Some(match name {
            "delta_scan" => Self::Delta,
            "read_csv" => Self::Csv,
            "read_json" => Self::Json,
            "read_parquet" => Self::Parquet,
            "table_changes" => Self::Changes,
            _ => return None,
        })
    }
}

/// One table by path, with everything that was said about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileCall {
    pub(crate) reader: Reader,
    pub(crate) path: String,
    pub(crate) options: BTreeMap<String, String>,
}

impl FileCall {
    /// The call in a FROM, if it is one.
    fn of(factor: &TableFactor) -> Result<Option<Self>, SqlError> {
        let TableFactor::Table {
            name,
            args,
            version,
            ..
        } = factor
        else {
            return Ok(None);
        };
        match version {
            Some(version) if args.is_none() => return travel::call_of(name, version).map(Some),
            Some(_) => {
                return Err(SqlError::Unsupported {
                    what: "a version of a function".to_owned(),
                    hint: Some("delta_scan('<url>', version => n)".to_owned()),
                });
            }
            None => {}
        }
        if let [schema, part] = name.0.as_slice()
            && let (Some(schema), Some(path)) = (schema.as_ident(), part.as_ident())
            && crate::native::names_path(&schema.value, &path.value)
        {
            return Ok(Some(Self {
                reader: Reader::Delta,
                path: path.value.clone(),
                options: BTreeMap::new(),
            }));
        }
        let [part] = name.0.as_slice() else {
            return Ok(None);
        };
        let Some(ident) = part.as_ident() else {
            return Ok(None);
        };
        let Some(args) = args else {
            let quoted = ident.quote_style.is_some();
            return match files::reader_of(&ident.value).filter(|_| quoted) {
                Some(reader) => Ok(Some(Self {
                    reader,
                    path: ident.value.clone(),
                    options: BTreeMap::new(),
                })),
                None if ident.quote_style == Some('\'') => Err(SqlError::Unsupported {
                    what: format!("reading {:?}", ident.value),
                    hint: Some(
                        "files end in .csv, .csv.gz, .json, .ndjson or .parquet; others are \
                         read with read_csv('..'), read_json('..') or read_parquet('..')"
                            .to_owned(),
                    ),
                }),
                None => Ok(None),
            };
        };
        let Some(reader) = Reader::of_function(&fold(&ident.value)) else {
            return Ok(None);
        };
        let mut call = Self {
            reader,
            path: String::new(),
            options: BTreeMap::new(),
        };
        for arg in &args.args {
            call.take(&ident.value, arg)?;
        }
        if call.path.is_empty() {
            return Err(argument_error(
                &ident.value,
                "the path comes first, in single quotes",
            ));
        }
        Ok(Some(call))
    }

    fn take(&mut self, function: &str, arg: &FunctionArg) -> Result<(), SqlError> {
        let (name, value) = match arg {
            FunctionArg::Unnamed(value) => (None, value),
            FunctionArg::Named { name, arg, .. } => (Some(fold(&name.value)), arg),
            FunctionArg::ExprNamed { name, arg, .. } => (Some(fold(&name.to_string())), arg),
        };
        let FunctionArgExpr::Expr(expr) = value else {
            return Err(argument_error(function, "arguments are literals"));
        };
        let text = literal(expr)
            .ok_or_else(|| argument_error(function, "arguments are literals, not expressions"))?;
        match name {
            None if self.path.is_empty() => {
                if !is_text(expr) {
                    return Err(argument_error(
                        function,
                        "the path is text in single quotes",
                    ));
                }
                self.path = text;
            }
            None => {
                let key = ["from", "to"]
                    .into_iter()
                    .filter(|_| self.reader == Reader::Changes)
                    .find(|key| !self.options.contains_key(*key));
                let Some(key) = key else {
                    return Err(argument_error(function, "options are named: name => value"));
                };
                self.options.insert(key.to_owned(), text);
            }
            Some(name) => {
                if self.options.insert(name.clone(), text).is_some() {
                    return Err(argument_error(function, &format!("{name} is given twice")));
                }
            }
        }
        Ok(())
    }
}

fn is_text(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else {
        return false;
    };
    matches!(
        value.value,
        Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_)
    )
}

fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Some(text.clone())
            }
            Value::Number(number, _) => Some(number.clone()),
            Value::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => literal(expr).map(|text| format!("-{text}")),
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// An error in the arguments of a table function.
fn argument_error(function: &str, reason: &str) -> SqlError {
    SqlError::Engine {
        message: format!("{function}: {reason}"),
        sqlstate: "42883",
        kind: tarndb_db::ErrorKind::Invalid,
        hint: None,
    }
}

/// What the FROMs of a query name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Files, foreign tables, and tables as they were.
    pub(crate) calls: BTreeSet<FileCall>,
    /// Names that are functions, not tables.
    pub(crate) functions: BTreeSet<String>,
}

impl Named {
    /// Collects them.
    pub(crate) fn of(query: &Query) -> Result<Self, SqlError> {
        let mut collector = Collector {
            named: Self::default(),
            with: WithNames::default(),
        };
        match query.visit(&mut collector) {
            ControlFlow::Continue(()) => Ok(collector.named),
            ControlFlow::Break(error) => Err(*error),
        }
    }
}

struct Collector {
    named: Named,
    with: WithNames,
}

impl Visitor for Collector {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.with.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.with.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Self::Break> {
        match factor {
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            }
            | TableFactor::Function { name, .. } => {
                self.named.functions.insert(fold(&name.to_string()));
            }
            _ => {}
        }
        match FileCall::of(factor) {
            Ok(Some(call))
                if call.reader == Reader::Version
                    && !call.options.contains_key("schema")
                    && self.with.sees(&call.path) =>
            {
                ControlFlow::Break(Box::new(SqlError::Unsupported {
                    what: format!("a version of {}, which WITH defines", call.path),
                    hint: Some("say schema.table for the stored table".to_owned()),
                }))
            }
            Ok(Some(call)) => {
                self.named.calls.insert(call);
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// The table that a statement changes, as its query reads it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The name that columns may be qualified with.
    pub(crate) reference: TableReference,
    /// With the hidden columns.
    pub(crate) provider: Arc<TarnTable>,
    /// The source of a MERGE, for [`SOURCE`].
    pub(crate) source: Option<LogicalPlan>,
}

/// What was opened for the statement that is planned next.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    opened: Mutex<Opened>,
    /// Roots of stores that the engine knows already.
    registered: Mutex<BTreeMap<String, usize>>,
    /// Tables by path that the transaction has read, at the version of its first read.
    pub(crate) pins: Pins,
    /// What [`EXCLUDED`] is, while such a statement is planned.
    excluded: Mutex<Option<Arc<dyn TableProvider>>>,
}

#[derive(Debug, Default)]
struct Opened {
    target: Option<Target>,
    plans: BTreeMap<FileCall, LogicalPlan>,
}

impl Functions {
    /// Sets what the next statement may name.
    pub(crate) fn set(&self, target: Option<Target>, plans: BTreeMap<FileCall, LogicalPlan>) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Opened { target, plans };
    }

    /// Sets what [`EXCLUDED`] is.
    pub(crate) fn set_excluded(&self, table: Option<Arc<dyn TableProvider>>) {
        *self.excluded.lock().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The plan of [`EXCLUDED`], where a FROM names it.
    fn excluded(&self, name: &ObjectName) -> Result<Option<LogicalPlan>> {
        if !is_name(name, EXCLUDED) {
            return Ok(None);
        }
        let excluded = self.excluded.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = excluded.as_ref() else {
            return Ok(None);
        };
        let source = provider_as_source(Arc::clone(table));
        let plan = LogicalPlanBuilder::scan(TableReference::bare(EXCLUDED), source, None)?;
        plan.build().map(Some)
    }

    /// A number for a store root, and whether it is new.
    fn root_number(&self, root: &str) -> (usize, bool) {
        let mut roots = self
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let next = roots.len();
        let number = *roots.entry(root.to_owned()).or_insert(next);
        (number, number == next)
    }

    /// Whether a store root has a number.
    fn knows_root(&self, root: &str) -> bool {
        let roots = self.registered.lock();
        let roots = roots.unwrap_or_else(PoisonError::into_inner);
        roots.contains_key(root)
    }
}

/// Opens what a call names, and notes in `reads` what it reads of the database.
///
/// # Cost
/// For files, the requests of inferring their columns; for a Delta table, those of its log.
pub(crate) async fn open(
    call: &FileCall,
    scope: &crate::query::Scope<'_>,
    spelling: &mut Spelling,
    reads: &mut crate::provider::reads::Reads,
) -> Result<LogicalPlan, SqlError> {
    let (engine, storage) = (scope.engine, scope.storage);
    let plan = match call.reader {
        Reader::Delta => delta::open(call, engine, storage, spelling).await,
        Reader::Version => travel::open_version(call, scope, spelling, reads).await,
        Reader::Changes => travel::open_changes(call, scope, spelling, reads).await,
        _ => files::open(call, engine, storage, spelling).await,
    }?;
    tell_apart(plan, &format!("{call:?}"))
        .map_err(|error| crate::error::translate::translate(error, spelling))
}

/// Gives the scans of a plan a name of their own. The engine takes two scans for the same when
/// their tables have the same name, whatever they read; under its alias a scan is named as before.
fn tell_apart(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return Ok(Transformed::no(node));
        };
        let projection = scan.projection.clone();
        let scan_of_name = LogicalPlanBuilder::scan(
            TableReference::bare(name),
            Arc::clone(&scan.source),
            projection,
        )?;
        Ok(Transformed::yes(
            scan_of_name.alias(scan.table_name)?.build()?,
        ))
    })
    .map(|plan| plan.data)
}

/// A column under a name; as it is where that is its own, for the engine confuses a struct that
/// is called anew by its own name with itself when a field of it is read.
pub(crate) fn named(column: Column, name: String) -> logical_expr::Expr {
    let is_own = column.name == name;
    let column = logical_expr::Expr::Column(column);
    match is_own {
        true => column,
        false => column.alias(name),
    }
}

/// Folds the column names of a plan, noting how they are spelled.
fn fold_columns(plan: LogicalPlan, spelling: &mut Spelling) -> Result<LogicalPlan, SqlError> {
    let mut folded = BTreeSet::new();
    let mut exprs = Vec::new();
    for column in plan.schema().columns() {
        let name = fold(&column.name);
        spelling.note_column(&column.name);
        if !folded.insert(name.clone()) {
            return Err(SqlError::DuplicateColumn { name: column.name });
        }
        exprs.push(named(column, name));
    }
    LogicalPlanBuilder::from(plan)
        .project(exprs)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| crate::error::translate::translate(error, spelling))
}

/// Whether a name is this one alone.
fn is_name(name: &ObjectName, one: &str) -> bool {
    let [part] = name.0.as_slice() else {
        return false;
    };
    part.as_ident().is_some_and(|ident| ident.value == one)
}

/// Plans the tables of FROM that are ours.
#[derive(Debug)]
pub(crate) struct FunctionPlanner(pub(crate) Arc<Functions>);

impl RelationPlanner for FunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, alias, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let opened = self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = self.0.excluded(name)? {
            let planned = PlannedRelation::new(plan, alias.clone());
            return Ok(RelationPlanning::Planned(Box::new(planned)));
        }
        if is_name(name, SOURCE)
            && let Some(source) = opened.target.as_ref().and_then(|t| t.source.clone())
        {
            let planned = PlannedRelation::new(source, alias.clone());
            return Ok(RelationPlanning::Planned(Box::new(planned)));
        }
        if is_name(name, TARGET)
            && let Some(target) = &opened.target
        {
            let source = provider_as_source(Arc::clone(&target.provider) as _);
            let plan = LogicalPlanBuilder::scan(TableReference::bare(TARGET), source, None)?
                .alias(target.reference.clone())?
                .build()?;
            let planned = PlannedRelation::new(plan, alias.clone());
            return Ok(RelationPlanning::Planned(Box::new(planned)));
        }
        let Some(call) = FileCall::of(&relation).map_err(carry)? else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(plan) = opened.plans.get(&call) else {
            return Err(carry(SqlError::Internal {
                context: "a file that was not opened",
            }));
        };
        let planned = PlannedRelation::new(plan.clone(), alias.clone());
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
