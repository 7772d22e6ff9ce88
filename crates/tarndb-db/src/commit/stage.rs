//! Keeping a record small: what it cannot carry becomes objects of their own.
//!
//! Invariant: a data file that does not fit is stored at its path, an entry that does not fit is
//! staged, both before the record is put that names them. A staged object holds exactly the
//! bytes that are published later and is used by one attempt at one version only.
//! Spec: docs/format/log.md, "Staged entries" and "Inline files".

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::Path;
use tarndb_table::codec::Entry;
use tarndb_table::data_key;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, EntryBody, RecordTxn, Staged, TableEntryAction, encode_txn};
use crate::states::staged_hash;

/// What is reserved in a record for its first line.
pub(crate) const RECORD_HEAD_BYTES: usize = 512;
/// Data files stored at the same time.
const FILES_PARALLEL: usize = 8;

/// The lines of a transaction, after storing its largest data files and staging its largest
/// entries until a record of it alone is small enough.
///
/// # Cost
/// 1 PUT per stored file and staged entry; none for a small transaction.
pub(crate) async fn encode_small(
    inner: &Inner,
    txn: &mut RecordTxn,
    tables: &[Arc<TableEntry>],
) -> Result<String, DbError> {
    let is_large = |text: &str| RECORD_HEAD_BYTES + text.len() > inner.options.record_bytes_max;
    store_files(inner, txn, tables, inner.options.inline_bytes_max).await?;
    let mut text = encode_txn(txn);
    if is_large(&text) && txn.has_files() {
        store_files(inner, txn, tables, 0).await?;
        text = encode_txn(txn);
    }
    while is_large(&text) {
        let Some((action, entry)) = largest(txn) else {
            return Ok(text);
        };
        let table = table_of(tables, action)?;
        action.body = EntryBody::Staged(stage(inner, table, &entry).await?);
        text = encode_txn(txn);
    }
    Ok(text)
}

fn table_of<'a>(
    tables: &'a [Arc<TableEntry>],
    action: &TableEntryAction,
) -> Result<&'a TableEntry, DbError> {
    let table = tables.iter().find(|table| table.id == action.table);
    table.map(Arc::as_ref).ok_or(DbError::Internal {
        what: "an entry of an unknown table",
    })
}

fn entries(txn: &mut RecordTxn) -> impl Iterator<Item = &mut TableEntryAction> {
    txn.actions.iter_mut().filter_map(|action| match action {
        Action::Entry(entry) => Some(entry),
        _ => None,
    })
}

/// Stores the largest files of a transaction at their paths until it carries at most
/// `bytes_max`.
async fn store_files(
    inner: &Inner,
    txn: &mut RecordTxn,
    tables: &[Arc<TableEntry>],
    bytes_max: usize,
) -> Result<(), DbError> {
    let files = entries(txn).flat_map(|entry| entry.files.values().map(Bytes::len));
    let mut sizes: Vec<usize> = files.collect();
    let mut total: usize = sizes.iter().sum();
    if total <= bytes_max {
        return Ok(());
    }
    sizes.sort_unstable();
    let mut too_many = Vec::new();
    while total > bytes_max {
        // Everything of this size or above goes.
        let Some(size) = sizes.pop() else {
            break;
        };
        for entry in entries(txn) {
            let location = &table_of(tables, entry)?.location;
            let at_least = entry.files.extract_if(.., |_, bytes| bytes.len() >= size);
            for (path, bytes) in at_least {
                total -= bytes.len();
                let key = data_key(location, &path);
                let key = key.map_err(DbError::table(location.to_string()))?;
                too_many.push((key, bytes));
            }
        }
    }
    let stored = futures::stream::iter(too_many).map(|(key, bytes)| async move {
        tracing::debug!(target: "tarndb::step", key = %key, "data_file.begin");
        inner.store.store_held_bytes(&key, bytes).await?;
        tracing::debug!(target: "tarndb::step", key = %key, "data_file.end");
        Ok(())
    });
    stored.buffer_unordered(FILES_PARALLEL).try_collect().await
}

fn largest(txn: &mut RecordTxn) -> Option<(&mut TableEntryAction, Arc<Entry>)> {
    let inline = entries(txn).filter_map(|entry| match &entry.body {
        EntryBody::Inline(lines) => {
            let lines = Arc::clone(lines);
            Some((entry, lines))
        }
        EntryBody::Staged(_) => None,
    });
    inline.max_by_key(|(_, entry)| entry.lines.iter().map(String::len).sum::<usize>())
}

async fn stage(inner: &Inner, table: &TableEntry, entry: &Entry) -> Result<Staged, DbError> {
    let codec = inner.codec(&table.format, &table.display_name())?;
    let key: Path = codec.staged_key(&table.location, entry.version, inner.context().uuid());
    let bytes = codec.published_bytes(entry);
    let prefix = format!("{}/", table.location);
    let path = key
        .as_ref()
        .strip_prefix(&prefix)
        .ok_or(DbError::Internal {
            what: "a staged file outside its table",
        })?
        .to_owned();
    let staged = Staged {
        path,
        size_bytes: bytes.len() as u64,
        hash: staged_hash(&bytes),
    };
    inner.store.put(&key, bytes).await?;
    Ok(staged)
}
