//! Times as people read them.
//!
//! Invariant: what is told is accepted where a time is asked for. UTC always.
//! Spec: RFC 3339.

use chrono::{DateTime, SecondsFormat};

/// Milliseconds since 1970 UTC as a timestamp; the number itself where no calendar reaches.
pub fn time_text(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).map_or_else(
        || format!("{ms} ms since 1970 UTC"),
        |time| time.to_rfc3339_opts(SecondsFormat::Millis, true),
    )
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn times_are_told_to_the_millisecond_and_far_ones_as_numbers() {
        assert_eq!(time_text(1_769_817_600_123), "2026-01-31T00:00:00.123Z");
        assert_eq!(time_text(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(time_text(i64::MAX), "9223372036854775807 ms since 1970 UTC");
    }
}
