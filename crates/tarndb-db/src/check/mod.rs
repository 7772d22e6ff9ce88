//! `check`: whether what is stored is what was committed.
//!
//! Invariant: reads only, repairs nothing, and goes on after a finding as far as it can. Every
//! kind of damage has one stable name ([`kind`]).
//! Spec: docs/format/log.md, "Invariants"; docs/format/publishing.md.

mod data;
mod files;
mod log;
mod published;
mod table_checkpoint;

use tarndb_log::LogDir;
use tarndb_storage::Store;
use tarndb_types::{DbVersion, TableVersion};

use crate::database::{Database, codecs};
use crate::error::DbError;
use crate::layout;
use log::Place;

/// Stable names of what a check can find.
pub mod kind {
    /// A record is missing although later ones are there.
    pub const LOG_GAP: &str = "log.gap";
    /// A record cannot be read.
    pub const LOG_RECORD: &str = "log.record";
    /// A record contradicts those before it.
    pub const LOG_INVARIANT: &str = "log.invariant";
    /// A checkpoint is torn or malformed.
    pub const CHECKPOINT_UNUSABLE: &str = "checkpoint.unusable";
    /// A checkpoint says something else than the records.
    pub const CHECKPOINT_DIFFERS: &str = "checkpoint.differs";
    /// The checkpoint that a tag needs is missing or cannot be used.
    pub const TAG_CHECKPOINT: &str = "tag.checkpoint";
    /// The hint names no usable checkpoint.
    pub const HINT_WRONG: &str = "hint.wrong";
    /// A staged entry is missing or has other content.
    pub const STAGED_DAMAGED: &str = "staged.damaged";
    /// A data file in a record is none that its entry adds, or has another size.
    pub const INLINE_DIFFERS: &str = "inline.differs";
    /// A published file has other content than the record.
    pub const PUBLISHED_DIFFERS: &str = "published.differs";
    /// A published file is missing below newer ones and no checkpoint covers it.
    pub const PUBLISHED_MISSING: &str = "published.missing";
    /// A published file above the table's version: a foreign writer's.
    pub const PUBLISHED_FOREIGN: &str = "published.foreign";
    /// A table's checkpoint says something else than the commits up to it.
    pub const TABLE_CHECKPOINT: &str = "table.checkpoint";
    /// The table's state cannot be read.
    pub const TABLE_UNREADABLE: &str = "table.unreadable";
    /// A live data file is missing.
    pub const FILE_MISSING: &str = "file.missing";
    /// A live data file has another size than the log says.
    pub const FILE_SIZE: &str = "file.size";
    /// A data file cannot be read.
    pub const FILE_UNREADABLE: &str = "file.unreadable";
    /// A deletion vector cannot be read, or holds another number of rows than the log says.
    pub const VECTOR_UNREADABLE: &str = "vector.unreadable";
    /// A deletion vector names rows that the file does not have.
    pub const VECTOR_BEYOND: &str = "vector.beyond";
    /// A data file has another number of rows than its statistics say.
    pub const STATS_ROWS: &str = "stats.rows";
    /// Statistics exclude values that are in the file.
    pub const STATS_BOUNDS: &str = "stats.bounds";
    /// Statistics count other NULLs than are in the file.
    pub const STATS_NULLS: &str = "stats.nulls";
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// One of [`kind`].
    pub kind: &'static str,
    /// `schema.name` of the table, if it is about one.
    pub table: Option<String>,
    /// Version of the database log, if it is about a record or checkpoint.
    pub db_version: Option<DbVersion>,
    /// Version of the table, if it is about one.
    pub version: Option<TableVersion>,
    /// The object at issue.
    pub file: Option<String>,
    /// What is wrong, for people.
    pub detail: String,
}

impl Finding {
    fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            kind,
            table: None,
            db_version: None,
            version: None,
            file: None,
            detail,
        }
    }

    fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    fn db_version(mut self, version: DbVersion) -> Self {
        self.db_version = Some(version);
        self
    }

    fn version(mut self, version: TableVersion) -> Self {
        self.version = Some(version);
        self
    }

    fn file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }
}

/// What a check looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// In the order found; empty when all is sound.
    pub findings: Vec<Finding>,
    /// Records read.
    pub records: u64,
    /// Checkpoints compared.
    pub checkpoints: u64,
    /// Tables looked at.
    pub tables: u64,
    /// Live data files looked at.
    pub files: u64,
    /// Rows read, in a deep check.
    pub rows: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// How far a check is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is looked at now, such as `records` or a table's name.
    pub stage: String,
    /// Done of this stage.
    pub done: u64,
    /// To do in this stage, when known.
    pub total: Option<u64>,
}

impl Database {
    /// Compares what is stored with what was committed: records, checkpoints, published files,
    /// data files and deletion vectors; when `deep` also every row and its statistics.
    ///
    /// # Errors
    /// Only the store's; damage is in the report.
    ///
    /// # Cost
    /// Every record, checkpoint and published file once, the records of tables with checkpoints
    /// twice; a LIST per table, per base of a clone and per table checkpoint; when `deep` every
    /// live data file.
    pub async fn check(
        &self,
        deep: bool,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<CheckReport, DbError> {
        self.inner.check_open()?;
        let inner = &self.inner;
        inner.refresh().await?;
        let mut report = CheckReport::default();
        let place = Place {
            store: inner.store.clone(),
            log: inner.log.clone(),
            codecs: inner.codecs.clone(),
        };
        let replayed = log::check_log(&place, &mut report, &mut progress).await?;
        let catalog = inner.head.catalog();
        log::check_tags(inner, &catalog, &mut report).await?;
        let tables: Vec<_> = catalog
            .tables()
            .chain(catalog.dropped_tables())
            // What was given back is as others leave it.
            .filter(|table| !table.is_detached)
            .cloned()
            .collect();
        for table in tables {
            progress(Progress {
                stage: table.display_name(),
                done: 0,
                total: None,
            });
            report.tables += 1;
            let listed = inner.store.list_after(&table.location, None).await?;
            published::check_published(inner, &table, &replayed, &listed, &mut report).await?;
            if table.dropped.is_some() {
                continue;
            }
            table_checkpoint::check_table_checkpoints(
                inner,
                &table,
                &replayed,
                &listed,
                &mut report,
            )
            .await?;
            let waiting = published::waiting_files(inner, &table, &replayed, &listed)?;
            let place = files::FilesPlace {
                table: &table,
                listed: &listed,
                waiting,
            };
            files::check_files(inner, &place, deep, &mut report, &mut progress).await?;
        }
        Ok(report)
    }

    /// Checks records, checkpoints and the hint only: for a database that is too damaged to be
    /// opened.
    ///
    /// # Errors
    /// Only the store's; damage is in the report.
    ///
    /// # Cost
    /// Every record and checkpoint once.
    pub async fn check_log(
        store: Store,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<CheckReport, DbError> {
        let log = LogDir::new(store.clone(), layout::log_dir());
        let place = Place {
            store,
            log,
            codecs: codecs(),
        };
        let mut report = CheckReport::default();
        log::check_log(&place, &mut report, &mut progress).await?;
        Ok(report)
    }
}

/// An error with all its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Whether an error is the store's (which ends the check) or damage (which is a finding).
fn is_store_failure(error: &DbError) -> bool {
    use crate::error::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::ReadOnly | ErrorKind::ResourceExhausted
    )
}
