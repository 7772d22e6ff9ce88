//! The lines of a commit, alone and as the second commit of a table.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarndb_fuzz::{HEAD, open};

fuzz_target!(|bytes: &[u8]| {
    let _ = tarndb_delta::action::parse_commit(bytes, "fuzz.json");
    open(&[
        ("00000000000000000000.json", HEAD.as_bytes()),
        ("00000000000000000001.json", bytes),
    ]);
});
