//! Every state that a power cut can leave of a store: what was acknowledged is there, nothing
//! is half there, and no sync can be left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use tempfile::TempDir;

use super::{Crash, CutPlan, PowerCut, SyncPoint};
use crate::context::Context;
use crate::local::DurableLocal;
use crate::options::Durability;
use crate::store::{PutOutcome, Store};

const PLAN: CutPlan = CutPlan {
    exhaustive_max: 12,
    samples: 40,
    seed: 5,
};

/// One write or deletion of a key.
#[derive(Debug)]
struct Change {
    begun: usize,
    /// `None`: deleted.
    content: Option<Bytes>,
    acknowledged: Option<usize>,
}

/// What was done to a store over a disk whose power can be cut.
struct Scenario {
    _top: TempDir,
    disk: PowerCut,
    changes: BTreeMap<Path, Vec<Change>>,
    /// Objects that a reader was told of.
    seen: Vec<usize>,
    handles: u64,
}

impl Scenario {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        Self {
            disk: PowerCut::new(top.path()),
            _top: top,
            changes: BTreeMap::new(),
            seen: Vec::new(),
            handles: 0,
        }
    }

    /// A handle as another process would have it.
    fn handle(&mut self) -> (Arc<DurableLocal>, Store) {
        self.handles += 1;
        let context = Context::seeded(self.handles);
        let objects = Arc::new(self.disk.store("db", &context));
        let store = Store::new(
            Arc::clone(&objects) as Arc<dyn ObjectStore>,
            "test",
            context,
        );
        (objects, store)
    }

    fn note(&mut self, key: &str, begun: usize, content: Option<&[u8]>, done: bool) {
        let now = self.disk.now();
        let changes = self.changes.entry(Path::from(key)).or_default();
        changes.push(Change {
            begun,
            content: content.map(Bytes::copy_from_slice),
            acknowledged: done.then_some(now),
        });
    }

    async fn create(&mut self, store: &Store, key: &str, content: &str) {
        let begun = self.disk.now();
        let outcome = store
            .put_if_absent(&Path::from(key), Bytes::from(content.to_owned()))
            .await;
        let done = matches!(outcome, Ok(PutOutcome::Created));
        self.note(key, begun, Some(content.as_bytes()), done);
    }

    async fn put(&mut self, store: &Store, key: &str, content: &str) {
        let begun = self.disk.now();
        let done = store
            .put(&Path::from(key), Bytes::from(content.to_owned()))
            .await;
        self.note(key, begun, Some(content.as_bytes()), done.is_ok());
    }

    async fn delete(&mut self, store: &Store, key: &str) {
        let begun = self.disk.now();
        let done = store.delete(&Path::from(key)).await;
        self.note(key, begun, None, done.is_ok());
    }

    async fn upload(&mut self, objects: &DurableLocal, key: &str, parts: &[&str]) {
        let begun = self.disk.now();
        let mut upload = objects.put_multipart(&Path::from(key)).await.unwrap();
        for part in parts {
            upload
                .put_part(Bytes::from((*part).to_owned()).into())
                .await
                .unwrap();
        }
        let done = upload.complete().await;
        self.note(key, begun, Some(parts.concat().as_bytes()), done.is_ok());
    }

    /// A reader who finds an object was promised it.
    async fn read(&mut self, store: &Store, key: &str) {
        let Some(found) = store.get(&Path::from(key)).await.unwrap() else {
            return;
        };
        let now = self.disk.now();
        let changes = self.changes.get_mut(&Path::from(key)).unwrap();
        let read = changes
            .iter_mut()
            .find(|change| change.content.as_ref() == Some(&found));
        let read = read.unwrap();
        read.acknowledged = read.acknowledged.or(Some(now));
        self.seen.push(now);
    }

    async fn list(&mut self, store: &Store, dir: &str) {
        let listed = store.list_after(&Path::from(dir), None).await.unwrap();
        let now = self.disk.now();
        for info in listed {
            let changes = self.changes.get_mut(&info.key).unwrap();
            for change in changes {
                change.acknowledged = change.acknowledged.or(Some(now));
            }
        }
        self.seen.push(now);
    }

    fn promises(&self) -> Vec<usize> {
        let changes = self.changes.values().flatten();
        let begun = changes.clone().map(|change| change.begun);
        changes
            .filter_map(|change| change.acknowledged)
            .chain(begun)
            .collect()
    }

    /// What a key may hold after a cut at `at`.
    fn allowed(&self, key: &Path, at: usize) -> BTreeSet<Option<Bytes>> {
        let changes = self.changes.get(key).map_or(&[][..], Vec::as_slice);
        let begun = changes.iter().filter(|change| change.begun < at);
        let begun: Vec<_> = begun.collect();
        let is_acknowledged = |change: &&Change| change.acknowledged.is_some_and(|when| when <= at);
        let last = begun.iter().rposition(is_acknowledged);
        let kept = begun.iter().skip(last.unwrap_or(0));
        let mut allowed: BTreeSet<_> = kept.map(|change| change.content.clone()).collect();
        match last.and_then(|last| begun.get(last)) {
            None => {
                allowed.insert(None);
            }
            // A deletion is not synced: what was deleted may be there again.
            Some(change) if change.content.is_none() => {
                allowed.extend(begun.iter().map(|change| change.content.clone()));
            }
            Some(_) => {}
        }
        allowed
    }

    /// Opens what is left with the real store; the first key that is not as it may be.
    async fn loss(&self, crash: &Crash) -> Option<String> {
        let top = tempfile::tempdir().unwrap();
        crash.write_to(top.path()).unwrap();
        let context = Context::seeded(1000);
        let objects = DurableLocal::new(top.path().join("db"), Durability::None, context.clone());
        let store = Store::new(Arc::new(objects), "test", context);
        let listed = store.list_after(&Path::ROOT, None).await.unwrap();
        for info in &listed {
            if !self.changes.contains_key(&info.key) {
                return Some(format!(
                    "cut at {}: {} was never written",
                    crash.at, info.key
                ));
            }
        }
        for key in self.changes.keys() {
            let found = store.get(key).await.unwrap();
            let allowed = self.allowed(key, crash.at);
            if !allowed.contains(&found) {
                return Some(format!(
                    "cut at {}: {key} holds {found:?}, not {allowed:?}",
                    crash.at
                ));
            }
            assert_eq!(found.is_some(), listed.iter().any(|info| info.key == *key));
        }
        None
    }

    /// Looks at every state that a cut can leave until one is wrong; how many were right.
    async fn first_loss(&self, plan: CutPlan) -> Result<usize, String> {
        let mut checked = 0;
        for crash in self
            .disk
            .crashes(0..=self.disk.now(), &self.promises(), plan)
        {
            match self.loss(&crash).await {
                None => checked += 1,
                Some(loss) => return Err(loss),
            }
        }
        Ok(checked)
    }
}

/// Every way of writing, by handles of which some die half-way.
async fn scenario(disk: impl FnOnce(&PowerCut)) -> Scenario {
    let mut run = Scenario::new();
    disk(&run.disk);
    // A first process makes the root and dies before it is durable; the next finds it.
    let (_, dying) = run.handle();
    run.disk.fail_once(SyncPoint::MadeFolder);
    run.create(&dying, "log/0", "not acknowledged").await;
    let (objects, store) = run.handle();
    run.create(&store, "log/0", "zero").await;
    run.create(&store, "log/1", "one").await;
    run.put(&store, "t/hint", "first").await;
    run.put(&store, "t/hint", "second").await;
    run.upload(&objects, "t/deep/er/big", &["part one, ", "part two"])
        .await;
    let begun = run.disk.now();
    objects
        .copy(&Path::from("log/1"), &Path::from("t/copy"))
        .await
        .unwrap();
    run.note("t/copy", begun, Some(b"one"), true);
    run.create(&store, "log/1", "a loser").await;
    run.delete(&store, "t/deep/er/big").await;
    run.create(&store, "t/deep/er/big", "again").await;
    // Deletions are not synced: any of them may be undone.
    for number in 0..3 {
        run.create(&store, &format!("old/{number}"), "old").await;
    }
    for number in 0..3 {
        run.delete(&store, &format!("old/{number}")).await;
    }
    // A process dies between showing a name and syncing it; another reads, or lists, it.
    for (key, is_listed) in [("seen/read", false), ("seen/listed", true)] {
        let (_, dying) = run.handle();
        run.disk.fail_once(SyncPoint::ObjectName);
        run.create(&dying, key, "shown").await;
        let (_, reader) = run.handle();
        match is_listed {
            true => run.list(&reader, "seen").await,
            false => run.read(&reader, key).await,
        }
    }
    // A process dies between making a folder and syncing it; another creates in it.
    let (_, dying) = run.handle();
    run.create(&dying, "warm", "x").await;
    run.disk.fail_once(SyncPoint::MadeFolder);
    run.create(&dying, "found/1", "not acknowledged").await;
    run.create(&store, "found/2", "two").await;
    run
}

#[tokio::test]
async fn whatever_a_power_cut_leaves_holds_what_was_acknowledged() {
    let run = scenario(|_| {}).await;
    let calls = run.disk.calls();
    let called: Vec<_> = calls.keys().copied().collect();
    assert_eq!(called, SyncPoint::ALL, "each sync is called: {calls:?}");
    let checked = run.first_loss(PLAN).await.unwrap();
    assert!(checked > 60, "only {checked} states looked at");
}

#[tokio::test]
async fn drawn_subsets_hold_what_was_acknowledged_too() {
    let drawn = CutPlan {
        exhaustive_max: 1,
        samples: 6,
        seed: 5,
    };
    let run = scenario(|_| {}).await;
    let checked = run.first_loss(drawn).await.unwrap();
    assert!(checked > 40, "only {checked} states looked at");
}

#[tokio::test]
async fn without_any_one_sync_a_power_cut_loses_something() {
    for point in SyncPoint::ALL {
        let run = scenario(|disk| disk.ignore(point)).await;
        let loss = run.first_loss(PLAN).await;
        assert!(loss.is_err(), "nothing is lost without the sync {point:?}");
    }
}

#[test]
fn each_sync_has_one_place_in_the_code() {
    let sources = [
        include_str!("../folder.rs"),
        include_str!("../upload.rs"),
        include_str!("../list.rs"),
        include_str!("../temp.rs"),
        include_str!("../../local.rs"),
    ];
    let sources = sources.concat();
    for point in SyncPoint::ALL {
        let places = sources.matches(&format!("SyncPoint::{point:?}")).count();
        assert_eq!(places, 1, "{point:?}");
    }
    let all = sources.matches(" SyncPoint::").count() + sources.matches("(SyncPoint::").count();
    assert_eq!(all, SyncPoint::ALL.len());
}
