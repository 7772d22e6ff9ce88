//! The schemas and tables of one statement, as the engine looks them up.
//!
//! Invariant: a view is immutable and belongs to one transaction's snapshot (its own changes
//! included). Tables that a statement does not name are known by name only.
//! Does not: load anything; `query` fills in what a statement needs before it is planned.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::view::ViewTable as EngineView;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, SchemaProvider, Session, TableProvider,
};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use tarndb_db::ViewEntry;

use crate::engine::CATALOG;
use crate::error::{SqlError, translate::carry};
use crate::information::Information;
use crate::name::fold;
use crate::provider::TarnTable;

/// Name of the schema that describes the others.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A schema of a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewSchema {
    /// As created.
    pub(crate) name: String,
    /// Views by folded name.
    pub(crate) views: BTreeMap<String, NamedView>,
    /// Tables by folded name; `None` where a table is not loaded.
    pub(crate) tables: BTreeMap<String, ViewTable>,
}

/// A table of a view.
#[derive(Clone, Debug)]
pub(crate) struct ViewTable {
    /// As created.
    pub(crate) name: String,
    /// Filled in where the statement needs it.
    pub(crate) provider: Option<Arc<TarnTable>>,
}

/// A view, as the statement knows it.
#[derive(Clone, Debug)]
pub(crate) struct NamedView {
    /// What it is.
    pub(crate) entry: Arc<ViewEntry>,
    /// What it stands for; filled in where the statement needs it.
    pub(crate) expanded: Option<Arc<EngineView>>,
}

/// What a statement sees: schemas by folded name.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The schemas.
    pub(crate) schemas: BTreeMap<String, ViewSchema>,
}

/// The catalog list of a session; each statement sets its view before it is planned.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    view: RwLock<Arc<View>>,
}

impl Catalogs {
    /// Sets the view of the statements to come.
    pub(crate) fn set(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Catalog::over(self.view(), Shape::Folded))
    }
}

/// Whether names are folded (for planning) or as created (for `information_schema`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Folded,
    Spelled,
}

#[derive(Debug)]
struct Catalog {
    view: Arc<View>,
    shape: Shape,
}

impl Catalog {
    fn over(view: Arc<View>, shape: Shape) -> Arc<dyn CatalogProvider> {
        Arc::new(Self { view, shape })
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        match self.shape {
            Shape::Folded => self.view.schemas.keys().cloned().collect(),
            Shape::Spelled => self.view.schemas.values().map(|s| s.name.clone()).collect(),
        }
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == INFORMATION_SCHEMA && self.shape == Shape::Folded {
            let list = Arc::new(Spelled(Arc::clone(&self.view)));
            let engine = InformationSchemaProvider::new(list);
            return Some(Arc::new(Information::new(Arc::clone(&self.view), engine)));
        }
        let schema = self.view.schemas.get(&fold(name))?.clone();
        Some(Arc::new(Tables {
            schema,
            shape: self.shape,
        }))
    }
}

/// The list that `information_schema` describes.
#[derive(Debug)]
struct Spelled(Arc<View>);

impl CatalogProviderList for Spelled {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Catalog::over(Arc::clone(&self.0), Shape::Spelled))
    }
}

#[derive(Debug)]
struct Tables {
    schema: ViewSchema,
    shape: Shape,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        match self.shape {
            Shape::Folded => self.schema.tables.keys().cloned().collect(),
            Shape::Spelled => self
                .schema
                .tables
                .values()
                .map(|t| t.name.clone())
                .collect(),
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.schema.tables.get(&fold(name)) else {
            return Ok(self.schema.views.get(&fold(name)).and_then(|view| {
                let expanded = Arc::clone(view.expanded.as_ref()?);
                Some(expanded as Arc<dyn TableProvider>)
            }));
        };
        let Some(provider) = &table.provider else {
            return Err(carry(SqlError::Internal {
                context: "a table that was not loaded",
            }));
        };
        Ok(Some(match self.shape {
            Shape::Folded => Arc::clone(provider) as Arc<dyn TableProvider>,
            Shape::Spelled => Arc::new(Described(Arc::clone(provider.stored()))),
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        let name = fold(name);
        self.schema.tables.contains_key(&name) || self.schema.views.contains_key(&name)
    }
}

/// A table that can be described, not scanned.
#[derive(Debug)]
struct Described(SchemaRef);

#[async_trait]
impl TableProvider for Described {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(carry(SqlError::Internal {
            context: "a scan of a described table",
        }))
    }
}
