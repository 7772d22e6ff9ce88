//! Column mapping: numbers and physical names of columns.
//!
//! Invariant: no number and no physical name is given twice in the life of a table. Where mapping
//! is turned on for a table that has files, a column's physical name is the name that it has in
//! them; a column that comes later gets a random one.
//! Does not: say which column is called what; it numbers what has no number.
//! Spec: Delta PROTOCOL, "Column Mapping".

use serde_json::Value;
use tarndb_table::{DataType, Field, Physical};
use tarndb_types::Uuid;

use crate::action::Metadata;
use crate::column_mapping::{ID, MappingMode, PHYSICAL_NAME};
use crate::error::DeltaError;

/// The property with the highest number ever given.
pub(super) const MAX_ID: &str = "delta.columnMapping.maxColumnId";
/// Prefix of what mapping keeps with a field.
const ANNOTATIONS: &str = "delta.columnMapping.";

/// The mode that a property names.
pub(super) fn chosen_mode(value: &str) -> Option<MappingMode> {
    let modes = [
        ("none", MappingMode::None),
        ("name", MappingMode::Name),
        ("id", MappingMode::Id),
    ];
    let mut modes = modes.into_iter();
    modes.find_map(|(name, mode)| value.eq_ignore_ascii_case(name).then_some(mode))
}

/// Where physical names come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names {
    /// The columns' own names: those of the files that are there.
    Own,
    /// Made from a random number.
    Random(Uuid),
}

/// Gives numbers and physical names, from the highest number given so far.
#[derive(Debug)]
pub(super) struct Numbering {
    highest: i64,
    mode: MappingMode,
    names: Names,
    given: u128,
}

impl Numbering {
    /// After all numbers of the table, also those of columns that are gone.
    pub(super) fn of(
        metadata: &Metadata,
        fields: &[Field],
        mode: MappingMode,
        names: Names,
    ) -> Self {
        let kept = metadata.configuration.get(MAX_ID);
        let kept = kept.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Self {
            highest: highest_id(fields).max(kept).max(0),
            mode,
            names,
            given: 0,
        }
    }

    /// Numbers the fields and all in them anew, each before what is in it.
    pub(super) fn number(&mut self, fields: &mut [Field]) -> Result<(), DeltaError> {
        for field in fields {
            clear_annotations(field);
            self.highest += 1;
            let Ok(id) = i32::try_from(self.highest) else {
                return Err(DeltaError::ColumnIdsExhausted {
                    column: field.name.clone(),
                });
            };
            let name = match self.names {
                Names::Own => field.name.clone(),
                Names::Random(seed) => {
                    let name = Uuid::from_u128(seed.as_u128().wrapping_add(self.given));
                    self.given += 1;
                    format!("col-{name}")
                }
            };
            let annotations = &mut field.metadata;
            annotations.insert(ID.to_owned(), id.into());
            annotations.insert(PHYSICAL_NAME.to_owned(), Value::from(name.as_str()));
            let by_id = self.mode == MappingMode::Id;
            field.physical = Some(Physical { name, id, by_id });
            each_struct(&mut field.data_type, &mut |inner| self.number(inner))?;
        }
        Ok(())
    }

    /// Notes the highest number.
    pub(super) fn store(self, metadata: &mut Metadata) {
        let highest = self.highest.to_string();
        metadata.configuration.insert(MAX_ID.to_owned(), highest);
    }
}

/// Forgets what mapping kept with the fields of a table that does not map columns: other readers
/// take what is left over for true.
pub(super) fn clear(fields: &mut [Field]) {
    for field in fields {
        clear_annotations(field);
        let cleared: Result<(), ()> = each_struct(&mut field.data_type, &mut |inner| {
            clear(inner);
            Ok(())
        });
        debug_assert!(cleared.is_ok());
    }
}

fn clear_annotations(field: &mut Field) {
    field.physical = None;
    field
        .metadata
        .retain(|key, _| !key.starts_with(ANNOTATIONS));
}

fn highest_id(fields: &[Field]) -> i64 {
    let of = |field: &Field| {
        let own = field.metadata.get(ID).and_then(Value::as_i64).unwrap_or(0);
        own.max(highest_in(&field.data_type))
    };
    fields.iter().map(of).max().unwrap_or(0)
}

fn highest_in(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Struct(fields) => highest_id(fields),
        DataType::Array { element, .. } => highest_in(element),
        DataType::Map { key, value, .. } => highest_in(key).max(highest_in(value)),
        _ => 0,
    }
}

/// Calls `f` with the fields of each struct right below, through arrays and maps.
fn each_struct<E>(
    data_type: &mut DataType,
    f: &mut dyn FnMut(&mut [Field]) -> Result<(), E>,
) -> Result<(), E> {
    match data_type {
        DataType::Struct(fields) => f(fields),
        DataType::Array { element, .. } => each_struct(element, f),
        DataType::Map { key, value, .. } => {
            each_struct(key, f)?;
            each_struct(value, f)
        }
        _ => Ok(()),
    }
}
