//! One value as text.

use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The values of one column as texts.
pub(super) struct Cells<'a> {
    array: &'a ArrayRef,
    formatter: ArrayFormatter<'a>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        // Nested NULLs are named; a NULL of the column itself is the caller's to write.
        let options = FormatOptions::new()
            .with_null("NULL")
            .with_display_error(false)
            .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
            .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
        Ok(Self {
            array,
            formatter: ArrayFormatter::try_new(array.as_ref(), &options)?,
        })
    }

    /// The text of `row`; `None` for NULL.
    pub(super) fn text(&self, row: usize) -> Result<Option<String>, ArrowError> {
        if self.array.data_type() == &DataType::Null || self.array.is_null(row) {
            return Ok(None);
        }
        self.formatter.value(row).try_to_string().map(Some)
    }
}

/// Whether values of this type stand right-aligned.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// A number of bytes, short: `1.4 MB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        // 999.95 would round to 1000.0.
        if value < 999.95 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A duration, short: `12 ms`, `3.4 s`, `2 min 5 s`.
pub(crate) fn human_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..10 => format!("{:.1} ms", duration.as_secs_f64() * 1000.0),
        10..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!(
            "{} min {} s",
            duration.as_secs() / 60,
            duration.as_secs() % 60
        ),
    }
}
