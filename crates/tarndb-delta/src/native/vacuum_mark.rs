//! The commit by which a vacuum announces that it deletes files of no commit, and what it means
//! for writers that have such files.
//!
//! Invariant: the mark is committed before the first such file is deleted, and what was committed
//! up to it counts as named. A writer whose files are so old that the vacuum may have deleted
//! them sees the mark before its commit can stand, for the mark took its version, and ends with a
//! definite "nothing was committed".
//! Does not: protect writers of engines that do not know the mark.
//! Spec: docs/format/native.md, "Vacuum".

use std::collections::BTreeMap;

use super::commit::Change;
use super::conflict::{Conflict, ConflictKind};
use super::error::NativeError;
use super::table::NativeTable;
use crate::action::{Action, CommitInfo};
use tarndb_txn::Operation;

/// As other engines call it.
const VACUUM_START: &str = "VACUUM START";
const SPECIFIED: &str = "specifiedRetentionMillis";
const DEFAULT: &str = "defaultRetentionMillis";

/// A vacuum that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenVacuum {
    version: u64,
    /// Files written before this time may be gone: half of the retention is for clocks that
    /// differ.
    files_before: i64,
}

impl SeenVacuum {
    /// `None` for another commit.
    fn of(version: u64, info: &CommitInfo) -> Option<Self> {
        if info.operation.as_deref() != Some(VACUUM_START) {
            return None;
        }
        let parameter = |key: &str| info.operation_parameters.get(key)?.trim().parse().ok();
        // One that does not say how much it keeps may keep nothing.
        let retention: i64 = parameter(SPECIFIED).or(parameter(DEFAULT)).unwrap_or(0);
        let began = info.timestamp.unwrap_or(i64::MAX);
        Some(Self {
            version,
            files_before: began.saturating_sub(retention.max(0) / 2),
        })
    }
}

impl NativeTable {
    /// Commits the mark of a vacuum.
    pub(super) async fn announce_vacuum(&mut self, retention_ms: i64) -> Result<(), NativeError> {
        let mut change = Change::new(Operation::UpdateConfig);
        change.name = Some(VACUUM_START);
        change.parameters = BTreeMap::from([(SPECIFIED.to_owned(), retention_ms.to_string())]);
        self.commit(change).await?;
        Ok(())
    }

    pub(super) fn note_vacuum(&mut self, version: u64, actions: &[Action]) {
        let begun = actions.iter().find_map(|action| match action {
            Action::CommitInfo(info) => SeenVacuum::of(version, info),
            _ => None,
        });
        if let Some(begun) = begun {
            let latest = self.vacuum.map_or(i64::MIN, |seen| seen.files_before);
            let files_before = begun.files_before.max(latest);
            self.vacuum = Some(SeenVacuum {
                files_before,
                ..begun
            });
        }
    }

    /// May files that come back, and were there at this version, be gone? However old they are:
    /// what is looked at before the commit are they themselves.
    pub(super) fn check_no_vacuum_after(&self, looked: u64) -> Result<(), NativeError> {
        match self.vacuum.filter(|seen| seen.version > looked) {
            Some(seen) => Err(NativeError::Conflict(Conflict {
                kind: ConflictKind::Vacuum,
                version: seen.version,
                operation: VACUUM_START.to_owned(),
                detail: "files of an earlier version".to_owned(),
            })),
            None => Ok(()),
        }
    }

    /// May files of which the first was written at this time be gone?
    pub(super) fn check_not_vacuumed(&self, oldest: Option<i64>) -> Result<(), NativeError> {
        match (self.vacuum, oldest) {
            (Some(seen), Some(oldest)) if oldest <= seen.files_before => {
                Err(NativeError::Conflict(Conflict {
                    kind: ConflictKind::Vacuum,
                    version: seen.version,
                    operation: VACUUM_START.to_owned(),
                    detail: format!("files written at {oldest} ms"),
                }))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(operation: &str, parameters: &[(&str, &str)]) -> Option<i64> {
        let info = CommitInfo {
            timestamp: Some(10_000),
            operation: Some(operation.to_owned()),
            operation_parameters: parameters
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..CommitInfo::default()
        };
        SeenVacuum::of(1, &info).map(|seen| seen.files_before)
    }

    #[test]
    fn files_older_than_half_of_the_retention_may_be_gone() {
        for (operation, parameters, expected) in [
            (
                VACUUM_START,
                vec![(SPECIFIED, "4000"), (DEFAULT, "90")],
                Some(8_000),
            ),
            (VACUUM_START, vec![(DEFAULT, "4000")], Some(8_000)),
            (VACUUM_START, vec![], Some(10_000)),
            (VACUUM_START, vec![(SPECIFIED, "-5")], Some(10_000)),
            ("VACUUM END", vec![(SPECIFIED, "4000")], None),
        ] {
            assert_eq!(seen(operation, &parameters), expected, "{parameters:?}");
        }
    }
}
