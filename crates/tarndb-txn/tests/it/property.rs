//! Which properties and features writers obey.
//!
//! Invariant: unknown means obeyed.
//! Spec: docs/conflicts.md, "Properties and features".

use tarndb_txn::property::{
    HARMLESS_FEATURES, HARMLESS_KEYS, Obeyed, SWITCHES, binds_existing_data, feature_obeyed,
    key_obeyed,
};
use tarndb_txn::writer_obeys;

#[test]
fn keys_have_the_expected_readers() {
    for key in [
        "delta.appendOnly",
        "delta.columnMapping.mode",
        "delta.constraints.positive",
        "delta.enableChangeDataFeed",
        "delta.enableIcebergCompatV2",
        "delta.enableRowTracking",
        "delta.enableTypeWidening",
        "delta.feature.somethingNew",
        "delta.somethingNew",
    ] {
        assert_eq!(key_obeyed(key), Obeyed::ByData, "{key}");
        assert!(writer_obeys(key), "{key}");
    }
    for key in ["delta.enableDeletionVectors", "tarndb.deletionVectors"] {
        assert_eq!(key_obeyed(key), Obeyed::ByDeletes, "{key}");
    }
    for key in [
        "delta.checkpointInterval",
        "delta.feature.timestampNtz",
        "owner",
        "tarndb.rowGroupRows",
        "tarndb.targetFileSize",
    ] {
        assert!(!writer_obeys(key), "{key}");
    }
}

#[test]
fn features_off_the_list_are_obeyed() {
    assert_eq!(feature_obeyed("deletionVectors"), Obeyed::ByNobody);
    for name in [
        "checkConstraints",
        "generatedColumns",
        "identityColumns",
        "somethingNew",
    ] {
        assert_eq!(feature_obeyed(name), Obeyed::ByData, "{name}");
    }
}

#[test]
fn switches_bind_later_writers_only() {
    for key in SWITCHES {
        assert!(writer_obeys(key) && !binds_existing_data(key), "{key}");
    }
    assert!(binds_existing_data("delta.constraints.positive"));
    // The commit that turns it on numbers the files of the head, whoever wrote them.
    assert!(!binds_existing_data("delta.enableRowTracking"));
    assert!(binds_existing_data("delta.somethingNew"));
}

#[test]
fn lists_are_sorted_and_without_repetition() {
    for list in [HARMLESS_KEYS, HARMLESS_FEATURES] {
        assert!(list.is_sorted_by(|a, b| a < b), "{list:?}");
    }
}
