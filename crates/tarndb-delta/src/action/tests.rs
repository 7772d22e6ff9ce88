//! Tests of single actions: lines to values and back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn add(path: &str) -> Add {
    Add {
        path: path.to_owned(),
        partition_values: BTreeMap::from([("p".to_owned(), None)]),
        size: 3,
        modification_time: 5,
        data_change: true,
        stats: Some("{\"numRecords\":1}".to_owned()),
        tags: None,
        deletion_vector: None,
        base_row_id: None,
        default_row_commit_version: None,
        clustering_provider: None,
    }
}

#[test]
fn unknown_actions_fields_nulls_crlf_and_blank_lines_are_read() {
    let text = concat!(
        "{\"commitInfo\":{\"timestamp\":\"later\",\"operation\":\"X\",\"operationParameters\":{\"a\":[1],\"b\":\"c\"},\"tarndb\":7}}\r\n",
        "\r\n",
        "{\"someday\":{\"x\":1}}\n",
        "{}\n",
        "{\"add\":{\"path\":\"a\",\"size\":3,\"partitionValues\":null,\"tags\":null,\"stats\":null,\"later\":{\"y\":[]}},\"remove\":null}\n",
        "{\"cdc\":{\"path\":\"c\",\"size\":1,\"partitionValues\":{},\"dataChange\":false}}\n",
        "{\"txn\":{\"appId\":\"app\",\"version\":-1,\"lastUpdated\":null}}",
    );
    let actions = parse_commit(text.as_bytes(), "f").unwrap();
    assert_eq!(actions.len(), 4);
    assert!(matches!(&actions[2], Action::Cdc(cdc) if cdc.path == "c"));
    let Action::CommitInfo(info) = &actions[0] else {
        panic!("{actions:?}");
    };
    assert_eq!(
        (info.timestamp, info.operation.as_deref()),
        (None, Some("X"))
    );
    assert_eq!(info.operation_parameters["a"], "[1]");
    assert_eq!(info.tarndb, None);
    let Action::Add(add) = &actions[1] else {
        panic!("{actions:?}");
    };
    assert_eq!(
        (add.path.as_str(), add.data_change, add.size),
        ("a", false, 3)
    );
}

#[test]
fn torn_line_is_an_error_with_its_place() {
    let text = "{\"txn\":{\"appId\":\"a\",\"version\":1}}\n\n{\"add\":{\"path\":\"a\",";
    let error = parse_commit(text.as_bytes(), "_delta_log/7.json").unwrap_err();
    assert!(
        matches!(&error, DeltaError::BadLine { file, line: 3, .. } if file == "_delta_log/7.json"),
        "{error}"
    );
    assert!(matches!(
        parse_commit(&[0xff], "f"),
        Err(DeltaError::NotText { .. })
    ));
    let missing = "{\"add\":{\"size\":1}}";
    assert!(
        parse_commit(missing.as_bytes(), "f").is_err(),
        "a path is required"
    );
}

#[test]
fn lines_are_written_in_a_fixed_order_without_empty_members() {
    let line = Action::Add(Box::new(add("a b"))).to_line().unwrap();
    assert_eq!(
        line,
        "{\"add\":{\"path\":\"a b\",\"partitionValues\":{\"p\":null},\"size\":3,\"modificationTime\":5,\
         \"dataChange\":true,\"stats\":\"{\\\"numRecords\\\":1}\"}}"
    );
}

#[test]
fn vector_id_tells_an_offset_of_zero_from_none() {
    let vector = |offset| DeletionVector {
        storage_type: "u".to_owned(),
        path_or_inline_dv: "x".to_owned(),
        offset,
        size_in_bytes: 1,
        cardinality: 1,
    };
    assert_eq!(vector(None).unique_id(), "ux");
    assert_eq!(vector(Some(0)).unique_id(), "ux@0");
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..12).prop_map(|chars| chars.into_iter().collect())
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map(text(), text(), 0..4)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (text(), text()).prop_map(|(name, r#type)| Change::AddColumn {
            name,
            r#type,
            nullable: true
        }),
        Just(Change::ReplaceSchema),
        (proptest::option::of(text()), proptest::option::of(text()))
            .prop_map(|(column, text)| Change::Comment { column, text }),
        (text(), text()).prop_map(|(key, value)| Change::Set { key, value }),
        text().prop_map(|key| Change::Unset { key }),
        text().prop_map(|name| Change::AddFeature { name }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let info = (
        any::<i64>(),
        map(),
        text(),
        proptest::collection::vec(change(), 0..4),
        any::<bool>(),
    )
        .prop_map(|(time, parameters, operation, changes, created)| {
            Action::CommitInfo(CommitInfo {
                timestamp: Some(time),
                in_commit_timestamp: Some(time),
                operation: Some(operation),
                operation_parameters: parameters.clone(),
                operation_metrics: parameters,
                is_blind_append: Some(created),
                tarndb: Some(TarnInfo { created, changes }),
                ..CommitInfo::default()
            })
        });
    let file = (
        text(),
        any::<i64>(),
        map(),
        proptest::option::of(any::<i32>()),
    )
        .prop_map(|(path, size, tags, offset)| {
            let mut file = add(&path);
            file.size = size;
            file.tags = Some(
                tags.into_iter()
                    .map(|(key, value)| (key, Some(value)))
                    .collect(),
            );
            file.deletion_vector = Some(DeletionVector {
                storage_type: "i".to_owned(),
                path_or_inline_dv: path,
                offset,
                size_in_bytes: 1,
                cardinality: size,
            });
            Action::Add(Box::new(file))
        });
    let metadata = (text(), map()).prop_map(|(schema_string, configuration)| {
        Action::Metadata(Box::new(Metadata {
            id: "id".to_owned(),
            name: None,
            description: Some(schema_string.clone()),
            format: Format::default(),
            schema_string,
            partition_columns: configuration.keys().cloned().collect(),
            created_time: None,
            configuration,
        }))
    });
    let domain = (text(), text(), any::<bool>()).prop_map(|(domain, configuration, removed)| {
        Action::Domain(DomainMetadata {
            domain,
            configuration,
            removed,
        })
    });
    prop_oneof![info, file, metadata, domain]
}

proptest! {
    #[test]
    fn lines_parse_to_the_actions_they_were_made_of(actions in proptest::collection::vec(action(), 0..6)) {
        let lines: Vec<String> = actions.iter().map(|action| action.to_line().unwrap()).collect();
        prop_assert!(lines.iter().all(|line| !line.contains('\n')));
        prop_assert_eq!(parse_commit(lines.join("\n").as_bytes(), "f").unwrap(), actions);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_commit(&bytes, "f");
    }
}
