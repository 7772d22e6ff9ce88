//! Tables that are there already: taken in, changed, given back, by whom and whenever it stops.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use tarndb_db::{
    AttachError, CompactOptions, Database, DbError, ErrorKind, NewTable, TableTarget, VacuumOptions,
};
use tarndb_delta::{
    DeltaError, DeltaState, NativeError, NativeTable, NativeTarget, Reads, open_native,
};
use tarndb_storage::{Path, Store};
use tarndb_table::codec::MetadataChange;
use tarndb_table::{DataType, Field, NewColumn, TableDefinition, TableError};
use tarndb_types::{TableId, TableVersion, Uuid};

use crate::clock::{HandClock, store_of};
use crate::hook::{Call, HookStore, Reaction};
use crate::support::*;
use crate::travel::ids_at;

const INSIDE: &str = "memory://test/db/lake/t";
const OUTSIDE: &str = "memory://test/far/t";

/// One bucket: databases in folders of it, and tables beside them.
#[derive(Clone)]
struct Lab {
    objects: Arc<dyn ObjectStore>,
    clock: Arc<HandClock>,
}

fn seed() -> u64 {
    tarndb_storage::Context::system().random_u64()
}

impl Lab {
    fn new() -> Self {
        Self {
            objects: Arc::new(InMemory::new()),
            clock: HandClock::right(),
        }
    }

    /// The folder at a URL, through `objects`.
    fn at(&self, objects: &Arc<dyn ObjectStore>, url: &str) -> Store {
        let folder = url.strip_prefix("memory://test/").unwrap();
        let rooted = PrefixStore::new(Arc::clone(objects), Path::from(folder));
        let (objects, clock) = (Arc::clone(objects), Arc::clone(&self.clock));
        let lab = self.clone();
        let store = store_of(Arc::new(rooted), &clock, seed());
        let named = Store::new(store.objects(), url, store.context().clone());
        named.opening(Arc::new(move |url| Ok(lab.at(&objects, url))))
    }

    async fn create(&self, url: &str) -> Database {
        Database::create(self.at(&self.objects, url), manual())
            .await
            .unwrap()
    }

    async fn open(&self, url: &str) -> Database {
        Database::open(self.at(&self.objects, url), manual())
            .await
            .unwrap()
    }

    /// A handle whose requests the test sees.
    async fn hooked(&self, url: &str) -> (HookStore, Database) {
        let hooks = HookStore::new(&self.objects, &self.clock);
        let objects: Arc<dyn ObjectStore> = Arc::new(hooks.clone());
        let db = Database::open(self.at(&objects, url), manual())
            .await
            .unwrap();
        (hooks, db)
    }

    /// The table by its path, as another engine has it.
    async fn native(&self, url: &str) -> Result<NativeTable, NativeError> {
        NativeTable::open(&self.at(&self.objects, url)).await
    }

    /// A table of another engine's: rows 1, then 2, then 3; version 3.
    async fn foreign(&self, url: &str, properties: &[(&str, &str)]) {
        let store = self.at(&self.objects, url);
        let mut table = NativeTable::create(&store, definition(properties))
            .await
            .unwrap();
        for n in 1..=3 {
            append_native(&mut table, n).await.unwrap();
        }
    }

    async fn native_ids(&self, url: &str) -> Vec<i64> {
        let store = self.at(&self.objects, url);
        let state = open_native(&store, NativeTarget::Latest).await.unwrap();
        ids_of(&store, &state).await
    }
}

async fn ids_of(store: &Store, state: &tarndb_table::TableState) -> Vec<i64> {
    use arrow_array::cast::AsArray as _;
    use futures::TryStreamExt as _;
    let codec = tarndb_delta::DeltaCodec::default();
    let root = Path::default();
    let mut ids = Vec::new();
    for file in state.files.values() {
        let deleted = tarndb_table::TableCodec::load_deletion(&codec, store, &root, &file.deletion);
        let deleted = deleted.await.unwrap();
        let batches = tarndb_table::parquet::read::read_file(
            store,
            &root,
            &file,
            &state.schema,
            &state.partition_columns,
            Some(&deleted),
        );
        let batches: Vec<_> = batches.await.unwrap().try_collect().await.unwrap();
        for batch in batches {
            let column = batch
                .column(0)
                .as_primitive::<arrow_array::types::Int64Type>();
            ids.extend(column.values().iter().copied());
        }
    }
    ids.sort_unstable();
    ids
}

fn definition(properties: &[(&str, &str)]) -> TableDefinition {
    let NewTable { schema, .. } = new_table("t");
    let properties = properties.iter();
    TableDefinition {
        id: TableId(Uuid::from_u128(7)),
        name: "t".to_owned(),
        schema,
        partition_columns: Vec::new(),
        properties: properties
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        description: None,
    }
}

async fn append_native(table: &mut NativeTable, n: i64) -> Result<(), NativeError> {
    let batches = futures::stream::iter([Ok::<_, Infallible>(batch(&[(n, n)]))]);
    let written = table.write(batches).await?;
    table
        .append(written, BTreeMap::new(), Reads::Nothing)
        .await?;
    Ok(())
}

async fn attached(db: &Database, name: &str, url: &str) -> TableId {
    db.attach_table("main", name, url).await.unwrap().id
}

async fn ids(db: &Database, id: TableId) -> Vec<i64> {
    rows(db, id).await.into_iter().map(|row| row.0).collect()
}

fn attach_error(result: Result<impl std::fmt::Debug, DbError>) -> AttachError {
    match result {
        Err(DbError::Attach(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn delta_error(result: Result<impl std::fmt::Debug, DbError>) -> String {
    let Err(DbError::Table { source, .. }) = result else {
        panic!("{result:?}");
    };
    match *source {
        TableError::Format { source, .. } => source.downcast::<DeltaError>().unwrap().to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn attached_table_is_changed_and_its_versions_go_on() {
    for (url, properties) in [
        (INSIDE, vec![]),
        (OUTSIDE, vec![]),
        (OUTSIDE, vec![("delta.enableInCommitTimestamps", "true")]),
        (
            INSIDE,
            vec![
                ("delta.appendOnly", "false"),
                ("delta.enableDeletionVectors", "true"),
            ],
        ),
    ] {
        let lab = Lab::new();
        lab.foreign(url, &properties).await;
        let db = lab.create("memory://test/db").await;
        let done = db.attach_table("main", "taken", url).await.unwrap();
        assert_eq!(done.table_version, TableVersion(4));
        let id = done.id;
        assert_eq!(ids(&db, id).await, [1, 2, 3]);

        insert(&db, id, &[(4, 4), (5, 5)]).await;
        let mut txn = begin(&db).await;
        delete(&mut txn, id, |row| row.0 == 2).await;
        update(&mut txn, id, |row| row.0 == 3, |row| (30, row.1)).await;
        txn.commit().await.unwrap();
        let options = CompactOptions::default();
        db.compact(id, &options).await.unwrap();
        let mut txn = begin(&db).await;
        let column = NewColumn::from(Field::new("more", DataType::String, true));
        txn.change_metadata(id, MetadataChange::AddColumn(column))
            .await
            .unwrap();
        txn.commit().await.unwrap();

        let expected = [1, 4, 5, 30];
        assert_eq!(ids(&db, id).await, expected);
        for (version, expected) in [
            (1, vec![1]),
            (3, vec![1, 2, 3]),
            (4, vec![1, 2, 3]),
            (5, vec![1, 2, 3, 4, 5]),
        ] {
            let target = TableTarget::Version(TableVersion(version));
            assert_eq!(ids_at(&db, id, target).await, expected, "{url} {version}");
        }
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        assert_eq!(lab.native_ids(url).await, expected);
        let refused = lab.native(url).await.unwrap_err().to_string();
        assert!(refused.contains("tarndbManaged"), "{refused}");
        // A handle that begins at the checkpoint, and one that sees the records.
        let other = lab.open("memory://test/db").await;
        assert_eq!(ids(&other, id).await, expected);
        let status = other.status().await.unwrap();
        let place = status.tables.first().unwrap().location.clone();
        assert_eq!(place, if url == INSIDE { "lake/t" } else { OUTSIDE });
        assert_clean(&other).await;
    }
}

#[tokio::test]
async fn detached_table_is_anybodys_again_and_can_be_attached_anew() {
    for url in [INSIDE, OUTSIDE] {
        let lab = Lab::new();
        lab.foreign(url, &[]).await;
        let db = lab.create("memory://test/db").await;
        let first = attached(&db, "taken", url).await;
        insert(&db, first, &[(4, 4)]).await;
        let done = db.detach_table(first).await.unwrap();
        assert_eq!(done.notices, Vec::<String>::new());
        assert!(matches!(
            db.detach_table(first).await,
            Err(DbError::TableNotFound { .. })
        ));

        let mut native = lab.native(url).await.unwrap();
        let properties = native.state().unwrap().properties.clone();
        assert_eq!(properties, BTreeMap::new(), "what attaching added is gone");
        append_native(&mut native, 5).await.unwrap();
        assert_eq!(lab.native_ids(url).await, [1, 2, 3, 4, 5]);
        // A vacuum of everything leaves it alone.
        let options = VacuumOptions {
            retention: std::time::Duration::ZERO,
            force: true,
            ..VacuumOptions::default()
        };
        let vacuumed = db.vacuum(&options, |_| {}).await.unwrap();
        assert_eq!(vacuumed.files().count(), 0);
        db.checkpoint().await.unwrap();
        let db = lab.open("memory://test/db").await;
        assert_clean(&db).await;

        let again = db.attach_table("main", "taken", url).await.unwrap();
        assert_ne!(again.id, first);
        assert_eq!(again.table_version, TableVersion(8));
        assert_eq!(ids(&db, again.id).await, [1, 2, 3, 4, 5]);
        insert(&db, again.id, &[(6, 6)]).await;
        db.publish().await.unwrap();
        assert_eq!(lab.native_ids(url).await, [1, 2, 3, 4, 5, 6]);
        assert_clean(&db).await;
    }
}

#[tokio::test]
async fn table_that_the_database_created_is_given_back_too() {
    let lab = Lab::new();
    let db = lab.create("memory://test/db").await;
    let id = create_table(&db, "t").await;
    insert(&db, id, &[(1, 1)]).await;
    let done = db.detach_table(id).await.unwrap();
    assert_eq!(done.place, "main/t");
    let url = "memory://test/db/main/t";
    let mut native = lab.native(url).await.unwrap();
    append_native(&mut native, 2).await.unwrap();
    assert_eq!(lab.native_ids(url).await, [1, 2]);
    let id = attached(&db, "t", url).await;
    assert_eq!(ids(&db, id).await, [1, 2]);
}

#[tokio::test]
async fn place_that_cannot_be_a_tables_is_refused_before_anything_is_changed() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    lab.foreign(INSIDE, &[]).await;
    let db = lab.create("memory://test/db").await;
    let own = create_table(&db, "own").await;
    insert(&db, own, &[(1, 1)]).await;
    db.publish().await.unwrap();
    let before = lab.keys().await;
    for (url, expected) in [
        ("memory://test/db", "around"),
        ("memory://test/db/main/own", "taken"),
        ("memory://test/db/main/own/deeper", "taken"),
        ("memory://test/db/main", "taken"),
        ("memory://test/db/_tarndb", "bad"),
    ] {
        let found = match attach_error(db.attach_table("main", "x", url).await) {
            AttachError::AroundRoot { .. } => "around",
            AttachError::PlaceTaken { .. } => "taken",
            AttachError::BadPlace { .. } => "bad",
            other => panic!("{url}: {other}"),
        };
        assert_eq!(found, expected, "{url}");
    }
    for url in ["memory://test/nothing", "memory://test/db/nothing"] {
        let error = attach_error(db.attach_table("main", "x", url).await);
        assert!(matches!(error, AttachError::NotATable { .. }), "{error}");
    }
    for (schema, name) in [("main", "own"), ("none", "x"), ("main", "")] {
        db.attach_table(schema, name, OUTSIDE).await.unwrap_err();
    }
    assert_eq!(lab.keys().await, before);
    attached(&db, "x", OUTSIDE).await;
    let twice = attach_error(db.attach_table("main", "y", OUTSIDE).await);
    assert!(matches!(twice, AttachError::PlaceTaken { .. }), "{twice}");
    let nested = attach_error(db.attach_table("main", "y", &format!("{OUTSIDE}/a")).await);
    assert!(matches!(nested, AttachError::PlaceTaken { .. }), "{nested}");
}

impl Lab {
    async fn keys(&self) -> Vec<String> {
        let world = World {
            objects: Arc::clone(&self.objects),
        };
        world.keys("").await
    }
}

#[tokio::test]
async fn feature_that_cannot_be_written_is_refused_by_name_and_nothing_is_changed() {
    for (protocol, named) in [
        (
            r#"{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["collations"]}"#,
            "collations",
        ),
        (
            r#"{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["com.example.x"]}"#,
            "com.example.x",
        ),
        (
            r#"{"minReaderVersion":1,"minWriterVersion":8}"#,
            "writer version 8",
        ),
    ] {
        let lab = Lab::new();
        lab.foreign(OUTSIDE, &[]).await;
        let key = Path::from(format!("_delta_log/{:020}.json", 4));
        let line = format!("{{\"protocol\":{protocol}}}\n");
        let store = lab.at(&lab.objects, OUTSIDE);
        store.put(&key, line.into()).await.unwrap();
        let db = lab.create("memory://test/db").await;
        let before = lab.keys().await;
        let error = delta_error(db.attach_table("main", "t", OUTSIDE).await);
        assert!(error.contains(named), "{error}");
        assert_eq!(lab.keys().await, before);
    }
}

#[tokio::test]
async fn another_database_is_named_and_a_copy_is_told() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    let (one, two) = (
        lab.create("memory://test/db").await,
        lab.create("memory://test/two").await,
    );
    let id = attached(&one, "t", OUTSIDE).await;
    let error = delta_error(two.attach_table("main", "t", OUTSIDE).await);
    assert!(error.contains(&one.id().to_string()), "{error}");

    insert(&one, id, &[(4, 4)]).await;
    one.publish().await.unwrap();
    let world = World {
        objects: Arc::clone(&lab.objects),
    };
    for key in world.keys("far/t").await {
        let bytes = world.get(&key).await.unwrap();
        world.put(&key.replace("far/t", "far/copy"), bytes).await;
    }
    let copy = attach_error(
        one.attach_table("main", "c", "memory://test/far/copy")
            .await,
    );
    assert!(matches!(copy, AttachError::Copy { .. }), "{copy}");
    // Given back by the one, it is the other's to take.
    one.detach_table(id).await.unwrap();
    let id = attached(&two, "t", OUTSIDE).await;
    assert_eq!(ids(&two, id).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn attached_table_is_not_dropped() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    let db = lab.create("memory://test/db").await;
    let mut txn = begin(&db).await;
    txn.create_schema("s").unwrap();
    txn.commit().await.unwrap();
    let id = db.attach_table("s", "t", OUTSIDE).await.unwrap().id;
    let mut txn = begin(&db).await;
    let refused = attach_error(txn.drop_table(id));
    assert!(matches!(&refused, AttachError::DropAttached { table } if table == "s.t"));
    assert!(matches!(
        attach_error(txn.drop_schema("s", true)),
        AttachError::DropAttached { .. }
    ));
    assert!(txn.is_read_only());
    txn.rename_table(id, "main", "other").unwrap();
    txn.commit().await.unwrap();
    assert_eq!(ids(&db, id).await, [1, 2, 3]);
}

#[tokio::test]
async fn of_two_at_once_one_has_it_and_the_other_is_told() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    lab.create("memory://test/db").await;
    let (one, two) = (
        lab.open("memory://test/db").await,
        lab.open("memory://test/db").await,
    );
    let other = lab.create("memory://test/other").await;
    let (a, b, c) = tokio::join!(
        one.attach_table("main", "a", OUTSIDE),
        two.attach_table("main", "b", OUTSIDE),
        other.attach_table("main", "c", OUTSIDE),
    );
    let all = [a, b, c];
    let won = all.iter().filter(|result| result.is_ok()).count();
    assert_eq!(won, 1, "{all:?}");
    for error in all.into_iter().filter_map(Result::err) {
        let kind = error.kind();
        let told = matches!(
            kind,
            ErrorKind::AlreadyExists | ErrorKind::Unsupported | ErrorKind::ConflictIncompatible
        );
        assert!(told, "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn write_and_detach_at_once_lose_nothing() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    let db = lab.create("memory://test/db").await;
    let id = attached(&db, "t", OUTSIDE).await;
    let other = lab.open("memory://test/db").await;
    // Begun before, it comes after: it is told that the table is gone.
    let mut late = begin(&other).await;
    append(&mut late, id, &[(9, 9)]).await;
    // And one that comes between the detaching's snapshot and its record is kept.
    let mut txn = begin(&other).await;
    append(&mut txn, id, &[(4, 4)]).await;
    txn.commit().await.unwrap();
    db.detach_table(id).await.unwrap();
    assert_conflict(late.commit().await, false);
    assert_eq!(lab.native_ids(OUTSIDE).await, [1, 2, 3, 4]);
    append_native(&mut lab.native(OUTSIDE).await.unwrap(), 5)
        .await
        .unwrap();
}

/// Runs `work` on a handle that dies at its n-th request, for every n; then `after`.
async fn dying_everywhere(
    url: &str,
    prepare: impl AsyncFn(&Lab) -> TableId,
    work: impl AsyncFn(&Database, TableId) -> bool,
    after: impl AsyncFn(&Lab, TableId, usize),
) {
    // Both places take the same steps; every one of them is tried in one.
    let step = if url == INSIDE { 4 } else { 1 };
    for n in (0..).step_by(step) {
        let lab = Lab::new();
        lab.foreign(url, &[]).await;
        lab.create("memory://test/db").await;
        let id = prepare(&lab).await;
        let (hooks, db) = lab.hooked("memory://test/db").await;
        let mut calls = 0;
        hooks.set(move |_: &Call<'_>| {
            calls += 1;
            if calls > n {
                Reaction::Fail
            } else {
                Reaction::Pass
            }
        });
        let finished = work(&db, id).await;
        drop(db);
        after(&lab, id, n).await;
        if finished {
            assert!(n > 5, "the work is seen: {n}");
            return;
        }
        assert!(n < 200, "it ends at last");
    }
}

#[tokio::test]
async fn attaching_that_dies_anywhere_is_gone_on_with() {
    for url in [INSIDE, OUTSIDE] {
        dying_everywhere(
            url,
            async |_| TableId(Uuid::nil()),
            async |db, _| db.attach_table("main", "t", url).await.is_ok(),
            async |lab, _, n| {
                let db = lab.open("memory://test/db").await;
                let there = db.snapshot().await.unwrap();
                let there = there.catalog().find("main", "t").map(|table| table.id);
                let id = match there {
                    Some(id) => id,
                    None => attached(&db, "t", url).await,
                };
                assert_eq!(ids(&db, id).await, [1, 2, 3], "{n}");
                insert(&db, id, &[(4, 4)]).await;
                db.publish().await.unwrap();
                assert_eq!(lab.native_ids(url).await, [1, 2, 3, 4], "{n}");
                lab.native(url).await.unwrap_err();
                assert_clean(&db).await;
                db.detach_table(id).await.unwrap();
                append_native(&mut lab.native(url).await.unwrap(), 5)
                    .await
                    .unwrap();
            },
        )
        .await;
    }
}

#[tokio::test]
async fn detaching_that_dies_anywhere_is_finished_by_anybody() {
    for url in [INSIDE, OUTSIDE] {
        dying_everywhere(
            url,
            async |lab| {
                let db = lab.open("memory://test/db").await;
                let id = attached(&db, "t", url).await;
                insert(&db, id, &[(4, 4)]).await;
                id
            },
            async |db, id| {
                db.detach_table(id)
                    .await
                    .is_ok_and(|done| done.notices.is_empty())
            },
            async |lab, id, n| {
                let db = lab.open("memory://test/db").await;
                let there = db.snapshot().await.unwrap().catalog().table(id).is_some();
                if there {
                    insert(&db, id, &[(5, 5)]).await;
                    db.detach_table(id).await.unwrap();
                } else if n % 2 == 0 {
                    db.publish().await.unwrap();
                } else {
                    // Whoever takes it again finishes the giving back first.
                    let again = attached(&db, "again", url).await;
                    assert_ne!(again, id);
                    db.detach_table(again).await.unwrap();
                }
                append_native(&mut lab.native(url).await.unwrap(), 6)
                    .await
                    .unwrap();
                let mut expected = vec![1, 2, 3, 4, 6];
                if there {
                    expected.insert(4, 5);
                }
                assert_eq!(lab.native_ids(url).await, expected, "{n}");
                assert_clean(&db).await;
            },
        )
        .await;
    }
}

#[tokio::test]
async fn legacy_protocol_keeps_what_it_implied_there_and_back() {
    for (reader, writer, implied) in [
        (1, 1, ""),
        (1, 2, "appendOnly,invariants"),
        (
            1,
            4,
            "appendOnly,changeDataFeed,checkConstraints,generatedColumns,invariants",
        ),
        (
            2,
            5,
            "appendOnly,changeDataFeed,checkConstraints,columnMapping,generatedColumns,invariants",
        ),
        (
            1,
            6,
            "appendOnly,changeDataFeed,checkConstraints,columnMapping,generatedColumns,\
             identityColumns,invariants",
        ),
    ] {
        let lab = Lab::new();
        lab.foreign(OUTSIDE, &[]).await;
        let store = lab.at(&lab.objects, OUTSIDE);
        let key = Path::from(format!("_delta_log/{:020}.json", 4));
        let line = format!(
            "{{\"protocol\":{{\"minReaderVersion\":{reader},\"minWriterVersion\":{writer}}}}}\n"
        );
        store.put(&key, line.into()).await.unwrap();
        let listed = async || {
            let state = open_native(&store, NativeTarget::Latest).await.unwrap();
            let protocol = &DeltaState::of(&state).unwrap().protocol;
            assert_eq!(protocol.min_reader_version, reader);
            let names = protocol.writer_features.iter().flatten().cloned();
            names.collect::<Vec<_>>().join(",")
        };
        let db = lab.create("memory://test/db").await;
        let id = attached(&db, "t", OUTSIDE).await;
        let mut with: Vec<&str> = implied.split(',').filter(|name| !name.is_empty()).collect();
        with.extend(["domainMetadata", "inCommitTimestamp", "tarndbManaged"]);
        with.sort_unstable();
        assert_eq!(listed().await, with.join(","));
        insert(&db, id, &[(4, 4)]).await;
        db.detach_table(id).await.unwrap();
        assert_eq!(listed().await, implied);
        assert_eq!(lab.native_ids(OUTSIDE).await, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn what_the_table_had_before_stays_when_it_is_given_back() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[("delta.enableInCommitTimestamps", "true")])
        .await;
    let db = lab.create("memory://test/db").await;
    let id = attached(&db, "t", OUTSIDE).await;
    let mut txn = begin(&db).await;
    txn.set_domain(id, "mine", Some("{}")).await.unwrap();
    txn.commit().await.unwrap();
    db.detach_table(id).await.unwrap();
    let store = lab.at(&lab.objects, OUTSIDE);
    let state = open_native(&store, NativeTarget::Latest).await.unwrap();
    let delta = DeltaState::of(&state).unwrap();
    let names: Vec<&str> = delta
        .protocol
        .writer_features
        .iter()
        .flatten()
        .map(String::as_str)
        .collect();
    assert_eq!(names, ["domainMetadata", "inCommitTimestamp"]);
    assert_eq!(delta.domains.keys().collect::<Vec<_>>(), ["mine"]);
    assert_eq!(
        state
            .properties
            .get("delta.enableInCommitTimestamps")
            .map(String::as_str),
        Some("true")
    );
    assert!(state.in_commit_timestamp.is_some());
    append_native(&mut lab.native(OUTSIDE).await.unwrap(), 4)
        .await
        .unwrap();
}

#[tokio::test]
async fn vacuum_of_an_attached_table_leaves_what_others_wrote() {
    let lab = Lab::new();
    lab.foreign(OUTSIDE, &[]).await;
    let store = lab.at(&lab.objects, OUTSIDE);
    store
        .put(&Path::from("notes.parquet"), "theirs".into())
        .await
        .unwrap();
    let db = lab.create("memory://test/db").await;
    let id = attached(&db, "t", OUTSIDE).await;
    let mut txn = begin(&db).await;
    delete(&mut txn, id, |row| row.0 == 1).await;
    txn.commit().await.unwrap();
    insert(&db, id, &[(4, 4)]).await;
    db.publish().await.unwrap();
    let options = VacuumOptions {
        retention: std::time::Duration::ZERO,
        force: true,
        ..VacuumOptions::default()
    };
    db.vacuum(&options, |_| {}).await.unwrap();
    assert_eq!(ids(&db, id).await, [2, 3, 4]);
    assert_eq!(lab.native_ids(OUTSIDE).await, [2, 3, 4]);
    assert!(
        store
            .get(&Path::from("notes.parquet"))
            .await
            .unwrap()
            .is_some()
    );
    assert_clean(&db).await;
}
