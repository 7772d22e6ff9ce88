//! Whether the value of an expression fits the column that it is assigned to.
//!
//! Invariant: what a cast of Spark would wrap around, cut off or turn into NULL is refused;
//! rounding to fewer digits of a decimal, or to a float, is not.
//! Spec: docs/expressions.md.

use ::arrow::util::display::array_value_to_string;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

use crate::schema::DataType;

/// # Errors
/// The first value of `given` that `assigned`, its cast to `to`, does not hold.
pub(super) fn check(given: &ArrayRef, assigned: &ArrayRef, to: &DataType) -> Result<(), String> {
    if *given.data_type() == ArrowType::Null {
        return Ok(());
    }
    let whole = matches!(
        to,
        DataType::Byte | DataType::Short | DataType::Integer | DataType::Long
    );
    let numbers = match whole && given.data_type().is_numeric() {
        true => Some((as_numbers(given)?, as_numbers(assigned)?)),
        false => None,
    };
    let fits = |row: usize| {
        if given.is_null(row) {
            return true;
        }
        let same = numbers.as_ref().is_none_or(|(given, assigned)| {
            let (given, assigned) = (
                given.as_primitive::<Float64Type>(),
                assigned.as_primitive::<Float64Type>(),
            );
            given.value(row) == assigned.value(row)
        });
        assigned.is_valid(row) && same
    };
    match (0..given.len()).find(|row| !fits(*row)) {
        None => Ok(()),
        Some(row) => {
            let value = array_value_to_string(given, row).unwrap_or_default();
            Err(format!("the value {value} does not fit the type {to}"))
        }
    }
}

/// Whole numbers beyond 2^53 lose their last digits, on both sides alike: what wraps around is
/// further off.
fn as_numbers(array: &ArrayRef) -> Result<ArrayRef, String> {
    ::arrow::compute::cast(array, &ArrowType::Float64).map_err(|error| error.to_string())
}
