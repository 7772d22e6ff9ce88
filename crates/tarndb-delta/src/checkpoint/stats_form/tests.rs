//! Checkpoints with statistics as text, as columns and as both, classic and V2: one state.

use std::sync::Arc;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tarndb_storage::context::Context;
use tarndb_storage::{Path, Store};
use tarndb_table::{DataFile, Deletion, TableState};

use super::*;
use crate::action::parse_commit;
use crate::checkpoint::write::write_checkpoint;
use crate::load::load_own_log;
use crate::replay::Replay;

/// Every kind of column, one of them nested and mapped to another name.
const SCHEMA: &str = r#"{"type":"struct","fields":[
    {"name":"by","type":"byte","nullable":true,"metadata":{}},
    {"name":"sh","type":"short","nullable":true,"metadata":{}},
    {"name":"i","type":"integer","nullable":true,"metadata":{}},
    {"name":"l","type":"long","nullable":true,"metadata":{}},
    {"name":"f","type":"float","nullable":true,"metadata":{}},
    {"name":"d","type":"double","nullable":true,"metadata":{}},
    {"name":"n","type":"decimal(20,3)","nullable":true,"metadata":{}},
    {"name":"s","type":"string","nullable":true,"metadata":{}},
    {"name":"da","type":"date","nullable":true,"metadata":{}},
    {"name":"t","type":"timestamp","nullable":true,"metadata":{}},
    {"name":"u","type":"timestamp_ntz","nullable":true,"metadata":{}},
    {"name":"b","type":"boolean","nullable":true,"metadata":{}},
    {"name":"x","type":"binary","nullable":true,"metadata":{}},
    {"name":"v","type":"void","nullable":true,"metadata":{}},
    {"name":"a","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}},
    {"name":"e","type":{"type":"struct","fields":[{"name":"z","type":"binary","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},
    {"name":"st","type":{"type":"struct","fields":[
        {"name":"in","type":{"type":"struct","fields":[{"name":"y","type":"long","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}
    ]},"nullable":true,"metadata":{}},
    {"name":"p","type":"date","nullable":true,"metadata":{}},
    {"name":"q","type":"decimal(5,2)","nullable":true,"metadata":{}}]}"#;

fn log_of(properties: &str) -> String {
    let protocol = r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["timestampNtz","v2Checkpoint"],"writerFeatures":["timestampNtz","v2Checkpoint"]}}"#;
    let schema = serde_json::to_string(SCHEMA).unwrap();
    let metadata = format!(
        r#"{{"metaData":{{"id":"i","format":{{"provider":"parquet","options":{{}}}},"schemaString":{schema},"partitionColumns":["p","q"],"configuration":{{{properties}}}}}}}"#
    );
    let stats = [
        r#"{"numRecords":3,"minValues":{"by":-128,"sh":-5,"i":1,"l":-9223372036854775808,"f":0.1,"d":-1e300,"n":-12345678901234567.891,"s":"a\n","da":"1969-12-31","t":"1969-12-31T23:59:59.999Z","u":"2020-01-01T00:00:00.001","st":{"in":{"y":4}}},
            "maxValues":{"by":127,"sh":5,"i":2,"l":9223372036854775807,"f":0.3,"d":1e300,"n":0.001,"s":"z","da":"9999-12-31","t":"2020-01-01T00:00:00.000+02:00","u":"2020-01-01T00:00:00.001","st":{"in":{"y":5}}},
            "nullCount":{"by":0,"b":1,"x":2,"a":3,"e":{"z":1},"st":{"in":{"y":0}},"l":1},"tightBounds":false}"#,
        // Of wrong types and digits, and a maximum that may have been cut.
        r#"{"numRecords":1,"minValues":{"i":"x","n":99999999999999999999,"l":null,"st":7},"maxValues":{"s":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","f":1e39},"nullCount":{"i":-1}}"#,
        r#"{}"#,
        "broken",
    ];
    let values = [
        r#"{"p":"2020-02-29","q":"1.50"}"#,
        r#"{"p":null,"q":"x"}"#,
        r#"{"p":"0001-01-01","q":null}"#,
        r#"{"p":null,"q":null}"#,
    ];
    let mut lines = vec![protocol.to_owned(), metadata];
    for (number, (stats, values)) in stats.iter().zip(values).enumerate() {
        let stats = serde_json::to_string(stats).unwrap();
        lines.push(format!(
            r#"{{"add":{{"path":"f{number}","partitionValues":{values},"size":{number},"modificationTime":1,"dataChange":true,"stats":{stats},"clusteringProvider":"liquid"}}}}"#
        ));
    }
    lines.push(r#"{"add":{"path":"plain","partitionValues":{"p":null,"q":null},"size":9,"modificationTime":1,"dataChange":true}}"#.to_owned());
    lines.join("\n")
}

/// The files without the spelling of their statistics; where there is no text, none say nothing.
fn comparable(state: &TableState) -> Vec<DataFile> {
    let mut files: Vec<DataFile> = state
        .files
        .values()
        .map(|file| DataFile {
            raw_stats: None,
            stats: file.stats.clone().filter(|stats| **stats != nothing()),
            ..file.as_ref().clone()
        })
        .collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

fn nothing() -> Statistics {
    Statistics {
        tight_bounds: true,
        ..Statistics::default()
    }
}

/// Checkpoints the table of these properties; the state read from the checkpoint alone.
async fn checkpointed(properties: &str) -> (Store, TableState, TableState) {
    let store = Store::memory(Context::seeded(1));
    let commit = Path::from("_delta_log/00000000000000000000.json");
    let text = log_of(properties);
    store
        .put(&commit, text.clone().into_bytes().into())
        .await
        .unwrap();
    let mut replay = Replay::default();
    replay
        .commit(parse_commit(text.as_bytes(), "f").unwrap())
        .unwrap();
    let expected = replay.finish(0, "log").unwrap();
    write_checkpoint(&store, &Path::default(), &expected)
        .await
        .unwrap();
    store.delete(&commit).await.unwrap();
    let found = load_own_log(&store, &Path::default(), None).await.unwrap();
    (store, expected, found)
}

#[tokio::test]
async fn the_state_is_one_whatever_form_its_statistics_have() {
    let form = |json: bool, columns: bool, policy: &str| {
        format!(
            r#""delta.checkpoint.writeStatsAsJson":"{json}","delta.checkpoint.writeStatsAsStruct":"{columns}","delta.checkpointPolicy":"{policy}""#
        )
    };
    for policy in ["classic", "v2"] {
        for (json, columns) in [(true, false), (true, true), (false, true)] {
            let (_, expected, found) = checkpointed(&form(json, columns, policy)).await;
            let case = format!("{policy} {json} {columns}");
            assert_eq!(comparable(&found), comparable(&expected), "{case}");
            assert_eq!(found.size_bytes(), expected.size_bytes(), "{case}");
        }
        let (_, expected, found) = checkpointed(&form(false, false, policy)).await;
        assert_eq!(found.files.len(), expected.files.len());
        assert!(found.files.values().all(|file| file.stats.is_none()));
    }
}

#[tokio::test]
async fn columns_have_the_types_and_names_of_the_tables() {
    let both = r#""delta.checkpoint.writeStatsAsJson":"false","delta.checkpoint.writeStatsAsStruct":"true""#;
    let (store, ..) = checkpointed(both).await;
    let key = Path::from("_delta_log/00000000000000000000.checkpoint.parquet");
    let bytes = store.get_required(&key).await.unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let schema = Arc::clone(reader.schema());
    let ArrowType::Struct(add) = schema.field_with_name("add").unwrap().data_type() else {
        panic!("add is a struct");
    };
    let child = |fields: &Fields, name: &str| -> Option<ArrowType> {
        let field = fields.iter().find(|field| field.name() == name)?;
        Some(field.data_type().clone())
    };
    let group = |fields: &Fields, name: &str| match child(fields, name) {
        Some(ArrowType::Struct(fields)) => fields,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(child(add, "stats"), None);
    let partitions = group(add, "partitionValues_parsed");
    assert_eq!(child(&partitions, "p"), Some(ArrowType::Date32));
    let parsed = group(add, "stats_parsed");
    let (min, nulls) = (group(&parsed, "minValues"), group(&parsed, "nullCount"));
    let names = |fields: &Fields| -> Vec<String> {
        fields.iter().map(|field| field.name().clone()).collect()
    };
    let ordered = [
        "by", "sh", "i", "l", "f", "d", "n", "s", "da", "t", "u", "st",
    ];
    assert_eq!(names(&min), ordered);
    assert_eq!(names(&nulls).len(), 16);
    assert_eq!(child(&nulls, "a"), Some(ArrowType::Int64));
    assert_eq!(child(&min, "n"), Some(ArrowType::Decimal128(20, 3)));
    assert_eq!(child(&min, "t"), Some(DataType::Timestamp.to_arrow()),);
}

#[test]
fn a_file_with_a_vector_keeps_its_loose_bounds() {
    let loose = r#"{"numRecords":2,"minValues":{"a":1},"tightBounds":false}"#;
    let schema = Schema::new(vec![Field::new("a", DataType::Long, true)]);
    let parsed = Parsed {
        schema: schema.clone(),
        partitions: Vec::new(),
    };
    let file = crate::action::parse_lines(
        [format!(
            r#"{{"add":{{"path":"f","size":1,"stats":{}}}}}"#,
            serde_json::to_string(loose).unwrap()
        )]
        .iter()
        .map(String::as_str),
        "f",
    );
    let crate::action::Action::Add(add) = file.unwrap().remove(0) else {
        panic!("an add");
    };
    assert_eq!(
        crate::state::data_file((*add).clone()).unwrap().deletion,
        Deletion::None
    );
    let array = parsed.statistics(&[None, Some(&add)]).unwrap();
    let array = array.as_any().downcast_ref::<StructArray>().unwrap();
    assert!(arrow_array::Array::is_null(array, 0));
    let tight = array.column_by_name("tightBounds").unwrap();
    let tight = tight.as_any().downcast_ref::<BooleanArray>().unwrap();
    assert!(!tight.value(1));
}
