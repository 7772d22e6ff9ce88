//! Widening: which type holds every value of another one.
//!
//! Invariant: the very list of the format; a change that is not on it is never taken for one,
//! so that a reader which follows the format can read every file.
//! Does not: convert values (`schema::conform` does).
//! Spec: Delta PROTOCOL, "Type Widening".

use crate::schema::DataType;

impl DataType {
    /// Whether a column of this type may become one of type `to`, its files left as they are.
    /// No type widens to itself.
    pub fn widens_to(&self, to: &Self) -> bool {
        use DataType::{Byte, Date, Decimal, Double, Float, Integer, Long, Short, TimestampNtz};
        match (self, to) {
            (Byte, Short | Integer | Long | Double)
            | (Short, Integer | Long | Double)
            | (Integer, Long | Double)
            | (Float, Double)
            | (Date, TimestampNtz) => true,
            (Byte | Short | Integer, Decimal { precision, scale }) => {
                digits_before_point(*precision, *scale) >= 10
            }
            (Long, Decimal { precision, scale }) => digits_before_point(*precision, *scale) >= 20,
            (
                Decimal {
                    precision: from_precision,
                    scale: from_scale,
                },
                Decimal { precision, scale },
            ) => {
                self != to
                    && scale >= from_scale
                    && digits_before_point(*precision, *scale)
                        >= digits_before_point(*from_precision, *from_scale)
            }
            _ => false,
        }
    }
}

/// Digits before the point; what the format calls `10 + k1 - k2` and the like.
fn digits_before_point(precision: u8, scale: u8) -> u8 {
    precision.saturating_sub(scale)
}
