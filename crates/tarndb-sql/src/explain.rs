//! EXPLAIN.
//!
//! Invariant: only ANALYZE executes. Queries are explained by the engine; a change by our own
//! lines and the plan of the query that finds its rows.

use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::dml::{Change, insert, plan_delete, plan_update};
use crate::error::SqlError;
use crate::name::Spelling;
use crate::options::SessionOptions;
use crate::outcome::Outcome;
use crate::parser::{Explain, Statement};
use crate::query::{ExplainOptions, Scope};
use crate::show::text_rows;

/// Explains a query.
pub(crate) async fn query(
    scope: &Scope<'_>,
    explain: &Explain,
    spelling: &Spelling,
) -> Result<Outcome, SqlError> {
    let Statement::Query(query) = explain.statement.as_ref() else {
        return Err(SqlError::Internal {
            context: "explaining a query that is none",
        });
    };
    let options = ExplainOptions {
        analyze: explain.analyze,
        verbose: explain.verbose,
        format: explain.format.clone(),
    };
    let planned = scope.plan_explain(query, spelling, options).await?;
    let (schema, stream) = scope.run(planned).await?;
    Ok(Outcome::Rows { schema, stream })
}

/// Explains a change without running it.
pub(crate) async fn change(
    scope: &Scope<'_>,
    statement: &Statement,
    options: &SessionOptions,
    spelling: &Spelling,
) -> Result<Vec<String>, SqlError> {
    let mut lines = Vec::new();
    match statement {
        Statement::Insert(insert) => {
            let (id, plan) = insert::explain_plan(scope, insert, options, spelling).await?;
            lines.push(format!(
                "Insert: table={}",
                scope.txn.entry(id)?.display_name()
            ));
            lines.push("  new rows go to new data files".to_owned());
            lines.extend(indented(plan.as_ref()));
        }
        Statement::Update(update) => {
            let (target, planned) = plan_update(scope, update, spelling).await?;
            let plan = scope.physical(&planned).await?;
            lines.push(format!("Update: table={}", target.name()));
            lines.push(format!("  {}", how(scope, target.id).await?));
            lines.push("  new forms of the rows go to new data files".to_owned());
            lines.extend(indented(plan.as_ref()));
        }
        Statement::Delete(delete) => {
            let (target, planned) = plan_delete(scope, delete, spelling).await?;
            lines.push(format!("Delete: table={}", target.name()));
            match planned {
                None => lines.push("  every data file is removed, nothing is read".to_owned()),
                Some(planned) => {
                    lines.push(format!("  {}", how(scope, target.id).await?));
                    lines.extend(indented(scope.physical(&planned).await?.as_ref()));
                }
            }
        }
        _ => {
            return Err(SqlError::Internal {
                context: "explaining this statement",
            });
        }
    }
    Ok(lines)
}

/// Runs a change and tells what it did.
pub(crate) async fn analyze(
    change: &mut Change<'_>,
    statement: &Statement,
) -> Result<Vec<String>, SqlError> {
    let mut lines =
        self::change(&change.scope(), statement, change.options, change.spelling).await?;
    let context = change.db.store().context().clone();
    let start = context.monotonic();
    let (tag, rows) = change.run(statement).await?;
    let elapsed = context.monotonic().saturating_sub(start);
    lines.push(format!("Executed: {tag} rows={rows} elapsed={elapsed:?}"));
    Ok(lines)
}

/// The lines as a result.
pub(crate) fn outcome(lines: Vec<String>) -> Result<Outcome, SqlError> {
    let rows = vec![vec![Some("plan".to_owned()), Some(lines.join("\n"))]];
    text_rows(&["plan_type", "plan"], rows)
}

async fn how(scope: &Scope<'_>, id: tarndb_types::TableId) -> Result<&'static str, SqlError> {
    Ok(if scope.txn.table(id).await?.deletion_vectors_enabled() {
        "old rows are marked in deletion vectors"
    } else {
        "files with old rows are written anew (deletion_vectors = 'off')"
    })
}

fn indented(plan: &dyn ExecutionPlan) -> Vec<String> {
    displayable(plan)
        .indent(false)
        .to_string()
        .lines()
        .map(|line| format!("  {line}"))
        .collect()
}
