//! Every data file of the fixtures, which many writers made, is readable with a schema derived
//! from its own columns.
//!
//! Spec: Delta digest "Parquet types".

use std::collections::BTreeMap;
use std::path::{Path as FsPath, PathBuf};

use futures::TryStreamExt;
use object_store::path::Path;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tarndb_storage::{Context, Store, StoreOptions};
use tarndb_table::schema::arrow::Nanoseconds;
use tarndb_table::{DataFile, Deletion, Schema, read_file};

fn data_files(dir: &FsPath, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "_delta_log" {
            data_files(&path, found);
        } else if name.ends_with(".parquet") && !name.starts_with(['.', '_']) {
            found.push(path);
        }
    }
}

/// Rows read, or why not.
async fn read_all(store: &Store, root: &FsPath, path: &FsPath) -> Result<usize, String> {
    let bytes = std::fs::read(path).unwrap();
    let size_bytes = bytes.len() as u64;
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes));
    let builder = builder.map_err(|error| format!("library: {error}"))?;
    let schema = Schema::from_arrow_with(builder.schema(), Nanoseconds::CheckEachValue);
    let schema = schema.map_err(|error| format!("schema: {error}"))?;
    let relative = path
        .strip_prefix(root)
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let file = DataFile {
        raw_path: relative.clone(),
        path: relative,
        partition_values: BTreeMap::new(),
        size_bytes,
        modification_time_ms: 0,
        stats: None,
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::new(),
        clustering_provider: None,
        held: None,
        beside: None,
    };
    let rows = read_file(store, &Path::default(), &file, &schema, &[], None).await;
    let rows = rows.map_err(|error| error.to_string())?;
    let batches: Vec<_> = rows
        .try_collect()
        .await
        .map_err(|error| error.to_string())?;
    let expected = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap();
    let read = batches.iter().map(|batch| batch.num_rows()).sum();
    if read == expected {
        Ok(read)
    } else {
        Err(format!("rows: {read} of {expected}"))
    }
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "a skipped test must be seen")]
async fn data_files_of_many_writers_are_readable() {
    let root = FsPath::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/delta");
    let Ok(root) = root.canonicalize() else {
        println!("SKIPPED: no fixtures at {}", root.display());
        return;
    };
    let url = root.to_string_lossy().into_owned();
    let store = tarndb_storage::open(&url, &StoreOptions::default(), Context::seeded(1)).unwrap();
    let mut files = Vec::new();
    data_files(&root, &mut files);
    let mut failures = Vec::new();
    for path in &files {
        if let Err(reason) = read_all(&store, &root, path).await {
            failures.push(format!("{}: {reason}", path.display()));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
    assert!(!files.is_empty());
}
