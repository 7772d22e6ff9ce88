//! Column mapping: files know stored names and ids, whatever the table calls its columns.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType as ArrowType, Field as ArrowField, Fields};
use parquet::file::reader::{FileReader, SerializedFileReader};
use tarndb_table::{
    Comparison, DataFile, DataType, Field, Physical, Predicate, Scalar, Schema, TableError,
    WriteOptions, may_match,
};

use crate::fixture::*;
use crate::foreign::{parquet_bytes, store_file};

fn mapped(name: &str, data_type: DataType, stored: &str, id: i32, by_id: bool) -> Field {
    let mut field = field(name, data_type);
    field.physical = Some(Physical {
        name: stored.to_owned(),
        id,
        by_id,
    });
    field
}

/// Columns whose names were exchanged: whoever looks for them by name finds the other one.
fn fields(by_id: bool) -> Vec<Field> {
    let inner = |name: &str, stored: &str, id| mapped(name, DataType::Long, stored, id, by_id);
    let pair = DataType::Struct(vec![inner("x", "y", 4), inner("y", "x", 5)]);
    let list = DataType::Array {
        element: Box::new(pair.clone()),
        contains_null: true,
    };
    let map = DataType::Map {
        key: Box::new(DataType::String),
        value: Box::new(DataType::Struct(vec![
            inner("x", "y", 8),
            inner("y", "x", 9),
        ])),
        value_contains_null: true,
    };
    vec![
        mapped("a b", DataType::Long, "b", 1, by_id),
        mapped("b", DataType::Long, "a", 2, by_id),
        mapped("s", pair, "s1", 3, by_id),
        mapped("l", list, "l1", 6, by_id),
        mapped("m", map, "m1", 7, by_id),
        mapped("p", DataType::String, "q", 10, by_id),
    ]
}

fn pairs() -> StructArray {
    let x: ArrayRef = Arc::new(Int64Array::from(vec![10, 20]));
    let y: ArrayRef = Arc::new(Int64Array::from(vec![11, 21]));
    let field = |name| Arc::new(ArrowField::new(name, ArrowType::Int64, true));
    StructArray::new(Fields::from(vec![field("x"), field("y")]), vec![x, y], None)
}

fn rows() -> RecordBatch {
    let pairs = pairs();
    let element = Arc::new(ArrowField::new("element", pairs.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 1]);
    let list = ListArray::new(element, offsets.clone(), Arc::new(pairs.clone()), None);
    let key = ArrowField::new("key", ArrowType::Utf8, false);
    let value = ArrowField::new("value", pairs.data_type().clone(), true);
    let entries = StructArray::new(
        Fields::from(vec![key, value]),
        vec![
            Arc::new(StringArray::from(vec!["k", "k"])),
            Arc::new(pairs.clone()),
        ],
        None,
    );
    let entry = ArrowField::new("key_value", entries.data_type().clone(), false);
    let map = MapArray::new(Arc::new(entry), offsets, entries, None, false);
    batch(vec![
        ("a b", Arc::new(Int64Array::from(vec![1, 2]))),
        ("b", Arc::new(Int64Array::from(vec![3, 4]))),
        ("s", Arc::new(pairs)),
        ("l", Arc::new(list)),
        ("m", Arc::new(map)),
        ("p", Arc::new(StringArray::from(vec!["u", "u"]))),
    ])
}

const LINES: [&str; 2] = [
    "1|3|{x: 10, y: 11}|[{x: 10, y: 11}]|{k: {x: 10, y: 11}}|u",
    "2|4|{x: 20, y: 21}|[{x: 20, y: 21}]|{k: {x: 20, y: 21}}|u",
];

async fn written(by_id: bool) -> (Table, DataFile) {
    let table = Table::new(fields(by_id), &["p"]);
    let written = table.write(&[rows()], WriteOptions::default()).await;
    let file = written.unwrap().files.pop().unwrap();
    (table, file)
}

#[tokio::test]
async fn mapped_rows_come_back_by_name_and_by_id() {
    for by_id in [false, true] {
        let (table, file) = written(by_id).await;
        let read = table.read(&file, None).await.unwrap();
        assert_eq!(sorted_lines(&read), LINES, "{by_id}");
        assert_eq!(read[0].schema().field(2).data_type(), pairs().data_type());
    }
}

#[tokio::test]
async fn files_statistics_and_partitions_use_stored_names() {
    let (table, file) = written(false).await;
    let key = file.key(&table.location).unwrap();
    let bytes = table.store.get_required(&key).await.unwrap();
    let reader = SerializedFileReader::new(bytes).unwrap();
    let stored = reader.metadata().file_metadata().schema_descr();
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, stored.root_schema());
    let text = String::from_utf8(text).unwrap();
    for part in [
        "b [1]", "a [2]", "s1 [3]", "y [4]", "x [5]", "l1 [6]", "m1 [7]", "y [8]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let stats = file.stats.as_ref().unwrap();
    let names: Vec<String> = stats.columns.keys().map(|path| path.join(".")).collect();
    assert_eq!(names, ["a", "b", "l1", "m1", "s1.x", "s1.y"]);
    assert_eq!(file.partition_values["q"].as_deref(), Some("u"));
    // No directory tells a column.
    assert!(!file.path.contains('='), "{}", file.path);
    assert_eq!(file.path.find('/'), Some(2), "{}", file.path);
}

#[tokio::test]
async fn pruning_finds_the_statistics_of_a_renamed_column() {
    let (table, file) = written(false).await;
    let matches = |column: &str, value: Scalar| {
        let predicate = Predicate::Compare {
            column: column.to_owned(),
            op: Comparison::Equal,
            value,
        };
        may_match(&predicate, &file, &table.schema, &table.partition_columns)
    };
    assert!(matches("a b", Scalar::Long(1)));
    assert!(!matches("a b", Scalar::Long(3)));
    assert!(matches("b", Scalar::Long(3)));
    assert!(!matches("b", Scalar::Long(1)));
    assert!(matches("p", Scalar::String("u".into())));
    assert!(!matches("p", Scalar::String("v".into())));
}

#[tokio::test]
async fn a_renamed_dropped_and_readded_column_reads_by_what_is_stored() {
    let (table, file) = written(false).await;
    let schema = Schema::new(vec![
        mapped("renamed", DataType::Long, "b", 1, false),
        // A column of the old name that came later has another stored name.
        mapped("b", DataType::Long, "col-1", 11, false),
    ]);
    let read = table.read_as(&file, &schema, None).await.unwrap();
    assert_eq!(sorted_lines(&read), ["1|NULL", "2|NULL"]);
}

#[tokio::test]
async fn by_id_the_names_in_the_file_mean_nothing() {
    let (table, file) = written(true).await;
    let other = |name: &str, id| mapped(name, DataType::Long, "other", id, true);
    let pair = DataType::Struct(vec![other("x", 4), other("y", 5)]);
    let schema = Schema::new(vec![
        other("a b", 1),
        // The file has a column of this name, and its id is another one.
        mapped("c", DataType::Long, "a", 99, true),
        mapped("s", pair, "other", 3, true),
    ]);
    let read = table.read_as(&file, &schema, None).await.unwrap();
    let lines = ["1|NULL|{x: 10, y: 11}", "2|NULL|{x: 20, y: 21}"];
    assert_eq!(sorted_lines(&read), lines);
}

#[tokio::test]
async fn fields_of_a_struct_that_has_the_tables_type_already_are_still_mapped() {
    // A file from before its table was mapped has no ids, and looks like the table of today.
    let inner = |name: &str, stored: &str, id| mapped(name, DataType::Long, stored, id, false);
    let pair = DataType::Struct(vec![inner("x", "y", 2), inner("y", "x", 3)]);
    let table = Table::new(vec![mapped("s", pair, "s", 1, false)], &[]);
    let rows = batch(vec![("s", Arc::new(pairs()) as ArrayRef)]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let read = table.read(&file, None).await.unwrap();
    assert_eq!(sorted_lines(&read), ["{x: 11, y: 10}", "{x: 21, y: 20}"]);
}

#[tokio::test]
async fn a_file_without_ids_is_refused_where_columns_are_found_by_them() {
    let table = Table::new(vec![mapped("a", DataType::Long, "a", 1, true)], &[]);
    let bare = batch(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let file = store_file(&table, parquet_bytes(&bare), None).await;
    let error = table.read(&file, None).await.unwrap_err();
    assert!(matches!(error, TableError::NoFieldIds { .. }), "{error:?}");
}

#[tokio::test]
async fn variants_are_read_whatever_the_order_of_their_parts_and_shredded_ones_refused() {
    let table = Table::new(vec![field("v", DataType::Variant)], &[]);
    let binary = |name: &str| ArrowField::new(name, ArrowType::Binary, false);
    let array = |text: &'static [u8]| Arc::new(BinaryArray::from(vec![text])) as ArrayRef;
    let swapped = StructArray::new(
        Fields::from(vec![binary("value"), binary("metadata")]),
        vec![array(b"v"), array(b"m")],
        None,
    );
    let rows = batch(vec![("v", Arc::new(swapped) as ArrayRef)]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let read = table.read(&file, None).await.unwrap();
    assert_eq!(lines_of(&read[0]), ["{metadata: 6d, value: 76}"]);

    let shredded = StructArray::new(
        Fields::from(vec![
            binary("metadata"),
            binary("value"),
            ArrowField::new("typed_value", ArrowType::Int64, true),
        ]),
        vec![
            array(b"m"),
            array(b"v"),
            Arc::new(Int64Array::from(vec![1])),
        ],
        None,
    );
    let rows = batch(vec![("v", Arc::new(shredded) as ArrayRef)]);
    let file = store_file(&table, parquet_bytes(&rows), None).await;
    let error = table.read(&file, None).await.unwrap_err().to_string();
    assert!(error.contains("variantShredding"), "{error}");
}

#[tokio::test]
async fn a_file_of_another_type_is_read_only_where_the_format_widens() {
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    let int: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let long: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let float: ArrayRef = Arc::new(Float32Array::from(vec![1.5]));
    let double: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    let date: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
    let cents: ArrayRef = Arc::new(
        Decimal128Array::from(vec![150])
            .with_precision_and_scale(10, 2)
            .unwrap(),
    );
    for (stored, data_type, wanted) in [
        (&int, DataType::Long, Some("7")),
        (&int, DataType::Double, Some("7.0")),
        (&int, decimal(11, 1), Some("7.0")),
        (&long, decimal(21, 1), Some("7.0")),
        (&float, DataType::Double, Some("1.5")),
        (&date, DataType::TimestampNtz, Some("1970-01-02T00:00:00")),
        (&cents, decimal(20, 5), Some("1.50000")),
        // What would lose digits or mean something else is no widening.
        (&long, DataType::Double, None),
        (&double, DataType::Float, None),
        (&double, DataType::Long, None),
        (&cents, decimal(10, 1), None),
        (&cents, DataType::Double, None),
        (&text, DataType::Long, None),
        (&int, DataType::String, None),
        (&date, DataType::Timestamp, None),
    ] {
        let table = Table::new(vec![field("a", data_type.clone())], &[]);
        let rows = batch(vec![("a", Arc::clone(stored))]);
        let file = store_file(&table, parquet_bytes(&rows), None).await;
        let at = format!("{} as {data_type}", stored.data_type());
        match (table.read(&file, None).await, wanted) {
            (Ok(read), Some(wanted)) => assert_eq!(lines_of(&read[0]), [wanted], "{at}"),
            (Err(TableError::DataFileType { .. }), None) => {}
            (other, _) => panic!("{at}: {other:?}"),
        }
    }
}
