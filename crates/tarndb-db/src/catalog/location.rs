//! Names of schemas and tables, and the folders that tables get.
//!
//! Invariant: a location depends only on the name, the id and what was used before; nothing in
//! it but `[A-Za-z0-9_.%-]` and the one separator, and neither part begins with `_` or `.`.
//! Spec: docs/format/log.md, "Locations".

use std::fmt::Write as _;

use tarndb_types::TableId;

/// Longest encoded name in bytes; with the suffix it stays below what file systems allow.
const ENCODED_BYTES_MAX: usize = 240;

/// Checks that a name can be a schema's or a table's.
///
/// # Errors
/// Why not, in words.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.chars().any(char::is_control) {
        return Err("it holds a control character");
    }
    if name.trim() != name {
        return Err("it begins or ends with a space");
    }
    if encode_name(name).len() > ENCODED_BYTES_MAX {
        return Err("it is too long (240 bytes, after percent-encoding)");
    }
    Ok(())
}

/// A name as a folder: all but `[A-Za-z0-9_.-]` percent-encoded, a leading `_` or `.` too.
pub fn encode_name(name: &str) -> String {
    let mut folder = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || byte == b'-' || (matches!(byte, b'_' | b'.') && at > 0);
        if plain {
            folder.push(char::from(byte));
        } else {
            let _infallible = write!(folder, "%{byte:02X}");
        }
    }
    folder
}

/// The plain location of a table, and the one that holds its id.
pub fn location_for(schema: &str, name: &str, id: TableId) -> (String, String) {
    let plain = format!("{}/{}", encode_name(schema), encode_name(name));
    // The last digits: those of a version 7 id begin with the time and would often be equal.
    let hex = id.0.simple().to_string();
    let suffix = hex.get(hex.len().saturating_sub(8)..).unwrap_or(&hex);
    let unique = format!("{plain}-{suffix}");
    (plain, unique)
}
