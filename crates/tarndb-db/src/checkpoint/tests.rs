//! Checkpoints: identity of encode then decode, and every way to be unusable.

use std::io::Read as _;

use expect_test::expect;
use proptest::prelude::*;
use tarndb_types::{DbVersion, TableVersion};

use super::encode::to_text;
use super::{CheckpointError, decode, encode};
use crate::catalog::tests::{create, entry, one_table, record, table};
use crate::hash::sha256_hex;
use crate::record::Action;

fn catalog() -> crate::catalog::Catalog {
    let mut catalog = one_table();
    let actions = vec![
        Action::CreateSchema { name: "S".into() },
        create(2, "gone", "main/gone"),
        entry(2, 0),
        Action::DropTable { id: table(2) },
        Action::Unknown {
            name: "setProperty".into(),
        },
    ];
    catalog = catalog.apply(&record(4, actions)).unwrap();
    catalog.note_published(table(1), TableVersion(1));
    catalog
}

fn repack(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 3).unwrap()
}

/// The text with a change, and the checksum made to hold again.
fn lie(from: &str, to: &str) -> Vec<u8> {
    let text = to_text(&catalog());
    assert!(text.contains(from), "{text}");
    let text = text.replace(from, to);
    let (body, _) = text.trim_end().rsplit_once('\n').unwrap();
    let body = format!("{body}\n");
    repack(&format!(
        "{body}{{\"sha256\":\"{}\"}}\n",
        sha256_hex(body.as_bytes())
    ))
}

#[test]
fn what_is_encoded_decodes_to_the_same() {
    let catalog = catalog();
    let bytes = encode(&catalog).unwrap();
    let decoded = decode(&bytes, DbVersion(4)).unwrap();
    assert!(decoded.same_content(&catalog));
    assert_eq!(to_text(&decoded), to_text(&catalog));
    assert_eq!(
        decoded.table(table(1)).unwrap().published,
        Some(TableVersion(1))
    );
    assert_eq!(
        decoded.table(table(1)).unwrap().position(TableVersion(2)),
        Some(DbVersion(3))
    );
}

#[test]
fn the_text_of_a_checkpoint_does_not_change() {
    let bytes = encode(&catalog()).unwrap();
    let mut text = String::new();
    zstd::Decoder::new(bytes.as_ref())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    expect![[r#"
        {"checkpoint":{"database":"00000000-0000-0000-0000-000000000009","format":1,"readerFeatures":[],"timestamp":1004,"unknownActions":[["setProperty",4]],"version":4,"writerFeatures":[]}}
        {"schema":{"name":"main"}}
        {"schema":{"name":"S"}}
        {"table":{"created":1,"dropped":null,"format":"delta","id":"00000000-0000-0000-0000-000000000001","location":"main/Orders","name":"Orders","published":1,"schema":"main","timestamp":1003,"unpublished":[[2,3]],"version":2}}
        {"table":{"created":4,"dropped":4,"format":"delta","id":"00000000-0000-0000-0000-000000000002","location":"main/gone","name":"gone","published":null,"schema":"main","timestamp":1004,"unpublished":[[0,4]],"version":0}}
        {"location":"main/gone"}
        {"location":"main/orders"}
        {"sha256":"CHECKSUM"}
    "#]]
    .assert_eq(&{
        let (body, _) = text.trim_end().rsplit_once('\n').unwrap();
        format!("{body}\n{{\"sha256\":\"CHECKSUM\"}}\n")
    });
}

#[test]
fn each_way_to_be_unusable_has_its_error() {
    let whole = encode(&catalog()).unwrap();
    let check = |bytes: &[u8]| decode(bytes, DbVersion(4)).unwrap_err();
    assert!(matches!(
        check(&whole[..whole.len() / 2]),
        CheckpointError::Unpack(_)
    ));
    assert!(matches!(check(b"hello"), CheckpointError::Unpack(_)));
    let text = to_text(&catalog());
    let torn = repack(&text[..text.len() / 2]);
    assert!(matches!(check(&torn), CheckpointError::Checksum { .. }));
    let edited = repack(&text.replace("\"Orders\"", "\"Other\""));
    assert!(matches!(check(&edited), CheckpointError::Checksum { .. }));
    let other = decode(&whole, DbVersion(5)).unwrap_err();
    assert!(matches!(other, CheckpointError::OtherVersion { .. }));
    let newer = lie("\"format\":1", "\"format\":2");
    assert!(matches!(
        check(&newer),
        CheckpointError::UnknownFormat { format: 2 }
    ));
    let hidden = lie("\"unpublished\":[[2,3]]", "\"unpublished\":[]");
    assert!(matches!(
        check(&hidden),
        CheckpointError::PositionMissing { .. }
    ));
    let escaping = lie("\"location\":\"main/Orders\"", "\"location\":\"../Orders\"");
    assert!(matches!(check(&escaping), CheckpointError::Invariant(_)));
    let forgotten = lie("{\"location\":\"main/orders\"}\n", "");
    assert!(matches!(check(&forgotten), CheckpointError::Invariant(_)));
    let nested = lie(
        "{\"location\":\"main/orders\"}",
        "{\"location\":\"main/orders\"}\n{\"location\":\"main/orders/x\"}",
    );
    assert!(matches!(check(&nested), CheckpointError::Invariant(_)));
}

proptest! {
    #[test]
    fn no_damaged_checkpoint_panics_or_passes(at in 0_usize..10_000, byte in any::<u8>()) {
        let catalog = catalog();
        let mut text = to_text(&catalog).into_bytes();
        let at = at % text.len();
        let same = text[at] == byte;
        text[at] = byte;
        let packed = zstd::encode_all(text.as_slice(), 1).unwrap();
        // The only byte that may change is the end of the last line.
        let last = at + 1 == text.len();
        prop_assert!(decode(&packed, DbVersion(4)).is_err() || same || last);
    }
}
