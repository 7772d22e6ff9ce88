//! How far back the database can be read, and from where on it must stay readable.
//!
//! Invariant: the horizon is the version that was current at the time in question, by the
//! store's own times of the records, or an older one. Pure but for the listing.
//! Spec: docs/format/log.md, "Vacuum" and "Cleaning up".

use tarndb_storage::Store;
use tarndb_types::{DbVersion, TimestampMs};

use crate::error::DbError;
use crate::layout;
use tarndb_log::LogDir;

/// The names in the log folders, with the store's times.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTimes {
    /// Records, ascending.
    pub(crate) records: Vec<(u64, TimestampMs)>,
    /// Checkpoints, ascending.
    pub(crate) checkpoints: Vec<(u64, TimestampMs)>,
}

impl LogTimes {
    /// # Cost
    /// 2 LISTs.
    pub(crate) async fn load(store: &Store, log: &LogDir) -> Result<Self, DbError> {
        let records = store.list_after(log.dir(), None).await?;
        let checkpoints = store.list_after(&layout::checkpoint_dir(), None).await?;
        let records = records.iter().filter_map(|object| {
            let version = log.parse_key(&object.key)?;
            Some((version, object.last_modified))
        });
        let checkpoints = checkpoints.iter().filter_map(|object| {
            let version = layout::parse_checkpoint_key(&object.key)?;
            Some((version.0, object.last_modified))
        });
        Ok(Self {
            records: records.collect(),
            checkpoints: checkpoints.collect(),
        })
    }

    /// The oldest version that can be rebuilt: 0, or the first checkpoint from which the
    /// records reach `head` without a gap.
    pub(crate) fn oldest(&self, head: DbVersion) -> Option<DbVersion> {
        let mut first = head.0 + 1;
        let below = self.records.iter().rev().map(|(version, _)| *version);
        for version in below.skip_while(|version| *version > head.0) {
            if version + 1 != first {
                break;
            }
            first = version;
        }
        if first == 0 {
            return Some(DbVersion::ZERO);
        }
        let mut checkpoints = self.checkpoints.iter().map(|(version, _)| *version);
        let found = checkpoints.find(|version| version + 1 >= first && *version <= head.0);
        found.map(DbVersion)
    }

    /// The version that was current at `before`, no older than [`Self::oldest`]: every version
    /// since then is one that a reader may have begun with since then.
    pub(crate) fn horizon(&self, head: DbVersion, before: TimestampMs) -> Option<DbVersion> {
        let oldest = self.oldest(head)?;
        let known = self.records.iter();
        let mut known = known.filter(|(version, _)| (oldest.0..=head.0).contains(version));
        let first_young = known.find(|(_, time)| *time > before);
        let current = first_young.map_or(head.0, |(version, _)| version.saturating_sub(1));
        Some(DbVersion(current).max(oldest))
    }
}

#[cfg(test)]
mod tests {
    use tarndb_types::{DbVersion, TimestampMs};

    use super::LogTimes;

    fn times(records: &[u64], checkpoints: &[u64]) -> LogTimes {
        // Record v was written at v * 10.
        let at = |versions: &[u64]| {
            let timed = versions.iter().map(|v| (*v, TimestampMs(*v as i64 * 10)));
            timed.collect()
        };
        LogTimes {
            records: at(records),
            checkpoints: at(checkpoints),
        }
    }

    #[track_caller]
    fn check(times: &LogTimes, head: u64, before: i64, oldest: Option<u64>, horizon: Option<u64>) {
        let head = DbVersion(head);
        assert_eq!(times.oldest(head), oldest.map(DbVersion));
        let found = times.horizon(head, TimestampMs(before));
        assert_eq!(found, horizon.map(DbVersion));
    }

    #[test]
    fn the_horizon_is_the_version_that_was_current_then() {
        let whole = times(&[0, 1, 2, 3, 4, 5], &[]);
        check(&whole, 5, -1, Some(0), Some(0));
        check(&whole, 5, 0, Some(0), Some(0));
        check(&whole, 5, 29, Some(0), Some(2));
        check(&whole, 5, 30, Some(0), Some(3));
        check(&whole, 5, 31, Some(0), Some(3));
        check(&whole, 5, 1000, Some(0), Some(5));
        // A record that came after the head was read counts for nothing.
        check(&whole, 3, 1000, Some(0), Some(3));
    }

    #[test]
    fn below_a_cleaned_up_beginning_there_is_nothing_to_keep() {
        // Record 0 stays, and a late writer put 2 in the past.
        let cleaned = times(&[0, 2, 4, 5, 6, 7], &[4, 6]);
        check(&cleaned, 7, 5, Some(4), Some(4));
        check(&cleaned, 7, 55, Some(4), Some(5));
        // The record right before the checkpoint is gone, as it may be.
        let tight = times(&[0, 5, 6], &[4, 6]);
        check(&tight, 6, 5, Some(4), Some(4));
        // Nothing to begin with: damage, and nobody's to delete from.
        check(&times(&[0, 5, 6], &[2]), 6, 5, None, None);
    }

    #[test]
    fn a_record_whose_time_is_out_of_order_only_makes_it_older() {
        let mut times = times(&[0, 1, 2, 3, 4], &[]);
        times.records[1].1 = TimestampMs(35);
        check(&times, 4, 30, Some(0), Some(0));
    }
}
