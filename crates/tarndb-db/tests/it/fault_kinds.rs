//! Every kind of fault, alone and mixed: each transaction ends in a definite outcome.
//!
//! Handles beside each other, in virtual time, over stores that misbehave each for itself:
//! they insert into two tables at once, publish, write checkpoints, compact and open anew.
//! What is acknowledged is there, once, in both tables; what failed is not; what was in doubt
//! is told by `resolve`. `TARNDB_FAULT_SEEDS` runs more seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tarndb_db::{CompactOptions, Database, DbError, DbOptions, ErrorKind, PublishMode, TxnOutcome};
use tarndb_storage::fault::{Fault, FaultCounts, FaultPlan, FaultStore};
use tarndb_types::TableId;

use crate::far::{Far, in_virtual_time};
use crate::support::*;

const HANDLES: i64 = 3;
const TRANSACTIONS: i64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Acknowledged,
    Failed,
}

fn seeds() -> u64 {
    let given = std::env::var("TARNDB_FAULT_SEEDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn options(number: i64) -> DbOptions {
    DbOptions {
        publish: match number % 2 {
            0 => PublishMode::Async,
            _ => PublishMode::Sync,
        },
        checkpoint_interval: 5,
        table_checkpoint_interval: 4,
        // Everything is staged by one of the handles.
        record_bytes_max: if number == 2 { 1 } else { 1 << 20 },
        ..DbOptions::default()
    }
}

/// A handle; opening may fail, but not for ever.
async fn open(far: &Far, plan: &FaultPlan, number: i64, all: &mut Vec<FaultStore>) -> Database {
    for attempt in 0..20 {
        let seed = plan.seed ^ (number as u64) << 20 ^ (all.len() as u64) << 8 ^ attempt;
        let plan = FaultPlan {
            seed,
            ..plan.clone()
        };
        let (faults, store) = far.store(plan);
        all.push(faults);
        match Database::open(store, options(number)).await {
            Ok(db) => return db,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
    }
    panic!("the database does not open");
}

/// One transaction: how it ended, told by the database.
async fn transaction(db: &Database, tables: [TableId; 2], row: Row) -> Ended {
    let staged = async {
        let mut txn = db.begin(tarndb_db::TxnOptions::default()).await?;
        for id in tables {
            txn.append(id, once(batch(&[row]))).await?;
        }
        Ok::<_, DbError>(txn)
    };
    let Ok(txn) = staged.await else {
        return Ended::Failed;
    };
    let doubt = match txn.commit().await {
        Ok(_) => return Ended::Acknowledged,
        Err(DbError::Pending { txn }) => txn,
        Err(error) => {
            let kind = error.kind();
            let excused = !matches!(kind, ErrorKind::Internal | ErrorKind::Corrupt);
            assert!(excused, "{error:?}");
            return Ended::Failed;
        }
    };
    for _ in 0..20 {
        match db.resolve(doubt).await {
            Ok(TxnOutcome::Committed { .. }) => return Ended::Acknowledged,
            Ok(TxnOutcome::Aborted { .. }) => return Ended::Failed,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Pending, "{error:?}"),
        }
    }
    panic!("the outcome of {doubt} is not told");
}

/// What a process does; ids are its own.
async fn work(
    far: &Far,
    plan: &FaultPlan,
    tables: [TableId; 2],
    number: i64,
) -> (BTreeMap<i64, Ended>, Vec<FaultStore>) {
    let mut stores = Vec::new();
    let mut ended = BTreeMap::new();
    let mut db = open(far, plan, number, &mut stores).await;
    for n in 0..TRANSACTIONS {
        let id = number * 1000 + n;
        ended.insert(id, transaction(&db, tables, (id, n)).await);
        // Each of these may fail; none may change what was told.
        let result = match n % 8 {
            2 => db.publish().await.map(drop),
            4 => db.checkpoint().await.map(drop),
            5 if number == 1 => {
                let options = CompactOptions::default();
                db.compact(tables[0], &options).await.map(drop)
            }
            7 => {
                let closed = db.close().await;
                db = open(far, plan, number, &mut stores).await;
                closed
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            let kind = error.kind();
            let excused = !matches!(
                kind,
                ErrorKind::Internal | ErrorKind::Corrupt | ErrorKind::Diverged
            );
            assert!(excused, "{error:?}");
        }
    }
    let _may_fail = db.close().await;
    (ended, stores)
}

/// Runs a plan; how many were acknowledged, and what was injected.
fn run(plan: &FaultPlan) -> (usize, Vec<FaultCounts>) {
    in_virtual_time(plan.seed, async |far| {
        let db = far.create().await;
        let tables = [create_table(&db, "t").await, create_table(&db, "u").await];
        let workers = (0..HANDLES).map(|number| work(far, plan, tables, number));
        let (mut ended, mut counts) = (BTreeMap::new(), Vec::new());
        for (one, stores) in join_all(workers).await {
            ended.extend(one);
            for faults in stores {
                faults.settle().await;
                counts.push(faults.injected());
            }
        }
        let db = far.open().await;
        let acknowledged = ended.iter().filter(|(_, how)| **how == Ended::Acknowledged);
        let expected: Vec<i64> = acknowledged.map(|(id, _)| *id).collect();
        for id in tables {
            let found: Vec<i64> = rows(&db, id).await.iter().map(|row| row.0).collect();
            assert_eq!(found, expected, "seed {}: {ended:?}", plan.seed);
        }
        db.publish().await.unwrap();
        assert_clean(&far.open().await).await;
        (expected.len(), counts)
    })
}

fn latency() -> FaultPlan {
    FaultPlan {
        latency: Duration::from_millis(20),
        jitter: 1.0,
        ..FaultPlan::default()
    }
}

/// What holds for every plan; most transactions must get through, and the faults happen.
fn check(plan: &FaultPlan, fault: Option<Fault>) {
    let (acknowledged, counts) = run(plan);
    let total = HANDLES as usize * TRANSACTIONS as usize;
    let of = |fault: Fault| counts.iter().map(|one| one.of(fault)).sum::<u64>();
    let injected: Vec<_> = Fault::ALL
        .iter()
        .map(|fault| format!("{} {}", fault.name(), of(*fault)))
        .collect();
    eprintln!(
        "seed {}: {acknowledged} of {total}; {injected:?}",
        plan.seed
    );
    assert!(acknowledged > total / 2, "{acknowledged} of {total}");
    for one in Fault::ALL
        .into_iter()
        .filter(|one| fault.is_none_or(|f| f == *one))
    {
        assert!(of(one) > 0, "{} did not happen", one.name());
    }
}

macro_rules! alone {
    ($($test:ident: $fault:ident at $chance:literal;)*) => {
        $(
            #[test]
            fn $test() {
                for seed in 0..seeds() {
                    let plan = FaultPlan {
                        seed,
                        latency: Duration::from_millis(20),
                        jitter: 1.0,
                        ..FaultPlan::of(Fault::$fault, $chance)
                    };
                    check(&plan, Some(Fault::$fault));
                }
            }
        )*
    };
}

alone! {
    errors_before_the_effect_end_in_definite_outcomes: ErrorBefore at 0.3;
    errors_after_the_effect_end_in_definite_outcomes: ErrorAfter at 0.3;
    lost_answers_end_in_definite_outcomes: LostAnswer at 0.5;
    conflicts_with_oneself_end_in_definite_outcomes: SelfConflict at 0.5;
    conflicts_with_nobody_end_in_definite_outcomes: PhantomConflict at 0.5;
    late_effects_end_in_definite_outcomes: LateEffect at 0.5;
    duplicates_end_in_definite_outcomes: Duplicate at 0.9;
    stalls_end_in_definite_outcomes: Stall at 0.15;
    partial_reads_end_in_definite_outcomes: PartialRead at 0.2;
    stale_listings_end_in_definite_outcomes: StaleList at 1.0;
}

#[test]
fn all_faults_together_end_in_definite_outcomes() {
    for seed in 0..seeds() {
        let plan = FaultPlan {
            seed,
            error_before: 0.05,
            error_after: 0.05,
            lost_answer: 0.1,
            self_conflict: 0.1,
            phantom_conflict: 0.1,
            late_effect: 0.1,
            duplicate: 0.1,
            stall: 0.03,
            partial_read: 0.1,
            stale_list: 0.5,
            ..latency()
        };
        check(&plan, None);
    }
}
