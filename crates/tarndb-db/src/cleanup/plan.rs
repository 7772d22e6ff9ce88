//! Which records and checkpoints of the database log can go: a pure function.
//!
//! Invariant: what goes is the beginning of the log after record 0 and nothing else; what stays
//! begins with a checkpoint that is older than the retention, so that whoever needs a record
//! below it has not looked for longer than that.
//! Spec: docs/format/log.md, "Cleaning up".

use std::collections::BTreeSet;
use std::time::Duration;

use tarndb_types::{DbVersion, TimestampMs};

use crate::catalog::Catalog;
use crate::vacuum::horizon::LogTimes;

/// What the decision depends on.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) times: LogTimes,
    pub(super) head: DbVersion,
    /// The first record that makes a table version which is not known to be published.
    pub(super) first_unpublished: Option<DbVersion>,
    /// The store's time.
    pub(super) now: TimestampMs,
    pub(super) retention: Duration,
    /// Newest records that stay whatever their age.
    pub(super) records_min: u64,
}

/// What goes, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) records: Vec<u64>,
    pub(super) checkpoints: Vec<u64>,
}

/// The first record with a version that a catalog does not know to be published.
pub(super) fn first_unpublished(catalog: &Catalog) -> Option<DbVersion> {
    let tables = catalog.tables().chain(catalog.dropped_tables());
    let firsts = tables.filter(|table| table.unpublished() > 0);
    firsts
        .filter_map(|table| table.position(table.first_unpublished()))
        .min()
}

/// Checkpoints at which the log may be cut, the best first.
pub(super) fn cuts(view: &View) -> Vec<DbVersion> {
    let retention = i64::try_from(view.retention.as_millis()).unwrap_or(i64::MAX);
    let before = view.now.0.saturating_sub(retention);
    // The newest `records_min` records begin here.
    let newest = (view.head.0 + 1).saturating_sub(view.records_min);
    let unpublished = view.first_unpublished.map_or(u64::MAX, |first| first.0);
    let fits = |(version, time): &&(u64, TimestampMs)| {
        *version < newest && *version < unpublished && time.0 < before
    };
    let fitting = view.times.checkpoints.iter().rev().filter(fits);
    fitting.map(|(version, _)| DbVersion(*version)).collect()
}

/// What goes below a cut; the checkpoints of `tagged` versions stay.
pub(super) fn plan(times: &LogTimes, cut: DbVersion, tagged: &BTreeSet<DbVersion>) -> Plan {
    let below = |list: &[(u64, TimestampMs)], first: u64| {
        let versions = list.iter().map(|(version, _)| *version);
        versions
            .filter(|version| (first..cut.0).contains(version))
            .collect::<Vec<_>>()
    };
    let mut checkpoints: Vec<u64> = below(&times.checkpoints, 0);
    checkpoints.retain(|version| !tagged.contains(&DbVersion(*version)));
    Plan {
        records: below(&times.records, 1),
        checkpoints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        // A record a second, a checkpoint every 10, each written 1 s after its record.
        let seconds = |n: u64| TimestampMs(n as i64 * 1000);
        View {
            times: LogTimes {
                records: (0..=100).map(|n| (n, seconds(n))).collect(),
                checkpoints: (1..=10).map(|n| (n * 10, seconds(n * 10 + 1))).collect(),
            },
            head: DbVersion(100),
            first_unpublished: None,
            now: seconds(110),
            retention: Duration::from_secs(30),
            records_min: 5,
        }
    }

    #[track_caller]
    fn check(view: &View, best: Option<u64>) {
        assert_eq!(cuts(view).first().copied(), best.map(DbVersion));
    }

    #[test]
    fn the_cut_is_old_published_and_below_the_newest_records() {
        let view = view();
        check(&view, Some(70));
        let retention = |s| View {
            retention: Duration::from_secs(s),
            ..view.clone()
        };
        // The checkpoint itself must be older, not as old.
        check(&retention(39), Some(60));
        check(&retention(38), Some(70));
        check(&retention(200), None);
        let unpublished = |first| View {
            first_unpublished: Some(DbVersion(first)),
            ..view.clone()
        };
        check(&unpublished(70), Some(60));
        check(&unpublished(71), Some(70));
        check(&unpublished(5), None);
        let records_min = |records_min| View {
            records_min,
            ..view.clone()
        };
        // The newest 31 are 70..=100.
        check(&records_min(31), Some(60));
        check(&records_min(30), Some(70));
        check(&records_min(1000), None);
    }

    #[test]
    fn record_0_the_cut_and_its_record_stay() {
        let plan = plan(&view().times, DbVersion(30), &BTreeSet::new());
        assert_eq!(plan.records, (1..30).collect::<Vec<_>>());
        assert_eq!(plan.checkpoints, [10, 20]);
    }

    #[test]
    fn the_checkpoint_of_a_tag_stays_and_its_record_goes() {
        let tagged = BTreeSet::from([DbVersion(10), DbVersion(90)]);
        let plan = plan(&view().times, DbVersion(30), &tagged);
        assert_eq!(plan.records, (1..30).collect::<Vec<_>>());
        assert_eq!(plan.checkpoints, [20]);
    }
}
