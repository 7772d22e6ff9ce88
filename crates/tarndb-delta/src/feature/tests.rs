//! Tests of table features: which protocols are read, written and raised.

use std::collections::{BTreeMap, BTreeSet};

use tarndb_table::{DataType, Field};

use super::*;
use crate::action::Format;

fn protocol(
    reader: i32,
    writer: i32,
    readers: Option<&[&str]>,
    writers: Option<&[&str]>,
) -> Protocol {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        reader_features: readers.map(set),
        writer_features: writers.map(set),
    }
}

fn metadata(mode: Option<&str>) -> Metadata {
    Metadata {
        id: "id".to_owned(),
        name: None,
        description: None,
        format: Format::default(),
        schema_string: String::new(),
        partition_columns: Vec::new(),
        created_time: None,
        configuration: mode
            .map(|mode| ("delta.columnMapping.mode".to_owned(), mode.to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn writer_only_names_and_writer_versions_do_not_stop_a_reader() {
    for known in [
        protocol(1, 2, None, None),
        protocol(1, 99, None, None),
        protocol(1, 7, None, Some(&["com.example.x", "domainMetadata"])),
        protocol(3, 7, Some(&[]), Some(&["com.example.x"])),
        protocol(
            3,
            7,
            Some(&["deletionVectors"]),
            Some(&["deletionVectors", "rowTracking"]),
        ),
    ] {
        check_read(&known, &metadata(None)).unwrap();
    }
}

#[test]
fn unknown_reader_feature_is_refused_by_its_name() {
    let unknown = protocol(3, 7, Some(&["com.example.x"]), Some(&["com.example.x"]));
    let error = check_read(&unknown, &metadata(None)).unwrap_err();
    assert!(error.to_string().contains("com.example.x"), "{error}");
    let error = check_read(&protocol(99, 7, None, None), &metadata(None)).unwrap_err();
    assert!(error.to_string().contains("reader version 99"), "{error}");
}

#[test]
fn contradicting_protocols_are_refused() {
    for wrong in [
        protocol(1, 7, None, None),
        protocol(3, 7, None, Some(&[])),
        protocol(3, 6, Some(&[]), None),
        protocol(2, 7, Some(&[]), Some(&[])),
        protocol(3, 7, Some(&["deletionVectors"]), Some(&[])),
    ] {
        let error = check_read(&wrong, &metadata(None)).unwrap_err();
        assert!(
            matches!(error, DeltaError::InvalidProtocol { .. }),
            "{wrong:?}: {error}"
        );
    }
}

#[test]
fn writing_needs_every_writer_feature() {
    let known = managed_protocol(&BTreeSet::from([DELETION_VECTORS, INVARIANTS]));
    check_write(&known, |_| false).unwrap();
    let mut unknown = known;
    unknown
        .writer_features
        .get_or_insert_default()
        .insert("icebergCompatV2".to_owned());
    check_write(&unknown, |_| true).unwrap();
    let error = check_write(&unknown, |_| false).unwrap_err();
    assert!(error.to_string().contains("icebergCompatV2"), "{error}");
    assert!(check_write(&protocol(1, 2, None, None), |_| true).is_err());
}

#[test]
fn new_table_needs_reader_one_unless_a_column_or_vector_needs_more() {
    let plain = managed_protocol(&features_of(&[Field::new("a", DataType::Long, true)]));
    assert_eq!((plain.min_reader_version, plain.min_writer_version), (1, 7));
    assert_eq!(plain.reader_features, None);
    let inner = Field::new("t", DataType::TimestampNtz, false);
    let nested = Field::new("s", DataType::Struct(vec![inner]), true);
    let raised = managed_protocol(&features_of(&[nested]));
    assert_eq!(raised.min_reader_version, 3);
    assert!(raised.lists_reader_feature(TIMESTAMP_NTZ) && raised.lists_writer_feature(INVARIANTS));
    assert!(!raised.lists_reader_feature(INVARIANTS));
    let twice = raise(&raised, &BTreeSet::from([DELETION_VECTORS]));
    assert!(
        twice.lists_reader_feature(TIMESTAMP_NTZ),
        "nothing listed is dropped"
    );
    check_valid(&twice).unwrap();
}
