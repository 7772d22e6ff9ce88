//! Turns between handles that write to one log: whoever committed stands back for the others.
//!
//! Invariant: it decides only when a record is put, never whether it is right. A handle that
//! meets nobody does not wait, but for one short pause in a long run of records without time
//! between them: else it would never learn of those that always come a moment too late. One that stands back goes
//! on as soon as nobody else commits.
//! Spec: docs/format/log.md, "Turns".

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tarndb_types::DbVersion;

use crate::database::Inner;

/// The newest records by which a handle knows the others.
const RECORDS_MAX: usize = 64;
/// Records of a run without others after which a handle pauses once; each next time after
/// twice as many, up to the last.
const RUN_FIRST: u32 = 16;
const RUN_LAST: u32 = 256;
/// A handle that has met but one or two others may commit so often before it stands back.
const BURST: u32 = 2;
/// A third of the others may still be outstanding: waiting for the last one costs more than
/// meeting it.
const OUTSTANDING: usize = 3;
/// Looks at the log without a new record after which nobody else is taken to be there.
const QUIET_MAX: u32 = 3;
/// The longest that a handle stands back.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a handle knows of the others that write.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    rivals: Mutex<Rivals>,
}

/// Who put the newest records, and when we did.
#[derive(Clone, Debug)]
struct Rivals {
    /// The newest records, oldest first, and whose they are; those of ours are not named.
    recent: VecDeque<(DbVersion, Option<String>)>,
    /// Our last record, and when we knew that it is there.
    last: Option<(DbVersion, Duration)>,
    /// Records of ours, one right after the other.
    run: u32,
    /// The run after which to pause once.
    run_max: u32,
    /// A put and its answer.
    trip: Duration,
    /// Looks at the log in vain since our last record.
    quiet: u32,
}

impl Default for Rivals {
    fn default() -> Self {
        Self {
            recent: VecDeque::new(),
            last: None,
            run: 0,
            run_max: RUN_FIRST,
            trip: Duration::ZERO,
            quiet: 0,
        }
    }
}

impl Rivals {
    /// A record was found in the log, or put there by us.
    fn note_record(&mut self, version: DbVersion, writer: &str, own: &str) {
        if self.recent.back().is_some_and(|(last, _)| *last >= version) {
            return;
        }
        let rival = (writer != own).then(|| writer.to_owned());
        self.recent.push_back((version, rival));
        if self.recent.len() > RECORDS_MAX {
            self.recent.pop_front();
        }
    }

    /// A record of ours was put between two moments.
    fn note_committed(&mut self, version: DbVersion, begun: Duration, now: Duration) {
        self.trip = now.saturating_sub(begun);
        let follows = |(last, _): &(DbVersion, Duration)| last.next() == version;
        let last = self.last.filter(follows);
        if last.is_none() {
            self.run_max = RUN_FIRST;
        }
        // Between records with time in between, others get in without our doing.
        let is_at_once = |(_, when)| begun.saturating_sub(when) <= self.trip * 2;
        self.run = match last.is_some_and(is_at_once) {
            true => self.run.saturating_add(1),
            false => 0,
        };
        self.last = Some((version, now));
        self.quiet = 0;
    }

    /// A look at the log while standing back: whether anything was new.
    fn note_look(&mut self, is_new: bool) {
        self.quiet = if is_new { 0 } else { self.quiet + 1 };
        if self.quiet >= QUIET_MAX {
            self.recent.clear();
        }
    }

    /// How long to wait before the next look, or `None` to go on.
    fn wait(&mut self, now: Duration) -> Option<Duration> {
        let (version, since) = self.last?;
        // A put and a look: the time from one record of a handle to its next.
        let round = self.trip * 2;
        if self.quiet > 0 && self.recent.is_empty() {
            return None;
        }
        let of = |after: Option<DbVersion>| {
            let records = self.recent.iter().filter(|(at, _)| Some(*at) > after);
            let rivals = records.filter_map(|(_, rival)| rival.as_deref());
            rivals.collect::<BTreeSet<_>>().len()
        };
        let (others, passed) = (of(None), of(Some(version)));
        if others == 0 {
            let is_long = self.run >= self.run_max;
            if is_long {
                self.run = 0;
                self.run_max = self.run_max.saturating_mul(2).min(RUN_LAST);
            }
            return is_long.then_some(round * 2);
        }
        let outstanding = others
            .saturating_sub(passed)
            .saturating_sub(others / OUTSTANDING);
        let shares = u32::try_from(outstanding).unwrap_or(u32::MAX);
        let all = u32::try_from(others).unwrap_or(u32::MAX);
        let waited = now.saturating_sub(since);
        let longest = round.saturating_mul(all.saturating_add(2)).min(WAIT_MAX);
        if shares == 0 || waited > longest || (all < 3 && self.run < BURST) {
            return None;
        }
        self.run = BURST;
        Some(round.saturating_mul(shares) / 2)
    }
}

impl Turns {
    /// A record was found in the log, or put there by us.
    pub(crate) fn note_record(&self, version: DbVersion, writer: &str, own: &str) {
        self.lock().note_record(version, writer, own);
    }

    pub(super) fn note_committed(&self, version: DbVersion, begun: Duration, now: Duration) {
        self.lock().note_committed(version, begun, now);
    }

    fn lock(&self) -> MutexGuard<'_, Rivals> {
        self.rivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets others go first, as long as they do. One request per look.
pub(super) async fn stand_back(inner: &Inner) {
    let context = inner.context();
    loop {
        let wait = inner.turns.lock().wait(context.monotonic());
        let Some(wait) = wait else {
            return;
        };
        let before = inner.head.catalog().version();
        context.sleep(context.jittered(wait)).await;
        // An error is met again, and told, by the commit itself.
        if inner.refresh().await.is_err() {
            return;
        }
        let is_new = inner.head.catalog().version() > before;
        inner.turns.lock().note_look(is_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "tarndb/1 a";
    const TRIP: Duration = Duration::from_millis(20);

    /// A handle's view of records by their writers, one letter each, `a` being its own.
    fn seen(writers: &str) -> (Rivals, Duration) {
        let mut rivals = Rivals::default();
        let mut now = Duration::ZERO;
        for (version, writer) in (1..).zip(writers.chars()) {
            let version = DbVersion(version);
            now += TRIP * 2;
            rivals.note_record(version, &format!("tarndb/1 {writer}"), OWN);
            if writer == 'a' {
                rivals.note_committed(version, now - TRIP, now);
            }
        }
        (rivals, now)
    }

    fn wait(writers: &str) -> Option<Duration> {
        let (mut rivals, now) = seen(writers);
        rivals.wait(now)
    }

    #[test]
    fn a_handle_alone_pauses_only_in_a_long_run() {
        assert_eq!(wait("a"), None);
        assert_eq!(wait(&"a".repeat(16)), None);
        assert_eq!(wait(&"a".repeat(17)), Some(TRIP * 4));
        let (mut rivals, now) = seen(&"a".repeat(17));
        rivals.wait(now);
        rivals.note_look(false);
        assert_eq!(rivals.wait(now), None, "once");
        assert_eq!(rivals.run_max, 32);
    }

    #[test]
    fn a_handle_that_takes_its_time_between_records_does_not_pause() {
        let mut rivals = Rivals::default();
        let mut now = Duration::ZERO;
        for version in 1..100 {
            now += TRIP * 4;
            rivals.note_committed(DbVersion(version), now - TRIP, now);
            assert_eq!(rivals.wait(now), None, "{version}");
        }
    }

    #[test]
    fn who_just_committed_waits_for_those_that_did_not() {
        for (writers, shares) in [
            // One other: after a burst of two.
            ("ba", None),
            ("baa", None),
            ("baaa", Some(1)),
            ("baaab", None),
            // Four others, of whom one may be outstanding.
            ("bcdea", Some(3)),
            ("bcdeab", Some(2)),
            ("bcdeabc", Some(1)),
            ("bcdeabcd", None),
            // The same one again is no other.
            ("bcdeabbb", Some(2)),
        ] {
            let expected = shares.map(|shares| TRIP * shares);
            assert_eq!(wait(writers), expected, "{writers}");
        }
    }

    #[test]
    fn a_handle_that_was_silent_does_not_wait() {
        let (mut rivals, now) = seen("bcdea");
        assert!(rivals.wait(now + TRIP * 12).is_some());
        assert_eq!(rivals.wait(now + TRIP * 13), None);
    }

    #[test]
    fn others_that_stopped_are_not_waited_for() {
        let (mut rivals, now) = seen("bcdea");
        for _ in 0..QUIET_MAX {
            assert!(rivals.wait(now).is_some());
            rivals.note_look(false);
        }
        assert_eq!(rivals.wait(now), None);
        rivals.note_committed(DbVersion(6), now, now + TRIP);
        assert_eq!(rivals.wait(now + TRIP), None);
    }

    #[test]
    fn records_seen_twice_or_out_of_order_count_once() {
        let (mut rivals, _) = seen("bcdea");
        rivals.note_record(DbVersion(2), "tarndb/1 x", OWN);
        assert_eq!(rivals.recent.len(), 5);
    }
}
