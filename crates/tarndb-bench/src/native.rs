//! A writer of one Delta table by path, among writers of other engines.
//!
//! Invariant: each commit is told once, after it stands, with its version and what it did to the
//! rows; whoever reads the table later can compare.
//! Does not: measure; it is the TarnDB side of scripts/native_processes.py and native_paused.py.
//! Spec: docs/format/native.md, "Committing".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use futures::TryStreamExt as _;
use tarndb_delta::{
    DeltaCodec, NativeCleanup, NativeError, NativeTable, NativeTarget, NativeVacuum, Reads,
    convert_to_delta, open_native,
};
use tarndb_storage::{Context, Path, Store, StoreOptions};
use tarndb_table::{
    DataType, Field, ReadOptions, RowSet, TableCodec as _, TableDefinition, TableState, Written,
    read_file_rows,
};
use tarndb_types::TableId;

use crate::error::BenchError;
use crate::scan::{pair_schema, pairs};
use crate::stopping::Stopping;

/// Ids of one process begin at its number times this.
const IDS_PER_PROCESS: i64 = 1_000_000;
/// Rows of one append.
const ROWS: i64 = 4;
/// Files below this size are compacted, bytes.
const TARGET_BYTES: u64 = 1 << 20;
/// Every so many commits rows are deleted, and files compacted.
const DELETE_EVERY: u64 = 3;
const COMPACT_EVERY: u64 = 10;

/// What one process does.
#[derive(Clone, Copy, Debug)]
pub struct NativeWork {
    /// Its number.
    pub process: i64,
    /// Commits that it makes.
    pub commits: u64,
}

fn open(url: &str) -> Result<Store, BenchError> {
    let options = StoreOptions::default();
    Ok(tarndb_storage::open(url, &options, Context::system())?)
}

/// Creates the table, with or without deletion vectors.
///
/// # Errors
/// It exists, or the store.
pub async fn create(url: &str, vectors: bool) -> Result<(), BenchError> {
    let store = open(url)?;
    let key = "delta.enableDeletionVectors".to_owned();
    let definition = TableDefinition {
        id: TableId(store.context().uuid()),
        name: "native".to_owned(),
        schema: pair_schema(),
        partition_columns: Vec::new(),
        properties: vectors
            .then(|| (key, "true".to_owned()))
            .into_iter()
            .collect(),
        description: None,
    };
    NativeTable::create(&store, definition).await?;
    Ok(())
}

/// Makes the Parquet files of a folder, in folders `p=<integer>` or in none, a table.
///
/// # Errors
/// A file that does not fit, or the store.
pub async fn convert(url: &str, partitioned: bool) -> Result<(), BenchError> {
    let column = Field::new("p", DataType::Integer, true);
    let columns = partitioned.then_some(column).into_iter().collect();
    let converted = convert_to_delta(&open(url)?, columns).await?;
    line(&format!("{:?}", converted.made));
    Ok(())
}

/// What a process does once, for scripts/native_paused.py.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// Appends rows.
    Append,
    /// Deletes the first rows of another process.
    Delete,
    /// Compacts.
    Compact,
    /// Vacuums, and keeps what is younger than the retention.
    Vacuum,
    /// Cleans the log up, likewise.
    Cleanup,
    /// Makes the folder a table.
    Convert,
}

/// Does one thing; how many objects were written or deleted for it stands on stderr as `writes n`.
///
/// # Errors
/// Whatever it ends with, a conflict too, unless the statement is to be run again after it.
pub async fn once(
    url: &str,
    what: Once,
    process: i64,
    retention: Duration,
) -> Result<(), BenchError> {
    let opened = open(url)?;
    let stopping = Stopping::new(opened.objects());
    let store = Store::new(Arc::new(stopping.clone()), url, opened.context().clone());
    let done = run_once(&store, what, process, retention).await;
    eprintln_writes(stopping.writes());
    done
}

async fn run_once(
    store: &Store,
    what: Once,
    process: i64,
    retention: Duration,
) -> Result<(), BenchError> {
    if what == Once::Convert {
        let converted = convert_to_delta(store, Vec::new()).await?;
        line(&format!("{:?}", converted.made));
        return Ok(());
    }
    // As far below the retention as the handle's own time is below real ones.
    let table = NativeTable::open(store).await?;
    let mut table = table.with_log_seen_for(retention / 2);
    match what {
        Once::Append => append(&mut table, process, process * IDS_PER_PROCESS)
            .await
            .map(|_| ()),
        Once::Delete => {
            let first = process * IDS_PER_PROCESS;
            delete(store, &mut table, &(first..first + 2).collect()).await
        }
        Once::Compact => compact(&mut table).await,
        Once::Vacuum => {
            let options = NativeVacuum {
                retention: Some(retention),
                force: true,
                dry_run: false,
            };
            let gone = table.vacuum(&options).await?;
            line(&format!("vacuumed {}", gone.len()));
            Ok(())
        }
        Once::Cleanup | Once::Convert => {
            let options = NativeCleanup {
                retention: Some(retention),
                ..NativeCleanup::default()
            };
            let gone = table.clean_log(&options).await?;
            line(&format!("cleaned {}", gone.files.len()));
            Ok(())
        }
    }
}

#[expect(clippy::print_stderr, reason = "what the script reads")]
fn eprintln_writes(writes: u64) {
    eprintln!("writes {writes}");
}

/// Appends rows with ids from `first` on, and gives these.
async fn append(table: &mut NativeTable, process: i64, first: i64) -> Result<Vec<i64>, BenchError> {
    let ids: Vec<i64> = (first..first + ROWS).collect();
    let rows = pairs(ids.iter().map(|id| (*id, process)))?;
    let rows = futures::stream::iter([Ok::<_, BenchError>(rows)]);
    let written = table.write(rows).await?;
    let commit = table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await?;
    tell(commit.map(|commit| commit.version.0), "append", &ids);
    Ok(ids)
}

/// Commits, and prints one line for each commit: its version, what it did, and to which ids.
///
/// # Errors
/// Anything but a conflict, after which the statement is run again.
pub async fn work(url: &str, work: NativeWork) -> Result<(), BenchError> {
    let store = open(url)?;
    let mut table = NativeTable::open(&store).await?;
    let mut own: Vec<i64> = Vec::new();
    let mut next = work.process * IDS_PER_PROCESS;
    for turn in 1..=work.commits {
        if turn.is_multiple_of(COMPACT_EVERY) {
            compact(&mut table).await?;
        } else if turn.is_multiple_of(DELETE_EVERY) && !own.is_empty() {
            let gone: BTreeSet<i64> = own.drain(..own.len().min(3)).collect();
            delete(&store, &mut table, &gone).await?;
        } else {
            let ids = append(&mut table, work.process, next).await?;
            next += ROWS;
            own.extend(ids);
        }
    }
    Ok(())
}

async fn compact(table: &mut NativeTable) -> Result<(), BenchError> {
    loop {
        match table.compact(TARGET_BYTES).await {
            Ok(done) => {
                tell(done.map(|done| done.commit.version.0), "compact", &[]);
                return Ok(());
            }
            Err(error) => retried(table, error).await?,
        }
    }
}

/// Deletes rows by their ids, however often others are in the way.
async fn delete(
    store: &Store,
    table: &mut NativeTable,
    gone: &BTreeSet<i64>,
) -> Result<(), BenchError> {
    loop {
        let mut rows: BTreeMap<String, RowSet> = BTreeMap::new();
        let state = Arc::clone(table.state()?);
        scan(store, &state, |id, file, at| {
            if gone.contains(&id) {
                rows.entry(file.to_owned()).or_default().insert(at);
            }
        })
        .await?;
        let reads = Reads::Rows {
            partitions: None,
            files: rows.keys().cloned().collect(),
        };
        match table.change_rows(rows, Written::default(), reads).await {
            Ok(commit) => {
                let ids: Vec<i64> = gone.iter().copied().collect();
                tell(commit.map(|commit| commit.version.0), "delete", &ids);
                return Ok(());
            }
            Err(error) => retried(table, error).await?,
        }
    }
}

async fn retried(table: &mut NativeTable, error: NativeError) -> Result<(), BenchError> {
    if !error.is_retryable() {
        return Err(error.into());
    }
    Ok(table.refresh().await?)
}

/// Prints the ids of all live rows, one per line, after the version.
///
/// # Errors
/// The table, the store.
pub async fn read(url: &str) -> Result<(), BenchError> {
    let store = open(url)?;
    let state = open_native(&store, NativeTarget::Latest).await?;
    line(&format!("version {}", state.version));
    scan(&store, &state, |id, _, _| line(&id.to_string())).await
}

/// Calls `see` with id, file and position of each live row.
async fn scan(
    store: &Store,
    state: &TableState,
    mut see: impl FnMut(i64, &str, u64),
) -> Result<(), BenchError> {
    let (codec, root) = (DeltaCodec::default(), Path::default());
    for file in state.files.values() {
        let deleted = codec.load_deletion(store, &root, &file.deletion).await?;
        let rows = read_file_rows(
            store,
            &root,
            &file,
            &state.schema,
            &state.partition_columns,
            Some(&deleted),
            ReadOptions::default(),
        );
        let mut rows = rows.await?;
        while let Some(rows) = rows.try_next().await? {
            let ids = rows.batch.column(0).as_primitive::<Int64Type>().values();
            for (id, at) in ids.iter().zip(&rows.positions) {
                see(*id, &file.path, *at);
            }
        }
    }
    Ok(())
}

fn tell(version: Option<u64>, what: &str, ids: &[i64]) {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    let version = version.map_or_else(|| "-".to_owned(), |version| version.to_string());
    line(&format!("{version} {what} {}", ids.join(",")));
}

#[expect(clippy::print_stdout, reason = "what the script reads")]
fn line(text: &str) {
    println!("{text}");
}
