//! Pruning loses no row: predicates made from the data of every acceptance table, counted with
//! and without it.

use std::collections::BTreeSet;
use std::path::Path as FilePath;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt;
use tarndb_delta::DeltaCodec;
use tarndb_storage::Path;
use tarndb_table::*;

use super::{Table, cases, expectation, open_store};

/// Values of one column from which predicates are made.
const VALUES_MAX: usize = 6;

/// Columns whose statistics are false: this one is in no file, and is said to have values.
const FALSE_STATISTICS: [(&str, &str); 1] = [("kernelrs__parsed-stats", "ts_col")];

#[tokio::test]
async fn pruning_loses_no_row_of_any_table() {
    let Some(cases) = cases() else {
        return;
    };
    let (mut predicates, mut skipped, mut wrong) = (0, 0, Vec::new());
    for case in &cases {
        if expectation(case)["expect"] != "rows" {
            continue;
        }
        let (state, files) = read(case).await;
        let trusted = |field: &&Field| {
            let mut lies = FALSE_STATISTICS.iter();
            !lies.any(|(name, column)| case.ends_with(name) && field.name == *column)
        };
        for field in state.schema.fields.iter().filter(trusted) {
            for predicate in made_for(field, &files) {
                let mut counts = (0, 0);
                for (file, batches) in &files {
                    let kept = may_match(&predicate, file, &state.schema, &state.partition_columns);
                    skipped += u64::from(!kept);
                    let rows = matching(&predicate, batches, &state.schema);
                    counts.0 += rows;
                    counts.1 += if kept { rows } else { 0 };
                }
                predicates += 1;
                if counts.0 != counts.1 {
                    wrong.push(format!("{}: {predicate:?}: {counts:?}", case.display()));
                }
            }
        }
    }
    println!("{predicates} predicates left out {skipped} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(skipped > 1000, "hardly anything was pruned: {skipped}");
}

type Read = Vec<(Arc<DataFile>, Vec<RecordBatch>)>;

async fn read(case: &FilePath) -> (TableState, Read) {
    let store = open_store(case);
    let state = Table::of(case, store.clone())
        .await
        .open(None)
        .await
        .unwrap();
    let (root, codec) = (Path::default(), DeltaCodec::default());
    let mut files = Vec::new();
    for file in state.files.values() {
        let deleted = codec
            .load_deletion(&store, &root, &file.deletion)
            .await
            .unwrap();
        let columns = &state.partition_columns;
        let rows = read_file(&store, &root, &file, &state.schema, columns, Some(&deleted)).await;
        let batches = rows.unwrap().try_collect().await.unwrap();
        files.push((file, batches));
    }
    (state, files)
}

fn matching(predicate: &Predicate, batches: &[RecordBatch], schema: &Schema) -> u64 {
    let count = |batch: &RecordBatch| predicate.evaluate(batch, schema).unwrap().true_count();
    batches.iter().map(|batch| count(batch) as u64).sum()
}

fn made_for(field: &Field, files: &Read) -> Vec<Predicate> {
    let name = || field.name.clone();
    let mut made = vec![Predicate::IsNull(name()), Predicate::IsNotNull(name())];
    if field.data_type.is_nested() || matches!(field.data_type, DataType::Void | DataType::Binary) {
        return made;
    }
    let values = values(field, files);
    let compare = |op, value: &Scalar| Predicate::Compare {
        column: field.name.clone(),
        op,
        value: value.clone(),
    };
    for value in &values {
        for op in [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ] {
            made.push(compare(op, value));
        }
    }
    for pair in values.chunks(2) {
        let parts = pair.iter().map(|value| compare(Comparison::Equal, value));
        made.push(Predicate::Or(parts.collect()));
    }
    made
}

/// Some values of a column, first of all its extremes, and those just beside them.
fn values(field: &Field, files: &Read) -> Vec<Scalar> {
    let mut texts = BTreeSet::new();
    for (_, batches) in files {
        for batch in batches {
            let array = batch.column_by_name(&field.name).unwrap();
            for row in (0..array.len()).take(200) {
                let text = encode_partition_value(array, row, &field.data_type);
                texts.extend(text.ok().flatten());
            }
        }
    }
    let value = |text: &String| parse_partition_value(Some(text), &field.data_type).unwrap();
    let mut all: Vec<Scalar> = texts.iter().filter_map(value).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let step = (all.len() / VALUES_MAX).max(1);
    let ends = all.first().into_iter().chain(all.last());
    let some = ends.chain(all.iter().step_by(step)).cloned();
    some.flat_map(|value| beside(&value).into_iter().chain([value]))
        .filter(|value| scalar_to_array(Some(value), &field.data_type, 1).is_ok())
        .collect()
}

fn beside(value: &Scalar) -> Vec<Scalar> {
    match value {
        Scalar::Long(value) => [value.saturating_sub(1), value.saturating_add(1)]
            .map(Scalar::Long)
            .to_vec(),
        Scalar::Double(value) => [value.next_down(), value.next_up()]
            .map(Scalar::Double)
            .to_vec(),
        Scalar::Decimal(value, scale) => [value - 1, value + 1]
            .map(|value| Scalar::Decimal(value, *scale))
            .to_vec(),
        Scalar::Date(days) => [days - 1, days + 1].map(Scalar::Date).to_vec(),
        Scalar::TimestampMicros(micros) => [-1000, -1, 1, 999]
            .map(|by| Scalar::TimestampMicros(micros.saturating_add(by)))
            .to_vec(),
        Scalar::String(text) => {
            let mut shorter = text.clone();
            shorter.pop();
            vec![Scalar::String(shorter), Scalar::String(format!("{text}!"))]
        }
        Scalar::Boolean(_) | Scalar::Binary(_) => Vec::new(),
    }
}
