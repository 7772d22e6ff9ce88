//! Reading a checkpoint in windows, whatever their size.

use tarndb_storage::context::Context;
use tarndb_table::TableState;

use super::super::schema::checkpoint_schema;
use super::super::stats_form::StatsForm;
use super::super::write::write_actions;
use super::*;

const FILES: usize = 30_000;

fn actions() -> Vec<Action> {
    let head = [
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
        r#"{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"p\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":["p"],"configuration":{}}}"#.to_owned(),
    ];
    let adds = (0..FILES).map(|n| {
        let value = if n % 3 == 0 { "null".to_owned() } else { format!("\"v{}\"", n % 7) };
        format!(
            r#"{{"add":{{"path":"f{n}","partitionValues":{{"p":{value}}},"size":{n},"modificationTime":1,"dataChange":true,"stats":"{{\"numRecords\":{n}}}"}}}}"#
        )
    });
    let lines: Vec<String> = head.into_iter().chain(adds).collect();
    parse_commit(lines.join("\n").as_bytes(), "commit").unwrap()
}

fn state(actions: Vec<Action>) -> TableState {
    let mut replay = Replay::default();
    replay.commit(actions).unwrap();
    replay.finish(0, "log").unwrap()
}

#[tokio::test]
async fn windows_of_any_size_give_every_file_once() {
    let store = Store::memory(Context::seeded(1));
    let key = Path::from("_delta_log/00000000000000000000.checkpoint.parquet");
    let expected = state(actions());
    let stats = StatsForm::of(&expected);
    let schema = checkpoint_schema(&stats);
    let written = write_actions(&store, &key, (&schema, &stats), actions().into_iter())
        .await
        .unwrap();

    // By one request or by ranges; in one piece, in a few and in many.
    for (whole_bytes, window_bytes, least) in [
        (u64::MAX, u64::MAX, 1),
        (0, 64 << 10, 3),
        (u64::MAX, 16 << 10, 10),
    ] {
        let limits = Limits {
            whole_bytes,
            window_bytes,
        };
        let mut source = CheckpointSource::open(&store, &key, None, whole_bytes)
            .await
            .unwrap();
        let loaded = footer(&mut source, window_bytes).await.unwrap();
        assert!(
            windows(loaded.metadata(), window_bytes).len() >= least,
            "{limits:?}"
        );

        let mut replay = Replay::default();
        let size = Some(written.size_bytes);
        let read = read_file(&store, (&key, size), limits, &mut replay, &mut Vec::new()).await;
        read.unwrap();
        replay.end_checkpoint("checkpoint").unwrap();
        let found = replay.finish(0, "log").unwrap();
        assert_eq!(found.files.len(), FILES, "{limits:?}");
        assert_eq!(found.files, expected.files, "{limits:?}");
    }
}
