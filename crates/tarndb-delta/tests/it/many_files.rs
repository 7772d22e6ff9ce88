//! Tables of so many files that those of a checkpoint stay packed.

use std::sync::Arc;

use tarndb_table::{FileUpdate, PACKED_MIN, RowSet, TableCodec as _, TableState};

use crate::support::{Table, Work, file};

fn name(number: usize) -> String {
    format!("part {number:06}")
}

async fn checkpointed(files: usize) -> (Table, u64) {
    let mut table = Table::create();
    let adds = (0..files).map(|number| file(&name(number), 10)).collect();
    table.commit(Work {
        operation: "WRITE",
        adds,
        ..Work::default()
    });
    delete_rows(&mut table, &name(5), [1, 2]).await;
    let at = table.entries.len() as u64 - 1;
    table.publish(at).await;
    let state = table.state().clone();
    let written = table
        .codec
        .checkpoint(&table.store, &table.location, &state)
        .await
        .unwrap();
    // Protocol, metadata, the domain and the tombstone of the file without its vector.
    assert_eq!(written.actions, files as u64 + 4);
    for version in 0..=at {
        table.delete(&format!("{version:020}.json")).await;
    }
    (table, at)
}

async fn delete_rows(table: &mut Table, path: &str, rows: impl IntoIterator<Item = u64>) {
    let rows = Arc::new(RowSet::from_iter(rows));
    let stored = table
        .codec
        .store_deletions(&table.store, &table.location, &[rows])
        .await
        .unwrap()
        .remove(0);
    let updates = vec![FileUpdate {
        old: table.file(path),
        new: Some(stored),
    }];
    table.commit(Work {
        operation: "DELETE",
        updates,
        ..Work::default()
    });
}

fn assert_same_files(found: &TableState, expected: &TableState) {
    assert_eq!(found.files.len(), expected.files.len());
    assert_eq!(found.files, expected.files);
    assert_eq!(found.live_rows(), expected.live_rows());
    assert_eq!(found.size_bytes(), expected.size_bytes());
}

#[tokio::test]
async fn commits_after_a_large_checkpoint_give_what_commits_alone_give() {
    let (mut table, at) = checkpointed(PACKED_MIN + 100).await;
    let loaded = table.load(at, Some(at), &[]).await.unwrap();
    assert!(loaded.files.is_packed());
    assert!(!table.state().files.is_packed());
    assert_same_files(&loaded, table.state());

    let (gone, again) = (table.file(&name(7)), table.file(&name(8)));
    table.commit(Work {
        operation: "DELETE",
        removes: vec![gone, again],
        ..Work::default()
    });
    delete_rows(&mut table, &name(9), [0]).await;
    delete_rows(&mut table, &name(5), [1, 2, 3]).await;
    table.commit(Work {
        operation: "WRITE",
        adds: vec![file(&name(8), 99), file("new", 1)],
        ..Work::default()
    });
    let last = table.entries.len() as u64 - 1;
    let tail = &table.entries[at as usize + 1..];
    let followed = table.load(last, Some(at), tail).await.unwrap();
    assert!(followed.files.is_packed());
    assert_same_files(&followed, table.state());
    assert!(followed.files.get(&name(7)).is_none());
    assert_eq!(followed.files.get(&name(8)).unwrap().live_rows(), Some(99));
    // The state that was loaded first did not change under its owner.
    assert_eq!(loaded.files.get(&name(8)).unwrap().live_rows(), Some(10));
}

#[tokio::test]
async fn a_checkpoint_of_packed_files_is_written_again_as_it_was() {
    let (table, at) = checkpointed(PACKED_MIN).await;
    let loaded = table.load(at, Some(at), &[]).await.unwrap();
    assert!(loaded.files.is_packed());
    table
        .codec
        .checkpoint(&table.store, &table.location, &loaded)
        .await
        .unwrap();
    let again = table.load(at, Some(at), &[]).await.unwrap();
    assert_same_files(&again, table.state());
}
