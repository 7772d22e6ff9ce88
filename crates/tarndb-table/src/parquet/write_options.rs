//! `WriteOptions`: sizes and compression of data files, from a table's properties.
//!
//! Invariant: a key that is set but unusable is an error, never a silent default.
//! Spec: docs/format/delta.md, "Data files".

use std::collections::BTreeMap;

use crate::error::TableError;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Size at which a file ends: `128MB`.
pub const TARGET_FILE_SIZE: &str = "tarndb.targetFileSize";
/// Rows at which a row group ends.
pub const ROW_GROUP_ROWS: &str = "tarndb.rowGroupRows";
/// Encoded size at which a row group ends: `64MB`.
pub const ROW_GROUP_BYTES: &str = "tarndb.rowGroupBytes";
/// Level of the zstd compression, 1 to 22.
pub const ZSTD_LEVEL: &str = "tarndb.zstdLevel";
/// Leaf columns with statistics; -1 means all.
pub const INDEXED_COLUMNS: &str = "delta.dataSkippingNumIndexedCols";

/// How data files are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Size in bytes at which a file ends and the next one begins (approximately).
    pub target_file_bytes: u64,
    /// Rows at which a row group ends.
    pub row_group_rows: usize,
    /// Encoded bytes at which a row group ends (approximately).
    pub row_group_bytes: usize,
    /// Level of the zstd compression.
    pub zstd_level: i32,
    /// Leaf columns that get statistics in the table's log.
    pub indexed_columns: usize,
    /// Bytes that the open files of one writer may hold in memory, all together.
    pub memory_bytes: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            target_file_bytes: 128 * MIB,
            row_group_rows: 1024 * 1024,
            row_group_bytes: 64 << 20,
            zstd_level: 3,
            indexed_columns: 32,
            memory_bytes: 128 << 20,
        }
    }
}

impl WriteOptions {
    /// Options of a table; keys that are not about writing are ignored.
    ///
    /// # Errors
    /// [`TableError::InvalidProperty`] names the key.
    pub fn from_properties(properties: &BTreeMap<String, String>) -> Result<Self, TableError> {
        let mut options = Self::default();
        if let Some(bytes) = size(properties, TARGET_FILE_SIZE)? {
            options.target_file_bytes = bytes;
        }
        if let Some(bytes) = size(properties, ROW_GROUP_BYTES)? {
            options.row_group_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        if let Some(rows) = integer(properties, ROW_GROUP_ROWS, 1..=i64::from(i32::MAX))? {
            options.row_group_rows = usize::try_from(rows).unwrap_or(usize::MAX);
        }
        if let Some(level) = integer(properties, ZSTD_LEVEL, 1..=22)? {
            options.zstd_level = i32::try_from(level).unwrap_or(options.zstd_level);
        }
        if let Some(columns) = integer(properties, INDEXED_COLUMNS, -1..=i64::from(i32::MAX))? {
            options.indexed_columns = usize::try_from(columns).unwrap_or(usize::MAX);
        }
        Ok(options)
    }
}

fn invalid(key: &str, value: &str, advice: &'static str) -> TableError {
    TableError::InvalidProperty {
        key: key.to_owned(),
        value: value.to_owned(),
        advice,
    }
}

fn size(properties: &BTreeMap<String, String>, key: &str) -> Result<Option<u64>, TableError> {
    let Some(text) = properties.get(key) else {
        return Ok(None);
    };
    let bytes = parse_size(text).filter(|bytes| *bytes >= KIB);
    bytes
        .map(Some)
        .ok_or_else(|| invalid(key, text, "give a size of at least 1KB, like '64MB'"))
}

fn integer(
    properties: &BTreeMap<String, String>,
    key: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<Option<i64>, TableError> {
    let Some(text) = properties.get(key) else {
        return Ok(None);
    };
    let value = text
        .trim()
        .parse()
        .ok()
        .filter(|value| range.contains(value));
    value
        .map(Some)
        .ok_or_else(|| invalid(key, text, "give a whole number in its range"))
}

/// Bytes of `64MB`, `64 MiB`, `1g` or `65536`; units are powers of 1024. `None` when malformed
/// or too large.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => MIB,
        "g" | "gb" | "gib" => 1024 * MIB,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(key: &str, value: &str) -> Result<WriteOptions, TableError> {
        WriteOptions::from_properties(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(parse_size("64MB"), Some(64 << 20));
        assert_eq!(parse_size(" 2 gib "), Some(2 << 30));
        assert_eq!(parse_size("65536"), Some(65536));
        for bad in [
            "",
            "MB",
            "1.5MB",
            "-1",
            "1TBx",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn properties_set_options_and_bad_ones_name_the_key() {
        assert_eq!(
            options(TARGET_FILE_SIZE, "1MB").unwrap().target_file_bytes,
            1 << 20
        );
        assert_eq!(options(ROW_GROUP_ROWS, "10").unwrap().row_group_rows, 10);
        assert_eq!(
            options(INDEXED_COLUMNS, "-1").unwrap().indexed_columns,
            usize::MAX
        );
        assert_eq!(
            options("delta.other", "x").unwrap(),
            WriteOptions::default()
        );
        for (key, value) in [
            (TARGET_FILE_SIZE, "0"),
            (ZSTD_LEVEL, "23"),
            (ROW_GROUP_ROWS, "x"),
            (INDEXED_COLUMNS, "-2"),
        ] {
            let message = options(key, value).unwrap_err().to_string();
            assert!(message.contains(key), "{message}");
        }
    }
}
