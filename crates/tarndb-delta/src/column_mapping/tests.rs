//! Tests of column mapping: when it is in force, and what it needs.

use std::collections::BTreeMap;

use tarndb_table::DataType;

use super::{MappingMode, mode, table_schema};
use crate::action::{Metadata, Protocol};

const SCHEMA: &str = r#"{"type":"struct","fields":[
 {"name":"a b","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"p1"}},
 {"name":"s","type":{"type":"array","elementType":{"type":"struct","fields":[
   {"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":ID,"delta.columnMapping.physicalName":"NAME"}}]},
  "containsNull":true},"nullable":true,"metadata":{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"p2"}}]}"#;

fn protocol(reader: i32, features: &[&str]) -> Protocol {
    let listed = || features.iter().map(|name| (*name).to_owned()).collect();
    Protocol {
        min_reader_version: reader,
        min_writer_version: if reader == 3 { 7 } else { 5 },
        reader_features: (reader == 3).then(listed),
        writer_features: (reader == 3).then(listed),
    }
}

fn metadata(mode: &str, id: &str, name: &str) -> Metadata {
    let mode = ("delta.columnMapping.mode".to_owned(), mode.to_owned());
    Metadata {
        id: "t".to_owned(),
        name: None,
        description: None,
        format: crate::action::Format::default(),
        schema_string: SCHEMA.replace("ID", id).replace("NAME", name),
        partition_columns: Vec::new(),
        created_time: None,
        configuration: BTreeMap::from([mode]),
    }
}

#[test]
fn the_mode_counts_only_where_the_protocol_supports_mapping() {
    let table = metadata("name", "3", "p1");
    for (protocol, wanted) in [
        (protocol(1, &[]), MappingMode::None),
        (protocol(2, &[]), MappingMode::Name),
        (protocol(3, &["deletionVectors"]), MappingMode::None),
        (protocol(3, &["columnMapping"]), MappingMode::Name),
    ] {
        assert_eq!(mode(&protocol, &table).unwrap(), wanted, "{protocol:?}");
        let schema = table_schema(&protocol, &table).unwrap();
        let is_mapped = wanted != MappingMode::None;
        assert_eq!(schema.is_mapped(), is_mapped);
        assert_eq!(schema.fields[1].data_type.is_mapped(), is_mapped);
    }
    assert!(mode(&protocol(2, &[]), &metadata("other", "3", "x")).is_err());
}

#[test]
fn stored_names_and_ids_come_from_every_level() {
    let schema = table_schema(&protocol(2, &[]), &metadata("id", "3", "p1")).unwrap();
    assert_eq!(schema.fields[0].stored_name(), "p1");
    let DataType::Array { element, .. } = &schema.fields[1].data_type else {
        panic!("{schema:?}");
    };
    let DataType::Struct(fields) = element.as_ref() else {
        panic!("{schema:?}");
    };
    let physical = fields[0].physical.as_ref().unwrap();
    // A name may come twice, at different places.
    assert_eq!(
        (physical.name.as_str(), physical.id, physical.by_id),
        ("p1", 3, true)
    );
}

#[test]
fn a_mapped_table_with_an_unmapped_or_doubly_mapped_field_is_refused() {
    for (id, name) in [
        ("1", "x"),
        ("2147483648", "x"),
        ("-1", "x"),
        ("null", "x"),
        ("\"3\"", "x"),
        ("3", ""),
    ] {
        let result = table_schema(&protocol(2, &[]), &metadata("name", id, name));
        assert!(result.is_err(), "{id} {name}");
    }
}
