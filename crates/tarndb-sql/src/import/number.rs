//! Numbers as JSON writes them, taken apart digit by digit.
//!
//! Invariant: no number passes through a float, so that none is changed on its way to an
//! integer or a decimal.
//! Spec: docs/sql/types.md, "What goes into a column".

/// Digits before the point at most; no type has as many.
const DIGITS_MAX: i64 = 64;

/// `digits` times ten to the power of `exponent`; no zeros at either end of the digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Number {
    /// `None` when the text is no number in digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match rest.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = [before, behind].concat().into_bytes();
        if before.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut exponent = i64::from(power) - i64::try_from(behind.len()).ok()?;
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        Some(Self {
            negative,
            digits,
            exponent,
        })
    }

    /// The whole number that it is, in plain digits.
    pub(super) fn whole(&self) -> Option<String> {
        match self.digits.is_empty() || self.exponent >= 0 {
            true => self.rounded(0),
            false => None,
        }
    }

    /// In plain digits, at most `scale` of them behind the point, rounded half away from zero.
    /// `None` when it is too large for every type.
    pub(super) fn rounded(&self, scale: u8) -> Option<String> {
        let mut digits = self.digits.clone();
        let mut exponent = self.exponent;
        if exponent.saturating_add(i64::try_from(digits.len()).ok()?) > DIGITS_MAX {
            return match digits.is_empty() {
                true => Some("0".to_owned()),
                false => None,
            };
        }
        let dropped = usize::try_from(-exponent - i64::from(scale)).unwrap_or(0);
        if dropped > 0 {
            let Some(kept) = digits.len().checked_sub(dropped) else {
                return Some("0".to_owned());
            };
            let up = digits.get(kept).is_some_and(|digit| *digit >= b'5');
            digits.truncate(kept);
            exponent = -i64::from(scale);
            if up {
                increment(&mut digits);
            }
        }
        if digits.is_empty() {
            return Some("0".to_owned());
        }
        let behind = usize::try_from(-exponent).unwrap_or(0);
        let zeros = usize::try_from(exponent).unwrap_or(0);
        digits.resize(digits.len() + zeros, b'0');
        // A digit before the point at least.
        let missing = (behind + 1).saturating_sub(digits.len());
        digits.splice(..0, std::iter::repeat_n(b'0', missing));
        if behind > 0 {
            digits.insert(digits.len() - behind, b'.');
        }
        if self.negative {
            digits.insert(0, b'-');
        }
        String::from_utf8(digits).ok()
    }
}

/// One more in the last place.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_keep_every_digit_and_fractions_are_none() {
        for (text, whole) in [
            ("0", Some("0")),
            ("-0.0", Some("0")),
            ("5.0", Some("5")),
            ("1e3", Some("1000")),
            ("-120E-1", Some("-12")),
            ("0.5e1", Some("5")),
            ("9007199254740993.0", Some("9007199254740993")),
            ("0e999999", Some("0")),
            ("1.5", None),
            ("1e-1", None),
            ("1e99", None),
            ("1e99999999999", None),
            ("x", None),
            ("", None),
            ("1.2.3", None),
        ] {
            let found = Number::parse(text).and_then(|number| number.whole());
            assert_eq!(found.as_deref(), whole, "{text}");
        }
    }

    #[test]
    fn decimals_are_rounded_half_away_from_zero() {
        for (text, rounded) in [
            ("1.999", "2.00"),
            ("1.994", "1.99"),
            ("1.005", "1.01"),
            ("-1.005", "-1.01"),
            ("0.005", "0.01"),
            ("0.0049", "0"),
            ("0.00001", "0"),
            ("9.995", "10.00"),
            ("12.5e-1", "1.25"),
            ("1e2", "100"),
            ("0.1", "0.1"),
        ] {
            let found = Number::parse(text).and_then(|number| number.rounded(2));
            assert_eq!(found.as_deref(), Some(rounded), "{text}");
        }
    }
}
