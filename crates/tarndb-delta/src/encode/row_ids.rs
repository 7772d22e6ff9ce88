//! Row tracking of the commit being encoded: which ids its files get.
//!
//! Invariant: an id is given out once, whatever is deleted, overwritten or restored later: the
//! high water mark only grows, and every attempt of a commit counts from the head's. A file that
//! is named again keeps both its values.
//! Spec: Delta PROTOCOL, "Row Tracking"; docs/format/delta.md, "Row tracking".

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tarndb_table::Commit;

use super::cloned;
use super::draft::Draft;
use crate::action::{Action, Add, DomainMetadata};
use crate::checkpoint::write::live_add;
use crate::error::DeltaError;
use crate::feature;
use crate::property::is_on;
use crate::state::DeltaState;

/// Domain of the high water mark.
pub(crate) const ROW_TRACKING_DOMAIN: &str = "delta.rowTracking";
/// Property that makes ids something to rely on.
pub(crate) const ENABLED: &str = tarndb_table::row_id::ENABLE_ROW_TRACKING;
/// Property that lets writers leave ids out.
pub(crate) const SUSPENDED: &str = "delta.rowTrackingSuspended";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HighWaterMark {
    row_id_high_water_mark: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rows {
    num_records: Option<i64>,
}

/// Gives out ids.
pub(super) struct RowIds {
    /// The highest id given out before the commit; -1 when there is none.
    start: i64,
    /// The highest one so far.
    mark: i64,
    /// The version that the commit makes.
    version: i64,
    /// All live files get ids, for from now on all rows have one.
    backfill: bool,
}

impl RowIds {
    /// `None` where files get no ids.
    ///
    /// # Errors
    /// `BadDomain` when the high water mark cannot be read.
    pub(super) fn start(commit: &Commit<'_>, draft: &Draft) -> Result<Option<Self>, DeltaError> {
        let configuration = &draft.metadata.configuration;
        let listed = draft.protocol.lists_writer_feature(feature::ROW_TRACKING);
        if !listed || is_on(configuration, SUSPENDED) {
            return Ok(None);
        }
        let start = match commit.head {
            Some(head) => high_water_mark(DeltaState::of(head)?)?,
            None => match cloned::source(commit) {
                Some(source) => high_water_mark(DeltaState::of(&source.0)?)?,
                None => -1,
            },
        };
        let version = commit.stamp.version.0;
        Ok(Some(Self {
            start,
            mark: start,
            version: i64::try_from(version).map_err(|_| out_of_ids("versions"))?,
            backfill: is_on(configuration, ENABLED) && !draft.was_on(ENABLED),
        }))
    }

    /// Numbers the files that the commit names, and all others where tracking begins.
    ///
    /// # Errors
    /// `RowsUnknown` for a file that does not say how many rows it has.
    pub(super) fn number(
        &mut self,
        commit: &Commit<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<(), DeltaError> {
        let mut named = BTreeSet::new();
        for action in actions.iter_mut() {
            match action {
                Action::Add(add) => {
                    named.insert(add.path.clone());
                    self.number_file(add)?;
                }
                Action::Remove(remove) => {
                    named.insert(remove.path.clone());
                }
                _ => {}
            }
        }
        let Some(head) = commit.head.filter(|_| self.backfill) else {
            return Ok(());
        };
        for file in head.files.values() {
            let numbered = file.base_row_id.is_some() && file.default_row_commit_version.is_some();
            if numbered || named.contains(&file.raw_path) {
                continue;
            }
            // The rows are as they were.
            let mut add = live_add(&file, head, false);
            self.number_file(&mut add)?;
            actions.push(Action::Add(Box::new(add)));
        }
        Ok(())
    }

    fn number_file(&mut self, add: &mut Add) -> Result<(), DeltaError> {
        let rows = || rows_of(add);
        let fits = |base: i64| {
            let last = base.checked_add(rows().ok()?)?.checked_sub(1)?;
            (base >= 0 && last <= self.start).then_some(base)
        };
        // An id that was never given out cannot be a file's own.
        let base = match add.base_row_id.and_then(fits) {
            Some(base) => base,
            None => {
                let base = self.mark.checked_add(1).ok_or_else(|| out_of_ids("ids"))?;
                let last = self.mark.checked_add(rows()?);
                self.mark = last.ok_or_else(|| out_of_ids("ids"))?;
                base
            }
        };
        add.base_row_id = Some(base);
        add.default_row_commit_version.get_or_insert(self.version);
        Ok(())
    }

    /// The high water mark, when it grew.
    pub(super) fn domain(&self) -> Result<Option<DomainMetadata>, DeltaError> {
        if self.mark == self.start {
            return Ok(None);
        }
        let mark = HighWaterMark {
            row_id_high_water_mark: self.mark,
        };
        let configuration =
            serde_json::to_string(&mark).map_err(|source| DeltaError::Encode { source })?;
        Ok(Some(DomainMetadata {
            domain: ROW_TRACKING_DOMAIN.to_owned(),
            configuration,
            removed: false,
        }))
    }
}

fn rows_of(add: &Add) -> Result<i64, DeltaError> {
    let stats = add.stats.as_deref();
    let rows = stats.and_then(|text| serde_json::from_str::<Rows>(text).ok());
    rows.and_then(|rows| rows.num_records)
        .filter(|rows| *rows >= 0)
        .ok_or_else(|| DeltaError::RowsUnknown {
            file: add.path.clone(),
        })
}

fn out_of_ids(what: &'static str) -> DeltaError {
    DeltaError::IllegalCommit {
        rule: "row ids and versions fit 63 bits",
        detail: what.to_owned(),
    }
}

/// The highest row id that was ever given out.
fn high_water_mark(state: &DeltaState) -> Result<i64, DeltaError> {
    let Some(text) = state.domains.get(ROW_TRACKING_DOMAIN) else {
        return Ok(-1);
    };
    let mark: Option<HighWaterMark> = serde_json::from_str(text).ok();
    let mark = mark.map(|mark| mark.row_id_high_water_mark);
    mark.filter(|mark| *mark >= -1)
        .ok_or_else(|| DeltaError::BadDomain {
            domain: ROW_TRACKING_DOMAIN.to_owned(),
            configuration: text.clone(),
        })
}
