//! MERGE.
//!
//! Invariant: one query over the transaction's snapshot says for each row what happens to it;
//! new forms and new rows are written before anything of the transaction is changed, and then
//! all of it is changed in one step. The table is never held in memory, the source only when
//! it is small.
//! Does not: commit, or run again after a conflict; `session` does.
//! Spec: docs/sql/merge.md.

mod clause;
mod evolve;
mod exec;
mod keys;
mod names;
mod plan;
mod report;
mod source;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use tarndb_db::{MergeCounts, MergeKeys, MergedRows};
use tarndb_table::{RowSet, Schema};

use crate::dml::Change;
use crate::dml::target::{ChangeTarget, Twice};
use crate::dml::write::{Destination, stream_of};
use crate::error::{SqlError, translate::translate};
use crate::name::{Spelling, fold};
use crate::options::SessionOptions;
use crate::parser::{Merge, MergeWhen};
use crate::query::{Planned, Scope};
use clause::{Act, Clause, Resolver};
use exec::{MergeExec, Rules};
use keys::Pair;
use names::Names;
use plan::{Layout, Parts, Sides};
use source::Rows;
use write::Merger;

pub(crate) use report::MergeReport;

/// A MERGE that is ready to run.
struct Prepared {
    target: ChangeTarget,
    destination: Destination,
    clauses: Vec<Clause>,
    pairs: Vec<Pair>,
    layout: Layout,
    plan: Arc<dyn ExecutionPlan>,
    planned: Planned,
    notices: Vec<String>,
}

/// The lines of an explanation.
pub(crate) async fn explain(
    scope: &Scope<'_>,
    merge: &Merge,
    options: &SessionOptions,
    spelling: &Spelling,
) -> Result<(ChangeTarget, Arc<dyn ExecutionPlan>, Vec<Planned>), SqlError> {
    let source = scope.plan(&merge.source, spelling, None).await?;
    let prepared = prepare(scope, merge, &source, &Rows::Many, options).await?;
    Ok((
        prepared.target,
        prepared.plan,
        vec![source, prepared.planned],
    ))
}

/// What EXPLAIN says of the source.
pub(crate) fn how_source_is_read(options: &SessionOptions) -> String {
    let budget = source::budget(options) >> 20;
    format!(
        "the source is read first; up to {budget} MiB of it are held, and its keys then tell \
         which files of the table are read"
    )
}

/// Runs a MERGE.
pub(crate) async fn merge(change: &mut Change<'_>, merge: &Merge) -> Result<MergeReport, SqlError> {
    let scope = change.scope();
    let source = scope.plan(&merge.source, change.spelling, None).await?;
    let budget = source::budget(change.options);
    let rows = source::read(&scope, &source, budget).await?;
    if merge.evolve {
        evolve::evolve(change, merge, &source).await?;
    }
    let prepared = prepare(&change.scope(), merge, &source, &rows, change.options).await?;
    change.note_reads(&source);
    change.note_reads(&prepared.planned);
    let source_rows = match &rows {
        Rows::Kept(batches) => Some(batches.iter().map(|batch| batch.num_rows() as u64).sum()),
        Rows::Many => None,
    };
    drop(rows);
    run(change, prepared, source_rows).await
}

async fn run(
    change: &mut Change<'_>,
    prepared: Prepared,
    source_rows: Option<u64>,
) -> Result<MergeReport, SqlError> {
    let Prepared {
        target,
        destination,
        clauses,
        pairs,
        layout,
        plan,
        planned,
        notices,
    } = prepared;
    let id = target.id;
    let stream = stream_of(change.engine, plan, &planned.spelling)?;
    let merger = Merger {
        writer: change
            .txn
            .change_writer(id, Some(destination.options()))
            .await?,
        keys: sought(&clauses, &pairs, &destination)?,
        found: target.nothing_found(),
        gone: BTreeMap::new(),
        counts: MergeCounts::default(),
        target: &target,
        destination: &destination,
        clauses: &clauses,
        layout,
        spelling: &planned.spelling,
    };
    let done = merger.run(stream).await?;
    let all = target.provider.pinned().state.files.len() as u64;
    let scanned = target.provider.kept().all().len() as u64;
    let counts = MergeCounts {
        source_rows,
        files_scanned: scanned,
        files_skipped: all.saturating_sub(scanned),
        ..done.counts
    };
    let mut report = MergeReport {
        counts,
        notices,
        ..MergeReport::default()
    };
    if done.found.len() == 0 && done.written.is_empty() {
        return Ok(report);
    }
    let merged = MergedRows {
        gone: by_path(&target, done.gone)?,
        rows: target.by_path(done.found).await?,
        written: done.written,
        keys: done.keys,
        counts,
    };
    report.files = change.txn.merge_rows(id, merged).await?;
    Ok(report)
}

fn by_path(
    target: &ChangeTarget,
    rows: BTreeMap<u32, RowSet>,
) -> Result<BTreeMap<String, RowSet>, SqlError> {
    let rows = rows.into_iter().map(|(number, rows)| {
        let file = target.provider.kept().file(number)?;
        Some((file.path.clone(), rows))
    });
    rows.collect::<Option<_>>().ok_or(SqlError::Internal {
        context: "a file of a MERGE that was not scanned",
    })
}

/// The keys that nobody else may add meanwhile, when rows are inserted.
fn sought(
    clauses: &[Clause],
    pairs: &[Pair],
    destination: &Destination,
) -> Result<Option<MergeKeys>, SqlError> {
    let inserts: Vec<&Clause> = clauses
        .iter()
        .filter(|clause| matches!(clause.act, Act::Insert(_)))
        .collect();
    if inserts.is_empty() {
        return Ok(None);
    }
    // A number that an identity column gives is not known here, so no set could hold it.
    let numbered = pairs
        .iter()
        .any(|pair| destination.rules.is_identity(pair.place));
    let names: Vec<&str> = match numbered {
        true => Vec::new(),
        false => pairs.iter().map(|pair| pair.field.name.as_str()).collect(),
    };
    let keys = MergeKeys::new(&destination.schema, &names);
    keys.map(Some).map_err(SqlError::table(&destination.name))
}

async fn prepare(
    scope: &Scope<'_>,
    merge: &Merge,
    source: &Planned,
    rows: &Rows,
    options: &SessionOptions,
) -> Result<Prepared, SqlError> {
    let target = ChangeTarget::find(scope, &merge.table, merge.alias.as_deref()).await?;
    if target.qualifier == merge.source_name {
        return Err(SqlError::Engine {
            message: format!("both sides of the MERGE are called {}", target.qualifier),
            sqlstate: "42712",
            kind: tarndb_db::ErrorKind::Invalid,
            hint: Some("give one of them another name: USING .. AS s".to_owned()),
        });
    }
    let destination = Destination::of_table(scope.txn, target.id, options).await?;
    let clauses = resolve(&target, &destination, merge, source)?;
    let target = target.with_twice(twice(&clauses));
    let sides = Sides::of(&clauses);
    let on = merge.on.clone();
    let query = plan::query(&target, &merge.source_name, sides, on, &clauses)?;
    let mut named = target.target();
    named.source = Some(source::plan(source, rows)?);
    let planned = scope.plan(&query, &source.spelling, Some(named)).await;
    let mut planned = planned.map_err(|error| match error.sqlstate() {
        "42803" => plan::aggregate_refused(),
        _ => error,
    })?;
    let failed = |error| translate(error, &source.spelling);
    let mut parts = Parts::of(planned.plan)?;
    parts.check_subqueries(&clauses, &target.qualifier, &merge.source_name)?;
    let schema = &destination.schema;
    let pairs = keys::pairs(&parts.join, schema);
    let mut notices = Vec::new();
    if let Rows::Kept(batches) = rows {
        parts =
            look_up(scope, &target, parts, &pairs, batches, sides, &mut notices).map_err(failed)?;
    }
    let (plan, layout) =
        plan::assemble(parts, &clauses, &target, schema, &pairs).map_err(failed)?;
    planned.plan = plan;
    let fits = matches!(rows, Rows::Kept(_)) || options.memory_limit.is_none();
    let plan = physical(scope, &planned, fits).await?;
    let rules = Rules {
        table: Arc::clone(&destination.name),
        rules: Arc::clone(&destination.rules),
        layout: layout.clone(),
        supplied: clauses
            .iter()
            .map(|clause| clause.cells().map(|_| clause.supplied.clone()))
            .collect(),
    };
    let plan = destination.sorted(Arc::new(MergeExec::new(plan, Arc::new(rules))))?;
    Ok(Prepared {
        target,
        destination,
        clauses,
        pairs,
        layout,
        plan,
        planned,
        notices,
    })
}

/// Uses the keys of a source that was read: where rows without a counterpart stay as they are,
/// only files that can hold one of the keys are read.
fn look_up(
    scope: &Scope<'_>,
    target: &ChangeTarget,
    mut parts: Parts,
    pairs: &[Pair],
    batches: &[arrow_array::RecordBatch],
    sides: Sides,
    notices: &mut Vec<String>,
) -> datafusion::common::Result<Parts> {
    let state = scope.engine.context.state();
    let schema = keys::source_schema(&parts.join);
    // The rows were read without the column that tells that they are there.
    let keys = keys::of_rows(pairs, &source::present(batches, &schema)?, &schema, &state)?;
    for (column, rows) in &keys.nulls {
        notices.push(format!(
            "{rows} rows of the source have NULL for {column}: \"=\" is never true for NULL, so \
             they match no row (IS NOT DISTINCT FROM would)"
        ));
    }
    if !sides.target {
        parts.join = keys::bounded(parts.join, pairs, &keys.sorted)?;
        target.provider.sought().set(keys.sorted);
    }
    Ok(parts)
}

fn resolve(
    target: &ChangeTarget,
    destination: &Destination,
    merge: &Merge,
    source: &Planned,
) -> Result<Vec<Clause>, SqlError> {
    let schema: &Schema = &destination.schema;
    let target_columns: BTreeSet<String> = schema
        .fields
        .iter()
        .map(|field| fold(&field.name))
        .collect();
    let source_columns: BTreeSet<String> = source::columns(source)
        .into_iter()
        .map(|column| column.name)
        .collect();
    let resolver = Resolver {
        table: target.name(),
        schema,
        rules: &destination.rules,
        names: Names {
            target: &target.qualifier,
            target_columns: &target_columns,
            source: &merge.source_name,
            source_columns: &source_columns,
        },
        evolve: merge.evolve,
    };
    let clauses = merge.clauses.iter();
    clauses.map(|clause| resolver.resolve(clause)).collect()
}

/// What it means that a row of the table matches again: nothing, when it goes in any case.
fn twice(clauses: &[Clause]) -> Twice {
    let matched: Vec<&Clause> = clauses
        .iter()
        .filter(|clause| clause.when == MergeWhen::Matched)
        .collect();
    match matched.as_slice() {
        [only] if only.condition.is_none() && matches!(only.act, Act::Delete) => Twice::Allowed,
        _ => Twice::Joined,
    }
}

/// The physical plan. The source is the left side, which a hash join holds; one that does not
/// fit is joined by sorting both sides, which spills.
async fn physical(
    scope: &Scope<'_>,
    planned: &Planned,
    source_fits: bool,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let mut state = scope.engine.context.state();
    let options = state.config_mut().options_mut();
    options.optimizer.join_reordering = false;
    options.optimizer.prefer_hash_join = source_fits;
    options.optimizer.repartition_joins = true;
    if !source_fits {
        // The engine sorts for a join only where it has several partitions.
        let partitions = options.execution.target_partitions;
        options.execution.target_partitions = partitions.max(2);
    }
    let plan = state.create_physical_plan(&planned.plan).await;
    plan.map_err(|error| translate(error, &planned.spelling))
}
