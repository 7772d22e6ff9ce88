//! A database in memory and short ways to ask it.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use tarndb_db::{Database, DbOptions, PublishMode};
use tarndb_delta::NativeTable;
use tarndb_sql::{Outcome, Session, SessionOptions, SqlError};
use tarndb_storage::{Context, Store, StoreOptions};
use tarndb_table::{Field, Schema, TableDefinition};
use tarndb_types::{TableId, Uuid};

/// A fresh database.
pub(crate) async fn database() -> Database {
    let options = DbOptions {
        publish: PublishMode::Sync,
        ..DbOptions::default()
    };
    Database::create(Store::memory(Context::seeded(1)), options)
        .await
        .unwrap()
}

/// Another handle of a database, as another process would have it.
pub(crate) async fn reopened(db: &Database) -> Database {
    let objects = db.store().direct().objects();
    let store = Store::new(objects, "memory://", Context::seeded(2));
    Database::open(store, DbOptions::default()).await.unwrap()
}

/// A session over it.
pub(crate) fn session(db: &Database) -> Session {
    Session::new(db.clone(), SessionOptions::default()).unwrap()
}

/// A session over a fresh database that ran `setup`.
pub(crate) async fn setup(script: &str) -> Session {
    let db = database().await;
    let mut session = session(&db);
    ok(&mut session, script).await;
    session
}

/// A folder whose name needs its case, with an empty table that no database manages.
pub(crate) async fn table_by_path(
    fields: Vec<Field>,
    partition_columns: &[&str],
    properties: &[(&str, &str)],
) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/My Table", folder.path().to_str().unwrap());
    let store = tarndb_storage::open(&path, &StoreOptions::default(), Context::seeded(4)).unwrap();
    let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let definition = TableDefinition {
        id: TableId(Uuid::from_u128(5)),
        name: "t".to_owned(),
        schema: Schema::new(fields),
        partition_columns: partition_columns.iter().map(ToString::to_string).collect(),
        properties: properties.iter().map(text).collect(),
        description: None,
    };
    NativeTable::create(&store, definition).await.unwrap();
    (folder, path)
}

/// Runs a script that must succeed.
#[track_caller]
pub(crate) fn ok<'a>(
    session: &'a mut Session,
    script: &'a str,
) -> impl Future<Output = Outcome> + 'a {
    let at = std::panic::Location::caller();
    async move {
        match session.sql(script).await {
            Ok(outcome) => outcome,
            Err(error) => panic!("{at}: {script}\n{}", chain(&error)),
        }
    }
}

/// The error of a script that must fail.
pub(crate) async fn err(session: &mut Session, script: &str) -> SqlError {
    let error = match session.sql(script).await {
        Ok(outcome) => match outcome.collect().await {
            Ok(_) => panic!("should fail: {script}"),
            Err(error) => error,
        },
        Err(error) => error,
    };
    let text = chain(&error);
    for noise in ["DataFusion", "bug in", "Error during planning", "\u{1}"] {
        assert!(!text.contains(noise), "{text}");
    }
    error
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// The rows of a query, values separated by `|`, rows by `; `.
pub(crate) async fn rows(session: &mut Session, query: &str) -> String {
    let outcome = match session.sql(query).await {
        Ok(outcome) => outcome,
        Err(error) => panic!("{query}\n{}", chain(&error)),
    };
    text_of(outcome, query).await
}

/// The rows of an outcome, as [`rows`] shows them.
pub(crate) async fn text_of(outcome: Outcome, query: &str) -> String {
    let batches = match outcome.collect().await {
        Ok(batches) => batches,
        Err(error) => panic!("{query}\n{}", chain(&error)),
    };
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in &batches {
        let columns = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
            .collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|c| c.value(row).to_string());
            lines.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    lines.join("; ")
}

/// The names of a query's columns.
pub(crate) async fn columns(session: &mut Session, query: &str) -> Vec<String> {
    match ok(session, query).await {
        Outcome::Rows { schema, .. } => schema.fields().iter().map(|f| f.name().clone()).collect(),
        other => panic!("{query}: {other:?}"),
    }
}

/// How many rows a change changed.
pub(crate) async fn count(session: &mut Session, statement: &str) -> u64 {
    match ok(session, statement).await {
        Outcome::Count { rows, .. } => rows,
        other => panic!("{statement}: {other:?}"),
    }
}
