//! Keeping a record small: large entries are staged as objects of their own.
//!
//! Invariant: a staged object holds exactly the bytes that are published later, is written
//! before the record that names it, and is used by one attempt at one version only.
//! Spec: docs/format/log.md, "Staged entries".

use std::sync::Arc;

use tarndb_storage::Path;
use tarndb_table::codec::Entry;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, EntryBody, RecordTxn, Staged, TableEntryAction, encode_txn};
use crate::states::staged_hash;

/// What is reserved in a record for its first line.
pub(crate) const RECORD_HEAD_BYTES: usize = 512;

/// The lines of a transaction, after staging its largest entries until a record of it alone is
/// small enough.
///
/// # Cost
/// 1 PUT per staged entry; none for a small transaction.
pub(crate) async fn encode_small(
    inner: &Inner,
    txn: &mut RecordTxn,
    tables: &[Arc<TableEntry>],
) -> Result<String, DbError> {
    let mut text = encode_txn(txn);
    while RECORD_HEAD_BYTES + text.len() > inner.options.record_bytes_max {
        let Some((action, entry)) = largest(txn) else {
            return Ok(text);
        };
        let table = tables.iter().find(|table| table.id == action.table);
        let table = table.ok_or(DbError::Internal {
            what: "an entry of an unknown table",
        })?;
        action.body = EntryBody::Staged(stage(inner, table, &entry).await?);
        text = encode_txn(txn);
    }
    Ok(text)
}

fn largest(txn: &mut RecordTxn) -> Option<(&mut TableEntryAction, Arc<Entry>)> {
    let inline = txn.actions.iter_mut().filter_map(|action| match action {
        Action::Entry(entry) => match &entry.body {
            EntryBody::Inline(lines) => {
                let lines = Arc::clone(lines);
                Some((entry, lines))
            }
            EntryBody::Staged(_) => None,
        },
        _ => None,
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
