//! Directory names of partitions: hive escaping, then the URI layer of a log's paths.
//!
//! Invariant: the log's spelling, percent-decoded once, is the storage key.
//! Does not: matter for reading; values come from the log alone.
//! Spec: Delta PROTOCOL, "Data Files" (paths are RFC 2396 URIs).

use std::fmt::Write;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Directory of NULL (and of the empty string, which is stored as NULL).
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
/// A directory name may have 255 bytes on common file systems.
const SEGMENT_BYTES_MAX: usize = 200;

/// What a path's URI form escapes, beside all that is not ASCII.
const URI_ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The log's spelling of a storage key relative to the table's root.
pub fn uri_encode(path: &str) -> String {
    utf8_percent_encode(path, URI_ESCAPED).to_string()
}

/// The directory of a partition, `column=value/..`, as (storage key, log's spelling); both empty
/// when there is no column. Very long values are cut: the directory only groups files.
pub fn partition_dir(columns: &[(&str, Option<&str>)]) -> (String, String) {
    let segments: Vec<String> = columns
        .iter()
        .map(|(name, value)| segment(name, *value))
        .collect();
    let key = segments.join("/");
    let spelled = uri_encode(&key);
    (key, spelled)
}

fn segment(column: &str, value: Option<&str>) -> String {
    let mut out = String::new();
    hive_escape(column, &mut out);
    out.push('=');
    match value {
        None | Some("") => out.push_str(HIVE_NULL),
        Some(value) => hive_escape(value, &mut out),
    }
    if out.len() > SEGMENT_BYTES_MAX {
        let end = (0..=SEGMENT_BYTES_MAX)
            .rev()
            .find(|end| out.is_char_boundary(*end));
        out.truncate(end.unwrap_or(0));
    }
    out
}

fn hive_escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if c <= '\u{1F}' || c == '\u{7F}' || "\"#%'*/:=?\\{[]^".contains(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}
