//! Empty texts of partition columns, which the format keeps as NULL.
//!
//! Invariant: they are NULL before any rule or predicate looks at a row, so that what was checked is
//! what is stored. In a column that is NOT NULL they stay, for the writer to refuse by name.
//! Spec: Delta PROTOCOL, "Partition Value Serialization".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray};

use crate::error::TableError;
use crate::schema::{DataType, Schema};

/// The columns, and whether one of them held an empty text; clones share that.
#[derive(Clone, Debug, Default)]
pub(super) struct Emptied {
    places: Vec<usize>,
    met: Arc<AtomicBool>,
}

impl PartialEq for Emptied {
    fn eq(&self, other: &Self) -> bool {
        self.places == other.places
    }
}

impl Emptied {
    pub(super) fn of(schema: &Schema, partition_columns: &[String]) -> Self {
        let fields = schema.fields.iter().enumerate();
        let places = fields.filter(|(_, field)| {
            let name = field.name.to_lowercase();
            let is_text = field.data_type == DataType::String && field.nullable;
            is_text
                && partition_columns
                    .iter()
                    .any(|column| column.to_lowercase() == name)
        });
        Self {
            places: places.map(|(place, _)| place).collect(),
            met: Arc::default(),
        }
    }

    pub(super) fn was_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// The rows with NULL for each empty text; `None` when they have none.
    pub(super) fn apply(&self, rows: &RecordBatch) -> Result<Option<RecordBatch>, TableError> {
        let mut columns: Option<Vec<ArrayRef>> = None;
        for place in &self.places {
            let texts = rows.columns().get(*place);
            let Some(texts) = texts.and_then(|column| column.as_string_opt::<i32>()) else {
                continue;
            };
            if !texts.iter().flatten().any(str::is_empty) {
                continue;
            }
            let texts: StringArray = texts
                .iter()
                .map(|text| text.filter(|text| !text.is_empty()))
                .collect();
            let columns = columns.get_or_insert_with(|| rows.columns().to_vec());
            if let Some(column) = columns.get_mut(*place) {
                *column = Arc::new(texts);
            }
        }
        let Some(columns) = columns else {
            return Ok(None);
        };
        self.met.store(true, Ordering::Relaxed);
        let rows = RecordBatch::try_new(rows.schema(), columns);
        rows.map(Some).map_err(|source| TableError::Arrow {
            context: "texts of partitions",
            source,
        })
    }
}
