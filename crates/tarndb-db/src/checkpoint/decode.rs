//! Bytes of a checkpoint to a catalog, for bytes that nobody vouches for.
//!
//! Invariant: the checksum is looked at before anything else; a catalog comes out only when it
//! keeps every invariant and knows the record of each unpublished version.
//! Spec: docs/format/checkpoint.md.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::Read as _;
use tarndb_types::{DatabaseId, DbVersion, TableId, TableVersion, TimestampMs, Uuid};

use crate::catalog::{
    Attached, Catalog, LOG_FORMAT, Place, TableEntry, VacuumMark, parse_bases, parse_location,
};
use crate::hash::sha256_hex;
use crate::invariants::{self, Violation};
use crate::record::{TagAction, ViewDefinition};

/// Largest checkpoint that is unpacked, in bytes: a small object must not fill the memory.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Not a zstd stream, or one that was cut off.
    #[error("the checkpoint is torn or not compressed as it should be")]
    Unpack(#[source] std::io::Error),
    /// It unpacks to more than is believable.
    #[error("the checkpoint unpacks to more than {UNPACKED_BYTES_MAX} bytes")]
    TooLarge,
    /// The checksum is missing or differs.
    #[error("the checkpoint's checksum does not hold: stated={stated:?} computed={computed}")]
    Checksum {
        /// As stated, empty when none is.
        stated: String,
        /// Of what is there.
        computed: String,
    },
    /// A line that is not what it has to be.
    #[error("malformed line in the checkpoint: line={line} reason={reason}")]
    Malformed {
        /// 1-based.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It states another version than its name.
    #[error("the checkpoint states another version than its name: named={named} stated={stated}")]
    OtherVersion {
        /// From the key.
        named: DbVersion,
        /// From the content.
        stated: DbVersion,
    },
    /// Its format is newer than this build.
    #[error("the checkpoint has a format that this build does not know: format={format}")]
    UnknownFormat {
        /// The number.
        format: u32,
    },
    /// What it describes cannot be.
    #[error("the catalog in the checkpoint breaks an invariant")]
    Invariant(#[from] Violation),
    /// An unpublished version whose record it does not name.
    #[error("the checkpoint lacks the record of a version: table={table} version={version}")]
    PositionMissing {
        /// The table.
        table: TableId,
        /// The version.
        version: TableVersion,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format: u32,
    database: IdText,
    version: u64,
    timestamp: i64,
    #[serde(default)]
    reader_features: Vec<String>,
    #[serde(default)]
    writer_features: Vec<(String, u64)>,
    #[serde(default)]
    unknown_actions: Vec<(String, u64)>,
    #[serde(default)]
    vacuum: Option<VacuumLine>,
}

#[derive(Deserialize)]
struct VacuumLine {
    version: u64,
    horizon: u64,
    before: i64,
}

#[derive(Deserialize)]
struct SchemaLine {
    name: String,
}

#[derive(Deserialize)]
struct TableLine {
    id: IdText,
    schema: String,
    name: String,
    format: String,
    location: String,
    version: u64,
    timestamp: i64,
    published: Option<u64>,
    created: u64,
    dropped: Option<u64>,
    #[serde(default)]
    unpublished: Vec<(u64, u64)>,
    #[serde(default)]
    vacuumed: Option<u64>,
    #[serde(default)]
    bases: Vec<String>,
    #[serde(default)]
    attached: Option<u64>,
    #[serde(default)]
    detached: bool,
}

#[derive(Deserialize)]
struct ViewLine {
    #[serde(flatten)]
    definition: ViewDefinition,
    created: u64,
}

#[derive(Deserialize)]
struct TagLine {
    name: String,
    version: u64,
    created: u64,
    timestamp: i64,
}

/// An id as JSON spells it.
struct IdText(Uuid);

impl<'de> Deserialize<'de> for IdText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Uuid::parse_str(&text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// Reads the checkpoint of `named`.
///
/// # Errors
/// [`CheckpointError`]: it must then be left aside.
pub fn decode(bytes: &[u8], named: DbVersion) -> Result<Catalog, CheckpointError> {
    let text = unpack(bytes)?;
    let body = check_sum(&text)?;
    let mut lines = body.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (number, first) = lines.next().ok_or_else(|| malformed(1, "no header"))?;
    let (key, header) = one_key(number, first)?;
    if key != "checkpoint" {
        return Err(malformed(number, "the first line is not the header"));
    }
    let header: Header = value(number, header)?;
    let mut catalog = start(&header, named)?;
    for (number, line) in lines {
        read_line(&mut catalog, number, line)?;
    }
    catalog.restore_features(
        header.reader_features,
        with_versions(header.writer_features),
        with_versions(header.unknown_actions),
    );
    catalog.restore_vacuum(header.vacuum.map(|line| VacuumMark {
        version: DbVersion(line.version),
        horizon: DbVersion(line.horizon),
        before: TimestampMs(line.before),
    }));
    invariants::check_catalog(&catalog)?;
    Ok(catalog)
}

fn unpack(bytes: &[u8]) -> Result<String, CheckpointError> {
    let mut text = String::new();
    let decoder = zstd::Decoder::new(bytes).map_err(CheckpointError::Unpack)?;
    let read = decoder
        .take(UNPACKED_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(CheckpointError::Unpack)?;
    if read as u64 >= UNPACKED_BYTES_MAX {
        Err(CheckpointError::TooLarge)
    } else {
        Ok(text)
    }
}

fn check_sum(text: &str) -> Result<&str, CheckpointError> {
    let trimmed = text.strip_suffix('\n').unwrap_or(text);
    let cut = trimmed.rfind('\n').map_or(0, |at| at + 1);
    let (body, last) = text.split_at_checked(cut).unwrap_or((text, ""));
    let stated = one_key(0, last)
        .ok()
        .filter(|(key, _)| key == "sha256")
        .and_then(|(_, value)| value.as_str().map(str::to_owned))
        .unwrap_or_default();
    let computed = sha256_hex(body.as_bytes());
    if stated == computed {
        Ok(body)
    } else {
        Err(CheckpointError::Checksum { stated, computed })
    }
}

fn start(header: &Header, named: DbVersion) -> Result<Catalog, CheckpointError> {
    if header.format != LOG_FORMAT {
        return Err(CheckpointError::UnknownFormat {
            format: header.format,
        });
    }
    let stated = DbVersion(header.version);
    if stated != named {
        return Err(CheckpointError::OtherVersion { named, stated });
    }
    Ok(Catalog::empty(
        DatabaseId(header.database.0),
        stated,
        TimestampMs(header.timestamp),
    ))
}

fn read_line(catalog: &mut Catalog, number: usize, line: &str) -> Result<(), CheckpointError> {
    let (key, body) = one_key(number, line)?;
    match key.as_str() {
        "schema" => catalog.restore_schema(value::<SchemaLine>(number, body)?.name)?,
        "table" => catalog.restore_table(table(value(number, body)?)?)?,
        "view" => {
            let line: ViewLine = value(number, body)?;
            catalog.create_view(&line.definition, DbVersion(line.created))?;
        }
        "tag" => {
            let line: TagLine = value(number, body)?;
            let tag = TagAction {
                name: line.name,
                version: DbVersion(line.version),
            };
            let (created, timestamp) = (DbVersion(line.created), TimestampMs(line.timestamp));
            catalog.create_tag(&tag, created, timestamp)?;
        }
        "location" => catalog.restore_location(value(number, body)?),
        // A newer build may say more; what must not be skipped raises `format`.
        _ => {}
    }
    Ok(())
}

fn table(line: TableLine) -> Result<TableEntry, CheckpointError> {
    let place = match line.attached {
        Some(_) => Place::parse(&line.location)?,
        None => Place {
            location: parse_location(&line.location)?,
            url: None,
        },
    };
    let entry = TableEntry {
        id: TableId(line.id.0),
        schema: line.schema,
        name: line.name,
        format: line.format,
        location: place.location,
        bases: parse_bases(&line.bases)?,
        version: TableVersion(line.version),
        published: line.published.map(TableVersion),
        created: DbVersion(line.created),
        dropped: line.dropped.map(DbVersion),
        timestamp: TimestampMs(line.timestamp),
        has_version: true,
        vacuumed: line.vacuumed.map(DbVersion),
        attached: line.attached.map(|version| Attached {
            version: TableVersion(version),
            url: place.url,
        }),
        is_detached: line.detached,
        positions: line
            .unpublished
            .into_iter()
            .map(|(version, record)| (TableVersion(version), DbVersion(record)))
            .collect(),
    };
    let wanted = entry.first_unpublished().0..=entry.version.0;
    for version in wanted.map(TableVersion) {
        if entry.position(version).is_none() {
            return Err(CheckpointError::PositionMissing {
                table: entry.id,
                version,
            });
        }
    }
    Ok(entry)
}

fn with_versions(pairs: Vec<(String, u64)>) -> Vec<(String, DbVersion)> {
    pairs
        .into_iter()
        .map(|(name, version)| (name, DbVersion(version)))
        .collect()
}

fn one_key(number: usize, line: &str) -> Result<(String, Value), CheckpointError> {
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| malformed(number, &error.to_string()))?;
    let mut pairs = object.into_iter();
    match (pairs.next(), pairs.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(malformed(number, "not exactly one key")),
    }
}

fn value<T: DeserializeOwned>(number: usize, value: Value) -> Result<T, CheckpointError> {
    serde_json::from_value(value).map_err(|error| malformed(number, &error.to_string()))
}

fn malformed(line: usize, reason: &str) -> CheckpointError {
    CheckpointError::Malformed {
        line,
        reason: reason.to_owned(),
    }
}
