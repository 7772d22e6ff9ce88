//! The names that stand in a log folder.
//!
//! Invariant: a name that is not exactly one of the known forms is not ours to read.
//! Spec: docs/format/log.md, "Names"; Delta protocol, "File types".

use object_store::path::Path;

/// Digits of a version in a name.
const VERSION_DIGITS: usize = 20;
/// Digits of a part number in a name.
const PART_DIGITS: usize = 10;

/// What a file directly in a log folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileName {
    /// `<version>.json`
    Commit(u64),
    /// `<version>.checkpoint.parquet`
    Classic(u64),
    /// `<version>.checkpoint.<part>.<parts>.parquet`
    MultiPart {
        /// Version of the checkpoint.
        version: u64,
        /// This part, from 1.
        part: u32,
        /// How many there are.
        parts: u32,
    },
    /// `<version>.checkpoint.<uuid>.json`
    V2Json {
        /// Version of the checkpoint.
        version: u64,
        /// Bare file name.
        name: String,
    },
    /// `<version>.checkpoint.<uuid>.parquet`
    V2Parquet {
        /// Version of the checkpoint.
        version: u64,
        /// Bare file name.
        name: String,
    },
    /// `<first>.<last>.compacted.json`
    Compaction {
        /// First version that it stands for.
        first: u64,
        /// Last one, a greater version.
        last: u64,
    },
    /// `<version>.crc`
    Checksum(u64),
}

impl FileName {
    /// Classifies a key; `None` for what is not directly in `dir` or of no known form
    /// (staged commits, hints, foreign files).
    pub fn parse(dir: &Path, key: &Path) -> Option<Self> {
        let name = match dir.as_ref() {
            "" => key.as_ref(),
            dir => key.as_ref().strip_prefix(dir)?.strip_prefix('/')?,
        };
        if name.contains('/') {
            return None;
        }
        let (version, rest) = name.split_once('.')?;
        let version = digits(version, VERSION_DIGITS)?;
        let Some(rest) = rest.strip_prefix("checkpoint.") else {
            return Self::parse_beside(version, rest);
        };
        let mut parts = rest.split('.');
        match (parts.next()?, parts.next(), parts.next(), parts.next()) {
            ("parquet", None, None, None) => Some(Self::Classic(version)),
            (part, Some(of), Some("parquet"), None) => {
                let part = u32::try_from(digits(part, PART_DIGITS)?).ok()?;
                let parts = u32::try_from(digits(of, PART_DIGITS)?).ok()?;
                (1..=parts).contains(&part).then_some(Self::MultiPart {
                    version,
                    part,
                    parts,
                })
            }
            (id, Some("json"), None, None) if is_uuid(id) => Some(Self::V2Json {
                version,
                name: name.to_owned(),
            }),
            (id, Some("parquet"), None, None) if is_uuid(id) => Some(Self::V2Parquet {
                version,
                name: name.to_owned(),
            }),
            _ => None,
        }
    }

    /// Whether the file is a checkpoint, or part of one.
    pub fn is_checkpoint(&self) -> bool {
        match self {
            Self::Classic(_)
            | Self::MultiPart { .. }
            | Self::V2Json { .. }
            | Self::V2Parquet { .. } => true,
            Self::Commit(_) | Self::Compaction { .. } | Self::Checksum(_) => false,
        }
    }

    /// What is no checkpoint.
    fn parse_beside(version: u64, rest: &str) -> Option<Self> {
        match rest {
            "json" => return Some(Self::Commit(version)),
            "crc" => return Some(Self::Checksum(version)),
            _ => {}
        }
        let last = digits(rest.strip_suffix(".compacted.json")?, VERSION_DIGITS)?;
        (version < last).then_some(Self::Compaction {
            first: version,
            last,
        })
    }
}

fn digits(text: &str, count: usize) -> Option<u64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.parse::<tarndb_types::Uuid>().is_ok()
}
