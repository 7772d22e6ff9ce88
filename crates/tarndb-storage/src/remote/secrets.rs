//! The secrets of a store, so that no message repeats them.
//!
//! Invariant: every value of an option, a variable or a profile is taken for a secret unless
//! its name is known to hold none.

use std::fmt;

/// Names whose values may be shown, by their endings.
const HARMLESS: [&str; 15] = [
    "region",
    "allow_http",
    "timeout",
    "account_name",
    "bucket",
    "bucket_name",
    "container_name",
    "_style_request",
    "skip_signature",
    "unsigned_payload",
    "use_emulator",
    "profile",
    "role_session_name",
    "endpoint",
    "endpoint_url",
];

/// Shorter values would blot out words.
const BYTES_MIN: usize = 5;
const BLOT: &str = "[secret]";

/// Values that must not be shown. `Debug` shows none.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Notes a value, unless its name tells that it is harmless.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        let harmless = HARMLESS.iter().any(|ending| name.ends_with(ending));
        if harmless || value.len() < BYTES_MIN {
            return;
        }
        // A signed token is sent in pieces, and encoded.
        for piece in std::iter::once(value).chain(value.split(['&', '=', '?', ';', '"'])) {
            if piece.len() >= BYTES_MIN && !self.0.iter().any(|known| known == piece) {
                self.0.push(piece.to_owned());
            }
        }
    }

    /// The text without secrets and without the queries of URLs.
    pub(super) fn blotted(&self, text: &str) -> String {
        let mut known: Vec<&String> = self.0.iter().collect();
        known.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let mut text = text.to_owned();
        for value in known {
            text = text.replace(value.as_str(), BLOT);
        }
        let without_query = |word: &str| match (word.contains("://"), word.split_once('?')) {
            (true, Some((before, _))) => before.to_owned(),
            _ => word.to_owned(),
        };
        let words: Vec<String> = text.split_whitespace().map(without_query).collect();
        words.join(" ")
    }
}
