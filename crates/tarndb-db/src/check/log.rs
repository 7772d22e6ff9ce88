//! Checking the records and the catalog checkpoints.
//!
//! Invariant: replays from record 0 (or the oldest usable checkpoint) one record at a time;
//! after damage it goes on from the next usable checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tarndb_log::{LogDir, hint};
use tarndb_storage::Store;
use tarndb_table::codec::{Entry, TableCodec};
use tarndb_types::{DbVersion, TableId, TableVersion, TxnId};

use super::{CheckReport, Finding, Progress, chain, is_store_failure, kind};
use crate::catalog::Catalog;
use crate::database::Inner;
use crate::error::DbError;
use crate::hash::sha256_hex;
use crate::record::{EntryBody, Record, Staged};
use crate::states::staged_hash;
use crate::{checkpoint, layout, open};

/// Where the log is; enough to check one that no handle can be opened on.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) store: Store,
    pub(super) log: LogDir,
    pub(super) codecs: BTreeMap<String, Arc<dyn TableCodec>>,
}

/// What a table version has to look like when it is published.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The record that holds it.
    pub(super) position: DbVersion,
    /// In the form of [`staged_hash`].
    pub(super) hash: String,
    pub(super) staged: Option<Staged>,
    /// Sizes of the data files that ride in the record, by path.
    pub(super) files: BTreeMap<String, u64>,
}

/// What the replay of the log gave.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) entries: BTreeMap<(TableId, TableVersion), Expected>,
}

pub(super) async fn check_log(
    place: &Place,
    report: &mut CheckReport,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Replayed, DbError> {
    let listed: BTreeSet<u64> = place
        .log
        .list_after(None)
        .await
        .map_err(DbError::log)?
        .into_iter()
        .collect();
    let mut checkpoints = load_checkpoints(place, report).await?;
    let beginning = Beginning::of(&listed, &checkpoints);
    check_hint(place, &checkpoints, beginning, report).await;
    let newest = listed.last().copied().unwrap_or(0);
    check_gaps(place, &listed, beginning, report);
    let mut replayed = Replayed::default();
    let mut ends = BTreeMap::new();
    let mut catalog: Option<Catalog> = None;
    for version in 0..=newest {
        if version.is_multiple_of(64) {
            let stage = "records".to_owned();
            progress(Progress {
                stage,
                done: version,
                total: Some(newest + 1),
            });
        }
        // What lies in the past says nothing.
        let record = if beginning.counts(version) && listed.contains(&version) {
            read_record(place, DbVersion(version), report).await?
        } else {
            None
        };
        if let Some(record) = &record {
            report.records += 1;
            note_entries(place, record, &mut replayed, report);
            note_ends(record, &mut ends, report);
        }
        catalog = step(catalog, record.as_ref(), DbVersion(version), report);
        if let Some(stored) = checkpoints.remove(&DbVersion(version)) {
            match &catalog {
                Some(replayed) if !replayed.same_content(&stored) => {
                    let detail = "the checkpoint says something else than the records up to it";
                    report.findings.push(
                        Finding::new(kind::CHECKPOINT_DIFFERS, detail)
                            .db_version(DbVersion(version))
                            .file(layout::checkpoint_key(DbVersion(version)).to_string()),
                    );
                }
                Some(_) => {}
                // The replay was interrupted; the checkpoint is the next firm ground.
                None => catalog = Some(stored),
            }
        }
    }
    Ok(replayed)
}

/// Every tag has the checkpoint that stands for its version.
pub(super) async fn check_tags(
    inner: &Inner,
    catalog: &Catalog,
    report: &mut CheckReport,
) -> Result<(), DbError> {
    for tag in catalog.tags() {
        let detail = match checkpoint::read(&inner.store, tag.version).await {
            Ok(Some(_)) => continue,
            Ok(None) => "it is missing".to_owned(),
            Err(error) if is_store_failure(&error) => return Err(error),
            Err(error) => chain(&error),
        };
        let detail = format!("the checkpoint of tag {}: {detail}", tag.name);
        report.findings.push(
            Finding::new(kind::TAG_CHECKPOINT, detail)
                .db_version(tag.version)
                .file(layout::checkpoint_key(tag.version).to_string()),
        );
    }
    Ok(())
}

/// One version further; `None` when the replay is interrupted.
fn step(
    catalog: Option<Catalog>,
    record: Option<&Record>,
    version: DbVersion,
    report: &mut CheckReport,
) -> Option<Catalog> {
    let record = record?;
    let next = match catalog {
        Some(catalog) => catalog.apply(record),
        None if version == DbVersion::ZERO => Catalog::genesis(record),
        None => return None,
    };
    match next {
        Ok(next) => Some(next),
        Err(violation) => {
            report
                .findings
                .push(Finding::new(kind::LOG_INVARIANT, chain(&violation)).db_version(version));
            None
        }
    }
}

async fn load_checkpoints(
    place: &Place,
    report: &mut CheckReport,
) -> Result<BTreeMap<DbVersion, Catalog>, DbError> {
    let mut checkpoints = BTreeMap::new();
    for version in checkpoint::list(&place.store).await? {
        report.checkpoints += 1;
        match checkpoint::read(&place.store, version).await {
            Ok(Some(catalog)) => {
                checkpoints.insert(version, catalog);
            }
            Ok(None) => {}
            Err(error) if is_store_failure(&error) => return Err(error),
            Err(error) => report.findings.push(
                Finding::new(kind::CHECKPOINT_UNUSABLE, chain(&error))
                    .db_version(version)
                    .file(layout::checkpoint_key(version).to_string()),
            ),
        }
    }
    Ok(checkpoints)
}

async fn check_hint(
    place: &Place,
    checkpoints: &BTreeMap<DbVersion, Catalog>,
    beginning: Beginning,
    report: &mut CheckReport,
) {
    let hinted = hint::read_hint(&place.store, &layout::hint_key())
        .await
        .map(DbVersion);
    let wrong = match hinted {
        // A late writer may name one that was cleaned up.
        Some(version) => version.0 >= beginning.firm && !checkpoints.contains_key(&version),
        // Readers then list; a hint that is there but unreadable still deserves a word.
        None => matches!(place.store.head(&layout::hint_key()).await, Ok(Some(_))),
    };
    if wrong {
        let detail = "the hint names no usable checkpoint; opening costs a LIST more";
        report
            .findings
            .push(Finding::new(kind::HINT_WRONG, detail).file(layout::hint_key().to_string()));
    }
}

/// How a log begins.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// First record of the run that reaches the oldest checkpoint that records follow; 0 when
    /// the log was not cleaned up.
    first: u64,
    /// That checkpoint's version when it was: a record below it may be one that a late writer
    /// put in the past.
    firm: u64,
}

impl Beginning {
    fn of(listed: &BTreeSet<u64>, checkpoints: &BTreeMap<DbVersion, Catalog>) -> Self {
        let newest = listed.last().copied().unwrap_or(0);
        let followed = |version: &u64| *version >= newest || listed.contains(&(version + 1));
        let oldest = checkpoints.keys().map(|version| version.0).find(followed);
        let mut first = oldest.map_or(0, |oldest| oldest + 1);
        while first > 0 && listed.contains(&(first - 1)) {
            first -= 1;
        }
        let firm = oldest.filter(|_| first > 0).unwrap_or(0);
        Self { first, firm }
    }

    /// Whether the record belongs to the log that can be replayed.
    fn counts(self, version: u64) -> bool {
        version == 0 || version >= self.firm
    }
}

/// Reports missing records, except those that a cleanup removed: right after record 0 up to the
/// beginning, between them at most single ones of late writers.
fn check_gaps(
    place: &Place,
    listed: &BTreeSet<u64>,
    beginning: Beginning,
    report: &mut CheckReport,
) {
    let newest = listed.last().copied().unwrap_or(0);
    // Two in a row are no late writer's: the log reaches at least so far.
    let pair = listed
        .iter()
        .find(|version| **version > 0 && listed.contains(&(*version + 1)));
    let reached = pair.copied().unwrap_or(newest);
    for missing in (0..newest).filter(|version| !listed.contains(version)) {
        let cleaned = missing > 0 && missing < beginning.first && missing < reached.max(1);
        if !cleaned {
            let detail = format!("record {missing} is missing although {newest} is there");
            report.findings.push(
                Finding::new(kind::LOG_GAP, detail)
                    .db_version(DbVersion(missing))
                    .file(place.log.key(missing).to_string()),
            );
        }
    }
}

async fn read_record(
    place: &Place,
    version: DbVersion,
    report: &mut CheckReport,
) -> Result<Option<Record>, DbError> {
    // Read anew: what is in memory says nothing about what is stored.
    let bytes = place.log.read(version.0).await.map_err(DbError::log)?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    match open::decode_record(&place.log, version, &bytes) {
        Ok(record) => Ok(Some(record)),
        Err(error) if is_store_failure(&error) => Err(error),
        Err(error) => {
            let kind = match &error {
                DbError::Invariant { .. } => kind::LOG_INVARIANT,
                _ => kind::LOG_RECORD,
            };
            report.findings.push(
                Finding::new(kind, chain(&error))
                    .db_version(version)
                    .file(place.log.key(version.0).to_string()),
            );
            Ok(None)
        }
    }
}

fn note_entries(place: &Place, record: &Record, replayed: &mut Replayed, report: &mut CheckReport) {
    for (_, action) in record.entries() {
        let sizes = action.files.iter();
        let files: BTreeMap<String, u64> = sizes
            .map(|(path, bytes)| (path.clone(), bytes.len() as u64))
            .collect();
        let expected = match &action.body {
            EntryBody::Staged(staged) => Expected {
                position: record.version,
                hash: staged.hash.clone(),
                staged: Some(staged.clone()),
                files,
            },
            EntryBody::Inline(entry) => {
                let Some(codec) = place.codecs.get(&action.format) else {
                    continue;
                };
                check_inline(codec.as_ref(), record, entry, &files, report);
                Expected {
                    position: record.version,
                    hash: staged_hash(&codec.published_bytes(entry)),
                    staged: None,
                    files,
                }
            }
        };
        replayed
            .entries
            .insert((action.table, action.version), expected);
    }
}

/// A transaction is committed or fenced, and committed once.
fn note_ends(
    record: &Record,
    ends: &mut BTreeMap<TxnId, (bool, DbVersion)>,
    report: &mut CheckReport,
) {
    let committed = record.txns.iter().map(|txn| (txn.id, true));
    for (txn, commits) in committed.chain(record.fenced().map(|txn| (txn, false))) {
        let first = *ends.entry(txn).or_insert((commits, record.version));
        // Two fences of one transaction say the same.
        let agrees = first == (commits, record.version) || (!commits && !first.0);
        if !agrees {
            let how = |commits| if commits { "commits" } else { "aborts" };
            let detail = format!(
                "the record {} transaction {txn}, which record {} {}",
                how(commits),
                first.1,
                how(first.0)
            );
            report
                .findings
                .push(Finding::new(kind::LOG_INVARIANT, detail).db_version(record.version));
        }
    }
}

/// Every data file in a record is one that its entry adds, with the size that it says.
fn check_inline(
    codec: &dyn TableCodec,
    record: &Record,
    entry: &Entry,
    files: &BTreeMap<String, u64>,
    report: &mut CheckReport,
) {
    if files.is_empty() {
        return;
    }
    // An entry that cannot be read is told where the table's state is.
    let Ok(added) = codec.added_files(entry) else {
        return;
    };
    for (path, size) in files {
        let detail = match added.get(path) {
            Some(stated) if stated == size => continue,
            Some(stated) => format!("the record has {size} bytes of the file, stated={stated}"),
            None => "the record has a data file that its entry does not add".to_owned(),
        };
        report.findings.push(
            Finding::new(kind::INLINE_DIFFERS, detail)
                .db_version(record.version)
                .version(entry.version)
                .file(path.clone()),
        );
    }
}

/// Whether bytes are those that a record demands.
pub(super) fn has_hash(bytes: &[u8], expected: &str) -> bool {
    expected.strip_prefix("sha256:") == Some(sha256_hex(bytes).as_str())
}
