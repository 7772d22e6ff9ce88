//! Protocols of tables that no database manages: legacy versions and feature lists alike.
//!
//! Invariant: a protocol is the lowest that has the features asked for; raising one loses no
//! feature that a legacy version implied.
//! Spec: Delta PROTOCOL, "Table Features", "Valid Feature Names", "Protocol Evolution";
//! docs/format/native.md, "Protocol".

use std::collections::BTreeSet;

use crate::action::Protocol;
use crate::feature::READER_WRITER;

/// Feature, the writer version that implies it, and the reader version that it then needs.
const LEGACY: [(&str, i32, i32); 7] = [
    ("appendOnly", 2, 1),
    ("invariants", 2, 1),
    ("checkConstraints", 3, 1),
    ("changeDataFeed", 4, 1),
    ("generatedColumns", 4, 1),
    (COLUMN_MAPPING, 5, 2),
    ("identityColumns", 6, 1),
];
const COLUMN_MAPPING: &str = "columnMapping";

fn legacy(name: &str) -> Option<(i32, i32)> {
    let found = LEGACY.iter().find(|(known, _, _)| *known == name);
    found.map(|(_, writer, reader)| (*writer, *reader))
}

/// Writer features in effect: the listed ones, or those that the version implies.
pub(crate) fn writer_features(protocol: &Protocol) -> BTreeSet<&str> {
    match &protocol.writer_features {
        Some(listed) => listed.iter().map(String::as_str).collect(),
        None => {
            let implied = LEGACY
                .iter()
                .filter(|(_, writer, _)| *writer <= protocol.min_writer_version);
            implied.map(|(name, _, _)| *name).collect()
        }
    }
}

/// Is the feature in effect for writers?
pub(crate) fn has_feature(protocol: &Protocol, name: &str) -> bool {
    writer_features(protocol).contains(name)
}

/// Those of `features` that are not in effect.
pub(crate) fn missing<'a>(protocol: &Protocol, features: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let present = writer_features(protocol);
    features
        .iter()
        .filter(|name| !present.contains(**name))
        .copied()
        .collect()
}

/// The protocol of a new table that needs `features`.
pub(crate) fn lowest_protocol(features: &BTreeSet<&'static str>) -> Protocol {
    let least = Protocol {
        min_reader_version: 1,
        min_writer_version: 1,
        reader_features: None,
        writer_features: None,
    };
    let room = with_room_for(&least, features);
    crate::feature::raise(&room, &missing(&room, features))
}

/// `protocol` in a form to which `features` can be added: a legacy version that implies them, or
/// lists that name what the legacy version implied.
pub(crate) fn with_room_for(protocol: &Protocol, features: &BTreeSet<&'static str>) -> Protocol {
    let added = missing(protocol, features);
    let mut room = protocol.clone();
    if added.is_empty() {
        return room;
    }
    if protocol.writer_features.is_none() {
        let versions: Option<Vec<(i32, i32)>> = added.iter().map(|name| legacy(name)).collect();
        if let Some(versions) = versions {
            for (writer, reader) in versions {
                room.min_writer_version = room.min_writer_version.max(writer);
                room.min_reader_version = room.min_reader_version.max(reader);
            }
            return room;
        }
        let implied = writer_features(protocol);
        room.writer_features = Some(implied.into_iter().map(str::to_owned).collect());
        room.min_writer_version = 7;
    }
    // Reader version 2 says column mapping; version 3 says only what it lists.
    let lists_readers = added.iter().any(|name| READER_WRITER.contains(name));
    if lists_readers && room.min_reader_version == 2 {
        room.min_reader_version = 3;
        room.reader_features = Some(BTreeSet::from([COLUMN_MAPPING.to_owned()]));
        let writers = room.writer_features.get_or_insert_default();
        writers.insert(COLUMN_MAPPING.to_owned());
    }
    room
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{lowest_protocol, missing, with_room_for};
    use crate::action::Protocol;
    use crate::feature::{check_valid, raise};

    fn text(protocol: &Protocol) -> String {
        check_valid(protocol).unwrap();
        let list = |names: &Option<BTreeSet<String>>| {
            names.as_ref().map_or_else(String::new, |names| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("[{}]", names.join(","))
            })
        };
        format!(
            "{}{}/{}{}",
            protocol.min_reader_version,
            list(&protocol.reader_features),
            protocol.min_writer_version,
            list(&protocol.writer_features)
        )
    }

    #[test]
    fn new_table_has_the_lowest_protocol() {
        for (features, expected) in [
            (vec![], "1/1"),
            (vec!["invariants"], "1/2"),
            (vec!["appendOnly", "invariants"], "1/2"),
            (
                vec!["deletionVectors"],
                "3[deletionVectors]/7[deletionVectors]",
            ),
            (
                vec!["inCommitTimestamp", "invariants"],
                "1/7[inCommitTimestamp,invariants]",
            ),
        ] {
            let features = features.into_iter().collect();
            assert_eq!(text(&lowest_protocol(&features)), expected);
        }
    }

    #[test]
    fn raising_loses_nothing_that_a_legacy_version_implied() {
        let protocol = |reader, writer| Protocol {
            min_reader_version: reader,
            min_writer_version: writer,
            reader_features: None,
            writer_features: None,
        };
        for (base, added, expected) in [
            (protocol(1, 1), "appendOnly", "1/2"),
            (protocol(1, 2), "appendOnly", "1/2"),
            (
                protocol(1, 2),
                "deletionVectors",
                "3[deletionVectors]/7[appendOnly,deletionVectors,invariants]",
            ),
            (
                protocol(2, 5),
                "timestampNtz",
                "3[columnMapping,timestampNtz]/7[appendOnly,changeDataFeed,checkConstraints,\
                 columnMapping,generatedColumns,invariants,timestampNtz]",
            ),
            (
                protocol(2, 5),
                "inCommitTimestamp",
                "2/7[appendOnly,changeDataFeed,checkConstraints,columnMapping,generatedColumns,\
                 inCommitTimestamp,invariants]",
            ),
        ] {
            let features = BTreeSet::from([added]);
            let room = with_room_for(&base, &features);
            let raised = raise(&room, &missing(&room, &features));
            assert_eq!(text(&raised), expected);
        }
    }
}
