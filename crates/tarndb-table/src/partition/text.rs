//! Text forms of numbers and times in partition values.
//!
//! Invariant: parsing a formatted value gives it back; parsing never guesses.
//! Spec: Delta PROTOCOL, "Partition Value Serialization".

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// Days from 0001-01-01 (day 1) to 1970-01-01.
const EPOCH_DAY: i32 = 719_163;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Java's spelling of a floating point number. `shortest` is its shortest scientific form
/// (`1.5e10`), in the number's own width.
pub(super) fn java_float(value: f64, shortest: String) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // Java writes plain digits from a thousandth up to ten million.
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-1 - exponent).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    let padded = format!("{digits:0<width$}", width = whole + 1);
    let (before, after) = padded.split_at(whole);
    format!("{sign}{before}.{after}")
}

pub(super) fn date(days: i32) -> Option<String> {
    let date = NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH_DAY)?)?;
    Some(format_date(date))
}

fn format_date(date: NaiveDate) -> String {
    let year = date.year();
    // Years outside 0000-9999 carry a sign, or their digits would run into each other.
    let year = if (0..=9999).contains(&year) {
        format!("{year:04}")
    } else {
        format!("{year:+05}")
    };
    format!("{year}-{:02}-{:02}", date.month(), date.day())
}

/// UTC, ISO 8601 with microseconds.
pub(super) fn timestamp(micros: i64) -> Option<String> {
    let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let clock = time.format("%H:%M:%S");
    Some(format!(
        "{}T{clock}.{:06}Z",
        format_date(time.date()),
        time.nanosecond() / 1000
    ))
}

/// No zone; the fraction is left out when zero.
pub(super) fn timestamp_ntz(micros: i64) -> Option<String> {
    let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let (date, clock) = (format_date(time.date()), time.format("%H:%M:%S"));
    Some(match time.nanosecond() / 1000 {
        0 => format!("{date} {clock}"),
        fraction => format!("{date} {clock}.{fraction:06}"),
    })
}

pub(super) fn parse_boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

pub(super) fn parse_date(text: &str) -> Option<i32> {
    naive_date(text)?.num_days_from_ce().checked_sub(EPOCH_DAY)
}

fn naive_date(text: &str) -> Option<NaiveDate> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = unsigned.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() < 4 {
        return None;
    }
    let year: i32 = digits(year)?;
    NaiveDate::from_ymd_opt(
        if negative { -year } else { year },
        digits(month)?,
        digits(day)?,
    )
}

/// Digits only, where the standard parsers would take a sign.
fn digits<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// `YYYY-MM-DD`, then optionally `T` or a space and `HH:MM:SS[.fraction]`, then optionally `Z`
/// or an offset. Digits below a microsecond must be zero.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let Some(split) = text.find(['T', ' ']) else {
        return naive_micros(naive_date(text)?.and_time(NaiveTime::MIN));
    };
    let (date, rest) = (text.get(..split)?, text.get(split + 1..)?);
    let (clock, offset_seconds) = split_offset(rest)?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let time = naive_date(date)?.and_time(naive_time(whole)?);
    if clock.contains('.') && fraction.is_empty() {
        return None;
    }
    let (kept, lost) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
    if !lost.bytes().all(|b| b == b'0') {
        return None;
    }
    let fraction: i64 = digits(&format!("{kept:0<6}"))?;
    let shift = i64::from(offset_seconds) * MICROS_PER_SECOND;
    naive_micros(time)?
        .checked_add(fraction)?
        .checked_sub(shift)
}

fn naive_micros(time: NaiveDateTime) -> Option<i64> {
    time.and_utc().timestamp().checked_mul(MICROS_PER_SECOND)
}

fn naive_time(text: &str) -> Option<NaiveTime> {
    let mut parts = text.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = parts.next().map_or(Some(0), digits)?;
    if parts.next().is_some() {
        return None;
    }
    NaiveTime::from_hms_opt(hour, minute, second)
}

/// The clock part, and the zone's seconds east of UTC (0 when there is none).
fn split_offset(text: &str) -> Option<(&str, i32)> {
    let text = text.trim_end();
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(split) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = (text.get(..split)?, text.get(split + 1..)?);
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None => offset.split_at_checked(2)?,
    };
    let (hours, minutes): (i32, i32) = (
        digits(hours)?,
        if minutes.is_empty() {
            0
        } else {
            digits(minutes)?
        },
    );
    let seconds = (hours * 60 + minutes) * 60;
    let legal = hours <= 18 && minutes < 60;
    legal.then_some((
        clock,
        if text.as_bytes().get(split) == Some(&b'-') {
            -seconds
        } else {
            seconds
        },
    ))
}
