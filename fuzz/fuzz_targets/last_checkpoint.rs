//! The hint to the newest checkpoint, beside a log that needs none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarndb_fuzz::{HEAD, open};

fuzz_target!(|bytes: &[u8]| {
    open(&[
        ("_last_checkpoint", bytes),
        ("00000000000000000000.json", HEAD.as_bytes()),
        ("00000000000000000001.json", b"{\"commitInfo\":{}}\n"),
    ]);
});
