//! Random histories of serializable transactions over several handles, against the same
//! programs run one after the other on plain lists of rows.
//!
//! What a program writes follows from what it read, so a committed program must have read, and
//! must leave, exactly what it would have in the order of the log. A transaction that fails
//! although it would have read the same is a false conflict; they are counted and must be rare.
//! `TARNDB_SERIAL_SEEDS` runs more seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use tarndb_db::{CompactOptions, Database, Transaction};
use tarndb_table::{Comparison, Predicate};
use tarndb_txn::{Isolation, Operation};
use tarndb_types::{TableId, TxnId};

use crate::serializable::{begin_at, compare};
use crate::support::*;

const HANDLES: usize = 3;
const SLOTS: usize = 5;
const STEPS: usize = 60;
const SEEDS: u64 = 8;
/// Values of `n` are below.
const VALUES: i64 = 12;

/// Which rows.
#[derive(Clone, Copy, Debug)]
enum Rows {
    All,
    /// Of this `n`.
    Of(i64),
    /// Of an `n` in this range.
    Between(i64, i64),
    /// Of another `n`, and an `id` below.
    OthersBelow(i64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reads rows; their sum is what later steps write.
    Sum(Rows),
    Insert,
    Update(Rows),
    Delete(Rows),
}

/// Steps, each in one of two tables.
#[derive(Clone, Debug)]
struct Program {
    number: i64,
    steps: Vec<(usize, Step)>,
}

/// What each step found, sorted.
type Trace = Vec<Vec<Row>>;
type State = [BTreeSet<Row>; 2];

impl Rows {
    fn hold(self, (id, n): Row) -> bool {
        match self {
            Self::All => true,
            Self::Of(value) => n == value,
            Self::Between(from, to) => (from..to).contains(&n),
            Self::OthersBelow(value, below) => n != value && id < below,
        }
    }

    fn note(self, txn: &mut Transaction, id: TableId) {
        let predicate = match self {
            Self::All => return txn.note_read(id),
            Self::Of(value) => compare("n", Comparison::Equal, value),
            Self::Between(from, to) => Predicate::And(vec![
                compare("n", Comparison::GreaterOrEqual, from),
                compare("n", Comparison::Less, to),
            ]),
            Self::OthersBelow(value, below) => Predicate::And(vec![
                compare("N", Comparison::NotEqual, value),
                compare("ID", Comparison::Less, below),
            ]),
        };
        txn.note_read_where(id, Arc::new(predicate));
    }
}

impl Program {
    fn random(dice: &mut Dice, number: i64) -> Self {
        let rows = |dice: &mut Dice| {
            let value = dice.below(VALUES);
            match dice.below(12) {
                0 => Rows::All,
                1 => Rows::OthersBelow(value, dice.below(number.max(1) * 10)),
                2..5 => Rows::Between(value, value + 1 + dice.below(3)),
                _ => Rows::Of(value),
            }
        };
        let steps = (0..=dice.below(3)).map(|_| {
            let rows = rows(dice);
            let step = match dice.below(10) {
                0..4 => Step::Sum(rows),
                4..7 => Step::Insert,
                7..9 => Step::Update(rows),
                _ => Step::Delete(rows),
            };
            (dice.below(2) as usize, step)
        });
        Self {
            number,
            steps: steps.collect(),
        }
    }

    /// The row that a step writes.
    fn row(&self, step: usize, sum: i64) -> Row {
        (self.number * 10 + step as i64, sum.rem_euclid(VALUES))
    }

    fn sum(found: &[Row]) -> i64 {
        found.iter().map(|row| row.1 + 1).sum()
    }

    /// On the lists.
    fn apply(&self, state: &mut State) -> Trace {
        let (mut trace, mut sum) = (Vec::new(), self.number);
        for (at, (table, step)) in self.steps.iter().enumerate() {
            let table = &mut state[*table];
            let (Step::Sum(rows) | Step::Update(rows) | Step::Delete(rows)) = step else {
                table.insert(self.row(at, sum));
                continue;
            };
            let found: Vec<Row> = table
                .iter()
                .copied()
                .filter(|row| rows.hold(*row))
                .collect();
            match step {
                Step::Sum(_) | Step::Insert => sum += Self::sum(&found),
                Step::Delete(_) => table.retain(|row| !rows.hold(*row)),
                Step::Update(_) => {
                    table.retain(|row| !rows.hold(*row));
                    let new = self.row(at, sum).1;
                    table.extend(found.iter().map(|row| (row.0, new)));
                }
            }
            trace.push(found);
        }
        trace
    }

    /// In a transaction.
    async fn run(&self, txn: &mut Transaction, tables: [TableId; 2]) -> Trace {
        let (mut trace, mut sum) = (Vec::new(), self.number);
        for (at, (table, step)) in self.steps.iter().enumerate() {
            let id = tables[*table];
            let (Step::Sum(rows) | Step::Update(rows) | Step::Delete(rows)) = *step else {
                append(txn, id, &[self.row(at, sum)]).await;
                continue;
            };
            let all = rows_in(txn, id).await;
            let found: Vec<Row> = all.into_iter().filter(|row| rows.hold(*row)).collect();
            rows.note(txn, id);
            match step {
                Step::Sum(_) | Step::Insert => sum += Self::sum(&found),
                Step::Delete(_) => {
                    let deleted = try_delete(txn, id, Operation::Delete, |row| rows.hold(row));
                    deleted.await.unwrap();
                }
                Step::Update(_) if found.is_empty() => {}
                Step::Update(_) => {
                    let new = self.row(at, sum).1;
                    update(txn, id, |row| rows.hold(row), |row| (row.0, new)).await;
                }
            }
            trace.push(found);
        }
        trace
    }
}

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as i64
    }
}

struct Open {
    txn: Transaction,
    program: Program,
    trace: Trace,
}

#[derive(Debug, Default)]
struct Counts {
    committed: usize,
    conflicts: usize,
    /// They would have read the same.
    false_conflicts: usize,
    grouped: usize,
}

struct History {
    seed: u64,
    dice: Dice,
    handles: Vec<Database>,
    tables: [TableId; 2],
    open: Vec<Open>,
    model: State,
    programs: i64,
    counts: Counts,
}

impl History {
    async fn new(seed: u64) -> Self {
        let world = World::new();
        let db = world.create().await;
        let tables = [create_table(&db, "a").await, create_table(&db, "b").await];
        let mut model = State::default();
        for (id, rows) in tables.iter().zip(&mut model) {
            let first: Vec<Row> = (0..VALUES * 2).map(|n| (-n, n % VALUES)).collect();
            insert(&db, *id, &first).await;
            rows.extend(first);
        }
        let mut handles = vec![db];
        while handles.len() < HANDLES {
            handles.push(world.open().await);
        }
        Self {
            seed,
            dice: Dice(seed),
            handles,
            tables,
            open: Vec::new(),
            model,
            programs: 0,
            counts: Counts::default(),
        }
    }

    async fn step(&mut self) {
        match self.dice.below(12) {
            _ if self.open.is_empty() => self.begin().await,
            0..6 if self.open.len() < SLOTS => self.begin().await,
            11 => self.compact().await,
            10 => self.commit_all().await,
            _ => self.commit_one().await,
        }
    }

    async fn begin(&mut self) {
        self.programs += 1;
        let program = Program::random(&mut self.dice, self.programs);
        let handle = self.dice.below(HANDLES as i64) as usize;
        let mut txn = begin_at(&self.handles[handle], Isolation::Serializable).await;
        let trace = program.run(&mut txn, self.tables).await;
        self.open.push(Open {
            txn,
            program,
            trace,
        });
    }

    async fn compact(&mut self) {
        let table = self.tables[self.dice.below(2) as usize];
        self.handles[0]
            .compact(table, &CompactOptions::default())
            .await
            .unwrap();
    }

    async fn commit_one(&mut self) {
        let at = self.dice.below(self.open.len() as i64) as usize;
        let open = self.open.swap_remove(at);
        match open.txn.commit().await {
            // One that changed nothing read one version, whatever came since.
            Ok(committed) if committed.version.is_none() => {}
            Ok(_) => self.committed(&open.program, &open.trace),
            Err(error) => {
                assert!(error.is_retryable(), "seed {}: {error}", self.seed);
                self.counts.conflicts += 1;
                let same = open.program.apply(&mut self.model.clone()) == open.trace;
                self.counts.false_conflicts += usize::from(same);
            }
        }
    }

    /// Those of one handle may share a record; the log tells their order.
    async fn commit_all(&mut self) {
        let mut programs = BTreeMap::new();
        let mut commits = Vec::new();
        for open in self.open.drain(..) {
            programs.insert(open.txn.reference().id, (open.program, open.trace));
            commits.push(open.txn.commit());
        }
        let mut done: BTreeSet<TxnId> = BTreeSet::new();
        for result in join_all(commits).await {
            match result {
                Ok(committed) => {
                    done.insert(committed.txn.id);
                }
                Err(error) => {
                    assert!(error.is_retryable(), "seed {}: {error}", self.seed);
                    self.counts.conflicts += 1;
                }
            }
        }
        let log = self.handles[0].log(2 * SLOTS).await.unwrap();
        let versions: BTreeSet<_> = log.iter().map(|entry| entry.version).collect();
        self.counts.grouped += log.len() - versions.len();
        for entry in log.iter().rev() {
            if done.remove(&entry.txn) {
                let (program, trace) = programs.remove(&entry.txn).unwrap();
                self.committed(&program, &trace);
            }
        }
    }

    fn committed(&mut self, program: &Program, trace: &Trace) {
        self.counts.committed += 1;
        let serial = program.apply(&mut self.model);
        assert_eq!(&serial, trace, "seed {}: {program:?}", self.seed);
    }

    async fn check(&self) {
        for (id, expected) in self.tables.iter().zip(&self.model) {
            let found: BTreeSet<Row> = rows(&self.handles[1], *id).await.into_iter().collect();
            assert_eq!(&found, expected, "seed {}", self.seed);
        }
    }
}

#[tokio::test]
async fn histories_are_serializable_and_false_conflicts_are_rare() {
    let asked = std::env::var("TARNDB_SERIAL_SEEDS").ok();
    let seeds = asked.and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut all = Counts::default();
    for seed in 0..seeds {
        let mut history = History::new(seed).await;
        for step in 1..=STEPS {
            history.step().await;
            if step % 6 == 0 {
                history.check().await;
            }
        }
        all.committed += history.counts.committed;
        all.conflicts += history.counts.conflicts;
        all.false_conflicts += history.counts.false_conflicts;
        all.grouped += history.counts.grouped;
    }
    let tried = all.committed + all.conflicts;
    eprintln!(
        "{all:?}: {:.2} % of {tried} commits failed although nothing they read had changed",
        100.0 * all.false_conflicts as f64 / tried as f64
    );
    assert!(all.committed > 10 * seeds as usize, "{all:?}");
    assert!(all.conflicts > seeds as usize, "{all:?}");
    assert!(all.false_conflicts * 50 < tried, "{all:?}");
}
