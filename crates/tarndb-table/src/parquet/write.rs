//! `TableWriter`: batches in, uniquely named Parquet files out.
//!
//! Invariant: what is written stays invisible until its files are committed, so dropping a
//! writer leaves only garbage. Memory of all open files together stays below a bound: the
//! largest is closed early when it is exceeded. Files name no partition column and no view type.
//!
//! ```text
//! batch -> staged -> one piece per partition -> pending -> open file -> upload
//!          (partitioned tables only)            (raw)      (encoded)
//! ```
//! Does not: conform batches (`schema::conform`) or commit.
//! Spec: Delta PROTOCOL, "Data Files", "Partition Value Serialization".

mod file;
mod group;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::arrow::compute::concat_batches;
use arrow_array::RecordBatch;
use object_store::path::Path;
use tarndb_storage::Store;

use crate::error::TableError;
use crate::fragment::DataFile;
use crate::parquet::upload::store_held;
use crate::parquet::write_options::WriteOptions;
use crate::rules::{IdentityUse, RowRules, Supplied};
use crate::schema::{Field, Schema};

use file::{FileLayout, OpenFile};
use group::{PartitionColumn, PartitionKey, partition_pieces};

/// Files open for encoding at the same time.
const OPEN_FILES_MAX: usize = 64;
/// Raw bytes of one partition from which encoding pays off.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// Raw bytes that are collected before they are divided among partitions.
const STAGED_BYTES_MAX: usize = 16 << 20;

/// What a [`TableWriter`] wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The new files, durable but for those that say that they are held.
    pub files: Vec<DataFile>,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// An empty string (or binary value) of a partition column was stored as NULL.
    pub empty_string_as_null: bool,
    /// The fingerprint of the rules that the rows were checked against; `None`: they were not.
    pub checked: Option<Arc<str>>,
    /// What was taken from identity columns; the commit must move their marks.
    pub identities: Vec<IdentityUse>,
}

/// Up to which size new files are held instead of stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLimits {
    /// Bytes of one file at most.
    pub file_bytes_max: usize,
    /// Bytes of all files of one writer at most.
    pub total_bytes_max: usize,
}

impl HeldLimits {
    /// Every file is stored.
    pub const NONE: Self = Self {
        file_bytes_max: 0,
        total_bytes_max: 0,
    };
}

/// One partition's share of the work.
#[derive(Debug, Default)]
struct Slot {
    /// Pieces not yet encoded, and their bytes.
    pending: Vec<RecordBatch>,
    pending_bytes: usize,
    file: Option<OpenFile>,
}

impl Slot {
    fn memory_bytes(&self) -> usize {
        self.pending_bytes + self.file.as_ref().map_or(0, OpenFile::memory_bytes)
    }
}

/// Writes batches as data files.
#[derive(Debug)]
pub struct TableWriter {
    layout: FileLayout,
    partition_columns: Vec<PartitionColumn>,
    missing_partition_column: Option<String>,
    slots: BTreeMap<PartitionKey, Slot>,
    staged: Vec<RecordBatch>,
    staged_bytes: usize,
    held: HeldLimits,
    held_bytes: usize,
    rules: Option<(RowRules, Supplied)>,
    written: Written,
}

impl TableWriter {
    /// A writer of files below `location`. `partition_columns` are columns of `schema`.
    pub fn new(
        store: Store,
        location: Path,
        schema: Arc<Schema>,
        partition_columns: Vec<String>,
        options: WriteOptions,
    ) -> Self {
        let missing = partition_columns
            .iter()
            .find(|name| schema.field(name).is_none())
            .cloned();
        let columns = partition_columns.iter().filter_map(|name| {
            let (position, field) = schema.field(name)?;
            Some(PartitionColumn {
                position,
                field: field.clone(),
            })
        });
        Self {
            partition_columns: columns.collect(),
            missing_partition_column: missing,
            layout: FileLayout::new(store, location, schema, &partition_columns, options),
            slots: BTreeMap::new(),
            staged: Vec::new(),
            staged_bytes: 0,
            held: HeldLimits::NONE,
            held_bytes: 0,
            rules: None,
            written: Written::default(),
        }
    }

    /// Small files are held instead of stored, where the store has room for that, so that a
    /// commit can carry them. When all together become too many, all are stored.
    #[must_use]
    pub fn with_held(mut self, limits: HeldLimits) -> Self {
        self.held = limits;
        self
    }

    /// Rows are filled and checked by the rules of their table before they are written;
    /// `supplied`: where the columns of batches come from that [`Self::write`] takes.
    #[must_use]
    pub fn with_rules(mut self, rules: RowRules, supplied: Supplied) -> Self {
        self.written.checked = Some(Arc::clone(rules.fingerprint()));
        self.rules = Some((rules, supplied));
        self
    }

    /// Files have further columns behind those of the table; a batch may come with them, and
    /// else has NULL there. They have no statistics in the log.
    #[must_use]
    pub fn with_hidden(mut self, fields: &[Field]) -> Self {
        self.layout = self.layout.with_hidden(fields);
        self
    }

    /// Files lie in this folder of the table instead of the table's own.
    #[must_use]
    pub fn with_folder(mut self, folder: &'static str) -> Self {
        self.layout = self.layout.with_folder(folder);
        self
    }

    /// The schema that batches must have.
    pub fn schema(&self) -> &Arc<Schema> {
        self.layout.schema()
    }

    /// Rows handed over so far.
    pub fn rows(&self) -> u64 {
        self.written.rows
    }

    /// Takes a batch, which must have the Arrow schema of the table ([`Schema::to_arrow`]). With
    /// rules, columns that are omitted may hold anything.
    ///
    /// # Errors
    /// Rows that break a rule, partition values that cannot be written, and errors of the store; the writer must be
    /// dropped then.
    ///
    /// # Cancel safety
    /// None: drop the writer when this future is dropped.
    ///
    /// # Cost
    /// None, or one PUT (or multipart upload) for each file that became full.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        let (mut rows, hidden) = self.layout.without_hidden(batch)?;
        if let Some((rules, supplied)) = &mut self.rules {
            rows = rules.apply(&rows, supplied)?;
        }
        let rows = self.layout.with_hidden_columns(rows, hidden)?;
        self.write_checked(&rows).await
    }

    /// As [`Self::write`], for a batch whose columns come from elsewhere than those of the
    /// others.
    ///
    /// # Errors
    /// As [`Self::write`].
    ///
    /// # Cancel safety
    /// As [`Self::write`].
    pub async fn write_supplied(
        &mut self,
        batch: &RecordBatch,
        supplied: &Supplied,
    ) -> Result<(), TableError> {
        let (mut rows, hidden) = self.layout.without_hidden(batch)?;
        if let Some((rules, _)) = &mut self.rules {
            rows = rules.apply(&rows, supplied)?;
        }
        let rows = self.layout.with_hidden_columns(rows, hidden)?;
        self.write_checked(&rows).await
    }

    async fn write_checked(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        if let Some(column) = &self.missing_partition_column {
            return Err(TableError::NoSuchColumn {
                column: column.clone(),
            });
        }
        self.layout.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.written.rows += batch.num_rows() as u64;
        if self.partition_columns.is_empty() {
            let piece = self.layout.file_batch(batch)?;
            self.encode(&Vec::new(), vec![piece]).await?;
            return self.bound_memory().await;
        }
        self.staged_bytes += slice_bytes(batch);
        self.staged.push(batch.clone());
        if self.staged_bytes >= STAGED_BYTES_MAX.min(self.layout.options().memory_bytes / 4) {
            self.distribute().await?;
        }
        Ok(())
    }

    /// Completes all files.
    ///
    /// # Errors
    /// As [`TableWriter::write`]; files already stored stay as garbage.
    ///
    /// # Cost
    /// One PUT (or multipart upload) per open file.
    pub async fn finish(mut self) -> Result<Written, TableError> {
        self.distribute().await?;
        while let Some(key) = self.first_key() {
            self.close(&key).await?;
        }
        if let Some((rules, _)) = &self.rules {
            self.written.identities = rules.identities_used();
            self.written.empty_string_as_null |= rules.met_empty_text();
        }
        Ok(self.written)
    }

    /// Apart, so that no iterator lives across an await: the future must be `Send`.
    fn first_key(&self) -> Option<PartitionKey> {
        self.slots.keys().next().cloned()
    }

    /// Gives up: removes what an unfinished upload holds in the store. Complete files stay as
    /// garbage.
    pub async fn abort(self) {
        for slot in self.slots.into_values() {
            if let Some(file) = slot.file {
                file.abort().await;
            }
        }
    }

    /// Divides the staged batches among their partitions.
    async fn distribute(&mut self) -> Result<(), TableError> {
        let Some(first) = self.staged.first() else {
            return Ok(());
        };
        let batch = match self.staged.as_slice() {
            [single] => single.clone(),
            many => concat_batches(&first.schema(), many).map_err(|source| TableError::Arrow {
                context: "joining batches",
                source,
            })?,
        };
        self.staged.clear();
        self.staged_bytes = 0;
        for piece in partition_pieces(&batch, &self.partition_columns)? {
            self.written.empty_string_as_null |= piece.empty_as_null;
            let rows = self.layout.file_batch(&piece.rows)?;
            let slot = self.slots.entry(piece.key.clone()).or_default();
            slot.pending_bytes += slice_bytes(&rows);
            slot.pending.push(rows);
            if slot.pending_bytes >= PENDING_BYTES_MAX {
                self.encode_pending(&piece.key).await?;
            }
            self.bound_memory().await?;
        }
        Ok(())
    }

    async fn encode_pending(&mut self, key: &PartitionKey) -> Result<(), TableError> {
        let Some(slot) = self.slots.get_mut(key) else {
            return Ok(());
        };
        slot.pending_bytes = 0;
        let pieces = std::mem::take(&mut slot.pending);
        self.encode(key, pieces).await
    }

    /// Encodes pieces of one partition, beginning a new file wherever one is full.
    async fn encode(
        &mut self,
        key: &PartitionKey,
        pieces: Vec<RecordBatch>,
    ) -> Result<(), TableError> {
        for piece in pieces {
            let mut done = 0;
            while done < piece.num_rows() {
                let rows = self
                    .layout
                    .rows_at_once(&piece)
                    .min(piece.num_rows() - done);
                let slot = self.slots.entry(key.clone()).or_default();
                let file = match &mut slot.file {
                    Some(file) => file,
                    none => none.insert(self.layout.open(&self.partition_columns, key)?),
                };
                file.write(&piece.slice(done, rows)).await?;
                done += rows;
                if file.bytes() >= self.layout.options().target_file_bytes
                    && let Some(full) = slot.file.take()
                {
                    self.complete(full).await?;
                }
            }
        }
        Ok(())
    }

    /// Keeps memory and the number of open files below their bounds.
    async fn bound_memory(&mut self) -> Result<(), TableError> {
        let bound = self.layout.options().memory_bytes;
        loop {
            let memory: usize = self.slots.values().map(Slot::memory_bytes).sum();
            let open = self
                .slots
                .values()
                .filter(|slot| slot.file.is_some())
                .count();
            if memory + self.staged_bytes <= bound && open <= OPEN_FILES_MAX {
                return Ok(());
            }
            let too_many = open > OPEN_FILES_MAX;
            let candidates = self
                .slots
                .iter()
                .filter(|(_, s)| s.file.is_some() || !too_many);
            let largest = candidates.max_by_key(|(_, slot)| slot.memory_bytes());
            let Some((key, slot)) = largest.map(|(key, slot)| (key.clone(), slot)) else {
                return Ok(());
            };
            // A large row group goes to the store without ending its file.
            let flushes = !too_many && slot.file.as_ref().is_some_and(OpenFile::is_worth_flushing);
            match self.slots.get_mut(&key).and_then(|slot| slot.file.as_mut()) {
                Some(file) if flushes => file.flush().await?,
                _ => self.close(&key).await?,
            }
        }
    }

    async fn close(&mut self, key: &PartitionKey) -> Result<(), TableError> {
        self.encode_pending(key).await?;
        match self.slots.remove(key).and_then(|slot| slot.file) {
            Some(file) => self.complete(file).await,
            None => Ok(()),
        }
    }

    async fn complete(&mut self, file: OpenFile) -> Result<(), TableError> {
        let store = self.layout.store();
        let now = store.context().now();
        let file = file.finish(now, self.held.file_bytes_max).await?;
        self.held_bytes += file.unstored().map_or(0, |held| held.bytes().len());
        self.written.bytes += file.size_bytes;
        self.written.files.push(file);
        if self.held_bytes > self.held.total_bytes_max {
            self.held = HeldLimits::NONE;
            self.held_bytes = 0;
            let files = &mut self.written.files;
            store_held(store, files.iter_mut().filter_map(|file| file.held.take())).await?;
        }
        Ok(())
    }
}

/// Bytes of the rows of a batch, without what a slice merely shares.
fn slice_bytes(batch: &RecordBatch) -> usize {
    let bytes = |array: &arrow_array::ArrayRef| {
        use arrow_array::Array;
        let data = array.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| array.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}
