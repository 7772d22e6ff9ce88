//! Decimals as text: all fraction digits, and back without going through floating point.
//!
//! Invariant: `parse_decimal(&format_decimal(v, s), s) == Some(v)`; digits are never lost.
//! Spec: Delta PROTOCOL, "Partition Value Serialization" and "Per-file Statistics".

/// `unscaled` divided by ten to the `scale`, with exactly `scale` fraction digits.
pub fn format_decimal(unscaled: i128, scale: u8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let scale = usize::from(scale);
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let sign = if unscaled < 0 { "-" } else { "" };
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// The number `text` (`-1.50`, `1E+3`, ...) times ten to the `scale`. `None` when it is no
/// number, has non-zero digits beyond the scale, or is too large for 38 digits.
pub fn parse_decimal(text: &str, scale: u8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits that the point must move right (positive) or that must be dropped (negative).
    let fraction_digits = i64::try_from(fraction.len()).ok()?;
    let shift = i64::from(scale) + i64::from(exponent) - fraction_digits;
    let mut value = 0_i128;
    let kept = i64::try_from(digits().count()).ok()? + shift.min(0);
    for (position, digit) in (0_i64..).zip(digits()) {
        let digit = i128::from(digit - b'0');
        if position < kept {
            value = value.checked_mul(10)?.checked_add(digit)?;
        } else if digit != 0 {
            return None;
        }
    }
    if value != 0 && shift > 0 {
        value = value.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    }
    let within = value < 10_i128.pow(38);
    within.then_some(if negative { -value } else { value })
}

/// `unscaled` of scale `from` at scale `to`; `None` when digits would be lost or overflow.
pub fn rescale(unscaled: i128, from: u8, to: u8) -> Option<i128> {
    let power = |digits: u8| 10_i128.checked_pow(u32::from(digits));
    if to >= from {
        return unscaled.checked_mul(power(to - from)?);
    }
    let divisor = power(from - to)?;
    (unscaled % divisor == 0).then(|| unscaled / divisor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_fraction_digits_are_written() {
        assert_eq!(format_decimal(4200, 2), "42.00");
        assert_eq!(format_decimal(-5, 3), "-0.005");
        assert_eq!(format_decimal(7, 0), "7");
        assert_eq!(format_decimal(0, 1), "0.0");
    }

    #[test]
    fn exponents_and_trailing_zeros_parse_and_lost_digits_do_not() {
        assert_eq!(parse_decimal("1E+3", 1), Some(10_000));
        assert_eq!(parse_decimal("1.5e-1", 2), Some(15));
        assert_eq!(parse_decimal("42.0000", 2), Some(4200));
        assert_eq!(parse_decimal("+.5", 1), Some(5));
        assert_eq!(parse_decimal("0E999999999", 1), Some(0));
        assert_eq!(parse_decimal("1E-999999999", 1), None);
        for bad in [
            "", ".", "-", "1.234", "1e", "x", "1 ", "--1", "1.2.3", "1E40", "+-1",
        ] {
            assert_eq!(parse_decimal(bad, 2), None, "{bad}");
        }
    }

    #[test]
    fn rescaling_never_loses_digits() {
        assert_eq!(rescale(15, 1, 3), Some(1500));
        assert_eq!(rescale(1500, 3, 1), Some(15));
        assert_eq!(rescale(1501, 3, 1), None);
        assert_eq!(rescale(i128::MAX, 0, 1), None);
    }

    proptest! {
        #[test]
        fn text_and_back_is_identity(value in -(10_i128.pow(38) - 1)..10_i128.pow(38), scale in 0_u8..=38) {
            prop_assert_eq!(parse_decimal(&format_decimal(value, scale), scale), Some(value));
        }

        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,12}", scale in 0_u8..=38) {
            let _ = parse_decimal(&text, scale);
        }
    }
}
