//! A checkpoint in Parquet, with a commit after it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarndb_fuzz::open;

fuzz_target!(|bytes: &[u8]| {
    open(&[
        ("00000000000000000003.checkpoint.parquet", bytes),
        ("00000000000000000004.json", b"{\"commitInfo\":{}}\n"),
    ]);
});
