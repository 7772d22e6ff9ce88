//! `Notes`: what an entry tells later writers, beyond the table's own actions, so that they can
//! judge it.
//!
//! Invariant: absence is safe: without a note the verdict is the stricter one. Unknown keys are
//! ignored; a note that cannot be read is an error, because a guess could lose rows.
//! Spec: docs/format/log.md, "Conflict notes".

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use tarndb_txn::{KeySet, RowMap, Run, Source, Target};

/// The notes of one entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Where the rows of rewritten files went.
    pub row_map: Option<RowMapNote>,
    /// Keys that an upsert looked for and wrote.
    pub keys: Option<KeySet>,
}

/// Where a row map is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowMapNote {
    /// In the record.
    Inline(RowMap),
    /// In a file of its own; its path relative to the table's location.
    File(String),
}

impl Notes {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NotesJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row_map: Option<RowMapJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row_map_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<KeysJson>,
}

/// The JSON form of a row map, in the record and in a file.
#[derive(Serialize, Deserialize)]
struct RowMapJson {
    /// Path and vector id of each input file.
    sources: Vec<(String, Option<String>)>,
    /// Path and runs of each output file.
    targets: Vec<(String, Vec<RunJson>)>,
}

/// Source, first, length.
type RunJson = (u32, u64, u64);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeysJson {
    columns: Vec<String>,
    bits: u32,
    /// Base64 of the hashes, ascending, `bits / 8` bytes each, little endian.
    hashes: String,
    #[serde(default)]
    covers_adds: bool,
}

/// The JSON text of notes.
pub(super) fn encode(notes: &Notes) -> String {
    let (row_map, row_map_file) = match &notes.row_map {
        None => (None, None),
        Some(RowMapNote::Inline(map)) => (Some(row_map_json(map)), None),
        Some(RowMapNote::File(path)) => (None, Some(path.clone())),
    };
    let json = NotesJson {
        row_map,
        row_map_file,
        keys: notes.keys.as_ref().map(keys_json),
    };
    // Plain fields always have a JSON form.
    serde_json::to_string(&json).unwrap_or_else(|_| "{}".to_owned())
}

/// Notes from their JSON text; the reason when they cannot be read.
pub(super) fn parse(text: &str) -> Result<Notes, String> {
    let json: NotesJson = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let row_map = match (json.row_map, json.row_map_file) {
        (Some(map), _) => Some(RowMapNote::Inline(row_map(map)?)),
        (None, Some(path)) => Some(RowMapNote::File(path)),
        (None, None) => None,
    };
    let keys = json.keys.map(keys).transpose()?;
    Ok(Notes { row_map, keys })
}

/// The bytes of a row map in a file of its own.
pub fn encode_row_map(map: &RowMap) -> Vec<u8> {
    serde_json::to_vec(&row_map_json(map)).unwrap_or_default()
}

/// A row map from such bytes; the reason when they are damaged.
pub fn parse_row_map(bytes: &[u8]) -> Result<RowMap, String> {
    let json: RowMapJson = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    row_map(json)
}

fn row_map_json(map: &RowMap) -> RowMapJson {
    let run = |run: &Run| (run.source, run.first, run.len);
    RowMapJson {
        sources: map
            .sources
            .iter()
            .map(|source| (source.path.clone(), source.vector.clone()))
            .collect(),
        targets: map
            .targets
            .iter()
            .map(|target| (target.path.clone(), target.runs.iter().map(run).collect()))
            .collect(),
    }
}

fn row_map(json: RowMapJson) -> Result<RowMap, String> {
    let sources: Vec<Source> = json
        .sources
        .into_iter()
        .map(|(path, vector)| Source { path, vector })
        .collect();
    let mut targets = Vec::new();
    for (path, runs) in json.targets {
        let runs: Vec<Run> = runs
            .into_iter()
            .map(|(source, first, len)| Run { source, first, len })
            .collect();
        targets.push(Target { path, runs });
    }
    let map = RowMap { sources, targets };
    map.violation()
        .map_or(Ok(map), |wrong| Err(format!("row map: {wrong}")))
}

fn keys_json(keys: &KeySet) -> KeysJson {
    let width = (keys.bits / 8) as usize;
    let bytes: Vec<u8> = keys
        .hashes
        .iter()
        .flat_map(|hash| hash.to_le_bytes().into_iter().take(width))
        .collect();
    KeysJson {
        columns: keys.columns.clone(),
        bits: keys.bits,
        hashes: BASE64.encode(bytes),
        covers_adds: keys.covers_adds,
    }
}

fn keys(json: KeysJson) -> Result<KeySet, String> {
    let width = (json.bits / 8) as usize;
    if width == 0 || width > 8 || !json.bits.is_multiple_of(8) {
        return Err(format!("keys of {} bits", json.bits));
    }
    let bytes = BASE64
        .decode(&json.hashes)
        .map_err(|error| format!("keys: {error}"))?;
    if bytes.len() % width != 0 {
        return Err(format!("keys: {} bytes for keys of {width}", bytes.len()));
    }
    let hashes: BTreeSet<u64> = bytes
        .chunks(width)
        .map(|chunk| {
            let last_first = chunk.iter().rev();
            last_first.fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
        })
        .collect();
    Ok(KeySet {
        columns: json.columns,
        bits: json.bits,
        hashes,
        covers_adds: json.covers_adds,
    })
}
