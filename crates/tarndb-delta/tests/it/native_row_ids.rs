//! Row tracking of tables by path: ids that stay, and ids that are given out once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tarndb_delta::{ConflictKind, NativeTable, NativeTarget, Reads, open_native};
use tarndb_storage::{Path, Store};
use tarndb_table::*;

use crate::native::{append, batch, definition, delete, find, kind, lines, memory, scan, written};

const TRACKING: (&str, &str) = ("delta.enableRowTracking", "true");

/// Id and version of the last change of each row, by its value of `a`.
pub(crate) async fn ids(store: &Store) -> BTreeMap<i64, (i64, i64)> {
    let state = open_native(store, NativeTarget::Latest).await.unwrap();
    let columns = RowIdColumns::of(&state.properties).unwrap();
    let mut found = BTreeMap::new();
    for (value, path, at) in scan(store, &state).await {
        let file = state.files.get(&path).unwrap();
        let rows = RowSet::from_iter([at]);
        let ids = stable_ids(store, &Path::default(), &file, &columns, &rows).await;
        let (id, version) = ids.unwrap()[&at];
        found.insert(value, (id.unwrap(), version.unwrap()));
    }
    found
}

/// Gives the rows with these values other ones.
pub(crate) async fn update(
    store: &Store,
    table: &mut NativeTable,
    changes: &[(i64, i64)],
) -> Result<(), tarndb_delta::NativeError> {
    let wanted: Vec<i64> = changes.iter().map(|(from, _)| *from).collect();
    let (rows, reads) = find(store, table, &wanted).await;
    let state = Arc::clone(table.state().unwrap());
    let mut new = Vec::new();
    let mut origins = Vec::new();
    for (value, path, position) in scan(store, &state).await {
        if let Some((_, to)) = changes.iter().find(|(from, _)| *from == value) {
            new.push((*to, 1));
            let file = state.files.get(&path).unwrap();
            origins.push(Origin { file, position });
        }
    }
    let mut writer = table.change_writer(None).unwrap();
    let new = batch(&new);
    writer.write_updated(&new, &origins, None).await.unwrap();
    let written = writer.finish().await.unwrap();
    table.change_rows(rows, written, reads).await.map(|_| ())
}

fn mark(lines: &[String]) -> Option<i64> {
    let domain = lines
        .iter()
        .find(|line| line.contains("delta.rowTracking\""));
    let text = domain?.split("rowIdHighWaterMark\\\":").nth(1)?;
    text.split('}').next()?.parse().ok()
}

#[tokio::test]
async fn rows_keep_their_ids_through_updates_deletions_and_compaction() {
    for vectors in ["true", "false"] {
        let store = memory();
        let properties = [TRACKING, ("delta.enableDeletionVectors", vectors)];
        let mut table = NativeTable::create(&store, definition(&properties, true))
            .await
            .unwrap();
        append(&mut table, &[(1, 1), (2, 1), (3, 1)]).await.unwrap();
        append(&mut table, &[(4, 1)]).await.unwrap();
        let before = ids(&store).await;
        let expected = [(1, (0, 1)), (2, (1, 1)), (3, (2, 1)), (4, (3, 2))];
        assert_eq!(before, expected.into(), "{vectors}");

        update(&store, &mut table, &[(2, 20)]).await.unwrap();
        assert_eq!(ids(&store).await[&20], (1, 3), "{vectors}");
        delete(&store, &mut table, &[1]).await.unwrap();
        let compacted = table.compact(1 << 30).await.unwrap().unwrap();
        assert_eq!(compacted.files_after, 1);
        update(&store, &mut table, &[(20, 21)]).await.unwrap();
        append(&mut table, &[(5, 1)]).await.unwrap();

        let after = ids(&store).await;
        let version = table.version().unwrap().0 as i64;
        assert_eq!((after[&3], after[&4]), ((2, 1), (3, 2)), "{vectors}");
        assert_eq!(after[&21], (1, version - 1), "{vectors}");
        assert!(after[&5].0 > 3, "{vectors}: {after:?}");
        let told = lines(&store, 3).await;
        assert!(told[0].contains(r#""delta.rowTracking.preserved":"true""#));
    }
}

#[tokio::test]
async fn two_writers_at_once_never_give_one_id_twice() {
    let store = memory();
    let mut one = NativeTable::create(&store, definition(&[TRACKING], false))
        .await
        .unwrap();
    append(&mut one, &[(0, 1)]).await.unwrap();
    let mut other = NativeTable::open(&store).await.unwrap();
    for round in 0..3 {
        append(&mut one, &[(10 + round, 1), (20 + round, 1)])
            .await
            .unwrap();
        // Encoded on the version before, then again on the winner's.
        append(&mut other, &[(30 + round, 1)]).await.unwrap();
    }
    let found = ids(&store).await;
    let mut all: Vec<i64> = found.values().map(|(id, _)| *id).collect();
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<i64>>());
    let newest = other.version().unwrap().0;
    assert_eq!(mark(&lines(&store, newest).await), Some(9));
    assert_eq!(found[&32].1, newest as i64);
}

#[tokio::test]
async fn tracking_begun_meanwhile_numbers_new_files_and_stops_copies() {
    let begin = || {
        vec![MetadataChange::SetProperty {
            key: TRACKING.0.to_owned(),
            value: TRACKING.1.to_owned(),
        }]
    };
    let vectors = ("delta.enableDeletionVectors", "true");
    for vectors_on in [true, false] {
        let store = memory();
        let properties: Vec<_> = vectors_on.then_some(vectors).into_iter().collect();
        let mut table = NativeTable::create(&store, definition(&properties, false))
            .await
            .unwrap();
        append(&mut table, &[(1, 1), (2, 1)]).await.unwrap();
        let mut appends = NativeTable::open(&store).await.unwrap();
        let mut deletes = NativeTable::open(&store).await.unwrap();
        let mut updates = NativeTable::open(&store).await.unwrap();
        let mut compacts = NativeTable::open(&store).await.unwrap();
        append(&mut compacts, &[(3, 1)]).await.unwrap();
        table.refresh().await.unwrap();
        table.change_metadata(begin()).await.unwrap();
        let tracked = ids(&store).await;
        assert_eq!(tracked.len(), 3);

        append(&mut appends, &[(4, 1)]).await.unwrap();
        let mut found = ids(&store).await;
        assert_eq!(found.len(), 4);
        assert!(found[&4].0 > 2, "{found:?}");
        // Their copies would have lost the ids.
        let updated = update(&store, &mut updates, &[(2, 20)]).await;
        let found_kind = kind(updated.unwrap_err());
        assert!(matches!(
            found_kind,
            ConflictKind::Metadata | ConflictKind::Append
        ));
        let compacted = compacts.compact(1 << 30).await;
        assert_eq!(kind(compacted.unwrap_err()), ConflictKind::Metadata);
        // A vector moves no row; without vectors a deletion copies.
        deletes.refresh().await.unwrap();
        delete(&store, &mut deletes, &[1]).await.unwrap();
        found.remove(&1);
        assert_eq!(ids(&store).await, found, "{vectors_on}");
    }
}

#[tokio::test]
async fn files_numbered_meanwhile_keep_their_numbers_when_rows_are_deleted() {
    let store = memory();
    let vectors = ("delta.enableDeletionVectors", "true");
    let mut table = NativeTable::create(&store, definition(&[vectors], false))
        .await
        .unwrap();
    append(&mut table, &[(1, 1), (2, 1)]).await.unwrap();
    let mut deletes = NativeTable::open(&store).await.unwrap();
    let begin = MetadataChange::SetProperty {
        key: TRACKING.0.to_owned(),
        value: TRACKING.1.to_owned(),
    };
    table.change_metadata(vec![begin]).await.unwrap();
    let before = ids(&store).await;
    delete(&store, &mut deletes, &[1]).await.unwrap();
    assert_eq!(deletes.version().unwrap().0, 3);
    assert_eq!(ids(&store).await[&2], before[&2]);
    // Nothing was given out anew.
    assert_eq!(mark(&lines(&store, 3).await), None);
}

#[tokio::test]
async fn new_form_of_a_row_that_stays_is_refused() {
    let store = memory();
    let mut table = NativeTable::create(&store, definition(&[TRACKING], false))
        .await
        .unwrap();
    append(&mut table, &[(1, 1)]).await.unwrap();
    let state = Arc::clone(table.state().unwrap());
    let file = state.files.values().next().unwrap();
    let mut writer = table.change_writer(None).unwrap();
    let origins = [Origin { file, position: 0 }];
    let new = batch(&[(2, 1)]);
    writer.write_updated(&new, &origins, None).await.unwrap();
    let change = writer.finish().await.unwrap();
    let refused = table
        .change_rows(BTreeMap::new(), change, Reads::Nothing)
        .await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("new form"), "{text}");
    let plain = written(&table, &[(3, 1)]).await;
    let added = table
        .change_rows(BTreeMap::new(), plain, Reads::Nothing)
        .await;
    added.unwrap();
    assert_eq!(ids(&store).await.len(), 2);
}
