//! The facade as a Rust program uses it, over the in-memory store.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use tarndb::arrow::array::{ArrayRef, Int64Array, StringArray};
use tarndb::arrow::record_batch::RecordBatch;
use tarndb::{ConflictKind, Database, ErrorKind, TxnId, TxnOptions, TxnOutcome, TxnStatus, Uuid};

async fn database(name: &str) -> Database {
    let db = Database::create(&format!("memory://facade-{name}"))
        .await
        .unwrap();
    let mut session = db.session().unwrap();
    session
        .run("CREATE TABLE a (n BIGINT); CREATE TABLE b (n BIGINT)")
        .await
        .unwrap();
    db
}

fn numbers(values: &[i64]) -> RecordBatch {
    let array = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    RecordBatch::try_from_iter([("n", array)]).unwrap()
}

#[tokio::test]
async fn appends_to_two_tables_become_visible_together() {
    let db = database("append").await;
    let mut txn = db.begin().await.unwrap();
    assert_eq!(txn.append("a", [numbers(&[1, 2])]).await.unwrap(), 2);
    assert_eq!(txn.append("main.b", [numbers(&[3])]).await.unwrap(), 1);
    let before = db.snapshot().await.unwrap();
    txn.commit().await.unwrap();
    let after = db.snapshot().await.unwrap();
    assert_eq!(before.row_count("a").await.unwrap(), Some(0));
    assert_eq!(after.row_count("a").await.unwrap(), Some(2));
    assert_eq!(after.row_count("b").await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_transaction_that_is_dropped_leaves_nothing() {
    let db = database("dropped").await;
    let mut txn = db.begin().await.unwrap();
    txn.append("a", [numbers(&[1])]).await.unwrap();
    drop(txn);
    assert_eq!(
        db.snapshot().await.unwrap().row_count("a").await.unwrap(),
        Some(0)
    );
}

#[tokio::test]
async fn the_outcome_of_a_transaction_is_found_by_its_reference() {
    let db = database("lookup").await;
    let id = Some(TxnId(Uuid::from_u128(7)));
    let options = TxnOptions {
        id,
        ..TxnOptions::default()
    };
    let mut txn = db.begin_with(options).await.unwrap();
    let reference = txn.reference().to_string();
    txn.append("a", [numbers(&[1])]).await.unwrap();
    let open = db.lookup(&reference).await.unwrap();
    assert!(matches!(open, TxnStatus::NotCommitted { .. }));
    let committed = txn.commit().await.unwrap();
    let known = db.lookup(&reference).await.unwrap();
    assert_eq!(
        Some(known),
        committed
            .version
            .map(|version| TxnStatus::Committed { version })
    );
    let definite = db.resolve(&reference).await.unwrap();
    assert_eq!(
        Some(definite),
        committed
            .version
            .map(|version| TxnOutcome::Committed { version })
    );
    let waiting = db.begin().await.unwrap().reference().to_string();
    let aborted = db.resolve(&waiting).await.unwrap();
    assert!(matches!(aborted, TxnOutcome::Aborted { .. }));
}

#[tokio::test]
async fn errors_say_how_to_react() {
    let db = database("errors").await;
    let mut session = db.session().unwrap();
    for (sql, kind) in [
        ("SELECT * FROM nowhere", ErrorKind::NotFound),
        ("CREATE TABLE a (n BIGINT)", ErrorKind::AlreadyExists),
        ("SELECT FROM WHERE", ErrorKind::Invalid),
        ("SELECT 1 / 0", ErrorKind::Invalid),
        ("CREATE TRIGGER v AFTER INSERT ON a", ErrorKind::Unsupported),
    ] {
        let error = session.run(sql).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{sql}: {error}");
    }
    let absent = Database::open("memory://facade-absent").await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    let twice = Database::create("memory://facade-errors")
        .await
        .unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::AlreadyExists);
    let reference = db.lookup("nonsense").await.unwrap_err();
    assert_eq!(reference.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_invalid_and_names_the_table() {
    let db = database("misfit").await;
    let text = Arc::new(StringArray::from(vec!["many"])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("n", text)]).unwrap();
    let mut txn = db.begin().await.unwrap();
    let error = txn.append("a", [batch]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("main.a"), "{error}");
    let error = txn.append("nowhere", [numbers(&[1])]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn the_later_of_two_changes_of_a_row_is_a_retryable_conflict() {
    let db = database("conflict").await;
    let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
    one.run("INSERT INTO a VALUES (1)").await.unwrap();
    for session in [&mut one, &mut two] {
        session.run("BEGIN; UPDATE a SET n = n + 1").await.unwrap();
    }
    one.run("COMMIT").await.unwrap();
    let error = two.run("COMMIT").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict(ConflictKind::Retryable));
    assert_eq!(error.sqlstate(), Some("40001"));
    assert!(
        error.is_retryable() && error.message().contains("main.a"),
        "{error}"
    );
    assert!(!two.in_transaction());
}

#[tokio::test]
async fn an_error_in_the_rows_of_a_query_fails_the_transaction() {
    let db = database("rows").await;
    let mut session = db.session().unwrap();
    session
        .run("BEGIN; INSERT INTO a VALUES (0)")
        .await
        .unwrap();
    session.query("SELECT 1 / n FROM a").await.unwrap_err();
    assert!(session.is_failed());
    let refused = session.run("SELECT 1").await.unwrap_err();
    assert_eq!(refused.sqlstate(), Some("25P02"));
    session.run("ROLLBACK").await.unwrap();
    assert!(!session.in_transaction());
}
