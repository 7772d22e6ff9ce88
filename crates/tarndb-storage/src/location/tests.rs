//! What each form of URL is taken for, and what is refused.

use std::path::PathBuf;

use object_store::path::Path;

use super::{Cloud, Location, parse};

fn cloud(cloud: Cloud, bucket: &str, prefix: &str) -> Location {
    let prefix = Path::parse(prefix).unwrap();
    Location::Cloud {
        cloud,
        bucket: bucket.to_owned(),
        host: None,
        prefix,
    }
}

#[test]
fn cloud_urls_name_bucket_and_literal_prefix() {
    assert_eq!(parse("s3://b").unwrap(), cloud(Cloud::S3, "b", ""));
    assert_eq!(parse("s3://b/").unwrap(), cloud(Cloud::S3, "b", ""));
    assert_eq!(
        parse("S3://b/a b/%20/\u{e9}/").unwrap(),
        cloud(Cloud::S3, "b", "a b/%20/\u{e9}")
    );
    assert_eq!(parse("gs://b/p").unwrap(), cloud(Cloud::Gcs, "b", "p"));
    assert_eq!(
        parse("az://c/p/q").unwrap(),
        cloud(Cloud::Azure, "c", "p/q")
    );
}

#[test]
fn abfss_names_container_and_account() {
    let expected = Location::Cloud {
        cloud: Cloud::Azure,
        bucket: "c".to_owned(),
        host: Some("acc.dfs.core.windows.net".to_owned()),
        prefix: Path::parse("p").unwrap(),
    };
    assert_eq!(
        parse("abfss://c@acc.dfs.core.windows.net/p").unwrap(),
        expected
    );
    assert!(parse("abfss://acc.dfs.core.windows.net/p").is_err());
}

#[test]
fn file_urls_are_decoded_and_plain_paths_are_not() {
    let folder = |path: &str| Location::Folder(PathBuf::from(path));
    assert_eq!(parse("file:///a%20b/c").unwrap(), folder("/a b/c"));
    assert_eq!(parse("file://localhost/a").unwrap(), folder("/a"));
    assert_eq!(parse("/a%20b").unwrap(), folder("/a%20b"));
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        parse("x/y z").unwrap(),
        Location::Folder(here.join("x/y z"))
    );
    assert_eq!(
        parse("./odd:name").unwrap(),
        Location::Folder(here.join("odd:name"))
    );
}

#[test]
fn memory_urls_name_a_store_and_a_prefix() {
    let memory = |name: &str, prefix: &str| Location::Memory {
        name: name.to_owned(),
        prefix: Path::parse(prefix).unwrap(),
    };
    assert_eq!(parse("memory://").unwrap(), memory("", ""));
    assert_eq!(parse("memory://m/p").unwrap(), memory("m", "p"));
}

#[test]
fn what_is_not_a_database_url_is_refused_with_the_accepted_forms() {
    for text in [
        "",
        "  ",
        "http://x/y",
        "s4://b",
        "s3:/b",
        "foo:bar",
        "file:/x",
        "file://x",
        "s3://",
        "s3:///p",
        "s3://b//p",
        "s3://b/../p",
        "az://c/p\\q",
        "gs://b/./p",
        "abfss://c/p",
        "s3://b c/p",
        "a\0b",
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(
            message.contains("accepted: s3://bucket/prefix"),
            "{text:?}: {message}"
        );
    }
}

#[test]
fn secrets_in_a_url_are_refused_and_not_repeated() {
    for text in [
        "s3://AKID:hunter2@b/p",
        "s3://AKID:hunter2/hunter2@b/p",
        "s3:/AKID:hunter2@b/p",
        "gs:AKID:hunter2@b/p?sig=hunter2",
        "az://c/p?sig=hunter2",
        "https://user:hunter2@host/x",
        "abfss://c:hunter2@host/p",
    ] {
        let error = parse(text).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}
