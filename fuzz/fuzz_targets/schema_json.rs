//! A schema as the metadata holds it; what can be read is checked and shown too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarndb_delta::schema_json::parse_schema;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(schema) = parse_schema(text) {
        let _ = schema.validate();
        let _ = schema.to_arrow();
    }
});
