//! A deletion vector inside its descriptor, and one in a file. The first byte chooses, the next
//! two give the offset in the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tarndb_delta::DeltaCodec;
use tarndb_fuzz::run;
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::{Deletion, DvDescriptor, DvStorage, TableCodec};

/// The file of the vector with the id of 16 zero bytes.
const FILE: &str = "deletion_vector_00000000-0000-0000-0000-000000000000.bin";
const ID: &str = "00000000000000000000";

fuzz_target!(|bytes: &[u8]| {
    let [kind, high, low, rest @ ..] = bytes else {
        return;
    };
    let size = i32::try_from(rest.len()).unwrap_or(i32::MAX);
    let descriptor = match (kind % 2, std::str::from_utf8(rest)) {
        (0, Ok(text)) => DvDescriptor {
            storage: DvStorage::Inline,
            path_or_inline: text.to_owned(),
            offset: None,
            size_in_bytes: size / 5 * 4 - i32::from(low % 4),
            cardinality: i64::from(*high),
        },
        _ => DvDescriptor {
            storage: DvStorage::Relative,
            path_or_inline: ID.to_owned(),
            offset: Some(i32::from(u16::from_be_bytes([*high, *low]) % 64)),
            size_in_bytes: size.saturating_sub(9),
            cardinality: i64::from(*low),
        },
    };
    run(async {
        let store = Store::memory(Context::seeded(1));
        store
            .put(&Path::from(FILE), rest.to_vec().into())
            .await
            .unwrap();
        let deletion = Deletion::Stored(descriptor);
        let codec = DeltaCodec::default();
        let _ = codec
            .load_deletion(&store, &Path::default(), &deletion)
            .await;
    });
});
