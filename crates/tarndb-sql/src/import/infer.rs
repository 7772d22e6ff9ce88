//! Column types for tables that an import creates.
//!
//! Invariant: all values of all files of a table count, so that the import that follows cannot
//! fail on a type; a value that could lose something (a leading zero, too many digits) keeps
//! its column text.

use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType as ArrowType, Schema as ArrowSchema};
use tarndb_table::{DataType, Field, Schema};

use crate::error::SqlError;
use crate::import::csv::{column_names, read_text, value_of};
use crate::import::source::{Format, Source};
use crate::import::{ImportOptions, ImportProgress, Report, json, parquet_file};
use crate::name::same;
use crate::parser::TableName;

/// The columns of a table that holds all of the files.
pub(super) async fn schema_of(
    sources: &[Source],
    options: &ImportOptions,
    table: &TableName,
    progress: Report<'_>,
) -> Result<Schema, SqlError> {
    let mut merged = Vec::<Inferred>::new();
    for source in sources {
        progress(&ImportProgress {
            path: source.path.clone(),
            table: table.to_string(),
            inferring: true,
            bytes_read: 0,
            bytes_total: source.size_bytes,
            rows: 0,
        });
        let (source, options) = (source.clone(), options.clone());
        let columns = tokio::task::spawn_blocking(move || columns_of(&source, &options))
            .await
            .map_err(|_| SqlError::Internal {
                context: "inferring the columns of a file",
            })??;
        for column in columns {
            match merged.iter_mut().find(|m| same(&m.name, &column.name)) {
                Some(known) => known.merge(column)?,
                None => merged.push(column),
            }
        }
    }
    let fields = merged
        .into_iter()
        .map(|c| Field::new(c.name, c.shape.data_type(), true));
    Ok(Schema {
        fields: fields.collect(),
    })
}

/// A column and what its values allow.
#[derive(Debug)]
struct Inferred {
    name: String,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// Of a text format: which types every value so far fits.
    Text(Fits),
    /// Of a format that has types.
    Typed(DataType),
}

impl Shape {
    fn data_type(self) -> DataType {
        match self {
            Self::Text(fits) => fits.data_type(),
            Self::Typed(data_type) => data_type,
        }
    }
}

impl Inferred {
    fn merge(&mut self, other: Self) -> Result<(), SqlError> {
        match (&mut self.shape, other.shape) {
            (Shape::Text(ours), Shape::Text(theirs)) => ours.merge(theirs),
            (Shape::Typed(ours), Shape::Typed(theirs)) if *ours == theirs => {}
            (Shape::Typed(ours), Shape::Typed(theirs)) => match wider(ours, &theirs) {
                Some(wider) => *ours = wider,
                None => {
                    return Err(SqlError::Unsupported {
                        what: format!(
                            "files that disagree on column {}: {ours} and {theirs}",
                            self.name
                        ),
                        hint: Some("create the table first, then import into it".to_owned()),
                    });
                }
            },
            _ => {
                return Err(SqlError::Unsupported {
                    what: "creating one table from files of different formats".to_owned(),
                    hint: Some("create the table first, then import into it".to_owned()),
                });
            }
        }
        Ok(())
    }
}

fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    const NUMBERS: [DataType; 4] = [
        DataType::Byte,
        DataType::Short,
        DataType::Integer,
        DataType::Long,
    ];
    let rank = |t: &DataType| NUMBERS.iter().position(|n| n == t);
    match (rank(a), rank(b)) {
        (Some(x), Some(y)) => NUMBERS.get(x.max(y)).cloned(),
        _ => match (a, b) {
            (DataType::Void, other) | (other, DataType::Void) => Some(other.clone()),
            (DataType::Long, DataType::Double) | (DataType::Double, DataType::Long) => {
                Some(DataType::Double)
            }
            _ => None,
        },
    }
}

fn columns_of(source: &Source, options: &ImportOptions) -> Result<Vec<Inferred>, SqlError> {
    match source.format {
        Format::Csv => csv_columns(source, options),
        Format::Json => typed(&json::infer(source)?, source),
        Format::Parquet => typed(&parquet_file::infer(source)?, source),
    }
}

fn typed(schema: &ArrowSchema, source: &Source) -> Result<Vec<Inferred>, SqlError> {
    // A column that is NULL on every line becomes text.
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        ArrowType::Null => field.as_ref().clone().with_data_type(ArrowType::Utf8),
        _ => field.as_ref().clone(),
    });
    let schema = ArrowSchema::new(fields.collect::<Vec<_>>());
    let schema = Schema::from_arrow(&schema).map_err(SqlError::table(source.name()))?;
    let columns = schema.fields.into_iter().map(|field| Inferred {
        name: field.name,
        shape: Shape::Typed(field.data_type),
    });
    Ok(columns.collect())
}

fn csv_columns(source: &Source, options: &ImportOptions) -> Result<Vec<Inferred>, SqlError> {
    let names = column_names(source, options.header, options.delimiter)?;
    let mut fits = names.iter().map(|_| Fits::default()).collect::<Vec<_>>();
    let null_text = options.null_text.as_deref();
    read_text(
        source,
        &names,
        options.header,
        options.delimiter,
        &mut |batch, _| {
            for (column, fits) in batch.columns().iter().zip(&mut fits) {
                let Some(column) = column.as_string_opt::<i32>() else {
                    continue;
                };
                for value in column.iter() {
                    if let Some(value) = value_of(value, null_text) {
                        fits.see(value);
                    }
                }
            }
            Ok(true)
        },
    )?;
    let shapes = fits.into_iter().map(Shape::Text);
    Ok(names
        .into_iter()
        .zip(shapes)
        .map(|(name, shape)| Inferred { name, shape })
        .collect())
}

/// Which types all values seen so far fit.
#[derive(Clone, Debug)]
struct Fits {
    any: bool,
    boolean: bool,
    long: bool,
    double: bool,
    date: bool,
    timestamp: bool,
    timestamp_ntz: bool,
}

impl Default for Fits {
    fn default() -> Self {
        Self {
            any: false,
            boolean: true,
            long: true,
            double: true,
            date: true,
            timestamp: true,
            timestamp_ntz: true,
        }
    }
}

impl Fits {
    fn see(&mut self, value: &str) {
        self.any = true;
        self.boolean = self.boolean && is_boolean(value);
        self.long = self.long && is_long(value);
        self.double = self.double && is_double(value);
        self.date = self.date && is_date(value);
        if self.timestamp || self.timestamp_ntz {
            let zone = timestamp_zone(value);
            self.timestamp = self.timestamp && zone == Some(true);
            self.timestamp_ntz = self.timestamp_ntz && zone == Some(false);
        }
    }

    fn merge(&mut self, other: Self) {
        self.any |= other.any;
        self.boolean &= other.boolean;
        self.long &= other.long;
        self.double &= other.double;
        self.date &= other.date;
        self.timestamp &= other.timestamp;
        self.timestamp_ntz &= other.timestamp_ntz;
    }

    fn data_type(&self) -> DataType {
        match self {
            Self { any: false, .. } => DataType::String,
            Self { boolean: true, .. } => DataType::Boolean,
            Self { long: true, .. } => DataType::Long,
            Self { double: true, .. } => DataType::Double,
            Self { date: true, .. } => DataType::Date,
            Self {
                timestamp: true, ..
            } => DataType::Timestamp,
            Self {
                timestamp_ntz: true,
                ..
            } => DataType::TimestampNtz,
            _ => DataType::String,
        }
    }
}

fn is_boolean(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false")
}

/// Digits without a sign, and whether a leading zero stands for itself.
fn plain_digits(value: &str) -> Option<&str> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    (!leading_zero).then_some(digits)
}

fn is_long(value: &str) -> bool {
    plain_digits(value).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        && value.parse::<i64>().is_ok()
}

fn is_double(value: &str) -> bool {
    let Some(digits) = plain_digits(value) else {
        return false;
    };
    let number = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    // More than 17 digits do not survive a double.
    let significant = digits.split(['e', 'E']).next().unwrap_or_default();
    let count = significant.bytes().filter(u8::is_ascii_digit).count();
    number && count <= 17 && value.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_date(value: &str) -> bool {
    value.len() == 10 && chrono::NaiveDate::parse_from_str(value, "%Y-%m-%d").is_ok()
}

/// Whether a timestamp names its zone; `None` when it is no timestamp, or has more than
/// microseconds.
fn timestamp_zone(value: &str) -> Option<bool> {
    let time = value.get(11..)?;
    if !matches!(value.as_bytes().get(10), Some(b' ' | b'T')) || !is_date(value.get(..10)?) {
        return None;
    }
    let nanos = string_to_datetime(&chrono::Utc, value)
        .ok()?
        .timestamp_subsec_nanos();
    (nanos % 1000 == 0).then(|| time.ends_with(['Z', 'z']) || time.contains(['+', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], expected: &DataType) {
        let mut fits = Fits::default();
        values.iter().for_each(|value| fits.see(value));
        assert_eq!(&fits.data_type(), expected, "{values:?}");
    }

    #[test]
    fn types_follow_from_all_values() {
        check(&["1", "-2", "9223372036854775807"], &DataType::Long);
        check(&["1", "2.5", "1e3"], &DataType::Double);
        check(&["true", "FALSE"], &DataType::Boolean);
        check(&["2024-02-29"], &DataType::Date);
        check(
            &["2013-01-01T10:00:00Z", "2013-01-01 10:00:00+02:00"],
            &DataType::Timestamp,
        );
        check(
            &["2013-01-01 10:00:00", "2013-01-01T10:00:00.5"],
            &DataType::TimestampNtz,
        );
        check(&[], &DataType::String);
    }

    #[test]
    fn what_would_lose_something_stays_text() {
        check(&["007"], &DataType::String);
        check(&["9223372036854775808123"], &DataType::String);
        check(
            &["2013-01-01 10:00:00", "2013-01-01T10:00:00Z"],
            &DataType::String,
        );
        check(&["2013-01-01T10:00:00.123456789"], &DataType::String);
        check(&["2023-02-29"], &DataType::String);
        check(&["1", "x"], &DataType::String);
        check(&["NaN"], &DataType::String);
    }
}
