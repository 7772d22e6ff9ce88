//! A hint that cannot be read is no hint.

use bytes::Bytes;
use object_store::path::Path;
use tarndb_storage::{Context, Store};

use super::{parse_hint, read_hint, write_hint};

#[test]
fn anything_but_an_object_with_a_version_is_no_hint() {
    for (text, expected) in [
        (r#"{"version":7}"#, Some(7)),
        (
            r#"{"version":18446744073709551615,"size":-1,"tags":{}}"#,
            Some(u64::MAX),
        ),
        ("  {\"size\":3,\n\"version\":0}\n", Some(0)),
        ("", None),
        ("null", None),
        ("7", None),
        ("[7]", None),
        (r#"{"version":7"#, None),
        (r#"{"version":"7"}"#, None),
        (r#"{"version":-1}"#, None),
        (r#"{"version":1.5}"#, None),
        (r#"{"Version":7}"#, None),
        (r#"{"version":7}{"version":8}"#, None),
        ("\u{feff}{}", None),
    ] {
        assert_eq!(parse_hint(text.as_bytes()), expected, "{text:?}");
    }
    assert_eq!(parse_hint(b"\xff\xfe{\"version\":7}"), None);
}

#[tokio::test]
async fn a_hint_is_written_over_and_over() {
    let store = Store::memory(Context::seeded(1));
    let key = Path::from("_tarndb/_last_checkpoint");
    assert_eq!(read_hint(&store, &key).await, None);
    for version in [100, 200, 150] {
        write_hint(&store, &key, version).await.unwrap();
        assert_eq!(read_hint(&store, &key).await, Some(version));
    }
    store
        .put(&key, Bytes::from_static(b"{\"vers"))
        .await
        .unwrap();
    assert_eq!(read_hint(&store, &key).await, None);
}
