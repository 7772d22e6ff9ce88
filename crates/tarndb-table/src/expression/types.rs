//! Which type two values have in common, and which casts are there.
//!
//! Invariant: widening loses nothing but digits of a whole number in a FLOAT or DOUBLE, as in
//! Spark; where Spark would guess (a string beside a number) there is no common type.
//! Spec: docs/expressions.md, "Types".

use super::node::Arithmetic;
use crate::schema::DataType;

/// Most digits of a decimal.
const DIGITS_MAX: u8 = 38;

/// The type to which both are brought before they are compared; `None` when there is none.
pub(super) fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType as T;
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (T::Void, other) | (other, T::Void) => Some(other.clone()),
        (T::Date, T::Timestamp) | (T::Timestamp, T::Date) => Some(T::Timestamp),
        (T::Date, T::TimestampNtz) | (T::TimestampNtz, T::Date) => Some(T::TimestampNtz),
        (T::TimestampNtz, T::Timestamp) | (T::Timestamp, T::TimestampNtz) => Some(T::Timestamp),
        (T::Decimal { .. }, T::Float | T::Double) | (T::Float | T::Double, T::Decimal { .. }) => {
            Some(T::Double)
        }
        (T::Decimal { .. }, _) | (_, T::Decimal { .. }) => {
            let ((p1, s1), (p2, s2)) = (as_decimal(a)?, as_decimal(b)?);
            let scale = s1.max(s2);
            let precision = (p1 - s1).max(p2 - s2) + scale;
            (precision <= DIGITS_MAX).then_some(T::Decimal { precision, scale })
        }
        _ => {
            let rank = rank(a)?.max(rank(b)?);
            NUMBERS.get(rank).cloned()
        }
    }
}

/// Numbers from narrow to wide.
const NUMBERS: [DataType; 6] = [
    DataType::Byte,
    DataType::Short,
    DataType::Integer,
    DataType::Long,
    DataType::Float,
    DataType::Double,
];

fn rank(data_type: &DataType) -> Option<usize> {
    NUMBERS.iter().position(|number| number == data_type)
}

/// Precision and scale of the decimal that holds all values of a decimal or whole number.
fn as_decimal(data_type: &DataType) -> Option<(u8, u8)> {
    Some(match data_type {
        DataType::Byte => (3, 0),
        DataType::Short => (5, 0),
        DataType::Integer => (10, 0),
        DataType::Long => (20, 0),
        DataType::Decimal { precision, scale } => (*precision, *scale),
        _ => return None,
    })
}

pub(super) fn is_whole(data_type: &DataType) -> bool {
    rank(data_type).is_some_and(|rank| rank < 4)
}

pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Double)
}

pub(super) fn is_number(data_type: &DataType) -> bool {
    rank(data_type).is_some() || matches!(data_type, DataType::Decimal { .. })
}

/// Whether values of the type have an order.
pub(super) fn is_comparable(data_type: &DataType) -> bool {
    !data_type.is_nested()
}

/// The types of the two arguments, and of the result, of an arithmetic operation; the error is
/// what does not fit.
pub(super) fn arithmetic(
    operation: Arithmetic,
    a: &DataType,
    b: &DataType,
) -> Result<(DataType, DataType, DataType), String> {
    use DataType as T;
    let misfit = || format!("no arithmetic of {a} and {b} (CAST one of them)");
    let known = |t: &T| is_number(t) || *t == T::Void;
    if !known(a) || !known(b) {
        return Err(misfit());
    }
    let decimal = |t: &T| matches!(t, T::Decimal { .. });
    if (decimal(a) || decimal(b)) && !is_float(a) && !is_float(b) {
        return decimal_arithmetic(operation, a, b);
    }
    let both = |t: T| Ok((t.clone(), t.clone(), t));
    match operation {
        Arithmetic::Divide => both(T::Double),
        _ => match common(a, b).ok_or_else(misfit)? {
            T::Void => both(T::Double),
            t => both(t),
        },
    }
}

fn decimal_arithmetic(
    operation: Arithmetic,
    a: &DataType,
    b: &DataType,
) -> Result<(DataType, DataType, DataType), String> {
    let digits = |t: &DataType| match t {
        DataType::Void => Ok((1, 0)),
        t => as_decimal(t).ok_or_else(|| format!("no arithmetic of decimals with {t}")),
    };
    let ((p1, s1), (p2, s2)) = (digits(a)?, digits(b)?);
    let scale = s1.max(s2);
    let (precision, scale) = match operation {
        Arithmetic::Add | Arithmetic::Subtract => ((p1 - s1).max(p2 - s2) + scale + 1, scale),
        Arithmetic::Multiply => (p1 + p2 + 1, s1 + s2),
        Arithmetic::Divide | Arithmetic::Remainder => {
            return Err("no division of decimals (CAST them to DOUBLE)".to_owned());
        }
    };
    if precision > DIGITS_MAX {
        return Err(format!(
            "decimals of {a} and {b} give more than 38 digits (CAST them to fewer)"
        ));
    }
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    Ok((decimal(p1, s1), decimal(p2, s2), decimal(precision, scale)))
}

/// Whether CAST goes from one type to the other.
pub(super) fn can_cast(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let decimal = |t: &T| matches!(t, T::Decimal { .. });
    if from == to {
        return true;
    }
    match (from, to) {
        (T::Void, to) => !to.is_nested(),
        (from, to) if is_number(from) && is_number(to) => true,
        (T::Boolean, to) => is_whole(to) || *to == T::String,
        (from, T::Boolean) => is_whole(from) || *from == T::String,
        (T::String, to) => is_number(to) || matches!(to, T::Date | T::Timestamp | T::TimestampNtz),
        (from, T::String) => {
            is_whole(from)
                || decimal(from)
                || matches!(from, T::Date | T::Timestamp | T::TimestampNtz)
        }
        (T::Date | T::Timestamp | T::TimestampNtz, T::Date | T::Timestamp | T::TimestampNtz) => {
            true
        }
        (T::Timestamp, T::Long) => true,
        (from, T::Timestamp) => is_whole(from),
        _ => false,
    }
}
