//! The data files in an entry, as JSON.
//!
//! Invariant: the bytes come back as they were; what is no base64 is an error, never a guess.
//! Spec: docs/format/log.md, "Inline files".

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::Value;

/// Appends the object `{"<path>":"<base64>"}`.
pub(super) fn push(text: &mut String, files: &BTreeMap<String, Bytes>) {
    text.push('{');
    for (at, (path, bytes)) in files.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(path.as_str()).to_string());
        text.push_str(":\"");
        BASE64.encode_string(bytes, text);
        text.push('"');
    }
    text.push('}');
}

/// The files of an entry; the error names the one whose bytes cannot be read.
pub(super) fn parse(files: BTreeMap<String, &str>) -> Result<BTreeMap<String, Bytes>, String> {
    files
        .into_iter()
        .map(|(path, text)| match BASE64.decode(text) {
            Ok(bytes) => Ok((path, Bytes::from(bytes))),
            Err(_) => Err(path),
        })
        .collect()
}
