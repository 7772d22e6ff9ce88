//! Cleaning up the database log: its beginning goes, below a checkpoint that stands for it.
//!
//! Invariant: records go one by one and ascending, before older checkpoints do, so that at
//! every moment what is there is record 0, a run of records up to the newest, and a checkpoint
//! in or right below that run. Whoever holds on to something older notices (openers, idle
//! handles, late writers) or is told so (outcomes). Running it twice at once is harmless.
//! Does not: touch tables (`vacuum`).
//! Spec: docs/format/log.md, "Cleaning up" and "Late writers".

mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use tarndb_types::DbVersion;

use crate::catalog::Catalog;
use crate::check::Progress;
use crate::database::{Database, Inner};
use crate::error::DbError;
use crate::vacuum::horizon::LogTimes;
use crate::vacuum::time_before;
use crate::{checkpoint, commit, layout, open, publish};
use plan::{Plan, View, cuts, first_unpublished, plan};

/// The retention unless another is asked for.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How much of the log goes.
#[derive(Clone, Debug)]
pub struct LogCleanupOptions {
    /// The checkpoint that the log is cut at is older than this; an hour at least (4 times
    /// [`crate::DbOptions::head_expiry`]), which nothing forces.
    pub retention: Duration,
    /// Deletes nothing and tells what would go.
    pub dry_run: bool,
}

impl Default for LogCleanupOptions {
    fn default() -> Self {
        Self {
            retention: RETENTION,
            dry_run: false,
        }
    }
}

/// What a cleanup did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCleanupReport {
    /// The checkpoint that the log begins with now; `None`: nothing could go.
    pub cut: Option<DbVersion>,
    /// Records that went.
    pub records: u64,
    /// Checkpoints that went.
    pub checkpoints: u64,
}

impl Database {
    /// Removes the beginning of the database log: records and catalog checkpoints below the
    /// newest checkpoint that is older than the retention, below the first record with an
    /// unpublished table version, and below the newest records
    /// ([`crate::DbOptions::log_records_min`]). Checkpoints of tagged versions stay.
    ///
    /// # Errors
    /// [`DbError::RetentionTooShort`]; those of the store, after which a part may be gone.
    /// Running it again goes on.
    ///
    /// # Cancel safety
    /// A dropped call removed a part.
    ///
    /// # Cost
    /// 2 LISTs, a GET or LIST per table with unpublished versions, an object written and removed
    /// for the store's time, 2 GETs of checkpoints, and a DELETE per record and checkpoint, one
    /// after the other.
    pub async fn clean_log(
        &self,
        options: &LogCleanupOptions,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<LogCleanupReport, DbError> {
        let inner = &self.inner;
        inner.check_open()?;
        let min = inner.options.retention_min();
        if options.retention < min {
            return Err(DbError::RetentionTooShort {
                asked_s: options.retention.as_secs(),
                min_s: min.as_secs(),
                forcible: false,
            });
        }
        inner.refresh().await?;
        commit::check_writable(&inner.head.catalog())?;
        publish::learn_published(inner).await?;
        let Some((cut, plan)) = planned(inner, options).await? else {
            return Ok(LogCleanupReport::default());
        };
        if !options.dry_run {
            remove(inner, &plan, &mut progress).await?;
        }
        Ok(LogCleanupReport {
            cut: Some(cut),
            records: plan.records.len() as u64,
            checkpoints: plan.checkpoints.len() as u64,
        })
    }
}

/// The cut and what goes below it; `None` when nothing can go.
async fn planned(
    inner: &Inner,
    options: &LogCleanupOptions,
) -> Result<Option<(DbVersion, Plan)>, DbError> {
    let catalog = inner.head.catalog();
    let times = LogTimes::load(&inner.store, &inner.log).await?;
    let newest: Vec<DbVersion> = times
        .checkpoints
        .iter()
        .map(|(version, _)| DbVersion(*version))
        .collect();
    // Whoever opens begins with it, and must not look for what goes.
    let Some(newest) = open::newest_usable(&inner.store, &newest).await? else {
        return Ok(None);
    };
    let firsts = [first_unpublished(&catalog), first_unpublished(&newest)];
    let view = View {
        head: catalog.version(),
        first_unpublished: firsts.into_iter().flatten().min(),
        now: time_before(inner, Duration::ZERO).await?,
        retention: options.retention,
        records_min: inner.options.log_records_min,
        times,
    };
    for cut in cuts(&view) {
        if is_readable(inner, cut).await? {
            let plan = plan(&view.times, cut, &tagged(&catalog));
            let empty = plan.records.is_empty() && plan.checkpoints.is_empty();
            return Ok((!empty).then_some((cut, plan)));
        }
    }
    Ok(None)
}

/// The versions whose checkpoints tags need.
fn tagged(catalog: &Catalog) -> BTreeSet<DbVersion> {
    catalog.tags().map(|tag| tag.version).collect()
}

/// The checkpoint was read back.
async fn is_readable(inner: &Inner, cut: DbVersion) -> Result<bool, DbError> {
    match checkpoint::read(&inner.store, cut).await {
        Ok(found) => Ok(found.is_some()),
        Err(DbError::CheckpointUnusable { .. }) => {
            tracing::warn!(version = cut.0, "a checkpoint cannot be read and is no cut");
            Ok(false)
        }
        Err(other) => Err(other),
    }
}

async fn remove(
    inner: &Inner,
    plan: &Plan,
    progress: &mut (impl FnMut(Progress) + Send),
) -> Result<(), DbError> {
    let total = Some((plan.records.len() + plan.checkpoints.len()) as u64);
    let records = plan.records.iter().map(|version| inner.log.key(*version));
    let checkpoints = plan.checkpoints.iter().map(|version| DbVersion(*version));
    let both = records
        .map(|key| (key, None))
        .chain(checkpoints.map(|version| (layout::checkpoint_key(version), Some(version))));
    let mut looked = false;
    for (done, (key, checkpoint)) in (1..).zip(both) {
        if let Some(version) = checkpoint {
            // A tag that came while the records went keeps its checkpoint too.
            if !looked {
                inner.refresh().await?;
                looked = true;
            }
            if inner.head.catalog().is_version_tagged(version) {
                continue;
            }
        }
        tracing::debug!(target: "tarndb::step", %key, "cleanup.begin");
        inner.store.delete(&key).await?;
        tracing::debug!(target: "tarndb::step", %key, "cleanup.end");
        let stage = "log".to_owned();
        progress(Progress { stage, done, total });
    }
    Ok(())
}
