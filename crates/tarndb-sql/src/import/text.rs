//! Text on its way to a column's type, for the formats whose values are text or are made text.
//!
//! Invariant: a text that is no value of the type is found and told, never made NULL.
//! Spec: docs/sql/types.md, "What goes into a column".

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{ArrowError, DataType as ArrowType};
use tarndb_table::DataType;

/// Texts as a type; NULL also where a text is no value of it: see [`first_lost`].
pub(super) fn cast(text: &StringArray, target: &ArrowType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    cast_with_options(text, target, &options)
}

/// The first row whose text did not become a value.
pub(super) fn first_lost(text: &StringArray, cast: &ArrayRef) -> Option<usize> {
    if cast.null_count() <= text.null_count() {
        return None;
    }
    (0..text.len()).find(|row| text.is_valid(*row) && cast.is_null(*row))
}

/// What is said of such a row.
pub(super) fn no_such(data_type: &DataType) -> String {
    format!("the value is no {data_type}")
}
