//! Days and microseconds as dates and times of day, and back: the proleptic Gregorian calendar
//! in UTC.
//!
//! Invariant: division is floored, so that instants before 1970 are in the right day and hour.
//! Spec: docs/expressions.md, "Dates and times".

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};

use super::node::{DatePart, Piece, Unit};

/// Microseconds of a day.
pub(super) const DAY_MICROS: i64 = 86_400_000_000;
const SECOND_MICROS: i64 = 1_000_000;

/// A day as a date; `None` beyond what a calendar can say.
pub(super) fn date(days: i32) -> Option<NaiveDate> {
    const EPOCH_FROM_CE: i32 = 719_163;
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH_FROM_CE)?)
}

fn days(date: NaiveDate) -> i32 {
    const EPOCH_FROM_CE: i32 = 719_163;
    date.num_days_from_ce() - EPOCH_FROM_CE
}

fn moment(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc())
}

/// The day of an instant.
pub(super) fn day_of(micros: i64) -> Option<i32> {
    i32::try_from(micros.div_euclid(DAY_MICROS)).ok()
}

/// A part of a day.
pub(super) fn part_of_day(part: DatePart, day: i32) -> Option<i32> {
    let date = date(day)?;
    let number = |value: u32| i32::try_from(value).ok();
    match part {
        DatePart::Year => Some(date.year()),
        DatePart::Quarter => number(date.month0() / 3 + 1),
        DatePart::Month => number(date.month()),
        DatePart::Day => number(date.day()),
        DatePart::DayOfWeek => number(date.weekday().num_days_from_sunday() + 1),
        DatePart::DayOfYear => number(date.ordinal()),
        DatePart::Hour | DatePart::Minute | DatePart::Second => Some(0),
    }
}

/// A part of an instant.
pub(super) fn part_of_instant(part: DatePart, micros: i64) -> Option<i32> {
    let second = micros.rem_euclid(DAY_MICROS) / SECOND_MICROS;
    match part {
        DatePart::Hour => i32::try_from(second / 3600).ok(),
        DatePart::Minute => i32::try_from(second / 60 % 60).ok(),
        DatePart::Second => i32::try_from(second % 60).ok(),
        of_day => part_of_day(of_day, day_of(micros)?),
    }
}

/// A day cut to the beginning of its year, quarter, month or week (Monday).
pub(super) fn truncated_day(unit: Unit, day: i32) -> Option<i32> {
    let date = date(day)?;
    let first = match unit {
        Unit::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1)?,
        Unit::Quarter => NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1)?,
        Unit::Month => NaiveDate::from_ymd_opt(date.year(), date.month(), 1)?,
        Unit::Week => {
            let back = i32::try_from(date.weekday().num_days_from_monday()).ok()?;
            return day.checked_sub(back);
        }
        _ => return Some(day),
    };
    Some(days(first))
}

/// An instant cut to a unit.
pub(super) fn truncated_instant(unit: Unit, micros: i64) -> Option<i64> {
    let step = match unit {
        Unit::Microsecond => return Some(micros),
        Unit::Millisecond => 1000,
        Unit::Second => SECOND_MICROS,
        Unit::Minute => 60 * SECOND_MICROS,
        Unit::Hour => 3600 * SECOND_MICROS,
        Unit::Year | Unit::Quarter | Unit::Month | Unit::Week | Unit::Day => {
            let day = truncated_day(unit, day_of(micros)?)?;
            return i64::from(day).checked_mul(DAY_MICROS);
        }
    };
    micros.checked_sub(micros.rem_euclid(step))
}

/// An instant by the pieces of a pattern; `None` outside the years 1 to 9999, which a pattern
/// of four digits cannot say.
pub(super) fn formatted(pieces: &[Piece], micros: i64) -> Option<String> {
    use std::fmt::Write as _;
    let moment = moment(micros).filter(|moment| (1..=9999).contains(&moment.year()))?;
    let mut text = String::new();
    for piece in pieces {
        let _infallible = match piece {
            Piece::Year => write!(text, "{:04}", moment.year()),
            Piece::Month => write!(text, "{:02}", moment.month()),
            Piece::Day => write!(text, "{:02}", moment.day()),
            Piece::Hour => write!(text, "{:02}", moment.hour()),
            Piece::Minute => write!(text, "{:02}", moment.minute()),
            Piece::Second => write!(text, "{:02}", moment.second()),
            Piece::Text(sign) => write!(text, "{sign}"),
        };
    }
    Some(text)
}

/// A day as Spark writes it; `None` outside the years 0 to 9999.
pub(super) fn date_text(day: i32) -> Option<String> {
    let date = date(day).filter(|date| (0..=9999).contains(&date.year()))?;
    Some(date.format("%Y-%m-%d").to_string())
}

/// An instant as Spark writes it: fraction digits without zeros at the end.
pub(super) fn timestamp_text(micros: i64) -> Option<String> {
    let moment = moment(micros).filter(|moment| (0..=9999).contains(&moment.year()))?;
    let mut text = moment.format("%Y-%m-%d %H:%M:%S").to_string();
    let fraction = micros.rem_euclid(SECOND_MICROS);
    if fraction != 0 {
        let digits = format!(".{fraction:06}");
        text.push_str(digits.trim_end_matches('0'));
    }
    Some(text)
}

/// `yyyy`, `yyyy-m` or `yyyy-m-d`, with a time of day that is ignored.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    let end = text.find([' ', 'T']).unwrap_or(text.len());
    let mut parts = text.get(..end)?.split('-');
    let year = digits(parts.next()?, 4, 4)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 1, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 1, 2))?;
    if parts.next().is_some() {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    Some(days(date))
}

fn digits(text: &str, least: usize, most: usize) -> Option<u32> {
    let fits = (least..=most).contains(&text.len());
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (fits && digits).then(|| text.parse().ok()).flatten()
}

/// A date, with `h:m[:s[.ffffff]]` after a blank or T and `Z` or `+hh:mm` behind.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let text = text.trim();
    let Some(at) = text.find([' ', 'T']) else {
        return i64::from(parse_date(text)?).checked_mul(DAY_MICROS);
    };
    let day = parse_date(text.get(..at)?)?;
    let (time, offset) = zone(text.get(at + 1..)?)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 1, 2)?;
    let minute = digits(parts.next()?, 1, 2)?;
    let second = parts.next().map_or(Some(0), |part| digits(part, 1, 2))?;
    if parts.next().is_some() {
        return None;
    }
    let micros = match fraction {
        "" => 0,
        some => digits(some, 1, 6)? * 10_u32.pow(6 - u32::try_from(some.len()).ok()?),
    };
    let of_day = NaiveTime::from_hms_micro_opt(hour, minute, second, micros)?;
    let seconds = i64::from(of_day.num_seconds_from_midnight());
    let since = seconds * SECOND_MICROS + i64::from(micros);
    i64::from(day)
        .checked_mul(DAY_MICROS)?
        .checked_add(since)?
        .checked_sub(offset)
}

/// The time without its zone, and the zone's offset in microseconds.
fn zone(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (hours, minutes) = text.get(at + 1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 1, 2)?, digits(minutes, 2, 2)?);
    if hours > 18 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours * 60 + minutes) * 60 * SECOND_MICROS;
    let west = text.get(at..=at)? == "-";
    Some((text.get(..at)?, if west { -offset } else { offset }))
}
