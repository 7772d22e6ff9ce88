//! Rows as the lines of a sqllogictest file.
//!
//! Invariant: NULL is `NULL`, an empty text is `(empty)`, values are apart by one blank, blanks
//! inside of a text are compared as one. Decimals keep their scale and doubles their shortest
//! form, except in the engine's own files, which are rounded as the engine rounds them.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::script::Sort;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Exact,
    /// As in the engine's files: 12 digits behind the point, no zeros at the end.
    Rounded,
}

/// All values of all rows.
pub(crate) fn values(batches: &[RecordBatch], form: Form) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().zip(batch.columns()).map(|(text, column)| {
                let value = text.value(row).to_string();
                match form {
                    _ if column.is_null(row) => "NULL".to_owned(),
                    _ if value.is_empty() => "(empty)".to_owned(),
                    Form::Rounded if column.data_type().is_numeric() => {
                        rounded(&value, column.data_type())
                    }
                    Form::Exact | Form::Rounded => value,
                }
            });
            rows.push(cells.collect());
        }
    }
    rows
}

/// Lines to compare: what the file expects and what was found go through the same sort.
pub(crate) fn lines(rows: &[Vec<String>], sort: Sort) -> Vec<String> {
    let one_blank = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = match sort {
        Sort::Values => rows.iter().flatten().map(|v| one_blank(v)).collect(),
        Sort::No | Sort::Rows => rows
            .iter()
            .map(|row| one_blank(&row.join(" ")))
            .collect::<Vec<_>>(),
    };
    if sort != Sort::No {
        lines.sort();
    }
    lines
}

fn rounded(value: &str, data_type: &DataType) -> String {
    let mut plain = value.to_owned();
    if data_type.is_floating() {
        let Ok(number) = value.parse::<f64>() else {
            return plain;
        };
        if number.is_nan() {
            return "NaN".to_owned();
        }
        if number.is_infinite() {
            return if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }
            .to_owned();
        }
        plain = if *data_type == DataType::Float32 {
            value.parse::<f32>().unwrap().to_string()
        } else {
            number.to_string()
        };
        if plain.split('.').nth(1).is_some_and(|f| f.len() > 12) {
            plain = format!("{number:.12}");
        }
    }
    if plain.contains('.') {
        plain = plain.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if plain == "-0" { "0".to_owned() } else { plain }
}
