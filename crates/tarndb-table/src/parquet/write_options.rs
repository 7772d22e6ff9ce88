//! `WriteOptions`: sizes and compression of data files, from a table's properties.
//!
//! Invariant: a key that is set but unusable is an error, never a silent default.
//! Spec: docs/format/delta.md, "Data files".

use std::collections::BTreeMap;

use crate::error::TableError;
use crate::state::TableState;
use crate::stats::{Indexed, parse_column_list};

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

/// Columns with statistics, by name, instead of the first ones.
pub const STATS_COLUMNS: &str = "delta.dataSkippingStatsColumns";
/// Compression of data files.
pub const CODEC: &str = "delta.parquet.compression.codec";
/// Whether files lie in folders of random names instead of those of their partitions.
pub const RANDOM_PREFIXES: &str = "delta.randomizeFilePrefixes";
/// Length of these names.
pub const RANDOM_PREFIX_LENGTH: &str = "delta.randomPrefixLength";

/// Compression of data files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// zstd, of the level that the options say.
    #[default]
    Zstd,
    /// Snappy.
    Snappy,
    /// gzip.
    Gzip,
    /// LZ4 blocks without a frame.
    Lz4Raw,
    /// None.
    Uncompressed,
}

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
    /// Compression.
    pub codec: Codec,
    /// Leaf columns that get statistics in the table's log.
    pub indexed: Indexed,
    /// Digits of the random folders in which files lie; 0 for the folders of partitions.
    pub random_prefix_digits: usize,
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
            codec: Codec::Zstd,
            indexed: Indexed::from(32),
            random_prefix_digits: 0,
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
            options.indexed.first = usize::try_from(columns).unwrap_or(usize::MAX);
        }
        if let Some(text) = properties.get(STATS_COLUMNS) {
            let columns = parse_column_list(text);
            let advice = "give columns with commas between them, like 'a, b.c'";
            let columns = columns.ok_or_else(|| invalid(STATS_COLUMNS, text, advice))?;
            options.indexed.named = Some(columns);
        }
        if let Some(text) = properties.get(CODEC) {
            options.codec = codec(text).ok_or_else(|| {
                let advice = "give zstd, snappy, gzip, lz4_raw or uncompressed";
                invalid(CODEC, text, advice)
            })?;
        }
        let random = properties.get(RANDOM_PREFIXES);
        if random.is_some_and(|text| text.trim().eq_ignore_ascii_case("true")) {
            let digits = integer(properties, RANDOM_PREFIX_LENGTH, 1..=32)?;
            options.random_prefix_digits = digits
                .and_then(|digits| usize::try_from(digits).ok())
                .unwrap_or(2);
        }
        Ok(options)
    }

    /// Options of a table, its clustering columns included.
    ///
    /// # Errors
    /// As [`Self::from_properties`].
    pub fn of_table(state: &TableState) -> Result<Self, TableError> {
        let mut options = Self::from_properties(&state.properties)?;
        options.indexed.always.clone_from(&state.clustering_columns);
        Ok(options)
    }
}

fn codec(text: &str) -> Option<Codec> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "zstd" => Codec::Zstd,
        "snappy" => Codec::Snappy,
        "gzip" => Codec::Gzip,
        "lz4_raw" => Codec::Lz4Raw,
        "uncompressed" | "none" => Codec::Uncompressed,
        _ => return None,
    })
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
            options(INDEXED_COLUMNS, "-1").unwrap().indexed.first,
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
            (STATS_COLUMNS, "a,,b"),
            (CODEC, "lzo"),
            (INDEXED_COLUMNS, "-2"),
        ] {
            let message = options(key, value).unwrap_err().to_string();
            assert!(message.contains(key), "{message}");
        }
    }
}
