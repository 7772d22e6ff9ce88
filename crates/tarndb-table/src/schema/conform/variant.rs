//! Variants of data files: two binaries, whatever their order in the file.
//!
//! Invariant: a variant that keeps part of its value apart (shredded) is refused by name, never
//! read without that part.
//! Spec: Delta PROTOCOL, "Variant Data Type"; Parquet, "Variant Shredding".

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};

use super::{Source, cast_array, mismatch, rebuilt};
use crate::error::TableError;
use crate::schema::arrow::{VARIANT_PARTS, VARIANT_TYPED, variant_fields};
use crate::schema::{DataType, nested_name};

pub(super) fn cast_variant(
    array: &ArrayRef,
    data_type: &DataType,
    path: &str,
) -> Result<ArrayRef, TableError> {
    let unlike = || mismatch(array, data_type, path);
    let given = array.as_struct_opt().ok_or_else(unlike)?;
    if given.column_by_name(VARIANT_TYPED).is_some() {
        return Err(TableError::UnknownFeatures {
            access: "read",
            features: vec![format!("variantShredding (column {path})")],
        });
    }
    let mut parts = Vec::with_capacity(VARIANT_PARTS.len());
    for name in VARIANT_PARTS {
        let part = given.column_by_name(name).ok_or_else(unlike)?;
        let part = cast_array(
            part,
            &DataType::Binary,
            &nested_name(path, name),
            Source::File,
        )?;
        super::check_nulls(&part, false, given.nulls(), &nested_name(path, name))?;
        parts.push(Arc::clone(&part));
    }
    rebuilt(StructArray::try_new_with_length(
        variant_fields(),
        parts,
        given.nulls().cloned(),
        array.len(),
    ))
}
