//! Keeping a record small: large entries are staged as objects of their own.
//!
//! Invariant: a staged object holds exactly the bytes that are published later, is written
//! before the record that names it, and is used by one attempt at one version only.
//! Spec: docs/format/log.md, "Staged entries".

use std::sync::Arc;

use bytes::Bytes;
use tarndb_storage::Path;
use tarndb_table::codec::Entry;

use crate::catalog::TableEntry;
use crate::database::Inner;
use crate::error::DbError;
use crate::record::{Action, EntryBody, Record, Staged, TableEntryAction, encode};
use crate::states::staged_hash;

/// The bytes of a record, after staging its largest entries until it is small enough.
///
/// # Cost
/// 1 PUT per staged entry; none for a small record.
pub(crate) async fn encode_small(
    inner: &Inner,
    record: &mut Record,
    tables: &[Arc<TableEntry>],
) -> Result<Bytes, DbError> {
    let mut bytes = encode(record);
    while bytes.len() > inner.options.record_bytes_max {
        let Some((action, entry)) = largest(record) else {
            return Ok(bytes);
        };
        let table = tables.iter().find(|table| table.id == action.table);
        let table = table.ok_or(DbError::Internal {
            what: "an entry of an unknown table",
        })?;
        action.body = EntryBody::Staged(stage(inner, table, &entry).await?);
        bytes = encode(record);
    }
    Ok(bytes)
}

fn largest(record: &mut Record) -> Option<(&mut TableEntryAction, Arc<Entry>)> {
    let actions = record
        .txns
        .iter_mut()
        .flat_map(|txn| txn.actions.iter_mut());
    let inline = actions.filter_map(|action| match action {
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
