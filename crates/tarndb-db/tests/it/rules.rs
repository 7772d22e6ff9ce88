//! Rules of rows: enforced on every way in, and kept when others commit meanwhile.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use serde_json::{Value, json};
use tarndb_db::{Committed, Database, DbError, NewTable};
use tarndb_table::rules::Identity;
use tarndb_table::{DataType, Field, Schema, WriteOptions};
use tarndb_txn::Operation;
use tarndb_types::TableId;

use crate::support::Row;
use crate::support::{
    World, append, assert_conflict, begin, columns, create, insert, longs, new_table, once,
    table_of,
};

fn field(name: &str, data_type: DataType, metadata: &[(&str, Value)]) -> Field {
    let mut field = Field::new(name, data_type, true);
    for (key, value) in metadata {
        field.metadata.insert((*key).to_owned(), value.clone());
    }
    field
}

/// id IDENTITY, v LONG DEFAULT 7, twice GENERATED AS (v * 2); CHECK (v < 1000).
fn ruled() -> NewTable {
    let identity = Identity {
        start: 1,
        step: 1,
        mark: None,
        explicit: false,
    };
    let mut id = Field::new("id", DataType::Long, false);
    id.metadata = identity.metadata();
    let mut table = new_table("t");
    table.schema = Schema::new(vec![
        id,
        field("v", DataType::Long, &[("CURRENT_DEFAULT", json!("7"))]),
        field(
            "twice",
            DataType::Long,
            &[("delta.generationExpression", json!("v * 2"))],
        ),
    ]);
    table
        .properties
        .insert("delta.constraints.small".to_owned(), "v < 1000".to_owned());
    table
}

fn kv_table() -> NewTable {
    let columns = [("k", DataType::Long), ("v", DataType::Long)];
    table_of("p", &columns, &[])
}

/// k LONG, v LONG, next GENERATED AS (v + 1), CHECK (v <> 13).
fn plain() -> NewTable {
    let mut table = kv_table();
    table.schema.fields.push(field(
        "next",
        DataType::Long,
        &[("delta.generationExpression", json!("v + 1"))],
    ));
    table
        .properties
        .insert("delta.constraints.lucky".to_owned(), "v <> 13".to_owned());
    table
}

fn values(v: &[i64]) -> RecordBatch {
    columns(vec![("v", longs(v.iter().copied()))])
}

async fn append_v(db: &Database, id: TableId, v: &[i64]) -> Result<Committed, DbError> {
    let mut txn = begin(db).await;
    txn.append_columns(id, &["v"], once(values(v))).await?;
    txn.commit().await
}

fn kv(rows: &[Row]) -> RecordBatch {
    columns(vec![
        ("k", longs(rows.iter().map(|row| row.0))),
        ("v", longs(rows.iter().map(|row| row.1))),
    ])
}

async fn append_kv(db: &Database, id: TableId, rows: &[Row]) -> Result<Committed, DbError> {
    let mut txn = begin(db).await;
    txn.append_columns(id, &["k", "v"], once(kv(rows))).await?;
    txn.commit().await
}

/// The values of all rows, `|` between them.
async fn told(db: &Database, id: TableId) -> Vec<String> {
    let values = |row: &String| {
        let columns = row.split(", ").map(|column| column.split(" = ").nth(1));
        columns.map(Option::unwrap).collect::<Vec<_>>().join("|")
    };
    crate::support::told(db, id)
        .await
        .iter()
        .map(values)
        .collect()
}

/// The error with what it comes from.
fn whole_text(error: &DbError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, DbError>, expected: &str) {
    let error = result.unwrap_err();
    let text = whole_text(&error);
    assert!(text.contains(expected), "{text}");
    assert!(!error.is_retryable(), "{text}");
}

#[tokio::test]
async fn omitted_columns_are_filled_and_the_mark_goes_on_over_handles() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, ruled()).await;
    append_v(&db, id, &[5, 6]).await.unwrap();
    let db = world.open().await;
    let mut txn = begin(&db).await;
    // Two statements of one transaction, and a column list without any value.
    txn.append_columns(id, &["V"], once(values(&[8])))
        .await
        .unwrap();
    txn.append_columns(id, &["v"], once(values(&[9])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    assert_eq!(
        told(&db, id).await,
        ["1|5|10", "2|6|12", "3|8|16", "4|9|18"]
    );
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let mark = state.schema.fields[0]
        .metadata
        .get("delta.identity.highWaterMark");
    assert_eq!(mark, Some(&json!(4)));
}

#[tokio::test]
async fn numbers_are_never_given_out_again() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, ruled()).await;
    append_v(&db, id, &[1, 2, 3]).await.unwrap();
    let mut txn = begin(&db).await;
    txn.truncate(id).await.unwrap();
    txn.commit().await.unwrap();
    append_v(&db, id, &[4]).await.unwrap();
    assert_eq!(told(&db, id).await, ["4|4|8"]);
}

#[tokio::test]
async fn two_inserts_at_once_never_share_a_number() {
    let world = World::new();
    let db = world.create().await;
    let other = world.open().await;
    let id = create(&db, ruled()).await;
    let mut first = begin(&db).await;
    let mut second = begin(&other).await;
    for txn in [&mut first, &mut second] {
        txn.append_columns(id, &["v"], once(values(&[1])))
            .await
            .unwrap();
    }
    first.commit().await.unwrap();
    let text = assert_conflict(second.commit().await, true);
    assert!(text.contains("identity column id"), "{text}");

    let writer = |db: Database| async move {
        for _ in 0..5 {
            while let Err(error) = append_v(&db, id, &[1, 2]).await {
                assert!(error.is_retryable(), "{error}");
            }
        }
    };
    futures::join!(writer(db.clone()), writer(other), writer(db.clone()));
    let rows = told(&db, id).await;
    let ids: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.split('|').next())
        .collect();
    assert_eq!((rows.len(), ids.len()), (31, 31));
}

#[tokio::test]
async fn a_delete_goes_beside_an_insert_that_takes_numbers() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, ruled()).await;
    append_v(&db, id, &[1, 2]).await.unwrap();
    let mut delete = begin(&db).await;
    let state = delete.table(id).await.unwrap();
    let path = state.files.values().next().unwrap().path.clone();
    let rows = [(path, [0_u64].into_iter().collect())].into();
    delete
        .delete_rows(id, rows, Operation::Delete)
        .await
        .unwrap();
    append_v(&db, id, &[3]).await.unwrap();
    delete.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["2|2|4", "3|3|6"]);
}

#[tokio::test]
async fn every_way_in_is_checked() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, plain()).await;
    append_kv(&db, id, &[(1, 1), (2, 2)]).await.unwrap();
    let full = |k: i64, v: i64, next: i64| {
        columns(vec![
            ("k", longs([k])),
            ("v", longs([v])),
            ("next", longs([next])),
        ])
    };
    refused(
        append_kv(&db, id, &[(3, 3), (4, 13)]).await,
        "CHECK constraint lucky is not true for 1 row(s)",
    );
    let mut txn = begin(&db).await;
    refused(
        txn.append(id, once(full(3, 3, 5))).await,
        "column next is generated",
    );
    refused(
        txn.append(id, once(full(3, 13, 14))).await,
        "first row: k = 3, v = 13, next = 14",
    );
    refused(txn.upsert(id, &["k"], once(kv(&[(1, 13)]))).await, "lucky");
    refused(txn.upsert(id, &["k"], once(kv(&[(9, 13)]))).await, "lucky");
    let any = tarndb_table::Predicate::And(Vec::new());
    refused(
        txn.overwrite_where(id, &any, once(full(3, 3, 5)), false)
            .await,
        "column next is generated",
    );
    // A writer that knows of no rule brings nothing in.
    let state = txn.table(id).await.unwrap();
    let unchecked = || {
        tarndb_table::TableWriter::new(
            db.store().clone(),
            txn.location(id).unwrap(),
            state.schema.clone(),
            Vec::new(),
            WriteOptions::default(),
        )
    };
    let rows = columns_of(&state.schema, full(3, 13, 14));
    let mut writer = unchecked();
    writer.write(&rows).await.unwrap();
    let written = writer.finish().await.unwrap();
    refused(
        txn.add_files(id, written.clone(), Operation::Append).await,
        "were not checked",
    );
    refused(txn.overwrite(id, written, false).await, "were not checked");
    assert!(txn.is_read_only());
    assert_eq!(told(&db, id).await, ["1|1|2", "2|2|3"]);
}

fn columns_of(schema: &Schema, batch: RecordBatch) -> RecordBatch {
    tarndb_table::conform_batch(&batch, schema).unwrap()
}

#[tokio::test]
async fn an_upsert_computes_generated_columns_anew_and_fills_new_rows() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, plain()).await;
    append_kv(&db, id, &[(1, 1), (2, 2)]).await.unwrap();
    let mut txn = begin(&db).await;
    txn.upsert(id, &["k"], once(kv(&[(2, 20), (3, 30)])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["1|1|2", "2|20|21", "3|30|31"]);
}

#[tokio::test]
async fn upserts_of_numbered_rows_keep_their_numbers_and_number_new_ones() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, ruled()).await;
    append_v(&db, id, &[5, 6]).await.unwrap();
    let mut txn = begin(&db).await;
    txn.upsert(id, &["v"], once(values(&[6, 70])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["1|5|10", "2|6|12", "3|70|140"]);
    let by_id = |id: i64, v: i64| columns(vec![("id", longs([id])), ("v", longs([v]))]);
    let mut txn = begin(&db).await;
    txn.upsert(id, &["id"], once(by_id(2, 60))).await.unwrap();
    refused(
        txn.upsert(id, &["id"], once(by_id(99, 60))).await,
        "GENERATED ALWAYS AS IDENTITY",
    );
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["1|5|10", "2|60|120", "3|70|140"]);
}

#[tokio::test]
async fn a_constraint_is_made_only_where_all_rows_fulfil_it() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, kv_table()).await;
    insert(&db, id, &[(1, 1), (2, -2)]).await;
    let mut txn = begin(&db).await;
    refused(
        txn.add_constraint(id, "positive", "v > 0").await,
        "first row: k = 2, v = -2",
    );
    assert!(txn.is_read_only());
    txn.add_constraint(id, "Bounded", "v > -10").await.unwrap();
    refused(
        txn.add_constraint(id, "bounded", "v > -9").await,
        "there is one of that name",
    );
    refused(txn.append(id, once(kv(&[(3, -11)]))).await, "bounded");
    refused(
        txn.add_constraint(id, "odd", "rlike(k, 'x')").await,
        "the function rlike()",
    );
    txn.commit().await.unwrap();
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    assert_eq!(
        state
            .properties
            .get("delta.constraints.bounded")
            .map(String::as_str),
        Some("v > -10")
    );
    let mut txn = begin(&db).await;
    txn.drop_constraint(id, "BOUNDED").await.unwrap();
    refused(txn.drop_constraint(id, "bounded").await, "there is none");
    txn.append(id, once(kv(&[(3, -11)]))).await.unwrap();
    txn.commit().await.unwrap();
}

#[tokio::test]
async fn rows_that_meet_a_new_constraint_run_again_whoever_is_first() {
    let world = World::new();
    let db = world.create().await;
    let other = world.open().await;
    let id = create(&db, kv_table()).await;
    insert(&db, id, &[(1, 1)]).await;
    // The rows come second: they were not checked.
    let mut rows = begin(&other).await;
    append(&mut rows, id, &[(2, -2)]).await;
    let mut rule = begin(&db).await;
    rule.add_constraint(id, "c", "v > 0").await.unwrap();
    rule.commit().await.unwrap();
    assert_conflict(rows.commit().await, true);
    // The rule comes second: it has not seen the rows.
    let mut rule = begin(&db).await;
    rule.add_constraint(id, "d", "v < 10").await.unwrap();
    insert(&other, id, &[(3, 30)]).await;
    assert_conflict(rule.commit().await, true);
    let mut again = begin(&db).await;
    refused(again.add_constraint(id, "d", "v < 10").await, "k = 3");
}

#[tokio::test]
async fn a_writer_made_before_a_rule_of_its_transaction_is_refused() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, kv_table()).await;
    let mut txn = begin(&db).await;
    let mut writer = txn.writer(id).await.unwrap();
    let state = txn.table(id).await.unwrap();
    writer
        .write(&columns_of(&state.schema, kv(&[(1, -1)])))
        .await
        .unwrap();
    let written = writer.finish().await.unwrap();
    txn.add_constraint(id, "c", "v > 0").await.unwrap();
    refused(
        txn.add_files(id, written, Operation::Append).await,
        "were not checked",
    );
}

#[tokio::test]
async fn two_writers_of_one_transaction_never_share_numbers() {
    let world = World::new();
    let db = world.create().await;
    let mut table = ruled();
    let metadata = &mut table.schema.fields[0].metadata;
    metadata.insert("delta.identity.allowExplicitInsert".to_owned(), json!(true));
    let id = create(&db, table).await;
    // BY DEFAULT: explicit values are taken and do not move the mark.
    let explicit = columns(vec![("id", longs([100])), ("v", longs([1]))]);
    let mut txn = begin(&db).await;
    txn.append_columns(id, &["id", "v"], once(explicit))
        .await
        .unwrap();
    txn.append_columns(id, &["v"], once(values(&[2])))
        .await
        .unwrap();
    txn.commit().await.unwrap();
    assert_eq!(told(&db, id).await, ["1|2|4", "100|1|2"]);
}

#[tokio::test]
async fn defaults_are_set_dropped_and_bind_later_rows_only() {
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, kv_table()).await;
    let keys = |k: i64| columns(vec![("k", longs([k]))]);
    let add = |db: Database, k: i64| async move {
        let mut txn = begin(&db).await;
        txn.append_columns(id, &["k"], once(keys(k))).await.unwrap();
        txn.commit().await.unwrap();
    };
    add(db.clone(), 1).await;
    let mut txn = begin(&db).await;
    txn.set_default(id, "V", Some("40 + 2")).await.unwrap();
    refused(txn.set_default(id, "v", Some("k + 1")).await, "column=k");
    refused(txn.set_default(id, "x", Some("1")).await, "no such column");
    txn.commit().await.unwrap();
    add(db.clone(), 2).await;
    let mut first = begin(&db).await;
    first.set_default(id, "v", Some("1")).await.unwrap();
    let mut second = begin(&db).await;
    second.set_default(id, "v", None).await.unwrap();
    first.commit().await.unwrap();
    assert_conflict(second.commit().await, false);
    let mut txn = begin(&db).await;
    txn.set_default(id, "v", None).await.unwrap();
    txn.commit().await.unwrap();
    add(db.clone(), 3).await;
    assert_eq!(told(&db, id).await, ["1|NULL", "2|42", "3|NULL"]);
}

#[tokio::test]
async fn a_new_column_beside_it_leaves_the_generated_column_what_it_is() {
    // BC-23 (delta-rs #4186): an append that merges schemas loses the expression.
    let world = World::new();
    let db = world.create().await;
    let id = create(&db, plain()).await;
    append_kv(&db, id, &[(1, 1)]).await.unwrap();
    let mut txn = begin(&db).await;
    txn.add_column(id, Field::new("z", DataType::Long, true))
        .await
        .unwrap();
    txn.append_columns(
        id,
        &["k", "v", "z"],
        once(columns(vec![
            ("k", longs([2])),
            ("v", longs([2])),
            ("z", longs([9])),
        ])),
    )
    .await
    .unwrap();
    txn.commit().await.unwrap();
    append_kv(&db, id, &[(3, 3)]).await.unwrap();
    assert_eq!(told(&db, id).await, ["1|1|2|NULL", "2|2|3|9", "3|3|4|NULL"]);
    let state = db.snapshot().await.unwrap().table(id).await.unwrap();
    let metadata = &state.schema.field("next").unwrap().1.metadata;
    assert_eq!(
        metadata.get("delta.generationExpression"),
        Some(&json!("v + 1"))
    );
    let mut txn = begin(&db).await;
    let generated = field(
        "g",
        DataType::Long,
        &[("delta.generationExpression", json!("v"))],
    );
    refused(txn.add_column(id, generated).await, "made with their table");
}

#[tokio::test]
async fn a_table_with_a_rule_that_cannot_be_evaluated_is_not_made() {
    let world = World::new();
    let db = world.create().await;
    let mut table = kv_table();
    table
        .properties
        .insert("delta.constraints.c".to_owned(), "v RLIKE 'x'".to_owned());
    let mut txn = begin(&db).await;
    refused(txn.create_table("main", table).await, "RLIKE");
}
