//! Clones: a table created with the definition and the rows of another, at a version of it.
//!
//! Invariant: a deep clone names only copies in its own folder. A shallow one names files in the
//! folder of its source (or of what that was cloned from) only where they are stored and
//! committed; deletion vectors, and files that are not yet at their paths, are copied all the
//! same. The source is never changed. What a call that ends early has copied, no version names.
//! Spec: docs/format/log.md, "Clones"; docs/format/delta.md, "Clones".

mod native;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tarndb_storage::{Path, StoreError};
use tarndb_table::TableState;
use tarndb_table::codec::{CloneSource, TableDefinition};
use tarndb_txn::Operation;
use tarndb_types::{TableId, TableVersion};

pub use native::NativeSource;
use plan::{Copy, Plan, Sites};

use super::catalog::NEW_TABLE_FORMAT;
use super::{Overlay, Transaction};
use crate::attach::error::AttachError;
use crate::catalog::{TableEntry, parse_location};
use crate::check::Progress;
use crate::error::DbError;
use crate::record::Action;
use crate::travel::{TableTarget, check_files_kept};

/// Files copied at the same time.
const COPIES_PARALLEL: usize = 8;

/// Whether a table lies outside of the database's root.
fn is_outside(table: &TableEntry) -> bool {
    let attached = table.attached.as_ref();
    attached.is_some_and(|attached| attached.url.is_some())
}

/// Where a new table is to lie.
struct Place {
    id: TableId,
    schema: String,
    name: String,
    full_name: String,
    location: String,
    folder: Path,
}

/// What to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneTable {
    /// The name of the new table, as written.
    pub name: String,
    /// The table to clone.
    pub source: TableId,
    /// As of which version; `None`: as the transaction sees it, own changes included.
    pub target: Option<TableTarget>,
    /// Whether the source's files are shared instead of copied.
    pub shallow: bool,
}

/// What a clone is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneReport {
    /// The version of the source that it shows; without own changes, where those are cloned too.
    pub version: TableVersion,
    /// Its data files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were copied, those of deletion vectors included.
    pub copied_files: u64,
}

/// What the transaction knows of a table that it created as a clone.
#[derive(Clone, Debug)]
pub(crate) struct Cloned {
    /// `None`: a table of no database.
    pub(crate) source: Option<TableId>,
    source_name: String,
    pub(crate) version: TableVersion,
    shallow: bool,
    /// Files of the source are named, so that no vacuum may have removed them.
    pub(crate) is_shared: bool,
}

impl Cloned {
    /// What the table's history says of it.
    pub(crate) fn parameters(&self) -> BTreeMap<String, String> {
        let told = [
            ("source", self.source_name.clone()),
            ("sourceVersion", self.version.to_string()),
            ("isShallow", self.shallow.to_string()),
        ];
        told.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

impl Transaction {
    /// Creates a table as a clone of another one of this database: the same columns, rules,
    /// properties and rows, another identity, a history that begins anew.
    ///
    /// # Errors
    /// As [`Self::create_table`]; a version of the source that is not there or that a vacuum may
    /// have taken files of ([`crate::TravelError`]), here or at commit.
    ///
    /// # Cancel safety
    /// The transaction is as before; copies stay as files that no version names.
    ///
    /// # Cost
    /// At most 2 LISTs; the state of the source; a copy (by the store itself, no bytes come here)
    /// per data file when deep, and per file of deletion vectors; a PUT per file that still rides
    /// in a record.
    pub async fn clone_table(
        &mut self,
        schema: &str,
        clone: &CloneTable,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<(TableId, CloneReport), DbError> {
        let (schema, _) = self.free_name(schema, &clone.name)?;
        let state = self.cloned_state(clone).await?;
        let source = Arc::clone(self.entry(clone.source)?);
        if clone.shallow && is_outside(&source) {
            let table = source.display_name();
            return Err(AttachError::ShallowOutside { table }.into());
        }
        let place = self.place(&schema, &clone.name).await?;
        let waiting = self.unstored_files(&source, state.version).await?;
        let sites = Sites {
            source: &source.location,
            bases: &source.bases,
            folder: &place.folder,
            shallow: clone.shallow,
            own: self.changes.overlays.get(&clone.source),
            now_ms: self.inner().context().now().0,
        };
        let plan = sites
            .plan(&state, waiting)
            .map_err(DbError::table(source.display_name()))?;
        self.copy(&source, state.version, &plan.copies, &mut progress)
            .await?;
        let cloned = Cloned {
            source: Some(clone.source),
            source_name: source.display_name(),
            version: state.version,
            shallow: clone.shallow,
            is_shared: !plan.bases.is_empty(),
        };
        self.create_clone(place, state, plan, cloned)
    }

    /// Where a new table is to lie.
    async fn place(&self, schema: &str, name: &str) -> Result<Place, DbError> {
        let (schema, full_name) = self.free_name(schema, name)?;
        let id = TableId(self.inner().context().uuid());
        let location = self.free_location(&schema, name, id).await?;
        let folder = parse_location(&location).map_err(|violation| DbError::Invariant {
            version: self.snapshot.version(),
            violation,
        })?;
        Ok(Place {
            id,
            schema,
            name: name.to_owned(),
            full_name,
            location,
            folder,
        })
    }

    /// Creates the table, whose files are stored.
    fn create_clone(
        &mut self,
        place: Place,
        state: Arc<TableState>,
        plan: Plan,
        cloned: Cloned,
    ) -> Result<(TableId, CloneReport), DbError> {
        let report = CloneReport {
            version: state.version,
            files: plan.files.len() as u64,
            bytes: plan.files.iter().map(|file| file.size_bytes).sum(),
            copied_files: plan.copies.len() as u64,
        };
        let id = place.id;
        let definition = TableDefinition {
            id,
            name: place.name.clone(),
            schema: state.schema.as_ref().clone(),
            partition_columns: state.partition_columns.clone(),
            properties: BTreeMap::new(),
            description: state.description.clone(),
        };
        let codec = self.inner().codec(NEW_TABLE_FORMAT, &place.full_name)?;
        let overlay = Overlay::cloned(codec.as_ref(), definition, CloneSource(state), cloned);
        let mut overlay = overlay.map_err(DbError::table(place.full_name))?;
        overlay.add_cloned(plan.files, plan.own_deletions);
        let action = Action::CreateTable {
            id,
            schema: place.schema,
            name: place.name,
            format: NEW_TABLE_FORMAT.to_owned(),
            location: place.location,
            bases: plan.bases.iter().map(ToString::to_string).collect(),
        };
        self.act(action, Operation::Clone)?;
        self.notice_readers(id, None, &overlay.state)?;
        self.changes.overlays.insert(id, overlay);
        Ok((id, report))
    }

    /// The source as it is to be cloned.
    async fn cloned_state(&mut self, clone: &CloneTable) -> Result<Arc<TableState>, DbError> {
        if let Some(target) = clone.target {
            self.entry(clone.source)?;
            if matches!(target, TableTarget::Timestamp(_)) {
                self.note_read(clone.source);
            }
            return self.snapshot.table_at(clone.source, target).await;
        }
        let state = self.table(clone.source).await?;
        if let Some(entry) = self.snapshot.catalog().table(clone.source) {
            check_files_kept(self.inner(), entry, entry.version).await?;
        }
        self.note_read(clone.source);
        Ok(state)
    }

    /// Files of the source that ride in records and may not be at their paths.
    async fn unstored_files(
        &self,
        source: &TableEntry,
        version: TableVersion,
    ) -> Result<BTreeMap<Path, Bytes>, DbError> {
        let mut waiting = BTreeMap::new();
        let Some(entry) = self.snapshot.catalog().table(source.id) else {
            return Ok(waiting);
        };
        let published = self.inner().known_published(entry);
        let first = published.map_or(0, |published| published.0 + 1);
        for version in first..=version.0.min(entry.version.0) {
            let files = self.inner().inline_files(entry, TableVersion(version));
            waiting.extend(files.await?);
        }
        Ok(waiting)
    }

    async fn copy(
        &self,
        source: &TableEntry,
        version: TableVersion,
        copies: &[Copy],
        progress: &mut (impl FnMut(Progress) + Send),
    ) -> Result<(), DbError> {
        let store = &self.inner().store;
        let name = source.display_name();
        let total = Some(copies.len() as u64);
        let outside = is_outside(source);
        let mut copied = futures::stream::iter(copies.to_vec())
            .map(|Copy { from, to, bytes }| async move {
                tracing::debug!(target: "tarndb::step", key = %to, "clone_file.begin");
                match bytes {
                    Some(bytes) => store.put(&to, bytes).await?,
                    // Two stores: no request of one reaches the other's objects.
                    None if outside => store.copy_from(store, &from, &to).await?,
                    None => store.copy(&from, &to).await?,
                }
                tracing::debug!(target: "tarndb::step", key = %to, "clone_file.end");
                Ok::<_, StoreError>(())
            })
            .buffer_unordered(COPIES_PARALLEL);
        let mut done = 0;
        loop {
            match copied.try_next().await {
                Ok(None) => return Ok(()),
                Ok(Some(())) => {}
                Err(error @ StoreError::NotFound { .. }) => {
                    drop(copied);
                    // A vacuum that this handle had not heard of, most likely.
                    self.inner().refresh().await?;
                    check_files_kept(self.inner(), source, version).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
            done += 1;
            let stage = name.clone();
            progress(Progress { stage, done, total });
        }
    }
}
