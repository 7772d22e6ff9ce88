//! EXPLAIN.
//!
//! Invariant: only ANALYZE executes. One row of the result is one line of the plan. Queries are explained by the engine; a change by our own
//! lines and the plan of the query that finds its rows.

use arrow_array::cast::AsArray;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::TryStreamExt;

use crate::dml::{Change, insert, plan_delete, plan_update};
use crate::error::SqlError;
use crate::merge;
use crate::name::Spelling;
use crate::options::SessionOptions;
use crate::outcome::Outcome;
use crate::parser::{Explain, Statement};
use crate::provider::reads::Reads;
use crate::query::{ExplainOptions, Scope};
use crate::show::text_rows;

/// Explains a query; what it would read comes with it.
pub(crate) async fn query(
    scope: &Scope<'_>,
    explain: &Explain,
    spelling: &Spelling,
) -> Result<(Outcome, Reads), SqlError> {
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
    let reads = planned.reads.clone();
    let (_, stream) = scope.run(planned).await?;
    let batches = stream.try_collect::<Vec<_>>().await?;
    let mut lines = Vec::new();
    for batch in &batches {
        let [kinds, plans] = batch.columns() else {
            return Err(SqlError::Internal {
                context: "an explanation of another shape",
            });
        };
        let (kinds, plans) = (kinds.as_string_opt::<i32>(), plans.as_string_opt::<i32>());
        for (kind, plan) in kinds.into_iter().flatten().zip(plans.into_iter().flatten()) {
            lines.extend(kind.map(heading));
            let text = plan.unwrap_or_default().trim_end();
            lines.extend(text.lines().map(|line| format!("  {line}")));
        }
    }
    lines.extend(reads.lines(scope.txn));
    Ok((outcome(lines)?, reads))
}

/// The engine's name of a part of its explanation, for people.
fn heading(kind: &str) -> String {
    match kind {
        "Plan with Metrics" => "executed plan:".to_owned(),
        kind => format!("{}:", kind.replace('_', " ")),
    }
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
            let (id, plan, planned) =
                insert::explain_plan(scope, insert, options, spelling).await?;
            lines.push(format!(
                "Insert: table={}",
                scope.txn.entry(id)?.display_name()
            ));
            if insert.overwrite {
                lines.push("  every data file live at the commit is removed".to_owned());
            }
            if insert.replace_where.is_some() {
                lines.push("  rows for which the condition is true are removed".to_owned());
            }
            if insert.conflict.is_some() {
                lines.push("  rows whose key is there change those, or are left out".to_owned());
            }
            lines.push("  new rows go to new data files".to_owned());
            lines.extend(indented(plan.as_ref()));
            lines.extend(planned.reads.lines(scope.txn));
        }
        Statement::Update(update) => {
            let (target, planned) = plan_update(scope, update, spelling).await?;
            let plan = scope.physical(&planned).await?;
            lines.push(format!("Update: table={}", target.name()));
            lines.push(format!("  {}", how(scope, target.id).await?));
            lines.push("  new forms of the rows go to new data files".to_owned());
            lines.extend(indented(plan.as_ref()));
            lines.extend(planned.reads.lines(scope.txn));
        }
        Statement::Delete(delete) => {
            let (target, planned) = plan_delete(scope, delete, spelling).await?;
            lines.push(format!("Delete: table={}", target.name()));
            match planned {
                None => lines.push("  every data file is removed, nothing is read".to_owned()),
                Some(planned) => {
                    lines.push(format!("  {}", how(scope, target.id).await?));
                    lines.extend(indented(scope.physical(&planned).await?.as_ref()));
                    lines.extend(planned.reads.lines(scope.txn));
                }
            }
        }
        Statement::Merge(merge) => {
            let (target, plan, planned) = merge::explain(scope, merge, options, spelling).await?;
            lines.push(format!("Merge: table={}", target.name()));
            lines.push(format!("  {}", how(scope, target.id).await?));
            lines.push("  new rows and new forms of rows go to new data files".to_owned());
            lines.push(format!("  {}", merge::how_source_is_read(options)));
            lines.extend(indented(plan.as_ref()));
            for planned in planned {
                lines.extend(planned.reads.lines(scope.txn));
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
    let (tag, changed) = change.run(statement).await?;
    let rows = changed.rows;
    let elapsed = context.monotonic().saturating_sub(start);
    lines.push(format!("Executed: {tag} rows={rows} elapsed={elapsed:?}"));
    Ok(lines)
}

/// The lines as a result.
pub(crate) fn outcome(lines: Vec<String>) -> Result<Outcome, SqlError> {
    let rows = lines.into_iter().map(|line| vec![Some(line)]);
    text_rows(&["plan"], rows.collect())
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
