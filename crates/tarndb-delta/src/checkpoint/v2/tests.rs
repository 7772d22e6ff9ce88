//! V2 checkpoints: what they hold, and which sidecars they name again.

use std::collections::BTreeSet;

use tarndb_storage::context::Context;
use tarndb_table::{PACKED_MIN, TableState};

use super::*;
use crate::action::parse_commit;
use crate::load::load_own_log;
use crate::replay::Replay;

const SIDECAR: usize = 1000;

fn head() -> String {
    [
        r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}}"#,
        r#"{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{"delta.checkpointPolicy":"v2"}}}"#,
        r#"{"txn":{"appId":"app","version":7}}"#,
    ]
    .join("\n")
}

fn add(number: usize) -> String {
    format!(
        r#"{{"add":{{"path":"f{number}","partitionValues":{{}},"size":{number},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":{number}}}"}}}}"#
    )
}

fn remove(number: usize) -> String {
    format!(
        r#"{{"remove":{{"path":"f{number}","deletionTimestamp":4102444800000,"dataChange":true}}}}"#
    )
}

/// A table in memory and the plain replay of its commits.
struct Table {
    store: Store,
    log: Path,
    replay: Replay,
    version: u64,
}

impl Table {
    async fn new(files: usize) -> Self {
        let mut table = Self {
            store: Store::memory(Context::seeded(1)),
            log: Path::from("_delta_log"),
            replay: Replay::default(),
            version: 0,
        };
        let lines: Vec<String> = (0..files).map(add).collect();
        table
            .commit(0, &format!("{}\n{}", head(), lines.join("\n")))
            .await;
        table
    }

    async fn commit(&mut self, version: u64, text: &str) {
        self.version = version;
        let key = self.log.clone().join(format!("{version:020}.json"));
        self.replay
            .commit(parse_commit(text.as_bytes(), "f").unwrap())
            .unwrap();
        self.store
            .put(&key, text.to_owned().into_bytes().into())
            .await
            .unwrap();
    }

    fn expected(&self) -> TableState {
        self.replay.clone().finish(self.version, "log").unwrap()
    }

    async fn load(&self) -> TableState {
        load_own_log(&self.store, &Path::default(), None)
            .await
            .unwrap()
    }

    /// Writes a checkpoint of what was loaded and returns its sidecars.
    async fn checkpoint(&self, state: &TableState) -> (BTreeSet<String>, Written) {
        let name = format!("{:020}.checkpoint.parquet", state.version.0);
        let key = self.log.clone().join(name);
        let (written, files) = write(&self.store, &self.log, &key, state, SIDECAR)
            .await
            .unwrap();
        assert_eq!(files.last(), Some(&key));
        for version in 0..state.version.0 {
            let old = self.log.clone().join(format!("{version:020}.json"));
            self.store.delete(&old).await.unwrap();
        }
        let again = self.load().await;
        let sidecars = &DeltaState::of(&again).unwrap().sidecars;
        (
            sidecars
                .iter()
                .map(|packed| packed.sidecar.path.clone())
                .collect(),
            written,
        )
    }

    fn assert_holds(&self, found: &TableState) {
        let expected = self.expected();
        assert!(found.files.is_packed());
        assert_eq!(found.files, expected.files);
        assert_eq!(found.app_txns, expected.app_txns);
        let tombstones = |state: &TableState| -> Vec<_> {
            DeltaState::of(state)
                .unwrap()
                .tombstones
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(tombstones(found), tombstones(&expected));
    }
}

#[tokio::test]
async fn only_sidecars_with_changed_files_are_written_again() {
    let files = PACKED_MIN + 404;
    let mut table = Table::new(files).await;
    assert!(is_asked_for(&table.expected()).unwrap());
    table.commit(1, "{\"commitInfo\":{}}").await;
    let (first, written) = table.checkpoint(&table.load().await).await;
    assert_eq!(first.len(), 5);
    assert_eq!(written.adds, files as u64);
    let state = table.load().await;
    table.assert_holds(&state);

    // A file of the second sidecar goes, one of the fourth is added again, one is new. The order
    // of files in a checkpoint is that of their paths, so the sidecars are found by their paths.
    let by_order: Vec<String> = state.files.paths().collect();
    let number = |place: usize| {
        by_order
            .get(place)
            .unwrap()
            .trim_start_matches('f')
            .parse()
            .unwrap()
    };
    let lines = [remove(number(1500)), add(number(3500)), add(files + 1)];
    table.commit(2, &lines.join("\n")).await;
    let loaded = table.load().await;
    table.assert_holds(&loaded);
    let (second, written) = table.checkpoint(&loaded).await;
    assert_eq!(first.intersection(&second).count(), 3);
    assert_eq!(written.adds, files as u64);
    let reread = table.load().await;
    table.assert_holds(&reread);

    // Nothing changed: nothing is written but the main file and the tombstones.
    table.commit(3, "{\"commitInfo\":{}}").await;
    let (third, _) = table.checkpoint(&table.load().await).await;
    assert_eq!(third, second);
    table.assert_holds(&table.load().await);
}
