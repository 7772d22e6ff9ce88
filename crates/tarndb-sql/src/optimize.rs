//! OPTIMIZE: files written anew, in the order that they have or in that of some columns.
//!
//! Invariant: no row appears, disappears or changes. It commits as it goes, so it is no part of a
//! transaction.
//! Spec: docs/guide/maintenance.md, "Compaction and clustering".

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tarndb_db::{Clustering, CompactOptions, CompactReport, Database, Progress, TxnOptions};
use tarndb_types::TableId;

use crate::dml::target::ChangeTarget;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::error::translate::translate;
use crate::name::Spelling;
use crate::options::SessionOptions;
use crate::outcome::Outcome;
use crate::parser::Optimize;
use crate::query::Scope;
use crate::session::Session;
use crate::sorter::{EngineSorter, unfailed};

/// Bytes that one clustering sorts together at most: the more, the narrower the files.
const CLUSTER_GROUP_BYTES: u64 = 16 << 30;

/// Runs it and tells what came of it.
pub(crate) async fn run(
    session: &Session,
    optimize: &Optimize,
    spelling: &Spelling,
) -> Result<Outcome, SqlError> {
    let options = TxnOptions {
        isolation: session.options.isolation,
        ..TxnOptions::default()
    };
    // To read the catalog and the files' bounds only: never committed.
    let txn = session.db.begin(options).await?;
    let scope = session.scope(&txn);
    let id = scope.find(&optimize.name)?;
    let only = match &optimize.filter {
        None => None,
        Some(_) => Some(matching(&scope, optimize, spelling).await?),
    };
    let state = txn.table(id).await?;
    let clustering = match optimize.order.is_empty() {
        true => Clustering::of_table(&state),
        false => Some(Clustering {
            columns: optimize.order.clone(),
            marks: false,
        }),
    };
    if let (Some(_), false, Some(own)) = (
        &clustering,
        optimize.order.is_empty(),
        Clustering::of_table(&state),
    ) {
        return Err(clustered_by(&optimize.name.to_string(), &own));
    }
    let options = CompactOptions {
        all: optimize.full || !optimize.order.is_empty(),
        only,
        ..CompactOptions::default()
    };
    let sorter = EngineSorter(session.engine.context.task_ctx());
    let mut quiet = |_| {};
    let report = run_with(
        &session.db,
        id,
        options,
        clustering.as_ref(),
        &sorter,
        &mut quiet,
    );
    outcome(&report.await?)
}

/// A table that is clustered is in the order of its own columns.
fn clustered_by(name: &str, own: &Clustering) -> SqlError {
    let columns: Vec<String> = own.columns.iter().map(|path| path.join(".")).collect();
    let columns = columns.join(", ");
    SqlError::Unsupported {
        what: format!("ZORDER BY of table {name}, which is clustered by ({columns})"),
        hint: Some(format!(
            "OPTIMIZE {name} puts it in that order; ALTER TABLE {name} CLUSTER BY (..) changes it"
        )),
    }
}

/// Compacts a table, or clusters it when it has clustering columns.
///
/// # Errors
/// As [`Database::cluster`].
///
/// # Cost
/// As [`Database::cluster`].
pub async fn compact(
    db: &Database,
    id: TableId,
    options: CompactOptions,
    session: SessionOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<CompactReport, SqlError> {
    let state = db.snapshot().await?.table(id).await?;
    let clustering = Clustering::of_table(&state);
    let engine = Engine::new(db, &session)?;
    let sorter = EngineSorter(engine.context.task_ctx());
    run_with(db, id, options, clustering.as_ref(), &sorter, progress).await
}

/// Compacts or clusters a table.
async fn run_with(
    db: &Database,
    id: TableId,
    mut options: CompactOptions,
    clustering: Option<&Clustering>,
    sorter: &EngineSorter,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<CompactReport, SqlError> {
    let Some(clustering) = clustering else {
        return Ok(db.compact_with(id, &options, progress).await?);
    };
    options.group_bytes = CLUSTER_GROUP_BYTES;
    let clustered = db.cluster(id, &options, clustering, sorter, progress).await;
    clustered.map_err(unfailed)
}

/// The files that may hold rows for which the filter is true.
async fn matching(
    scope: &Scope<'_>,
    optimize: &Optimize,
    spelling: &Spelling,
) -> Result<BTreeSet<String>, SqlError> {
    let target = ChangeTarget::find(scope, &optimize.name, None).await?;
    let query = target.query(Vec::new(), optimize.filter.clone())?;
    let planned = scope.plan(&query, spelling, Some(target.target())).await?;
    // The scan is planned and never run: planning it finds the files.
    scope.physical(&planned).await?;
    let kept = target.provider.kept().all().into_iter();
    Ok(kept.map(|(_, file)| file.path.clone()).collect())
}

/// One row of figures.
fn outcome(report: &CompactReport) -> Result<Outcome, SqlError> {
    let figures = [
        ("files_removed", report.files_rewritten),
        ("files_added", report.files_written),
        ("bytes_removed", report.bytes_rewritten),
        ("bytes_added", report.bytes_written),
        ("rows_moved", report.rows_moved),
        ("rows_dropped", report.rows_dropped),
        (
            "files_skipped",
            report.files_skipped + report.files_given_up,
        ),
        ("retries", report.retries),
    ];
    let number = |figure: u64| {
        let number = i64::try_from(figure).ok();
        Arc::new(Int64Array::from(vec![number])) as ArrayRef
    };
    let mut columns: Vec<_> = figures
        .into_iter()
        .map(|(name, figure)| (name, number(figure), true))
        .collect();
    let versions: Vec<String> = report.versions.iter().map(ToString::to_string).collect();
    let versions = Some(versions.join(", ")).filter(|text| !text.is_empty());
    let row_map = match (
        report.row_maps_in_record + report.row_maps_in_file,
        report.row_maps_left_out,
    ) {
        (0, 0) => None,
        (_, 0) => Some("kept"),
        (0, _) => Some("too large"),
        _ => Some("kept in part"),
    };
    let texts = [
        ("database_versions", versions),
        ("row_map", row_map.map(str::to_owned)),
    ];
    columns.extend(texts.map(|(name, text)| {
        let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
        (name, array, true)
    }));
    RecordBatch::try_from_iter_with_nullable(columns)
        .map(Outcome::of_batch)
        .map_err(|error| translate(error.into(), &Spelling::default()))
}
