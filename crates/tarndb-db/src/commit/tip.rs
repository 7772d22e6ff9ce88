//! The tip of the log as the next transaction of a record finds it, and the record itself.
//!
//! Invariant: the tip is the head with the transactions applied that stand before in the same
//! record; nothing of it is in a cache before the record is known to be in the log. The record
//! is read back and applied to the head before it is put: what would not replay is never
//! written.
//! Spec: docs/format/log.md, "Committing" and "Group commit".

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tarndb_table::TableState;
use tarndb_txn::Effects;
use tarndb_types::{DbVersion, TableId, TimestampMs};

use super::effects::catalog_effects;
use super::encode::EncodedTxn;
use super::stage::RECORD_HEAD_BYTES;
use crate::catalog::{Catalog, TableEntry};
use crate::database::Inner;
use crate::error::DbError;
use crate::open;
use crate::record::{
    ATTACH_FEATURE, CLONE_FEATURE, DETACH_FEATURE, INLINE_FILES, Record, RecordTxn, TAG_FEATURE,
    UNDROP_FEATURE, VACUUM_FEATURE, VIEW_FEATURE, encode_head,
};

/// A record, ready to be put.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) version: DbVersion,
    pub(crate) timestamp: TimestampMs,
    pub(crate) bytes: Bytes,
    /// The same, read back.
    pub(crate) record: Arc<Record>,
}

/// What the next transaction of a record is encoded against.
#[derive(Debug)]
pub(crate) struct Tip {
    head: Arc<Catalog>,
    /// The head's, with the actions of the transactions so far; its version stays the head's.
    catalog: Catalog,
    timestamp: TimestampMs,
    states: BTreeMap<TableId, Arc<TableState>>,
    txns: Vec<EncodedTxn>,
    bytes: usize,
}

impl Tip {
    pub(crate) fn new(head: Arc<Catalog>) -> Self {
        Self {
            catalog: Catalog::clone(&head),
            timestamp: head.timestamp(),
            head,
            states: BTreeMap::new(),
            txns: Vec::new(),
            bytes: RECORD_HEAD_BYTES,
        }
    }

    pub(crate) fn head(&self) -> &Arc<Catalog> {
        &self.head
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Timestamp of the last transaction.
    pub(crate) fn timestamp(&self) -> TimestampMs {
        self.timestamp
    }

    /// The version that the record makes.
    pub(crate) fn next_version(&self) -> DbVersion {
        self.head.version().next()
    }

    /// The bytes of the record with the transactions so far, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state of a table of [`Self::catalog`].
    ///
    /// # Cost
    /// As [`Inner::table_state`]; none for a table that stands in the record.
    pub(crate) async fn state(
        &self,
        inner: &Inner,
        table: &TableEntry,
    ) -> Result<Arc<TableState>, DbError> {
        match self.states.get(&table.id) {
            Some(state) => Ok(Arc::clone(state)),
            None => inner.table_state(table).await,
        }
    }

    /// Adds a transaction that was encoded against this tip, and gives its catalog effects.
    ///
    /// # Errors
    /// It does not fit the catalog; the tip is then as before.
    pub(crate) fn push(&mut self, encoded: EncodedTxn) -> Result<Effects, DbError> {
        let mut after = self.catalog.clone();
        let version = self.next_version();
        let effects = catalog_effects(&mut after, version, &encoded.txn)?;
        self.catalog = after;
        self.timestamp = encoded.txn.timestamp;
        self.bytes += encoded.text.len();
        for (id, state) in &encoded.states {
            self.states.insert(*id, Arc::clone(state));
        }
        self.txns.push(encoded);
        Ok(effects)
    }

    /// The record of all transactions so far.
    ///
    /// # Errors
    /// It would not replay.
    pub(crate) fn seal(&self, inner: &Inner) -> Result<Encoded, DbError> {
        let version = self.next_version();
        // A reader that does not know files in records would miss their rows.
        let with = |test: fn(&RecordTxn) -> bool, name: &str| {
            let mut txns = self.txns.iter();
            txns.any(|encoded| test(&encoded.txn))
                .then(|| name.to_owned())
        };
        let readers = [
            with(RecordTxn::has_attached, ATTACH_FEATURE),
            with(RecordTxn::has_files, INLINE_FILES),
            with(RecordTxn::has_undropped, UNDROP_FEATURE),
        ];
        let writers = [
            with(RecordTxn::has_detached, DETACH_FEATURE),
            with(RecordTxn::has_vacuum, VACUUM_FEATURE),
            with(RecordTxn::has_clone, CLONE_FEATURE),
            with(RecordTxn::has_view, VIEW_FEATURE),
            with(RecordTxn::has_tag, TAG_FEATURE),
        ];
        let head = Record {
            version,
            timestamp: self.timestamp,
            writer: inner.writer.clone(),
            reader_features: readers.into_iter().flatten().collect(),
            writer_features: writers.into_iter().flatten().collect(),
            txns: Vec::new(),
            size_bytes: 0,
        };
        let mut text = encode_head(&head);
        for txn in &self.txns {
            text.push_str(&txn.text);
        }
        let bytes = Bytes::from(text);
        let record = open::decode_record(&inner.log, version, &bytes)?;
        self.head
            .apply(&record)
            .map_err(|violation| DbError::Invariant { version, violation })?;
        Ok(Encoded {
            version,
            timestamp: self.timestamp,
            bytes,
            record: Arc::new(record),
        })
    }

    /// The transactions, in order.
    pub(crate) fn into_txns(self) -> Vec<EncodedTxn> {
        self.txns
    }
}
