//! Checking rows and statistics of one data file by reading it.
//!
//! Invariant: statistics are right when no value in the file lies outside of their bounds and
//! their counts are exact; wider bounds are allowed.

use std::cmp::Ordering;

use tarndb_storage::Store;
use tarndb_table::parquet::read::file_statistics;
use tarndb_table::stats::{truncated_max, truncated_min};
use tarndb_table::{ColumnStats, DataFile, Indexed, Scalar, Statistics, TableState};

use super::{CheckReport, Finding, chain, is_store_failure, kind};
use crate::catalog::TableEntry;
use crate::error::DbError;

pub(super) async fn check_data(
    store: &Store,
    table: &TableEntry,
    state: &TableState,
    file: &DataFile,
    report: &mut CheckReport,
) -> Result<(), DbError> {
    let computed = file_statistics(
        store,
        &table.location,
        file,
        &state.schema,
        &state.partition_columns,
        &Indexed::from(usize::MAX),
    )
    .await
    .map_err(DbError::table(table.display_name()));
    let found = |kind, detail: String| {
        let finding = Finding::new(kind, detail).table(table.display_name());
        finding.version(state.version).file(file.path.clone())
    };
    let computed = match computed {
        Ok(computed) => computed,
        Err(error) if is_store_failure(&error) => return Err(error),
        Err(error) => {
            report
                .findings
                .push(found(kind::FILE_UNREADABLE, chain(&error)));
            return Ok(());
        }
    };
    report.rows += computed.num_records.unwrap_or(0);
    let Some(stated) = &file.stats else {
        return Ok(());
    };
    let wrong = compare(stated, &computed);
    report
        .findings
        .extend(wrong.into_iter().map(|(kind, detail)| found(kind, detail)));
    Ok(())
}

/// What stated statistics claim and computed ones deny.
pub(super) fn compare(stated: &Statistics, computed: &Statistics) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    if stated.num_records.is_some() && stated.num_records != computed.num_records {
        let (stated, rows) = (
            stated.num_records.unwrap_or(0),
            computed.num_records.unwrap_or(0),
        );
        wrong.push((
            kind::STATS_ROWS,
            format!("the file has {rows} rows, stated={stated}"),
        ));
    }
    for (path, stated) in &stated.columns {
        let Some(computed) = computed.columns.get(path) else {
            continue;
        };
        let column = path.join(".");
        if let (Some(stated), Some(nulls)) = (stated.null_count, computed.null_count)
            && stated != nulls
        {
            let detail = format!("column {column} has {nulls} NULLs, stated={stated}");
            wrong.push((kind::STATS_NULLS, detail));
        }
        if excludes(stated, computed) {
            let detail = format!("column {column} has values outside of its stated bounds");
            wrong.push((kind::STATS_BOUNDS, detail));
        }
    }
    wrong
}

fn excludes(stated: &ColumnStats, computed: &ColumnStats) -> bool {
    let above = |a: &Scalar, b: &Scalar| a.partial_cmp(b) == Some(Ordering::Greater);
    let low = match (&stated.min, &computed.min) {
        (Some(stated), Some(min)) => above(&cut_min(stated), min),
        _ => false,
    };
    let high = match (stated.upper_bound().and_then(cut_max), &computed.max) {
        (Some(stated), Some(max)) => above(max, &stated),
        _ => false,
    };
    low || high
}

/// A lower bound as one computed of the same text, whose end is cut off, would be: other writers
/// state long texts whole.
fn cut_min(stated: &Scalar) -> Scalar {
    match stated {
        Scalar::String(text) => Scalar::String(truncated_min(text).to_owned()),
        other => other.clone(),
    }
}

/// The same of an upper bound; `None` where there is none of that length.
fn cut_max(stated: Scalar) -> Option<Scalar> {
    match stated {
        Scalar::String(text) => truncated_max(&text).map(Scalar::String),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(min: &str, max: &str) -> ColumnStats {
        ColumnStats {
            min: Some(Scalar::String(min.to_owned())),
            max: Some(Scalar::String(max.to_owned())),
            ..ColumnStats::default()
        }
    }

    #[test]
    fn bounds_of_long_texts_are_right_whole_and_cut_and_wrong_ones_are_found() {
        let long = "y".repeat(40);
        let cut = truncated_max(&long).unwrap();
        let computed = stats(truncated_min(&long), &cut);
        assert!(!excludes(&stats(&long, &long), &computed));
        assert!(!excludes(&stats(truncated_min(&long), &cut), &computed));
        assert!(excludes(&stats("z", "zz"), &computed));
        assert!(excludes(&stats("a", "x"), &computed));
    }
}
