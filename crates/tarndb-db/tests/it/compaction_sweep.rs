//! Random interleavings of writers and compactions over several handles, against a list of rows.
//!
//! The model knows when each row changed last, so it says of every commit whether it must
//! succeed: a transaction fails only when one of its rows was changed since its snapshot, and a
//! rewrite only when another took one of its files.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tarndb_db::{CompactOptions, Database, Rewritten, Transaction};
use tarndb_types::TableId;

use crate::support::*;

const HANDLES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Opens the transaction of a handle; what follows on it goes there.
    Begin,
    Insert(u8),
    Delete(i64, i64),
    Update(i64, i64),
    Commit,
    /// Writes files anew, to be committed later.
    Rewrite,
    CommitRewrite,
    Compact,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let which = prop_oneof![
        2 => Just(Step::Begin),
        3 => (1_u8..5).prop_map(Step::Insert),
        4 => (1_i64..6, 0_i64..6).prop_map(|(modulus, rest)| Step::Delete(modulus + 1, rest)),
        4 => (1_i64..6, 0_i64..6).prop_map(|(modulus, rest)| Step::Update(modulus + 1, rest)),
        4 => Just(Step::Commit),
        2 => Just(Step::Rewrite),
        3 => Just(Step::CommitRewrite),
        1 => Just(Step::Compact),
    ];
    (0..HANDLES, which)
}

/// What a transaction did, by row.
#[derive(Default)]
struct Changes {
    base: u64,
    inserted: BTreeSet<i64>,
    updated: BTreeMap<i64, i64>,
    deleted: BTreeSet<i64>,
}

struct Open {
    txn: Transaction,
    changes: Changes,
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<i64, i64>,
    /// The commit that changed a row last.
    changed: BTreeMap<i64, u64>,
    commits: u64,
    next_id: i64,
}

impl Model {
    fn allows(&self, changes: &Changes) -> bool {
        let touched = changes.updated.keys().chain(&changes.deleted);
        touched
            .into_iter()
            .filter(|id| !changes.inserted.contains(*id))
            .all(|id| self.changed.get(id).is_none_or(|at| *at <= changes.base))
    }

    fn apply(&mut self, changes: &Changes) {
        self.commits += 1;
        for id in &changes.inserted {
            self.rows.insert(*id, 0);
        }
        for (id, n) in &changes.updated {
            self.rows.insert(*id, *n);
            self.changed.insert(*id, self.commits);
        }
        for id in &changes.deleted {
            self.rows.remove(id);
            self.changed.insert(*id, self.commits);
        }
    }

    fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(|(id, n)| (*id, *n)).collect()
    }
}

struct Sweep {
    world: World,
    id: TableId,
    handles: Vec<Database>,
    open: BTreeMap<usize, Open>,
    rewritten: BTreeMap<usize, Rewritten>,
    model: Model,
}

impl Sweep {
    async fn new() -> Self {
        let world = World::new();
        let db = world.create().await;
        let id = create_table(&db, "t").await;
        let mut handles = vec![db];
        while handles.len() < HANDLES {
            handles.push(world.open().await);
        }
        Self {
            world,
            id,
            handles,
            open: BTreeMap::new(),
            rewritten: BTreeMap::new(),
            model: Model::default(),
        }
    }

    async fn take(&mut self, (at, step): (usize, Step)) {
        match step {
            Step::Begin => {
                let open = self.begun(at).await;
                self.open.insert(at, open);
            }
            Step::Insert(_) | Step::Delete(..) | Step::Update(..) => {
                let alone = !self.open.contains_key(&at);
                let mut open = match self.open.remove(&at) {
                    Some(open) => open,
                    None => self.begun(at).await,
                };
                self.change(&mut open, step).await;
                if alone {
                    self.commit(open).await;
                } else {
                    self.open.insert(at, open);
                }
            }
            Step::Commit => {
                if let Some(open) = self.open.remove(&at) {
                    self.commit(open).await;
                }
            }
            Step::Rewrite => {
                let options = CompactOptions {
                    all: true,
                    ..CompactOptions::default()
                };
                let rewritten = self.handles[at].rewrite(self.id, &options).await.unwrap();
                self.rewritten
                    .extend(rewritten.map(|rewritten| (at, rewritten)));
            }
            Step::CommitRewrite => {
                if let Some(rewritten) = self.rewritten.remove(&at) {
                    self.commit_rewrite(at, rewritten).await;
                }
            }
            Step::Compact => {
                let options = CompactOptions::default();
                let report = self.handles[at].compact(self.id, &options).await.unwrap();
                assert_eq!((report.retries, report.files_skipped), (0, 0), "{report:?}");
            }
        }
        assert_eq!(rows(&self.handles[at], self.id).await, self.model.rows());
    }

    async fn begun(&self, at: usize) -> Open {
        Open {
            txn: begin(&self.handles[at]).await,
            changes: Changes {
                base: self.model.commits,
                ..Changes::default()
            },
        }
    }

    async fn change(&mut self, open: &mut Open, step: Step) {
        let Open { txn, changes } = open;
        let matches = |modulus: i64, rest: i64| move |row: Row| row.0 % modulus == rest % modulus;
        match step {
            Step::Insert(count) => {
                let first = self.model.next_id;
                self.model.next_id += i64::from(count);
                let new: Vec<Row> = (first..self.model.next_id).map(|id| (id, 0)).collect();
                append(txn, self.id, &new).await;
                changes.inserted.extend(new.iter().map(|row| row.0));
            }
            Step::Delete(modulus, rest) => {
                let operation = tarndb_txn::Operation::Delete;
                let gone = try_delete(txn, self.id, operation, matches(modulus, rest));
                for (id, _) in gone.await.unwrap() {
                    changes.updated.remove(&id);
                    if !changes.inserted.remove(&id) {
                        changes.deleted.insert(id);
                    }
                }
            }
            Step::Update(modulus, rest) => {
                let matches = matches(modulus, rest);
                let seen = rows_in(txn, self.id).await;
                update(txn, self.id, matches, |row| (row.0, row.1 + 1)).await;
                let new = seen.into_iter().filter(|row| matches(*row));
                changes.updated.extend(new.map(|row| (row.0, row.1 + 1)));
            }
            _ => {}
        }
    }

    async fn commit(&mut self, open: Open) {
        let allowed = self.model.allows(&open.changes);
        match open.txn.commit().await {
            Ok(_) => {
                assert!(allowed, "a change was overwritten");
                self.model.apply(&open.changes);
            }
            Err(error) => assert!(!allowed && error.is_retryable(), "{error}"),
        }
    }

    /// Fails only when a file of its own was taken by another rewrite.
    async fn commit_rewrite(&mut self, at: usize, rewritten: Rewritten) {
        let db = &self.handles[at];
        let base = db.snapshot_at(rewritten.base()).await.unwrap();
        let mut moved = false;
        for entry in db.log(1000).await.unwrap() {
            moved |= entry.version > base.version() && entry.operation == "OPTIMIZE";
        }
        match db.commit_rewrite(rewritten).await {
            Ok(_) => {}
            Err(error) => assert!(moved && error.is_retryable(), "{error}"),
        }
    }
}

async fn run(steps: Vec<(usize, Step)>) {
    let mut sweep = Sweep::new().await;
    for step in steps {
        sweep.take(step).await;
    }
    let Sweep {
        world, id, model, ..
    } = sweep;
    let db = world.open().await;
    let snapshot = db.snapshot().await.unwrap();
    assert_eq!(rows_at(&snapshot, id).await, model.rows());
    let state = snapshot.table(id).await.unwrap();
    assert_eq!(state.live_rows(), Some(model.rows.len() as u64));
    assert_clean(&db).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn compaction_is_invisible_and_in_nobodys_way(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
