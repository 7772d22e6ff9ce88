//! Tests of data file paths.

use object_store::path::Path;

use super::data_key;

#[test]
fn a_path_below_the_table_is_joined_verbatim() {
    let root = Path::parse("db/t%20x").unwrap();
    let key = data_key(&root, "c=a%2Fb/part-1 2.parquet").unwrap();
    assert_eq!(key.as_ref(), "db/t%20x/c=a%2Fb/part-1 2.parquet");
    assert_eq!(data_key(&Path::default(), "a").unwrap().as_ref(), "a");
}

#[test]
fn a_path_that_leaves_the_table_is_refused() {
    let root = Path::parse("db/t").unwrap();
    for path in [
        "../x",
        "a/../../x",
        "/x",
        "",
        "a//b",
        "./a",
        "s3://b/k",
        "file:/x",
    ] {
        assert!(data_key(&root, path).is_err(), "{path}");
    }
}
