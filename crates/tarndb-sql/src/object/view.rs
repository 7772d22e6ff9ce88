//! Views: what a name of a view stands for in a query, and CREATE, DROP and ALTER of them.
//!
//! Invariant: a view's query is read anew for every statement, in the statement's own snapshot,
//! and gives the columns that it had when the view was created, or fails by the view's name.
//! A view that leads back to itself is refused, as is one too deep. A statement through a view
//! reads what the query would read.
//! Does not: change anything through a view.
//! Spec: docs/guide/sql.md, "Views".

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tarndb_db::{ViewColumn, ViewDefinition, ViewEntry};

use crate::dml::Change;
use crate::engine::DEFAULT_SCHEMA;
use crate::error::{SqlError, translate::translate};
use crate::function::named;
use crate::name::{Spelling, fold, near, same};
use crate::outcome::Outcome;
use crate::parser::{self, CreateView, Statement, TableName};
use crate::provider::reads::Reads;
use crate::query::{Scope, output_name};

/// Views inside views, at most.
const DEPTH_MAX: usize = 32;
/// Views that one statement reads, counted as often as they are named, at most: views that name
/// others twice each grow fast.
const VIEWS_MAX: usize = 1000;

/// The views that are being read.
#[derive(Debug, Default)]
pub(crate) struct Nest {
    /// Folded names, the outermost first.
    open: Vec<(String, String)>,
    /// All that were opened.
    count: usize,
}

impl Nest {
    /// Nothing may lead back to this view: it is about to be created.
    fn about(view: &TableName) -> Self {
        let schema = view.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        Self {
            open: vec![(fold(schema), fold(&view.name))],
            count: 0,
        }
    }

    fn enter(&mut self, view: &ViewDefinition) -> Result<(), SqlError> {
        let name = (fold(&view.schema), fold(&view.name));
        let refuse = |reason| SqlError::ViewNesting {
            view: view.display_name(),
            reason,
        };
        if self.open.contains(&name) {
            return Err(refuse("leads back to itself"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(refuse("lies too deep in other views"));
        }
        self.count += 1;
        if self.count > VIEWS_MAX {
            return Err(refuse("is one of too many that the statement reads"));
        }
        self.open.push(name);
        Ok(())
    }

    fn leave(&mut self) {
        self.open.pop();
    }
}

impl Scope<'_> {
    /// What a view gives, as the engine takes it.
    pub(crate) fn expand<'a>(
        &'a self,
        view: &'a ViewEntry,
        spelling: &'a mut Spelling,
        reads: &'a mut Reads,
        nest: &'a mut Nest,
    ) -> BoxFuture<'a, Result<Arc<ViewTable>, SqlError>> {
        async move {
            let view = &view.definition;
            reads.views.insert((view.schema.clone(), view.name.clone()));
            nest.enter(view)?;
            let plan = self.expanded(view, spelling, reads, nest).await;
            nest.leave();
            let plan = plan.map_err(|error| in_view(view, error))?;
            let definition = Some(view.query.clone());
            Ok(Arc::new(ViewTable::new(plan, definition)))
        }
        .boxed()
    }

    async fn expanded(
        &self,
        view: &ViewDefinition,
        spelling: &mut Spelling,
        reads: &mut Reads,
        nest: &mut Nest,
    ) -> Result<LogicalPlan, SqlError> {
        if !same(&view.search_schema, DEFAULT_SCHEMA) {
            return Err(SqlError::Unsupported {
                what: format!("names that are looked up in schema {}", view.search_schema),
                hint: Some("use a newer build".to_owned()),
            });
        }
        let parsed = parser::parse(&view.query)?;
        let [parsed] = parsed.as_slice() else {
            return Err(not_a_query());
        };
        let Statement::Query(query) = &parsed.statement else {
            return Err(not_a_query());
        };
        let mut own = parsed.spelling.clone();
        let plan = self.plan_view(query, &mut own, reads, nest).await?;
        spelling.note_all(&own);
        for column in &view.columns {
            spelling.note_column(&column.name);
        }
        let columns = view.columns.iter().map(|column| {
            let from = column.from.clone().unwrap_or_else(|| fold(&column.name));
            let found = plan
                .schema()
                .iter()
                .find(|(_, field)| *field.name() == from);
            let (qualifier, field) = found.ok_or_else(|| SqlError::UnknownColumn {
                name: output_name(&from, &own).to_owned(),
                table: None,
                near: Vec::new(),
            })?;
            Ok(named(Column::from((qualifier, field)), fold(&column.name)))
        });
        let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
        LogicalPlanBuilder::from(plan)
            .project(columns)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| translate(error, &own))
    }

    /// Finds a view by name.
    pub(crate) fn find_view(&self, name: &TableName) -> Result<&ViewEntry, SqlError> {
        let catalog = self.txn.catalog();
        let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        if let Some(view) = catalog.view(schema, &name.name) {
            return Ok(view);
        }
        if let Some(table) = catalog.find(schema, &name.name) {
            return Err(SqlError::WrongObject {
                name: table.display_name(),
                is: "a table",
                hint: "DROP TABLE, ALTER TABLE and COMMENT ON TABLE are for tables",
            });
        }
        let known = catalog.views().map(|view| view.definition.name.as_str());
        Err(SqlError::UnknownView {
            name: name.to_string(),
            near: near(&name.to_string(), known),
        })
    }

    /// A name that no view has, but another object of the database may.
    pub(crate) fn view_instead(&self, name: &TableName) -> Option<SqlError> {
        let schema = name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let view = self.txn.catalog().view(schema, &name.name)?;
        Some(SqlError::WrongObject {
            name: view.definition.display_name(),
            is: "a view",
            hint: "change the tables that it reads; DROP VIEW and CREATE OR REPLACE VIEW change \
                   the view itself",
        })
    }
}

fn not_a_query() -> SqlError {
    SqlError::Internal {
        context: "the text of a view that is no query",
    }
}

fn in_view(view: &ViewDefinition, error: SqlError) -> SqlError {
    match error {
        // The innermost names the way.
        SqlError::ViewNesting { .. } => error,
        source => SqlError::View {
            view: view.display_name(),
            source: Box::new(source),
        },
    }
}

impl Change<'_> {
    /// CREATE VIEW; whether there was anything to do.
    pub(super) async fn create_view(&mut self, create: &CreateView) -> Result<bool, SqlError> {
        let schema = create.name.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        self.check_schema(schema)?;
        let catalog = self.txn.catalog();
        let there = catalog.view(schema, &create.name.name).is_some()
            || catalog.find(schema, &create.name.name).is_some();
        if there && create.if_not_exists {
            return Ok(false);
        }
        if let (Some(table), true) = (catalog.find(schema, &create.name.name), create.or_replace) {
            return Err(SqlError::WrongObject {
                name: table.display_name(),
                is: "a table",
                hint: "a view takes the place of a view only: choose another name",
            });
        }
        let mut nest = Nest::about(&create.name);
        let scope = self.scope();
        let mut reads = Reads {
            log: scope.scan_log(),
            ..Reads::default()
        };
        let mut spelling = self.spelling.clone();
        let plan = scope
            .plan_view(&create.query, &mut spelling, &mut reads, &mut nest)
            .await?;
        let columns = columns_of(create, &plan, &spelling)?;
        // What its columns are rests on what was found.
        reads.note_names(self.txn);
        let definition = ViewDefinition {
            schema: schema.to_owned(),
            name: create.name.name.clone(),
            query: create.text.clone(),
            search_schema: DEFAULT_SCHEMA.to_owned(),
            columns,
            comment: create.comment.clone(),
        };
        self.txn.create_view(definition, create.or_replace)?;
        Ok(true)
    }

    /// DROP VIEW; the names that were not there.
    pub(super) fn drop_views(
        &mut self,
        names: &[TableName],
        if_exists: bool,
    ) -> Result<Vec<String>, SqlError> {
        let mut missing = Vec::new();
        for name in names {
            match self.view_if(name, if_exists)? {
                Some((schema, view)) => self.txn.drop_view(&schema, &view)?,
                None => missing.push(name.to_string()),
            }
        }
        Ok(missing)
    }

    /// Schema and name of a view; `None` when it may be missing and is.
    pub(super) fn view_if(
        &self,
        name: &TableName,
        if_exists: bool,
    ) -> Result<Option<(String, String)>, SqlError> {
        match self.scope().find_view(name) {
            Ok(view) => Ok(Some((
                view.definition.schema.clone(),
                view.definition.name.clone(),
            ))),
            Err(SqlError::UnknownView { .. }) if if_exists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// COMMENT ON VIEW.
    pub(super) fn comment_view(
        &mut self,
        name: &TableName,
        text: Option<&str>,
    ) -> Result<(), SqlError> {
        let mut definition = self.scope().find_view(name)?.definition.clone();
        definition.comment = text.map(str::to_owned);
        Ok(self.txn.create_view(definition, true)?)
    }
}

/// The columns of a new view.
fn columns_of(
    create: &CreateView,
    plan: &LogicalPlan,
    spelling: &Spelling,
) -> Result<Vec<ViewColumn>, SqlError> {
    let fields = plan.schema().fields();
    if !create.columns.is_empty() && create.columns.len() != fields.len() {
        return Err(SqlError::ViewWidth {
            view: create.name.to_string(),
            names: create.columns.len(),
            columns: fields.len(),
        });
    }
    let mut seen = BTreeSet::new();
    let columns = fields.iter().enumerate().map(|(at, field)| {
        let given = create.columns.get(at).cloned();
        let name = given.unwrap_or_else(|| output_name(field.name(), spelling).to_owned());
        if !seen.insert(fold(&name)) {
            return Err(SqlError::DuplicateColumn { name });
        }
        let from = (*field.name() != fold(&name)).then(|| field.name().clone());
        Ok(ViewColumn { name, from })
    });
    columns.collect()
}

/// SHOW VIEWS.
pub(super) fn show_views(scope: &Scope<'_>, schema: Option<&str>) -> Result<Outcome, SqlError> {
    let catalog = scope.txn.catalog();
    if let Some(name) = schema
        && catalog.schema(name).is_none()
    {
        let near = near(name, catalog.schemas().map(|s| s.name.as_str()));
        let name = name.to_owned();
        return Err(SqlError::UnknownSchema { name, near });
    }
    let views = catalog.views().map(|view| &view.definition);
    let rows = views
        .filter(|view| schema.is_none_or(|name| same(name, &view.schema)))
        .map(|view| {
            vec![
                Some(view.schema.clone()),
                Some(view.name.clone()),
                view.comment.clone(),
            ]
        });
    crate::show::text_rows(&["schema", "name", "comment"], rows.collect())
}
