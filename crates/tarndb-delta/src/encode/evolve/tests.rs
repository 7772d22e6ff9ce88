//! Tests of changes of columns: what stands in the log afterwards, and what is refused.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use tarndb_table::{
    ColumnPath, Commit, DataType, Entry, Field, MetadataChange, NewColumn, Position, TableCodec,
    TableState,
};
use tarndb_types::Uuid;

use super::super::encode;
use super::super::tests::{applied, changes, commit, definition, long, set};
use crate::DeltaCodec;
use crate::action::{Action, parse_lines};
use crate::error::DeltaError;
use crate::schema_json::parse_schema;
use crate::state::DeltaState;

fn int(name: &str) -> Field {
    Field::new(name, DataType::Integer, true)
}

fn nested() -> Vec<Field> {
    let inner = DataType::Struct(vec![int("z")]);
    let list = DataType::Array {
        element: Box::new(inner),
        contains_null: true,
    };
    let map = DataType::Map {
        key: Box::new(DataType::String),
        value: Box::new(DataType::Integer),
        value_contains_null: true,
    };
    vec![
        int("a"),
        Field::new(
            "s",
            DataType::Struct(vec![int("x"), Field::new("y", list, true)]),
            true,
        ),
        Field::new("m", map, true),
        Field::new("p", DataType::String, true),
    ]
}

fn table(properties: &[(&str, &str)]) -> TableState {
    let mut definition = definition(properties, nested());
    definition.partition_columns = vec!["p".to_owned()];
    let entry = encode(&commit(None, Some(&definition))).unwrap();
    DeltaCodec::default().apply(None, &entry).unwrap()
}

fn path(text: &str) -> ColumnPath {
    ColumnPath::new(text.split('/').map(str::to_owned).collect()).unwrap()
}

fn rename(column: &str, to: &str) -> MetadataChange {
    MetadataChange::RenameColumn {
        column: path(column),
        to: to.to_owned(),
    }
}

fn drop_column(column: &str) -> MetadataChange {
    MetadataChange::DropColumn {
        column: path(column),
    }
}

fn widen(column: &str, to: DataType) -> MetadataChange {
    MetadataChange::WidenColumn {
        column: path(column),
        to,
    }
}

fn nullable(column: &str, nullable: bool) -> MetadataChange {
    MetadataChange::SetNullable {
        column: path(column),
        nullable,
    }
}

fn add(parents: &[&str], field: Field, position: Position) -> MetadataChange {
    let seed = u128::from(field.name.as_bytes().first().copied().unwrap_or(0)) << 8;
    MetadataChange::AddColumn(NewColumn {
        parents: parents.iter().map(|name| (*name).to_owned()).collect(),
        field,
        position,
        seed: Uuid::from_u128(seed),
    })
}

fn after(head: &TableState, metadata: &[MetadataChange]) -> (TableState, Entry) {
    let entry = encode(&Commit {
        metadata,
        ..commit(Some(head), None)
    })
    .unwrap();
    (applied(head, &entry), entry)
}

fn refused(head: &TableState, change: MetadataChange) -> DeltaError {
    encode(&Commit {
        metadata: &[change],
        ..commit(Some(head), None)
    })
    .unwrap_err()
}

/// Columns with numbers and names in files, recorded changes, properties, features, changes.
fn check(head: &TableState, metadata: &[MetadataChange], expected: Expect) -> TableState {
    let (state, entry) = after(head, metadata);
    let mut text = String::new();
    lines(&state.schema.fields, "", &mut text);
    let properties: BTreeMap<_, _> = state
        .properties
        .iter()
        .filter(|(key, _)| *key != "delta.enableInCommitTimestamps")
        .collect();
    let protocol = &DeltaState::of(&state).unwrap().protocol;
    text += &format!(
        "partitioned by {:?}\n{properties:?}\nreaders: {:?}\n",
        state.partition_columns, protocol.reader_features
    );
    for change in changes(&entry) {
        text += &format!("{}\n", serde_json::to_string(&change).unwrap());
    }
    expected.assert_eq(&text);
    state
}

fn lines(fields: &[Field], indent: &str, text: &mut String) {
    for field in fields {
        let physical = field.physical.as_ref();
        let stored = physical.map_or_else(String::new, |p| format!(" #{} {}", p.id, p.name));
        let null = if field.nullable { "" } else { " NOT NULL" };
        let kind = match &field.data_type {
            DataType::Struct(_) => "struct".to_owned(),
            DataType::Array { .. } => "array".to_owned(),
            other => other.to_string(),
        };
        let recorded = field.metadata.get("delta.typeChanges");
        let recorded = recorded.map_or_else(String::new, |value| format!(" {value}"));
        *text += &format!("{indent}{}: {kind}{null}{stored}{recorded}\n", field.name);
        let inner = match &field.data_type {
            DataType::Array { element, .. } => element,
            other => other,
        };
        if let DataType::Struct(inner) = inner {
            lines(inner, &format!("{indent}  "), text);
        }
    }
}

#[test]
fn first_rename_maps_every_column_to_the_name_that_files_have() {
    let head = table(&[]);
    check(
        &head,
        &[rename("s/x", "w"), rename("p", "part")],
        expect![[r#"
            a: integer #1 a
            s: struct #2 s
              w: integer #3 x
              y: array #4 y
                z: integer #5 z
            m: map<string,integer> #6 m
            part: string #7 p
            partitioned by ["part"]
            {"delta.columnMapping.maxColumnId": "7", "delta.columnMapping.mode": "name"}
            readers: Some({"columnMapping"})
            {"set":{"key":"delta.columnMapping.mode","value":"name"}}
            {"renameColumn":{"from":"s.x","to":"s.w"}}
            {"renameColumn":{"from":"p","to":"part"}}
            {"addFeature":{"name":"columnMapping"}}
        "#]],
    );
}

#[test]
fn dropped_and_added_again_a_column_has_another_name_in_files() {
    let head = table(&[]);
    let state = check(
        &head,
        &[
            drop_column("a"),
            add(&[], int("a"), Position::First),
            add(&["s", "y", "element"], int("b"), Position::First),
            add(
                &["s"],
                Field::new("t", DataType::Struct(nested()), true),
                Position::After("X".into()),
            ),
        ],
        expect![[r#"
            a: integer #8 col-00000000-0000-0000-0000-000000006100
            s: struct #2 s
              x: integer #3 x
              t: struct #10 col-00000000-0000-0000-0000-000000007400
                a: integer #11 col-00000000-0000-0000-0000-000000007401
                s: struct #12 col-00000000-0000-0000-0000-000000007402
                  x: integer #13 col-00000000-0000-0000-0000-000000007403
                  y: array #14 col-00000000-0000-0000-0000-000000007404
                    z: integer #15 col-00000000-0000-0000-0000-000000007405
                m: map<string,integer> #16 col-00000000-0000-0000-0000-000000007406
                p: string #17 col-00000000-0000-0000-0000-000000007407
              y: array #4 y
                b: integer #9 col-00000000-0000-0000-0000-000000006200
                z: integer #5 z
            m: map<string,integer> #6 m
            p: string #7 p
            partitioned by ["p"]
            {"delta.columnMapping.maxColumnId": "17", "delta.columnMapping.mode": "name"}
            readers: Some({"columnMapping"})
            {"set":{"key":"delta.columnMapping.mode","value":"name"}}
            {"dropColumn":{"name":"a"}}
            {"addColumn":{"name":"a","type":"integer","nullable":true}}
            {"addColumn":{"name":"s.y.element.b","type":"integer","nullable":true}}
            {"addColumn":{"name":"s.t","type":"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}},{\"name\":\"s\",\"type\":{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}},{\"name\":\"y\",\"type\":{\"type\":\"array\",\"elementType\":{\"type\":\"struct\",\"fields\":[{\"name\":\"z\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}}]},\"containsNull\":true},\"nullable\":true,\"metadata\":{}}]},\"nullable\":true,\"metadata\":{}},{\"name\":\"m\",\"type\":{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"integer\",\"valueContainsNull\":true},\"nullable\":true,\"metadata\":{}},{\"name\":\"p\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","nullable":true}}
            {"addFeature":{"name":"columnMapping"}}
        "#]],
    );
    // The number of a column that is gone is not given again.
    let (state, _) = after(&state, &[drop_column("s/t")]);
    let (state, _) = after(&state, &[add(&[], int("n"), Position::Last)]);
    let (_, field) = state.schema.field("n").unwrap();
    assert_eq!(field.physical.as_ref().unwrap().id, 18);
}

#[test]
fn widening_is_recorded_with_the_nearest_field() {
    let head = table(&[]);
    let decimal = DataType::Decimal {
        precision: 12,
        scale: 2,
    };
    let wide = DataType::Decimal {
        precision: 20,
        scale: 0,
    };
    let metadata = [
        widen("a", DataType::Long),
        widen("s/y/element/z", DataType::Double),
        widen("m/value", decimal),
        widen("A", wide.clone()),
        widen("a", wide),
    ];
    let entry = encode(&Commit {
        metadata: &metadata,
        ..commit(Some(&head), None)
    })
    .unwrap();
    let actions = parse_lines(entry.lines.iter().map(String::as_str), "f").unwrap();
    let mut text = String::new();
    for action in actions {
        match action {
            Action::Metadata(metadata) => {
                let schema = parse_schema(&metadata.schema_string).unwrap();
                lines(&schema.fields, "", &mut text);
                text += &format!("{:?}\n", metadata.configuration);
            }
            Action::Protocol(protocol) => text += &format!("{protocol:?}\n"),
            _ => {}
        }
    }
    for change in changes(&entry) {
        text += &format!("{}\n", serde_json::to_string(&change).unwrap());
    }
    expect![[r#"
        Protocol { min_reader_version: 3, min_writer_version: 7, reader_features: Some({"typeWidening"}), writer_features: Some({"domainMetadata", "inCommitTimestamp", "tarndbManaged", "typeWidening"}) }
        a: decimal(20,0) [{"fromType":"integer","toType":"long"},{"fromType":"long","toType":"decimal(20,0)"}]
        s: struct
          x: integer
          y: array
            z: double [{"fromType":"integer","toType":"double"}]
        m: map<string,decimal(12,2)> [{"fieldPath":"value","fromType":"integer","toType":"decimal(12,2)"}]
        p: string
        {"delta.enableInCommitTimestamps": "true", "delta.enableTypeWidening": "true"}
        {"set":{"key":"delta.enableTypeWidening","value":"true"}}
        {"widenColumn":{"column":"a","type":"long"}}
        {"widenColumn":{"column":"s.y.element.z","type":"double"}}
        {"widenColumn":{"column":"m.value","type":"decimal(12,2)"}}
        {"widenColumn":{"column":"A","type":"decimal(20,0)"}}
        {"addFeature":{"name":"typeWidening"}}
    "#]].assert_eq(&text);
}

#[test]
fn null_is_forbidden_and_allowed_by_field() {
    let head = table(&[]);
    let state = check(
        &head,
        &[nullable("s/x", false), nullable("a", false)],
        expect![[r#"
            a: integer NOT NULL
            s: struct
              x: integer NOT NULL
              y: array
                z: integer
            m: map<string,integer>
            p: string
            partitioned by ["p"]
            {}
            readers: None
            {"setNotNull":{"column":"s.x"}}
            {"setNotNull":{"column":"a"}}
            {"addFeature":{"name":"invariants"}}
        "#]],
    );
    let (state, _) = after(&state, &[nullable("A", true)]);
    assert!(state.schema.field("a").unwrap().1.nullable);
}

#[test]
fn new_table_maps_its_columns_to_names_that_nobody_has_had() {
    for mode in ["name", "id"] {
        let head = table(&[("delta.columnMapping.mode", mode)]);
        let physical = head.schema.fields[1].physical.as_ref().unwrap();
        assert_eq!((physical.id, physical.by_id), (2, mode == "id"));
        assert!(physical.name.starts_with("col-"), "{physical:?}");
        assert_eq!(head.properties["delta.columnMapping.maxColumnId"], "7");
        // Any character is one of a name.
        let (state, _) = after(&head, &[rename("a", "a b,{}")]);
        assert_eq!(state.schema.fields[0].name, "a b,{}");
    }
    let head = table(&[("delta.columnMapping.mode", "none")]);
    assert!(!head.schema.is_mapped());
}

#[test]
fn mode_changes_only_from_none_to_name() {
    let key = "delta.columnMapping.mode";
    let unset = MetadataChange::UnsetProperty {
        key: key.to_owned(),
    };
    for (from, change, allowed) in [
        ("none", set(key, "name"), true),
        ("none", set(key, "NAME"), true),
        ("none", set(key, "none"), true),
        ("none", unset.clone(), true),
        ("none", set(key, "id"), false),
        ("none", set(key, "other"), false),
        ("name", set(key, "name"), true),
        ("name", set(key, "none"), false),
        ("name", set(key, "id"), false),
        ("name", unset.clone(), false),
        ("id", set(key, "id"), true),
        ("id", set(key, "name"), false),
        ("id", set(key, "none"), false),
        ("id", unset, false),
        ("name", set("delta.columnMapping.maxColumnId", "1"), false),
    ] {
        let head = table(&[(key, from)]);
        let metadata = [change];
        let result = encode(&Commit {
            metadata: &metadata,
            ..commit(Some(&head), None)
        });
        assert_eq!(result.is_ok(), allowed, "{from} {metadata:?} {result:?}");
        let Ok(entry) = result else { continue };
        let state = applied(&head, &entry);
        let named = from != "none" || format!("{metadata:?}").to_lowercase().contains("\"name\"");
        assert_eq!(state.schema.is_mapped(), named);
    }
}

#[test]
fn changes_that_would_break_something_are_refused_with_its_name() {
    let mut definition = definition(&[("delta.dataSkippingStatsColumns", "a,s.x")], nested());
    definition.partition_columns = vec!["p".to_owned()];
    let mut generated = Field::new("m", DataType::Integer, true);
    let expression = ("delta.generationExpression".into(), "s.x + 1".into());
    generated.metadata.extend([expression]);
    definition.schema.fields[2] = generated;
    let entry = encode(&commit(None, Some(&definition))).unwrap();
    let head = DeltaCodec::default().apply(None, &entry).unwrap();
    for (change, expected) in [
        (rename("s/x", "w"), "used by the generated column m"),
        (rename("s", "t"), "used by the generated column m"),
        (drop_column("s/x"), "used by the generated column m"),
        (
            widen("s/x", DataType::Long),
            "used by the generated column m",
        ),
        (drop_column("p"), "used by the partitioning of the table"),
        (drop_column("s/q"), "no such column"),
        (rename("q", "r"), "no such column"),
        (rename("a", "S"), "such a column already"),
        (rename("a", ""), "name"),
        (widen("a", DataType::Short), "from=integer, to=short"),
        (widen("a", DataType::String), "from=integer, to=string"),
        (widen("s", DataType::Long), "from=struct"),
        (widen("s/y/key", DataType::Long), "no such column"),
        (nullable("s/y/element", false), "no such column"),
        (add(&["q"], int("b"), Position::Last), "no such column"),
        (add(&["a"], int("b"), Position::Last), "no such column"),
        (
            add(&["s"], int("X"), Position::Last),
            "such a column already",
        ),
        (
            add(&[], int("b"), Position::After("q".into())),
            "no such column",
        ),
        (
            add(
                &["s"],
                Field::new("b", DataType::Long, false),
                Position::Last,
            ),
            "must allow NULL",
        ),
    ] {
        let error = refused(&head, change.clone());
        assert!(error.to_string().contains(expected), "{change:?}: {error}");
    }
    let (state, _) = after(&head, &[rename("a", "b"), nullable("s/x", false)]);
    assert_eq!(state.properties["delta.dataSkippingStatsColumns"], "b,s.x");
    let (state, _) = after(&state, &[drop_column("b")]);
    assert_eq!(state.properties["delta.dataSkippingStatsColumns"], "s.x");
    // A generated column goes with its own expression.
    after(&state, &[drop_column("m"), drop_column("s/x")]);
}

#[test]
fn last_column_stays() {
    let entry = encode(&commit(None, Some(&definition(&[], vec![long("a")])))).unwrap();
    let head = DeltaCodec::default().apply(None, &entry).unwrap();
    let error = refused(&head, drop_column("a"));
    assert!(error.to_string().contains("column"), "{error}");
}

#[test]
fn user_who_turned_widening_off_is_asked() {
    let head = table(&[("delta.enableTypeWidening", "false")]);
    let error = refused(&head, widen("a", DataType::Long));
    assert!(
        matches!(error, DeltaError::PropertyRefused { .. }),
        "{error}"
    );
}

#[test]
fn annotations_of_another_table_are_not_taken_over() {
    let mapped = table(&[("delta.columnMapping.mode", "name")]);
    let copied = definition(&[], mapped.schema.fields.clone());
    let entry = encode(&commit(None, Some(&copied))).unwrap();
    assert!(!entry.lines.join("\n").contains("columnMapping"));
    let head = DeltaCodec::default().apply(None, &entry).unwrap();
    let field = mapped.schema.fields[0].clone();
    let metadata = [add(&["s"], field, Position::Last)];
    let (_, entry) = after(&head, &metadata);
    assert!(!entry.lines.join("\n").contains("columnMapping"));
}
