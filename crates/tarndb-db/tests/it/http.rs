//! Commits over real HTTP to a server that loses answers, refuses, or falls silent.

use std::sync::Arc;
use std::time::Duration;

use tarndb_db::{Database, DbError, ErrorKind, TxnOptions, TxnOutcome};
use tarndb_storage::stub::{Answer, HandClock, Reaction, Request, Response, Stub};
use tarndb_storage::{Context, SeededRandom, Store, open};
use tarndb_types::{DbVersion, TableId, TxnId, Uuid};

use crate::support::*;

/// A server, a handle that the test lets suffer, and two tables.
struct Scene {
    stub: Stub,
    url: &'static str,
    writer: Database,
    tables: [TableId; 2],
}

fn store(stub: &Stub, url: &str, seed: u64) -> Store {
    let options = match url.starts_with("gs:") {
        true => stub.gcs_options(),
        false => stub.s3_options(),
    };
    open(url, &options, Context::seeded(seed)).unwrap()
}

async fn scene(url: &'static str) -> Scene {
    scene_at(url, Context::seeded(3)).await
}

/// The same with a writer whose time is this.
async fn scene_at(url: &'static str, context: Context) -> Scene {
    let stub = Stub::start(Context::seeded(1)).await;
    let creator = Database::create(store(&stub, url, 2), manual())
        .await
        .unwrap();
    let tables = [
        create_table(&creator, "a").await,
        create_table(&creator, "b").await,
    ];
    let options = match url.starts_with("gs:") {
        true => stub.gcs_options(),
        false => stub.s3_options(),
    };
    let behind = open(url, &options, context).unwrap();
    let writer = Database::open(behind, manual()).await.unwrap();
    Scene {
        stub,
        url,
        writer,
        tables,
    }
}

impl Scene {
    /// A handle on the honest server.
    async fn witness(&self) -> Database {
        self.stub.set_hook(|_| Reaction::honest());
        Database::open(store(&self.stub, self.url, 4), manual())
            .await
            .unwrap()
    }

    async fn assert_rows(&self, tables: usize, expected: &[Row]) {
        let witness = self.witness().await;
        for id in &self.tables[..tables] {
            assert_eq!(rows(&witness, *id).await, expected);
        }
        assert_clean(&witness).await;
    }
}

/// Far more than the deadline of a commit.
const TEN_MINUTES: Duration = Duration::from_secs(600);

/// Whether it puts the record that the commit is about.
fn puts_record(request: &Request) -> bool {
    request.is_create() && request.key.ends_with(&record_key(3))
}

fn refused(status: u16, code: &str) -> Answer {
    Answer::Instead(Response::error(status, code))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bc_05_a_lost_acknowledgement_over_http() {
    let injections = [
        Reaction::done(Answer::Close),
        Reaction::done(Answer::Reset),
        Reaction::done(Answer::Half),
        Reaction::done(refused(500, "InternalError")),
        Reaction::done(refused(503, "SlowDown")),
        Reaction::not_done(Answer::Reset),
        Reaction::not_done(refused(503, "SlowDown")),
        Reaction::not_done(refused(409, "ConditionalRequestConflict")),
    ];
    for url in ["s3://bucket/some db", "gs://bucket/some db"] {
        for tables in [1, 2] {
            let scene = scene(url).await;
            let before = scene.stub.keys().len();
            let mut expected = Vec::new();
            for (n, injected) in injections.iter().enumerate() {
                let row = (n as i64, n as i64);
                let mut txn = begin(&scene.writer).await;
                for id in &scene.tables[..tables] {
                    append(&mut txn, *id, &[row]).await;
                }
                let (reaction, mut count) = (injected.clone(), 2);
                let key = record_key(3 + n as u64);
                scene.stub.set_hook(move |request| {
                    if count == 0 || !(request.is_create() && request.key.ends_with(&key)) {
                        return Reaction::honest();
                    }
                    count -= 1;
                    reaction.clone()
                });
                let committed = txn.commit().await.unwrap();
                let version = DbVersion(3 + n as u64);
                assert_eq!(committed.version, Some(version), "{url} {injected:?}");
                expected.push(row);
                scene.assert_rows(tables, &expected).await;
            }
            // One record each: nothing was written twice, nothing fenced.
            let added = scene.stub.keys().len() - before;
            assert_eq!(added, injections.len(), "{:?}", scene.stub.keys());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bc_05_an_unreachable_store_over_http_leaves_it_pending_and_it_can_be_asked_for() {
    for (tables, stored) in [(1, true), (1, false), (2, true), (2, false)] {
        let clock = HandClock::default();
        let context = Context::new(Arc::new(clock.clone()), Arc::new(SeededRandom::new(3)));
        let scene = scene_at("s3://bucket/db", context).await;
        let chosen = TxnOptions {
            id: Some(TxnId(Uuid::from_u128(5))),
            ..TxnOptions::default()
        };
        let mut txn = scene.writer.begin(chosen).await.unwrap();
        for id in &scene.tables[..tables] {
            append(&mut txn, *id, &[(1, 1)]).await;
        }
        let mut first = true;
        scene.stub.set_hook(move |request| {
            let is_first = std::mem::take(&mut first);
            assert!(!is_first || puts_record(request), "{request:?}");
            if is_first {
                // Only now, so that the record gets there however slow the machine is.
                clock.run(TEN_MINUTES);
            }
            Reaction {
                is_done: stored && is_first,
                answer: Answer::Close,
            }
        });
        let before = scene.stub.keys();
        let error = txn.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Pending, "{error}");
        let DbError::Pending { txn } = error else {
            panic!("{error}")
        };
        let after = scene.stub.keys();
        assert!(
            before.iter().all(|key| after.contains(key)),
            "{before:?} {after:?}"
        );
        let outcome = scene.witness().await.resolve(txn).await.unwrap();
        let at = DbVersion(3);
        let expected: &[Row] = match stored {
            true => &[(1, 1)],
            false => &[],
        };
        assert_eq!(
            outcome,
            match stored {
                true => TxnOutcome::Committed { version: at },
                false => TxnOutcome::Aborted { fence: at },
            }
        );
        scene.assert_rows(tables, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_falls_silent_ends_a_commit_at_its_deadline() {
    let clock = HandClock::default();
    let context = Context::new(Arc::new(clock.clone()), Arc::new(SeededRandom::new(3)));
    let scene = scene_at("s3://bucket/db", context).await;
    let mut txn = begin(&scene.writer).await;
    append(&mut txn, scene.tables[0], &[(1, 1)]).await;
    let mut first = true;
    scene.stub.set_hook(move |_| {
        if std::mem::take(&mut first) {
            clock.run(TEN_MINUTES);
        }
        Reaction::not_done(Answer::Silence)
    });
    scene.stub.take_seen();
    let error = txn.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Pending, "{error}");
    // The deadline is a minute, and a request is given up after 10 or 30 seconds.
    let sent = scene.stub.take_seen().len();
    assert!((2..=20).contains(&sent), "{sent} requests");
    scene.assert_rows(1, &[]).await;
}
