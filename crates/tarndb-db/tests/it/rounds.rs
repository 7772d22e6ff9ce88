//! Sequential rounds of requests over 50 ms of latency: docs/performance.md, "Rounds".

use std::time::Duration;

use tarndb_db::{CompactOptions, Database, TxnOptions};

use crate::far::{Far, in_virtual_time};
use crate::support::*;

const LATENCY: Duration = Duration::from_millis(50);

/// Rounds that `work` takes; every request takes the latency, and nothing else takes time.
async fn rounds<T>(far: &Far, work: impl Future<Output = T>) -> (u32, T) {
    let before = far.now();
    let value = work.await;
    let took = far.now() - before;
    let rounds = u32::try_from(took.as_millis() / LATENCY.as_millis()).unwrap();
    assert_eq!(LATENCY * rounds, took, "something but requests took time");
    (rounds, value)
}

fn cached() -> TxnOptions {
    TxnOptions {
        cached_snapshot: true,
        ..TxnOptions::default()
    }
}

#[test]
fn opening_takes_three_rounds_with_up_to_64_records_after_the_checkpoint() {
    in_virtual_time(1, async |far| {
        let db = far.create().await;
        let id = create_table(&db, "t").await;
        let (before, _) = rounds(far, far.open_at(LATENCY)).await;
        assert_eq!(before, 3, "without a checkpoint");
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        let base = db.cached_snapshot().version().0;
        for (tail, expected) in [(0, 3), (1, 3), (64, 3), (65, 4)] {
            while db.cached_snapshot().version().0 < base + tail {
                insert(&db, id, &[(1, 1)]).await;
            }
            let (opening, opened) = rounds(far, far.open_at(LATENCY)).await;
            assert_eq!(opening, expected, "{tail} records");
            let (newest, known) = (db.cached_snapshot(), opened.cached_snapshot());
            assert_eq!(known.version(), newest.version());
        }
    });
}

#[test]
fn a_commit_is_one_round_and_one_more_to_begin_at_the_newest_version() {
    in_virtual_time(2, async |far| {
        let near = far.create().await;
        let tables = [
            create_table(&near, "t").await,
            create_table(&near, "u").await,
        ];
        let db = far.open_at(LATENCY).await;
        // The table's first read; after that its state is known.
        insert(&db, tables[0], &[(0, 0)]).await;
        insert(&db, tables[1], &[(0, 0)]).await;
        for (options, expected) in [(cached(), 1), (TxnOptions::default(), 2)] {
            let work = async {
                let mut txn = db.begin(options).await.unwrap();
                for id in tables {
                    append(&mut txn, id, &[(1, 1), (2, 2)]).await;
                }
                txn.commit().await.unwrap();
            };
            assert_eq!(rounds(far, work).await.0, expected);
        }
        let read_only = async { begin(&db).await.commit().await.unwrap() };
        assert_eq!(rounds(far, read_only).await.0, 1, "only to begin");
    });
}

#[test]
fn a_refresh_takes_one_round_and_few_more_for_many_records() {
    in_virtual_time(3, async |far| {
        let writer = far.create().await;
        let id = create_table(&writer, "t").await;
        let db = far.open_at(LATENCY).await;
        for (records, expected) in [(0, 1), (1, 2), (2, 3), (3, 3), (7, 4), (15, 5), (31, 6)] {
            for n in 0..records {
                insert(&writer, id, &[(n, n)]).await;
            }
            let (refresh, snapshot) = rounds(far, db.snapshot()).await;
            assert_eq!(refresh, expected, "{records} records");
            let newest = writer.cached_snapshot().version();
            assert_eq!(snapshot.unwrap().version(), newest);
        }
    });
}

/// A table with published commits and, when there are enough, a checkpoint.
async fn published(far: &Far, commits: i64) -> (Database, tarndb_types::TableId) {
    let db = far.create().await;
    let id = create_table(&db, "t").await;
    for n in 0..commits {
        insert(&db, id, &[(n, n)]).await;
    }
    db.publish().await.unwrap();
    db.checkpoint().await.unwrap();
    (db, id)
}

#[test]
fn the_first_look_at_a_published_table_reads_its_hint_its_listing_and_its_commits() {
    for (commits, expected) in [(3, 3), (9, 3), (10, 4), (15, 4)] {
        in_virtual_time(4, async |far| {
            let (_db, id) = published(far, commits).await;
            let db = far.open_at(LATENCY).await;
            let snapshot = db.cached_snapshot();
            let (looking, state) = rounds(far, snapshot.table(id)).await;
            assert_eq!(looking, expected, "{commits} commits");
            assert_eq!(state.unwrap().files.len(), commits as usize);
            let again = rounds(far, snapshot.table(id)).await.0;
            assert_eq!(again, 0, "what is known is not asked for");
        });
    }
}

#[test]
fn the_first_look_at_many_unpublished_versions_takes_no_round_more() {
    in_virtual_time(5, async |far| {
        let writer = far.create().await;
        let id = create_table(&writer, "t").await;
        for n in 0..40 {
            insert(&writer, id, &[(n, n)]).await;
        }
        let db = far.open_at(LATENCY).await;
        let snapshot = db.cached_snapshot();
        let (looking, state) = rounds(far, snapshot.table(id)).await;
        assert_eq!(looking, 0, "the records are known since the opening");
        assert_eq!(state.unwrap().files.len(), 40);
    });
}

#[test]
fn an_older_version_takes_three_rounds() {
    in_virtual_time(6, async |far| {
        let (writer, id) = published(far, 12).await;
        let base = writer.cached_snapshot().version();
        for n in 0..20 {
            insert(&writer, id, &[(n, n)]).await;
        }
        let db = far.open_at(LATENCY).await;
        let at = tarndb_types::DbVersion(base.0 + 10);
        let (older, snapshot) = rounds(far, db.snapshot_at(at)).await;
        assert_eq!(older, 3, "listing, checkpoint, records");
        assert_eq!(snapshot.unwrap().version(), at);
    });
}

#[test]
fn publishing_takes_a_round_for_the_files_and_one_for_each_version() {
    for versions in [1, 5] {
        in_virtual_time(7, async |far| {
            let (_writer, id) = published(far, 1).await;
            let db = far.open_at(LATENCY).await;
            for n in 0..versions {
                insert(&db, id, &[(n, n)]).await;
            }
            let (publishing, report) = rounds(far, db.publish()).await;
            assert_eq!(report.unwrap().versions_written(), versions as u64);
            // A refresh; the files of the first version; the versions, one after the other; the
            // checksum of the last.
            assert_eq!(publishing, 3 + versions as u32);
        });
    }
}

#[test]
fn a_compaction_reads_its_files_side_by_side() {
    in_virtual_time(8, async |far| {
        let (_writer, id) = published(far, 8).await;
        let db = far.open_at(LATENCY).await;
        db.cached_snapshot().table(id).await.unwrap();
        let options = CompactOptions::default();
        let (compacting, report) = rounds(far, db.compact(id, &options)).await;
        assert_eq!(report.unwrap().files_rewritten, 8);
        assert!(compacting <= 24, "{compacting}");
    });
}
