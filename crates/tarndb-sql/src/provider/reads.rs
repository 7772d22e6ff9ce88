//! What the scans of a statement read: predicates, or all of a table and why.
//!
//! Invariant: a predicate is a pure function of the row and holds for every row that the scan
//! can give to its statement; a filter that is none is left out, which only makes it wider.
//! Does not: note anything in a transaction before the statement was planned.
//! Spec: docs/conflicts.md, "Isolation".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::sql::unparser::Unparser;
use tarndb_db::Transaction;
use tarndb_types::TableId;

use crate::name::fold;
use crate::provider::TarnTable;
use crate::provider::predicate::ScanPredicate;
use crate::provider::prune::has_subquery;

/// What one scan read.
#[derive(Clone, Debug)]
pub(crate) enum ScanRead {
    /// Anything; why it is not less.
    All(String),
    /// The rows for which the predicate is true.
    Where(Arc<ScanPredicate>),
}

/// The scans of one statement, noted while it is planned.
#[derive(Debug, Default)]
pub(crate) struct ScanLog {
    scans: Mutex<BTreeMap<TableId, Vec<ScanRead>>>,
}

impl ScanLog {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Vec<ScanRead>>> {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a scan with the filters pushed down to it.
    pub(crate) fn note(
        &self,
        id: TableId,
        table: &TarnTable,
        session: &dyn Session,
        filters: &[Expr],
    ) {
        let read = read_of(table, session, filters);
        self.lock().entry(id).or_default().push(read);
    }

    /// Notes that anything of the table may have been read.
    pub(crate) fn note_all(&self, id: TableId, why: &str) {
        let read = ScanRead::All(why.to_owned());
        self.lock().entry(id).or_default().push(read);
    }
}

/// What a planned statement reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Tables of the database, with `(schema, table)` as they were named.
    pub(crate) tables: BTreeMap<TableId, (String, String)>,
    /// Views, as `(schema, view)`.
    pub(crate) views: BTreeSet<(String, String)>,
    /// Kept when the transaction is serializable.
    pub(crate) log: Option<Arc<ScanLog>>,
}

impl Reads {
    /// Whether it reads a table.
    pub(crate) fn contains(&self, id: TableId) -> bool {
        self.tables.contains_key(&id)
    }

    /// Notes them in the transaction. Call it when the physical plan is there.
    pub(crate) fn note(&self, txn: &mut Transaction) {
        self.note_names(txn);
        for id in self.tables.keys() {
            match self.of(*id) {
                None => txn.note_read(*id),
                Some(reads) => {
                    for read in reads {
                        match read {
                            ScanRead::All(_) => txn.note_read(*id),
                            ScanRead::Where(predicate) => txn.note_read_where(*id, predicate),
                        }
                    }
                }
            }
        }
    }

    /// Notes the names alone: nothing is read but what they mean.
    pub(crate) fn note_names(&self, txn: &mut Transaction) {
        for (schema, name) in self.tables.values().chain(&self.views) {
            txn.note_name_read(schema, name);
        }
    }

    /// `None`: not scanned, or nobody kept a log.
    fn of(&self, id: TableId) -> Option<Vec<ScanRead>> {
        self.log.as_ref()?.lock().get(&id).cloned()
    }

    /// What EXPLAIN tells of them; nothing unless they are judged.
    pub(crate) fn lines(&self, txn: &Transaction) -> Vec<String> {
        if self.log.is_none() || self.tables.is_empty() {
            return Vec::new();
        }
        let mut lines = BTreeSet::new();
        for id in self.tables.keys() {
            let entry = txn.catalog().table(*id);
            let name = entry.map_or_else(|| id.to_string(), |entry| entry.display_name());
            let reads = self.of(*id).unwrap_or_default();
            if reads.is_empty() {
                lines.insert(format!(
                    "  {name}: all rows (no scan of it is left in the plan)"
                ));
            }
            for read in reads {
                lines.insert(match read {
                    ScanRead::All(why) => format!("  {name}: all rows ({why})"),
                    ScanRead::Where(predicate) => format!("  {name}: rows where {predicate}"),
                });
            }
        }
        let heading = "serializable reads:".to_owned();
        std::iter::once(heading).chain(lines).collect()
    }
}

fn read_of(table: &TarnTable, session: &dyn Session, filters: &[Expr]) -> ScanRead {
    if filters.is_empty() {
        return ScanRead::All("no filter reaches the scan".to_owned());
    }
    let (pure, others): (Vec<&Expr>, Vec<&Expr>) = filters.iter().partition(|f| is_pure(f, table));
    let names = others.iter().map(|filter| text(filter, table));
    let others = names.collect::<Vec<_>>().join(" AND ");
    let pure = pure.into_iter().cloned().collect::<Vec<_>>();
    if pure.is_empty() {
        return ScanRead::All(format!("the row alone does not decide {others}"));
    }
    let text = pure.iter().map(|filter| text(filter, table));
    let text = text.collect::<Vec<_>>().join(" AND ");
    match ScanPredicate::new(table, session, pure, text.clone()) {
        Ok(predicate) => ScanRead::Where(Arc::new(predicate)),
        Err(error) => ScanRead::All(format!("{text} cannot be evaluated later: {error}")),
    }
}

/// Whether the filter is decided by the row and by nothing else.
pub(crate) fn is_pure(filter: &Expr, table: &TarnTable) -> bool {
    let impure = |expr: &Expr| match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::Column(column) => !table
            .pinned()
            .state
            .schema
            .fields
            .iter()
            .any(|field| fold(&field.name) == column.name),
        Expr::Placeholder(_)
        | Expr::ScalarVariable(..)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => true,
        _ => false,
    };
    let found = filter.exists(|expr| Ok(impure(expr)));
    !has_subquery(filter) && !found.unwrap_or(true)
}

/// The filter as SQL, with the columns as the table spells them; long ones are cut.
pub(crate) fn text(filter: &Expr, table: &TarnTable) -> String {
    const SHOWN: usize = 200;
    let fields = &table.pinned().state.schema.fields;
    let spelled = filter.clone().transform(|expr| {
        let Expr::Column(mut column) = expr else {
            return Ok(Transformed::no(expr));
        };
        column.relation = None;
        let field = fields.iter().find(|f| fold(&f.name) == column.name);
        if let Some(field) = field {
            column.name.clone_from(&field.name);
        }
        Ok(Transformed::yes(Expr::Column(column)))
    });
    let spelled = spelled.map_or_else(|_| filter.clone(), |done| done.data);
    let sql = Unparser::default().with_pretty(true).expr_to_sql(&spelled);
    let mut text = sql.map_or_else(|_| spelled.to_string(), |sql| sql.to_string());
    if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(cut);
        text.push_str("..");
    }
    text
}
