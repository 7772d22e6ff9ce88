//! Random transactions of several handles, interleaved, against a model of plain row sets.
//!
//! Some commit one by one, some all at once, so that they share records. A committed
//! transaction must do to the committed state exactly what it did to its snapshot; no row is deleted twice; every old version stays readable; nothing but a conflict may end a
//! commit. `TARNDB_CHAOS_SEEDS` runs more seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{RecordBatch, new_null_array};
use futures::future::join_all;
use tarndb_db::{
    Committed, Database, DbError, DbOptions, ErrorKind, PublishMode, Transaction, TxnOutcome,
};
use tarndb_storage::Context;
use tarndb_storage::fault::{FaultPlan, FaultStore};
use tarndb_table::codec::MetadataChange;
use tarndb_table::{DataType, Field, TableWriter};
use tarndb_txn::{Isolation, Operation};
use tarndb_types::{DbVersion, TableId, TxnRef};

use crate::support::*;

const HANDLES: usize = 3;
const SLOTS: usize = 6;
const STEPS: usize = 150;

type Rows = BTreeSet<Row>;
type State = BTreeMap<TableId, Rows>;

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What an open transaction did to one table.
#[derive(Clone, Default)]
struct Delta {
    replaced: bool,
    deleted: Rows,
    added: Rows,
}

/// What an open transaction did and sees.
#[derive(Clone, Default)]
struct Intent {
    view: State,
    deltas: BTreeMap<TableId, Delta>,
    read: BTreeSet<TableId>,
    created: BTreeSet<TableId>,
    dropped: BTreeSet<TableId>,
}

struct Open {
    txn: Transaction,
    intent: Intent,
}

struct Chaos {
    seed: u64,
    dice: Dice,
    world: World,
    faults: Option<FaultStore>,
    handles: Vec<Database>,
    slots: Vec<Option<Open>>,
    history: BTreeMap<DbVersion, State>,
    next_row: i64,
    committed: usize,
    conflicts: usize,
    /// Transactions that share a record with one before.
    grouped: usize,
    fences: usize,
}

fn options(kind: usize) -> DbOptions {
    let base = DbOptions {
        publish: PublishMode::Manual,
        background: false,
        table_checkpoint_interval: 3,
        ..DbOptions::default()
    };
    match kind {
        0 => base,
        // Everything is staged, everything is published at once, checkpoints are frequent.
        1 => DbOptions {
            publish: PublishMode::Sync,
            record_bytes_max: 1,
            checkpoint_interval: 3,
            ..base
        },
        _ => DbOptions {
            publish: PublishMode::Sync,
            record_bytes_max: 3000,
            checkpoint_interval: 7,
            cached_states_max: 1,
            // One attempt at a record, then the fence.
            commit_deadline: Duration::ZERO,
            ..base
        },
    }
}

impl Chaos {
    async fn new(seed: u64, plan: Option<FaultPlan>) -> Self {
        let world = World::new();
        drop(world.create().await);
        let faults = plan.map(|plan| {
            let context = Context::seeded(seed);
            FaultStore::new(Arc::clone(&world.objects), plan, context)
        });
        if let Some(faults) = &faults {
            faults.set_active(false);
        }
        let mut chaos = Self {
            seed,
            dice: Dice(seed),
            world,
            faults,
            handles: Vec::new(),
            slots: (0..SLOTS).map(|_| None).collect(),
            history: BTreeMap::from([(DbVersion(0), State::new())]),
            next_row: 0,
            committed: 0,
            conflicts: 0,
            grouped: 0,
            fences: 0,
        };
        for kind in 0..HANDLES {
            let handle = chaos.open(kind).await;
            chaos.handles.push(handle);
        }
        chaos
    }

    async fn open(&self, kind: usize) -> Database {
        let store = match &self.faults {
            Some(faults) => self.world.store_over(Arc::new(faults.clone())),
            None => self.world.store(),
        };
        Database::open(store, options(kind)).await.unwrap()
    }

    /// Lets the store lie, or not.
    fn lie(&self, active: bool) {
        if let Some(faults) = &self.faults {
            faults.set_active(active);
        }
    }

    /// What may fail only where the store lies.
    fn may_fail<T>(&self, result: Result<T, DbError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let kind = error.kind();
                let excused = !matches!(kind, ErrorKind::Internal | ErrorKind::Corrupt);
                assert!(
                    self.faults.is_some() && excused,
                    "seed {}: {error:?}",
                    self.seed
                );
                None
            }
        }
    }

    fn head(&self) -> &State {
        self.history.values().next_back().unwrap()
    }

    async fn step(&mut self) {
        let slot = self.dice.index(SLOTS);
        if self.dice.percent(8) {
            let all: Vec<Open> = self.slots.iter_mut().filter_map(Option::take).collect();
            self.finish(all).await;
        }
        match self.slots[slot].take() {
            None => self.begin(slot).await,
            Some(open) if self.dice.percent(25) => self.finish(vec![open]).await,
            Some(mut open) => {
                self.act(&mut open).await;
                self.slots[slot] = Some(open);
            }
        }
        self.lie(true);
        match self.dice.below(60) {
            0 => {
                let kind = self.dice.index(HANDLES);
                let closed = self.handles[kind].close().await;
                self.may_fail(closed);
                self.lie(false);
                self.handles[kind] = self.open(kind).await;
            }
            1 | 2 => {
                let at = self.dice.index(HANDLES);
                let published = self.handles[at].publish().await;
                if let Some(report) = self.may_fail(published) {
                    assert!(report.diverged.is_empty(), "seed {}", self.seed);
                }
            }
            3 | 4 => {
                let at = self.dice.index(HANDLES);
                let checkpoint = self.handles[at].checkpoint().await;
                self.may_fail(checkpoint);
            }
            _ => {}
        }
        self.lie(false);
    }

    async fn begin(&mut self, slot: usize) {
        // Those of the first handle share records.
        let at = match self.dice.percent(40) {
            true => 0,
            false => self.dice.index(HANDLES),
        };
        let txn_options = tarndb_db::TxnOptions {
            cached_snapshot: self.dice.percent(30),
            isolation: if self.dice.percent(40) {
                Isolation::Serializable
            } else {
                Isolation::Snapshot
            },
            ..Default::default()
        };
        let txn = self.handles[at].begin(txn_options).await.unwrap();
        let view = self.history[&txn.snapshot().version()].clone();
        let intent = Intent {
            view,
            ..Intent::default()
        };
        self.slots[slot] = Some(Open { txn, intent });
    }

    async fn act(&mut self, open: &mut Open) {
        let mark = open.txn.mark();
        let before = open.intent.clone();
        let result = self.act_once(open).await;
        if let Err(error) = &result {
            let kind = error.kind();
            assert!(
                !matches!(kind, ErrorKind::Internal | ErrorKind::Corrupt),
                "seed {}: {error:?}",
                self.seed
            );
        }
        if result.is_err() || self.dice.percent(10) {
            open.txn.rewind(mark);
            let read = std::mem::take(&mut open.intent.read);
            open.intent = before;
            open.intent.read.extend(read);
        }
    }

    async fn act_once(&mut self, open: &mut Open) -> Result<(), DbError> {
        let tables: Vec<TableId> = open.intent.view.keys().copied().collect();
        let choice = self.dice.below(100);
        if tables.is_empty() {
            return self.create(open).await;
        }
        let id = tables[self.dice.index(tables.len())];
        match choice {
            0..25 => self.append(open, id, Operation::Append).await,
            25..45 => self.delete(open, id, 30).await.map(drop),
            45..50 => self.delete(open, id, 100).await.map(drop),
            50..70 => {
                if self.delete(open, id, 20).await? {
                    self.append(open, id, Operation::Update).await?;
                }
                Ok(())
            }
            70..74 => {
                open.txn.truncate(id).await?;
                self.replaced(open, id);
                Ok(())
            }
            74..78 => self.overwrite(open, id).await,
            78..81 => {
                let name = format!("c{}", self.dice.below(3));
                let field = Field::new(&name, DataType::Long, true);
                open.txn
                    .change_metadata(id, MetadataChange::AddColumn(field.into()))
                    .await
            }
            81..85 => {
                let value = self.dice.below(2).to_string();
                let key = "k".to_owned();
                open.txn
                    .change_metadata(id, MetadataChange::SetProperty { key, value })
                    .await
            }
            85..88 => {
                let value = if self.dice.percent(50) { "off" } else { "on" };
                let change = MetadataChange::SetProperty {
                    key: "tarndb.deletionVectors".to_owned(),
                    value: value.to_owned(),
                };
                open.txn.change_metadata(id, change).await
            }
            88..92 => self.create(open).await,
            92..94 => {
                open.txn.drop_table(id)?;
                open.intent.view.remove(&id);
                open.intent.deltas.remove(&id);
                if !open.intent.created.remove(&id) {
                    open.intent.dropped.insert(id);
                }
                Ok(())
            }
            94..97 => {
                let name = format!("t{}", self.dice.below(5));
                let schema = if self.dice.percent(70) { "main" } else { "s" };
                open.txn.rename_table(id, schema, &name)
            }
            97..98 => open.txn.create_schema("s"),
            _ => {
                open.txn.note_read(id);
                open.intent.read.insert(id);
                self.check_view(open).await
            }
        }
    }

    fn replaced(&mut self, open: &mut Open, id: TableId) {
        open.intent.view.insert(id, Rows::new());
        let delta = open.intent.deltas.entry(id).or_default();
        *delta = Delta {
            replaced: true,
            ..Delta::default()
        };
    }

    fn fresh_rows(&mut self) -> Vec<Row> {
        // Some are many, so that vectors do not fit into the log.
        let count = if self.dice.percent(15) {
            3000
        } else {
            1 + self.dice.below(5) as i64
        };
        let first = self.next_row;
        self.next_row += count;
        (first..self.next_row).map(|id| (id, id % 7)).collect()
    }

    async fn written(
        &mut self,
        open: &mut Open,
        id: TableId,
    ) -> Result<(Vec<Row>, tarndb_table::Written), DbError> {
        let rows = self.fresh_rows();
        let schema = open.txn.table(id).await?.schema.to_arrow();
        let two = batch(&rows);
        let mut columns = two.columns().to_vec();
        for field in schema.fields().iter().skip(2) {
            columns.push(new_null_array(field.data_type(), rows.len()));
        }
        let mut writer: TableWriter = open.txn.writer(id).await?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        writer.write(&batch).await.unwrap();
        Ok((rows, writer.finish().await.unwrap()))
    }

    async fn append(
        &mut self,
        open: &mut Open,
        id: TableId,
        operation: Operation,
    ) -> Result<(), DbError> {
        let (rows, written) = self.written(open, id).await?;
        open.txn.add_files(id, written, operation).await?;
        open.intent.view.entry(id).or_default().extend(&rows);
        let delta = open.intent.deltas.entry(id).or_default();
        delta.added.extend(&rows);
        Ok(())
    }

    async fn overwrite(&mut self, open: &mut Open, id: TableId) -> Result<(), DbError> {
        let (rows, written) = self.written(open, id).await?;
        open.txn.overwrite(id, written, false).await?;
        self.replaced(open, id);
        open.intent.view.entry(id).or_default().extend(&rows);
        let delta = open.intent.deltas.entry(id).or_default();
        delta.added.extend(&rows);
        Ok(())
    }

    async fn delete(
        &mut self,
        open: &mut Open,
        id: TableId,
        percent: u64,
    ) -> Result<bool, DbError> {
        let view = open.intent.view.get(&id).cloned().unwrap_or_default();
        let dice = &mut self.dice;
        let doomed: Rows = view.into_iter().filter(|_| dice.percent(percent)).collect();
        let operation = Operation::Delete;
        let gone = try_delete(&mut open.txn, id, operation, |row| doomed.contains(&row)).await?;
        assert_eq!(gone.len(), doomed.len(), "seed {}", self.seed);
        let view = open.intent.view.entry(id).or_default();
        view.retain(|row| !doomed.contains(row));
        let delta = open.intent.deltas.entry(id).or_default();
        for row in &doomed {
            if !delta.added.remove(row) {
                delta.deleted.insert(*row);
            }
        }
        Ok(!doomed.is_empty())
    }

    async fn create(&mut self, open: &mut Open) -> Result<(), DbError> {
        let mut table = new_table(&format!("t{}", self.dice.below(5)));
        if self.dice.percent(20) {
            let off = ("tarndb.deletionVectors".to_owned(), "off".to_owned());
            table.properties.extend([off]);
        }
        let id = open.txn.create_table("main", table).await?;
        open.intent.created.insert(id);
        open.intent.view.insert(id, Rows::new());
        Ok(())
    }

    async fn check_view(&mut self, open: &mut Open) -> Result<(), DbError> {
        for (id, expected) in &open.intent.view {
            let found: Rows = rows_in(&open.txn, *id).await.into_iter().collect();
            assert_eq!(found, *expected, "seed {}", self.seed);
        }
        Ok(())
    }

    /// Commits all at the same time and does to the model what was committed, in its order.
    async fn finish(&mut self, open: Vec<Open>) {
        let (txns, intents): (Vec<_>, Vec<_>) =
            open.into_iter().map(|open| (open.txn, open.intent)).unzip();
        let told: Vec<_> = txns
            .iter()
            .map(|txn| (txn.reference(), txn.isolation() == Isolation::Serializable))
            .collect();
        self.lie(true);
        let results = join_all(txns.into_iter().map(Transaction::commit)).await;
        self.lie(false);
        let mut committed = BTreeMap::new();
        for (result, (told, intent)) in results.into_iter().zip(told.into_iter().zip(intents)) {
            if let Some(version) = self.outcome(result, told.0).await {
                committed.insert(told.0.id, (version, told, intent));
            }
        }
        let honest = self.world.open().await;
        let log = honest.log(committed.len() + 20).await.unwrap();
        let mut last = *self.history.last_key_value().unwrap().0;
        let mut groups = BTreeSet::new();
        for entry in log.iter().rev() {
            // A fence makes a version that changes nothing.
            if entry.operation == "FENCE" && entry.version > last {
                last = entry.version;
                self.history.insert(last, self.head().clone());
                self.fences += 1;
            }
            let Some((version, told, intent)) = committed.remove(&entry.txn) else {
                continue;
            };
            assert_eq!(version, entry.version, "seed {}", self.seed);
            assert!(
                version == last || version == last.next(),
                "seed {}: {version} after {last}",
                self.seed
            );
            last = version;
            if !groups.insert(version) {
                self.grouped += 1;
            }
            let state = self.applied(&told.0, told.1, &intent);
            self.history.insert(version, state);
            self.committed += 1;
        }
        assert!(committed.is_empty(), "seed {}", self.seed);
        let at = self.dice.index(HANDLES);
        let snapshot = self.handles[at].snapshot().await.unwrap();
        assert_eq!(snapshot.version(), last, "seed {}", self.seed);
        self.check_snapshot(&snapshot, last).await;
    }

    /// The version that a commit made, if it did; asked for when the answer leaves it open.
    async fn outcome(
        &mut self,
        result: Result<Committed, DbError>,
        reference: TxnRef,
    ) -> Option<DbVersion> {
        match result {
            Ok(committed) => committed.version,
            Err(DbError::Conflict { .. }) => {
                self.conflicts += 1;
                None
            }
            Err(DbError::Closed) => None,
            Err(error) => {
                self.may_fail::<()>(Err(error));
                let honest = self.world.open().await;
                match honest.resolve(reference).await.unwrap() {
                    TxnOutcome::Committed { version } => Some(version),
                    TxnOutcome::Aborted { .. } => None,
                }
            }
        }
    }

    /// The newest state with a transaction done to it.
    fn applied(&self, reference: &TxnRef, serializable: bool, intent: &Intent) -> State {
        let mut state = self.head().clone();
        if serializable {
            let seen = &self.history[&reference.base];
            for id in intent.read.iter().filter(|id| seen.contains_key(id)) {
                assert_eq!(
                    state.get(id),
                    seen.get(id),
                    "seed {}: read changed",
                    self.seed
                );
            }
        }
        for id in &intent.dropped {
            assert!(state.remove(id).is_some(), "seed {}", self.seed);
        }
        for id in &intent.created {
            state.insert(*id, Rows::new());
        }
        let changed =
            |delta: &&Delta| delta.replaced || !delta.deleted.is_empty() || !delta.added.is_empty();
        for (id, delta) in intent.deltas.iter().filter(|(_, delta)| changed(delta)) {
            let rows = state.get_mut(id).unwrap();
            if delta.replaced {
                rows.clear();
            } else {
                for row in &delta.deleted {
                    assert!(rows.remove(row), "seed {}: {row:?} twice", self.seed);
                }
            }
            rows.extend(&delta.added);
        }
        state
    }

    async fn check_snapshot(&self, snapshot: &tarndb_db::Snapshot, version: DbVersion) {
        let expected = &self.history[&version];
        let live: BTreeSet<TableId> = snapshot.catalog().tables().map(|t| t.id).collect();
        let wanted: BTreeSet<TableId> = expected.keys().copied().collect();
        assert_eq!(live, wanted, "seed {} version {version}", self.seed);
        for (id, rows) in expected {
            let found: Rows = rows_at(snapshot, *id).await.into_iter().collect();
            assert_eq!(found, *rows, "seed {} version {version}", self.seed);
        }
    }
}

async fn run(seeds_default: u64, plan: impl Fn(u64) -> Option<FaultPlan>) {
    let seeds = std::env::var("TARNDB_CHAOS_SEEDS");
    let seeds: u64 = seeds
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(seeds_default);
    let (mut committed, mut conflicts, mut grouped, mut fences) = (0, 0, 0, 0);
    let lies = plan(0).is_some();
    for seed in 0..seeds {
        let mut chaos = Chaos::new(seed, plan(seed)).await;
        for _ in 0..STEPS {
            chaos.step().await;
        }
        let fresh = chaos.world.open().await;
        for version in chaos.history.keys() {
            let snapshot = fresh.snapshot_at(*version).await.unwrap();
            chaos.check_snapshot(&snapshot, *version).await;
        }
        fresh.publish().await.unwrap();
        assert_clean(&fresh).await;
        committed += chaos.committed;
        conflicts += chaos.conflicts;
        grouped += chaos.grouped;
        fences += chaos.fences;
    }
    assert!(committed > conflicts / 4, "{committed} {conflicts}");
    assert!(grouped > 0, "{committed} {conflicts}");
    assert_eq!(fences > 0, lies, "{fences} fences");
}

#[tokio::test]
async fn random_transactions_do_to_the_head_what_they_did_to_their_snapshot() {
    run(4, |_| None).await;
}

#[tokio::test]
async fn they_do_so_too_when_the_store_lies_about_its_answers() {
    let plan = |seed| FaultPlan {
        seed,
        error_before: 0.03,
        error_after: 0.03,
        lost_answer: 0.04,
        self_conflict: 0.05,
        phantom_conflict: 0.05,
        late_effect: 0.05,
        ..FaultPlan::default()
    };
    run(4, |seed| Some(plan(seed))).await;
}
