//! Tables of our own for the tests: commits made by the codec, kept as entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_delta::DeltaCodec;
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::*;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, TxnId, Uuid};

/// A table under construction, with all its entries.
pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) location: Path,
    pub(crate) codec: DeltaCodec,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) state: Option<TableState>,
    /// Schema and partition columns with which it is created.
    schema: Schema,
    partition_columns: Vec<String>,
}

/// What a commit does.
#[derive(Default)]
pub(crate) struct Work<'a> {
    pub(crate) operation: &'a str,
    pub(crate) parameters: &'a [(&'a str, &'a str)],
    pub(crate) adds: Vec<DataFile>,
    pub(crate) updates: Vec<FileUpdate>,
    pub(crate) removes: Vec<Arc<DataFile>>,
    pub(crate) metadata: Vec<MetadataChange>,
}

impl Table {
    /// A table with one long column `a`, created.
    pub(crate) fn create() -> Self {
        Self::create_with(vec![Field::new("a", DataType::Long, true)], &[])
    }

    /// A table with these columns, created.
    pub(crate) fn create_with(fields: Vec<Field>, partition_columns: &[&str]) -> Self {
        let mut table = Self {
            schema: Schema::new(fields),
            partition_columns: partition_columns.iter().map(|c| (*c).to_owned()).collect(),
            store: Store::memory(Context::seeded(3)),
            location: Path::from("db/t"),
            codec: DeltaCodec::with_inline_dv_bytes(60),
            entries: Vec::new(),
            state: None,
        };
        table.commit(Work {
            operation: "CREATE TABLE",
            ..Work::default()
        });
        table
    }

    pub(crate) fn state(&self) -> &TableState {
        self.state.as_ref().unwrap()
    }

    pub(crate) fn file(&self, path: &str) -> Arc<DataFile> {
        self.state().files.get(path).unwrap()
    }

    /// The table as one by path: a store rooted at it.
    pub(crate) fn root(&self) -> Store {
        let objects = self.store.objects();
        let rooted = object_store::prefix::PrefixStore::new(objects, self.location.clone());
        Store::new(Arc::new(rooted), "memory://t", self.store.context().clone())
    }

    /// Commits, without publishing.
    pub(crate) fn commit(&mut self, work: Work<'_>) {
        let version = self.entries.len() as u64;
        let definition = TableDefinition {
            id: TableId(Uuid::from_u128(1)),
            name: "t".to_owned(),
            schema: self.schema.clone(),
            partition_columns: self.partition_columns.clone(),
            properties: BTreeMap::new(),
            description: None,
        };
        let entry = self
            .codec
            .encode(&Commit {
                head: self.state.as_ref(),
                create: self.state.is_none().then_some(&definition),
                operation: work.operation,
                parameters: work
                    .parameters
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
                metrics: BTreeMap::new(),
                adds: &work.adds,
                updates: &work.updates,
                removes: &work.removes,
                changes: &[],
                app_txns: &BTreeMap::new(),
                metadata: &work.metadata,
                restored: None,
                data_change: work.operation != "OPTIMIZE",
                stamp: CommitStamp {
                    txn: TxnId(Uuid::from_u128(version.into())),
                    timestamp: TimestampMs(
                        self.store.context().now().0 - 60_000 + version as i64 * 1000,
                    ),
                    version: TableVersion(version),
                    read_version: version.checked_sub(1).map(TableVersion),
                    database: DatabaseId(Uuid::from_u128(3)),
                    db_version: DbVersion(version),
                    engine: "tarndb/test",
                    isolation: "SnapshotIsolation",
                },
            })
            .unwrap();
        self.state = Some(self.codec.apply(self.state.as_ref(), &entry).unwrap());
        self.entries.push(Arc::new(entry));
    }

    /// Publishes all versions up to `version`.
    pub(crate) async fn publish(&self, version: u64) {
        for entry in &self.entries[..=version as usize] {
            let key = self.codec.published_key(&self.location, entry.version);
            self.store
                .put(&key, self.codec.published_bytes(entry))
                .await
                .unwrap();
        }
    }

    /// Loads a version as a database would.
    pub(crate) async fn load(
        &self,
        target: u64,
        published: Option<u64>,
        tail: &[Arc<Entry>],
    ) -> Result<TableState, TableError> {
        self.codec
            .load(LoadRequest {
                store: &self.store,
                location: &self.location,
                target: TableVersion(target),
                published: published.map(TableVersion),
                tail,
            })
            .await
    }

    pub(crate) async fn delete(&self, name: &str) {
        let key = Path::from(format!("{}/_delta_log/{name}", self.location));
        self.store.delete(&key).await.unwrap();
    }

    pub(crate) async fn put(&self, name: &str, bytes: &[u8]) {
        let key = Path::from(format!("{}/_delta_log/{name}", self.location));
        self.store.put(&key, bytes.to_vec().into()).await.unwrap();
    }
}

/// A new file of `rows` rows.
pub(crate) fn file(path: &str, rows: u64) -> DataFile {
    let column = ColumnStats {
        min: Some(Scalar::Long(0)),
        max: Some(Scalar::Long(rows as i64)),
        null_count: Some(0),
    };
    DataFile {
        path: path.to_owned(),
        raw_path: path.replace(' ', "%20"),
        partition_values: BTreeMap::new(),
        size_bytes: 100 + rows,
        modification_time_ms: 7,
        stats: Some(Arc::new(Statistics {
            num_records: Some(rows),
            columns: BTreeMap::from([(vec!["a".to_owned()], column)]),
            tight_bounds: true,
        })),
        raw_stats: None,
        deletion: Deletion::None,
        base_row_id: None,
        default_row_commit_version: None,
        tags: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        clustering_provider: None,
        held: None,
        beside: None,
    }
}
