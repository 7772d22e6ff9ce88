//! Taking a table by path back to an earlier version of it.
//!
//! Invariant: files of the version are named again, never written, and only when all of them are
//! still there; a file that is live as it was is left alone. What must never go back stays.
//! Does not: keep a vacuum that runs at the same time from the files; nothing in the format
//! announces one to those who bring files back.
//! Spec: docs/format/native.md, "Restoring a version"; Delta PROTOCOL, "Add File and Remove File".

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_table::{
    Commit, CommitStamp, Deletion, Difference, Earlier, MetadataChange, RestoreReport, TableCodec,
    TableState, data_key, time_text,
};
use tarndb_txn::Operation;
use tarndb_types::{DatabaseId, DbVersion, TimestampMs, TxnId, Uuid};

use super::commit::{Change, NativeCommit};
use super::conflict::Reads;
use super::error::NativeError;
use super::open::{NativeTarget, version_at};
use super::table::NativeTable;
use crate::encode::{Authority, encode_for, same_definition};
use crate::load::load_own_log;
use crate::references::vector_file;

/// Files looked at at the same time.
const PARALLEL: usize = 16;

impl NativeTable {
    /// Takes the table back to an earlier version: its rows, columns, partitioning, properties
    /// and comment. Features of the format, marks of identity columns and of row ids, and
    /// application transactions stay. Where the table is as it was, nothing is committed.
    ///
    /// # Errors
    /// A version or time that is not there; `FilesGone`; as any commit: whatever others change
    /// is a conflict, but for blind appends at the level `WriteSerializable`.
    ///
    /// # Cost
    /// That of `open_native`, and a HEAD per file that comes back; no data file is read.
    pub async fn restore(
        &mut self,
        target: NativeTarget,
    ) -> Result<(RestoreReport, Option<NativeCommit>), NativeError> {
        let head = Arc::clone(self.state()?);
        let version = match target {
            NativeTarget::Latest => head.version.0,
            NativeTarget::Version(version) => version,
            NativeTarget::Timestamp(at) => version_at(&self.store, &self.location, at).await?,
        };
        let to = Arc::new(load_own_log(&self.store, &self.location, Some(version)).await?);
        let difference = Difference::of(&head.files, &to.files);
        let report = RestoreReport::of(&to, &difference);
        let definition = MetadataChange::Restore(Earlier(Arc::clone(&to)));
        let same = self.is_same(&head, &definition)?;
        if same && difference.is_empty() {
            return Ok((report, None));
        }
        self.check_there(&difference, version).await?;
        let mut change = Change::new(Operation::Restore);
        let said = ("version".to_owned(), version.to_string());
        change.parameters.extend([said]);
        if let NativeTarget::Timestamp(at) = target {
            let said = ("timestamp".to_owned(), time_text(at));
            change.parameters.extend([said]);
        }
        let metrics = report.metrics().into_iter();
        change.metrics = metrics
            .map(|(key, value)| (key.to_owned(), value.to_string()))
            .collect();
        change.adds = difference
            .comes
            .iter()
            .map(|file| file.as_ref().clone())
            .collect();
        change.removes = difference.goes;
        change.metadata = if same { Vec::new() } else { vec![definition] };
        change.restored = Some(to);
        change.reads = Reads::Table;
        let committed = self.commit(change).await?;
        Ok((report, Some(committed)))
    }

    /// Whether the table would have the definition that it has.
    fn is_same(&self, head: &TableState, definition: &MetadataChange) -> Result<bool, NativeError> {
        let last = head
            .in_commit_timestamp
            .map_or(0, |last| last.saturating_add(1));
        let commit = Commit {
            head: Some(head),
            create: None,
            operation: Operation::Restore.name(),
            parameters: Default::default(),
            metrics: Default::default(),
            adds: &[],
            updates: &[],
            removes: &[],
            changes: &[],
            app_txns: &Default::default(),
            metadata: std::slice::from_ref(definition),
            restored: None,
            data_change: true,
            stamp: CommitStamp {
                txn: TxnId(Uuid::nil()),
                timestamp: TimestampMs(last),
                version: head.version.next(),
                read_version: Some(head.version),
                database: DatabaseId(Uuid::nil()),
                db_version: DbVersion::ZERO,
                engine: "",
                isolation: "Serializable",
            },
        };
        let authority = Authority::OwnLog {
            blind_append: false,
        };
        let entry = encode_for(&commit, authority)?;
        let after = self.codec.apply(Some(head), &entry)?;
        Ok(same_definition(head, &after)?)
    }

    /// Whether the files that come back are in the store.
    async fn check_there(&self, difference: &Difference, version: u64) -> Result<(), NativeError> {
        let mut paths = Vec::new();
        for file in &difference.comes {
            paths.push(file.path.clone());
            if let Deletion::Stored(descriptor) = &file.deletion {
                paths.extend(vector_file(descriptor)?);
            }
        }
        paths.sort();
        paths.dedup();
        let gone: Vec<String> = futures::stream::iter(paths)
            .map(|path| async move {
                let key = data_key(&self.location, &path)?;
                let there = self.store.head(&key).await?.is_some();
                Ok::<_, NativeError>((!there).then_some(path))
            })
            .buffered(PARALLEL)
            .try_filter_map(|gone| std::future::ready(Ok(gone)))
            .try_collect()
            .await?;
        match gone.first() {
            None => Ok(()),
            Some(first) => Err(NativeError::FilesGone {
                version,
                file: first.clone(),
                count: gone.len(),
            }),
        }
    }
}
