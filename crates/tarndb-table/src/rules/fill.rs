//! What the rules put into rows: identity values, defaults, generated values, blanks of CHAR.
//!
//! Invariant: filling rows twice gives the same rows; a column that is given keeps its values,
//! except for blanks at the end of a CHAR or VARCHAR.
//! Spec: Delta PROTOCOL, "Generated Columns", "Default Columns", "Identity Columns".

use std::sync::Arc;

use ::arrow::compute::kernels::cmp::not_distinct;
use arrow_array::cast::AsArray as _;
use arrow_array::{
    Array as _, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow_schema::Schema as ArrowSchema;

use super::column::Length;
use super::error::RuleError;
use super::supplied::{Supplied, Supply};
use super::{RowRules, is_true};
use crate::error::TableError;
use crate::expression::ordered;

/// Rows of which only the number is known.
pub(super) fn rows_without_columns(rows: usize) -> Result<RecordBatch, TableError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(ArrowSchema::empty());
    RecordBatch::try_new_with_options(schema, Vec::new(), &options).map_err(arrow)
}

fn arrow(source: arrow_schema::ArrowError) -> TableError {
    TableError::Arrow {
        context: "filling columns by their rules",
        source,
    }
}

impl RowRules {
    /// NULLs for a column.
    pub(super) fn null(&self, place: usize, rows: usize) -> Option<ArrayRef> {
        let field = self.schema.fields.get(place)?;
        Some(new_null_array(&field.data_type.to_arrow(), rows))
    }

    /// Gives omitted identity columns their values.
    pub(super) fn number(
        &mut self,
        rows: &RecordBatch,
        supplied: &Supplied,
    ) -> Result<RecordBatch, TableError> {
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        let mut changed = false;
        for (place, rules) in &mut self.columns {
            let Some(identity) = &mut rules.identity else {
                continue;
            };
            let name = self.schema.fields.get(*place);
            let name = name.map_or("?", |field| field.name.as_str());
            match supplied.of(*place) {
                Supply::Omitted => {
                    let values = identity.take(count, name)?;
                    if let Some(column) = columns.get_mut(*place) {
                        *column = Arc::new(Int64Array::from(values));
                        changed = true;
                    }
                }
                Supply::Given if !identity.explicit && count > 0 => {
                    let column = name.to_owned();
                    return Err(TableError::Rule(RuleError::IdentityGiven { column }));
                }
                Supply::Given | Supply::Kept => {}
            }
        }
        if changed {
            self.rebuilt(columns, supplied, count)
        } else {
            Ok(rows.clone())
        }
    }

    /// Gives omitted columns their defaults and generated values, and strings their declared
    /// length. Identity columns stay as they are.
    ///
    /// # Errors
    /// [`RuleError::TooLong`]; values for which an expression cannot be computed.
    pub fn fill(&self, rows: &RecordBatch, supplied: &Supplied) -> Result<RecordBatch, TableError> {
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        for place in 0..self.schema.fields.len() {
            let rules = self.columns.get(&place);
            if supplied.of(place) != Supply::Omitted || rules.is_some_and(|r| r.identity.is_some())
            {
                continue;
            }
            let default = rules.and_then(|rules| rules.default.as_ref());
            let values = match default {
                Some(default) => {
                    Some(default.evaluate(&rows_without_columns(count)?, self.now_micros)?)
                }
                None => self.null(place, count),
            };
            if let (Some(values), Some(column)) = (values, columns.get_mut(place)) {
                *column = values;
            }
        }
        for (place, rules) in &self.columns {
            if let (Some(length), Some(column)) = (&rules.length, columns.get_mut(*place)) {
                *column = self.fitted(rows, *place, column, length)?;
            }
        }
        let mut rows = self.rebuilt(columns.clone(), supplied, count)?;
        if let Some(emptied) = self.emptied.apply(&rows)? {
            columns = emptied.columns().to_vec();
            rows = emptied;
        }
        let mut generated = false;
        for (place, rules) in &self.columns {
            if supplied.of(*place) != Supply::Omitted {
                continue;
            }
            if let (Some(expression), Some(column)) = (&rules.generated, columns.get_mut(*place)) {
                *column = expression.evaluate(&rows, self.now_micros)?;
                generated = true;
            }
        }
        if generated {
            self.rebuilt(columns, supplied, count)
        } else {
            Ok(rows)
        }
    }

    /// A batch of these columns, with the table's types.
    fn rebuilt(
        &self,
        columns: Vec<ArrayRef>,
        supplied: &Supplied,
        rows: usize,
    ) -> Result<RecordBatch, TableError> {
        let full = self.schema.to_arrow();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let strict = full
            .fields()
            .iter()
            .zip(&columns)
            .all(|(field, column)| field.is_nullable() || column.null_count() == 0);
        // NULLs that are wrong get their error from the check that follows.
        let schema = if strict {
            full
        } else {
            let mut relaxed = supplied.input_schema(&self.schema);
            for (field, column) in relaxed.fields.iter_mut().zip(&columns) {
                field.nullable |= column.null_count() > 0;
            }
            relaxed.to_arrow()
        };
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(arrow)
    }

    /// A text column with blanks cut off (what is too long) or added (CHAR).
    fn fitted(
        &self,
        rows: &RecordBatch,
        place: usize,
        column: &ArrayRef,
        length: &Length,
    ) -> Result<ArrayRef, TableError> {
        let Some(texts) = column.as_string_opt::<i32>() else {
            return Ok(Arc::clone(column));
        };
        let signs = |row: usize| texts.value(row).chars().count();
        let is_long = |row: usize| texts.is_valid(row) && signs(row) > length.most;
        let fits = |text: &str| text.trim_end_matches(' ').chars().count() <= length.most;
        let too_long = |row: usize| is_long(row) && !fits(texts.value(row));
        self.refuse_rows(rows, too_long, |rows, row| RuleError::TooLong {
            column: self.name(place).to_owned(),
            data_type: length.text.clone(),
            rows,
            row,
        })?;
        let is_short =
            |row: usize| length.padded && texts.is_valid(row) && signs(row) < length.most;
        if !(0..texts.len()).any(|row| is_long(row) || is_short(row)) {
            return Ok(Arc::clone(column));
        }
        let fitted = texts.iter().map(|text| {
            let text = text?;
            let cut: String = text.chars().take(length.most).collect();
            let padded = format!("{cut:<width$}", width = length.most);
            Some(if length.padded { padded } else { cut })
        });
        Ok(Arc::new(fitted.collect::<StringArray>()))
    }

    /// Whether generated columns that are given hold what their expressions give.
    pub(super) fn check_generated(
        &self,
        rows: &RecordBatch,
        supplied: &Supplied,
    ) -> Result<(), TableError> {
        for (place, rules) in &self.columns {
            let Some(expression) = &rules.generated else {
                continue;
            };
            let given = rows.columns().get(*place);
            let Some(given) = given.filter(|_| supplied.of(*place) == Supply::Given) else {
                continue;
            };
            let expected = expression.evaluate(rows, self.now_micros)?;
            let same = not_distinct(&ordered(given), &ordered(&expected)).map_err(arrow)?;
            self.refuse_rows(
                rows,
                |row| !is_true(&same, row),
                |rows, row| RuleError::NotAsGenerated {
                    column: self.name(*place).to_owned(),
                    expression: expression.text().to_owned(),
                    rows,
                    row,
                },
            )?;
        }
        Ok(())
    }
}
