//! Reading a table's live rows, and the small tables of the measurements.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_db::{Database, NewTable, Snapshot, TxnOptions};
use tarndb_table::{DataFile, DataType, Field, Schema, TableState, read_file};
use tarndb_types::TableId;

use crate::error::BenchError;

/// Files of one task that are read at the same time.
const FILES_AT_ONCE: usize = 4;

/// A table of `schema` without properties.
pub(crate) fn new_table(name: &str, schema: Schema) -> NewTable {
    NewTable {
        name: name.to_owned(),
        schema,
        partition_columns: Vec::new(),
        properties: BTreeMap::new(),
        comment: None,
    }
}

/// Creates a table by a transaction of its own.
pub(crate) async fn create_table(
    db: &Database,
    name: &str,
    schema: Schema,
) -> Result<TableId, BenchError> {
    let mut txn = db.begin(TxnOptions::default()).await?;
    let id = txn.create_table("main", new_table(name, schema)).await?;
    txn.commit().await?;
    Ok(id)
}

/// Two numbers: `id`, `n`.
pub(crate) fn pair_schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Long, true),
        Field::new("n", DataType::Long, true),
    ])
}

/// Rows of [`pair_schema`].
pub(crate) fn pairs(rows: impl IntoIterator<Item = (i64, i64)>) -> Result<RecordBatch, BenchError> {
    let (ids, numbers): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
    let columns: [Arc<dyn arrow_array::Array>; 2] = [
        Arc::new(Int64Array::from(ids)),
        Arc::new(Int64Array::from(numbers)),
    ];
    Ok(RecordBatch::try_new(
        pair_schema().to_arrow(),
        columns.to_vec(),
    )?)
}

/// Rows and the sums of both columns of a table of pairs.
pub(crate) async fn pair_sums(db: &Database, id: TableId) -> Result<(u64, i64, i64), BenchError> {
    let parts = scan(
        &db.snapshot().await?,
        id,
        |sums: &mut (u64, i64, i64), batch| {
            let sum = |column: usize| {
                let values = batch.column(column).as_primitive::<Int64Type>();
                values.iter().flatten().sum::<i64>()
            };
            sums.0 += batch.num_rows() as u64;
            sums.1 += sum(0);
            sums.2 += sum(1);
        },
    )
    .await?;
    let add = |a: (u64, i64, i64), b: (u64, i64, i64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
    Ok(parts.into_iter().fold((0, 0, 0), add))
}

/// Folds all live rows of a table, in as many tasks as there are processors; one result each.
pub(crate) async fn scan<A: Default + Send + 'static>(
    snapshot: &Snapshot,
    id: TableId,
    fold: impl Fn(&mut A, &RecordBatch) + Clone + Send + Sync + 'static,
) -> Result<Vec<A>, BenchError> {
    let state = snapshot.table(id).await?;
    let tasks = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shares: Vec<Vec<Arc<DataFile>>> = vec![Vec::new(); tasks];
    for (number, file) in state.files.values().enumerate() {
        if let Some(share) = shares.get_mut(number % tasks) {
            share.push(file);
        }
    }
    let mut running = Vec::new();
    for share in shares {
        let (snapshot, state, fold) = (snapshot.clone(), Arc::clone(&state), fold.clone());
        running.push(tokio::spawn(async move {
            fold_files(&snapshot, id, &state, share, fold).await
        }));
    }
    let mut results = Vec::new();
    for task in running {
        results.push(task.await??);
    }
    Ok(results)
}

async fn fold_files<A: Default>(
    snapshot: &Snapshot,
    id: TableId,
    state: &TableState,
    files: Vec<Arc<DataFile>>,
    fold: impl Fn(&mut A, &RecordBatch),
) -> Result<A, BenchError> {
    let location = snapshot.entry(id)?.location.clone();
    let open = |file: Arc<DataFile>| {
        let location = location.clone();
        async move {
            let deleted = snapshot.deleted_rows(id, &file.deletion).await?;
            let store = snapshot.database().store();
            let columns = &state.partition_columns;
            let rows = read_file(
                store,
                &location,
                &file,
                &state.schema,
                columns,
                Some(&deleted),
            );
            Ok::<_, BenchError>(rows.await?)
        }
    };
    let mut opened = futures::stream::iter(files)
        .map(open)
        .buffered(FILES_AT_ONCE);
    let mut result = A::default();
    while let Some(mut rows) = opened.try_next().await? {
        while let Some(batch) = rows.try_next().await? {
            fold(&mut result, &batch);
        }
    }
    Ok(result)
}
