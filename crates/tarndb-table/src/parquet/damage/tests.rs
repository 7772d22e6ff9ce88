//! Every damage of a footer's places is refused, and panics are errors.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataBuilder};
use arrow_array::{Int64Array, RecordBatch};
use bytes::Bytes;

use super::*;

fn file() -> Bytes {
    let column: arrow_array::ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// The footer of [`file`] with another first column.
fn damaged(change: impl FnOnce(ColumnChunkMetaData) -> ColumnChunkMetaData) -> ParquetMetaData {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file()).unwrap();
    let mut footer = ParquetMetaDataBuilder::new_from_metadata(builder.metadata().as_ref().clone());
    let groups = footer.take_row_groups();
    let group = groups.into_iter().next().unwrap();
    let column = change(group.column(0).clone());
    let group = group.into_builder().set_column_metadata(vec![column]);
    footer.add_row_group(group.build().unwrap()).build()
}

#[test]
fn footer_of_a_sound_file_passes() {
    let size = file().len() as u64;
    check_footer(&damaged(|column| column), size).unwrap();
}

#[test]
fn places_outside_the_file_are_refused() {
    let size = file().len() as u64;
    let beyond = i64::try_from(size).unwrap();
    let cases: [(&str, ParquetMetaData); 6] = [
        (
            "negative place",
            damaged(|c| {
                c.into_builder()
                    .set_dictionary_page_offset(Some(-1))
                    .build()
                    .unwrap()
            }),
        ),
        (
            "negative place",
            damaged(|c| {
                c.into_builder()
                    .set_total_compressed_size(-1)
                    .build()
                    .unwrap()
            }),
        ),
        (
            "beyond the end",
            damaged(|c| {
                c.into_builder()
                    .set_total_compressed_size(i64::MAX)
                    .build()
                    .unwrap()
            }),
        ),
        (
            "beyond the end",
            damaged(|c| {
                c.into_builder()
                    .set_dictionary_page_offset(Some(beyond))
                    .build()
                    .unwrap()
            }),
        ),
        (
            "negative size",
            damaged(|c| {
                c.into_builder()
                    .set_total_uncompressed_size(-1)
                    .build()
                    .unwrap()
            }),
        ),
        (
            "negative size",
            damaged(|c| c.into_builder().set_num_values(-1).build().unwrap()),
        ),
    ];
    for (expected, footer) in cases {
        let error = check_footer(&footer, size).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn panic_of_the_library_is_an_error_about_the_file() {
    let footer = damaged(|column| {
        let column = column.into_builder().set_dictionary_page_offset(Some(-1));
        column.build().unwrap()
    });
    // What the library does with such a footer, without the check.
    let work = async { Ok(footer.row_group(0).column(0).byte_range()) };
    let error = guarded(work).await.unwrap_err().to_string();
    assert!(error.contains("cannot be decoded"), "{error}");
    assert_eq!(guarded(async { Ok(7) }).await.unwrap(), 7);
}
