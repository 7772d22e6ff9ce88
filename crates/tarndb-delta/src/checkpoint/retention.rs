//! How long tombstones and application transactions are kept in checkpoints.
//!
//! Invariant: a duration that cannot be read keeps everything.
//! Spec: Delta PROTOCOL, "Checkpoints" (tombstone expiry); property durations.

use std::collections::BTreeMap;

const WEEK_MS: i64 = 7 * 24 * 3_600_000;

/// Removes older than this (ms since 1970) are left out of a checkpoint.
pub(crate) fn tombstone_cutoff(properties: &BTreeMap<String, String>, now_ms: i64) -> i64 {
    let kept_ms = match properties.get("delta.deletedFileRetentionDuration") {
        None => WEEK_MS,
        Some(text) => match duration_ms(text) {
            Some(ms) => ms,
            None => return i64::MIN,
        },
    };
    now_ms.saturating_sub(kept_ms)
}

/// Application transactions not newer than this are left out; `None` keeps all.
pub(crate) fn txn_cutoff(properties: &BTreeMap<String, String>, now_ms: i64) -> Option<i64> {
    let text = properties.get("delta.setTransactionRetentionDuration")?;
    Some(now_ms.saturating_sub(duration_ms(text)?))
}

/// Milliseconds of `interval 1 week`, `interval 2 days 3 hours`, ... Months and years are not
/// of fixed length and are not read.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    let lower = text.trim().to_ascii_lowercase();
    let mut words = lower
        .strip_prefix("interval")
        .unwrap_or(&lower)
        .split_whitespace();
    let mut micros = 0_i64;
    let mut parts = 0;
    while let Some(count) = words.next() {
        let count: i64 = count.parse().ok()?;
        let unit = words.next()?;
        let unit_micros = match unit.strip_suffix('s').unwrap_or(unit) {
            "week" => WEEK_MS * 1000,
            "day" => 86_400_000_000,
            "hour" => 3_600_000_000,
            "minute" => 60_000_000,
            "second" => 1_000_000,
            "millisecond" => 1_000,
            "microsecond" => 1,
            _ => return None,
        };
        micros = micros.checked_add(count.checked_mul(unit_micros)?)?;
        parts += 1;
    }
    (parts > 0 && micros >= 0).then_some(micros / 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{WEEK_MS, duration_ms, tombstone_cutoff};

    #[test]
    fn durations_are_read() {
        assert_eq!(duration_ms("interval 1 week"), Some(WEEK_MS));
        assert_eq!(duration_ms("INTERVAL 2 days 3 hours"), Some(51 * 3_600_000));
        assert_eq!(duration_ms("interval 1500 microseconds"), Some(1));
        for text in [
            "",
            "interval",
            "interval 1 month",
            "interval x days",
            "interval 1",
        ] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn unreadable_retention_keeps_every_tombstone() {
        let key = "delta.deletedFileRetentionDuration".to_owned();
        let properties = BTreeMap::from([(key, "interval 1 month".to_owned())]);
        assert_eq!(tombstone_cutoff(&properties, 5), i64::MIN);
        assert_eq!(tombstone_cutoff(&BTreeMap::new(), WEEK_MS + 5), 5);
    }
}
