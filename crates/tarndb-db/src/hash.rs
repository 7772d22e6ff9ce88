//! SHA-256 of staged files and checkpoints.
//!
//! Invariant: lower-case hexadecimal, 64 digits.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of `bytes` as text.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
