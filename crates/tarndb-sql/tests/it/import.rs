//! Import of CSV, NDJSON and Parquet.

use std::io::Write;
use std::path::PathBuf;

use tarndb_sql::{ImportFile, ImportOptions, ImportReport, Session, SqlError};

use crate::support::*;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        if name.ends_with(".gz") {
            let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            gz.write_all(text.as_bytes()).unwrap();
            gz.finish().unwrap();
        } else {
            let mut file = file;
            file.write_all(text.as_bytes()).unwrap();
        }
        path
    }
}

fn options(files: &[(&str, &PathBuf)], create: bool) -> ImportOptions {
    let files = files
        .iter()
        .map(|(table, path)| ImportFile {
            table: (*table).to_owned(),
            path: (*path).clone(),
        })
        .collect();
    ImportOptions {
        files,
        create,
        ..ImportOptions::default()
    }
}

async fn import(session: &mut Session, options: &ImportOptions) -> Result<ImportReport, SqlError> {
    session.import(options, &mut |_| {}).await
}

#[tokio::test]
async fn csv_creates_tables_with_inferred_types() {
    let files = Files::new();
    let a = files.write(
        "a.csv.gz",
        "Id,name,when,zip,ratio,ok,day\n1,x,2013-01-01T05:00:00Z,007,1.5,true,2024-01-01\n2,\"two\nlines\",NA,123,NA,NA,NA\n",
    );
    let b = files.write("b.csv", "k,v\n1,\n2,NA\n");
    let mut session = setup("").await;
    let mut options = options(&[("A", &a), ("main.b", &b)], true);
    options.null_text = Some("NA".to_owned());
    let mut seen = Vec::new();
    let report = session
        .import(&options, &mut |p| seen.push(p.clone()))
        .await
        .unwrap();
    assert_eq!(report.tables.values().copied().collect::<Vec<_>>(), [2, 2]);
    assert!(seen.iter().any(|p| !p.inferring && p.rows > 0), "{seen:?}");
    assert_eq!(
        rows(&mut session, "SELECT * FROM a ORDER BY id").await,
        "1|x|2013-01-01T05:00:00Z|007|1.5|true|2024-01-01; 2|two\nlines|NULL|123|NULL|NULL|NULL"
    );
    let described = rows(&mut session, "DESCRIBE a").await;
    for expected in [
        "Id|BIGINT",
        "name|VARCHAR",
        "when|TIMESTAMPTZ",
        "zip|VARCHAR",
        "ratio|DOUBLE",
        "ok|BOOLEAN",
        "day|DATE",
    ] {
        assert!(described.contains(expected), "{described}");
    }
    assert_eq!(
        rows(&mut session, "SELECT v IS NULL FROM b ORDER BY k").await,
        "true; true"
    );
    let db_version = session.database().snapshot().await.unwrap().version();
    assert_eq!(db_version.0, 1, "both tables come in one commit");
}

#[tokio::test]
async fn a_value_that_does_not_fit_names_file_line_and_column() {
    let files = Files::new();
    let good = files.write("good.csv", "n\n1\n");
    let bad = files.write("bad.csv", "b,A\n\"x\ny\",1\nz,oops\n");
    let mut session = setup("CREATE TABLE t (a INT, b TEXT); CREATE TABLE u (n INT)").await;
    let error = import(&mut session, &options(&[("u", &good), ("t", &bad)], false))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.sqlstate(), "22P02");
    for word in ["bad.csv", "line=4", "column=a", "\"oops\""] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM u").await, "0");
    let ragged = files.write("ragged.csv", "a,b\n1,x\n2\n");
    let error = import(&mut session, &options(&[("t", &ragged)], false))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("line=3"), "{error}");
    let unknown = files.write("unknown.csv", "a,bb\n1,x\n");
    let error = import(&mut session, &options(&[("t", &unknown)], false))
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "42703", "{error}");
    let missing = PathBuf::from("/nowhere/x.csv");
    let error = import(&mut session, &options(&[("t", &missing)], false))
        .await
        .unwrap_err();
    assert_eq!(error.sqlstate(), "58030", "{error}");
}

#[tokio::test]
async fn columns_go_by_name_and_without_a_header_by_position() {
    let files = Files::new();
    let named = files.write("named.csv", "B,a\nx,1\n");
    let plain = files.write("plain.csv", "2|y\n");
    let mut session = setup("CREATE TABLE t (a INT, b TEXT, c INT)").await;
    import(&mut session, &options(&[("t", &named)], false))
        .await
        .unwrap();
    let mut by_position = options(&[("t", &plain)], false);
    by_position.header = false;
    by_position.delimiter = b'|';
    let error = import(&mut session, &by_position).await.unwrap_err();
    assert!(error.to_string().contains("2 columns"), "{error}");
    ok(&mut session, "CREATE TABLE u (a INT, b TEXT)").await;
    by_position.files[0].table = "u".to_owned();
    import(&mut session, &by_position).await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t").await, "1|x|NULL");
    assert_eq!(rows(&mut session, "SELECT * FROM u").await, "2|y");
}

#[tokio::test]
async fn ndjson_and_parquet_come_in_with_their_types() {
    let files = Files::new();
    let json = files.write(
        "x.ndjson",
        "{\"Id\": 1, \"s\": {\"k\": [1, 2]}, \"t\": \"x\"}\n\n{\"Id\": 2, \"t\": null}\n",
    );
    let mut session = setup("").await;
    import(&mut session, &options(&[("j", &json)], true))
        .await
        .unwrap();
    assert_eq!(
        rows(&mut session, "SELECT id, s.k[2], t FROM j ORDER BY id").await,
        "1|2|x; 2|NULL|NULL"
    );
    let bad = files.write("bad.ndjson", "{\"id\": 3}\n{\"id\": \"no\"}\n");
    let error = import(&mut session, &options(&[("j", &bad)], false))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("line=2"), "{error}");
    let path = files.0.path().join("p.parquet");
    ok(&mut session, &format!("COPY j TO '{}'", path.display())).await;
    import(&mut session, &options(&[("p", &path)], true))
        .await
        .unwrap();
    import(&mut session, &options(&[("p", &path)], false))
        .await
        .unwrap();
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(id) FROM p").await,
        "4|6"
    );
}

#[tokio::test]
async fn an_import_into_many_partitions_stays_within_a_small_limit() {
    let files = Files::new();
    let mut text = String::from("id,p,pad\n");
    for id in 0..200_000 {
        text.push_str(&format!("{id},{},{}\n", id % 300, "padding-".repeat(6)));
    }
    let path = files.write("big.csv", &text);
    let db = database().await;
    let session_options = tarndb_sql::SessionOptions {
        memory_limit: Some(32 << 20),
        ..tarndb_sql::SessionOptions::default()
    };
    let mut session = Session::new(db, session_options).unwrap();
    let mut options = options(&[("t", &path)], true);
    options.partition_columns = vec!["P".to_owned()];
    import(&mut session, &options).await.unwrap();
    assert_eq!(
        rows(
            &mut session,
            "SELECT count(*), count(DISTINCT p), sum(id) FROM t"
        )
        .await,
        "200000|300|19999900000"
    );
}

#[tokio::test]
async fn an_import_inside_a_transaction_rolls_back_with_it() {
    let files = Files::new();
    let path = files.write("a.csv", "n\n1\n2\n");
    let mut session = setup("CREATE TABLE t (n INT)").await;
    ok(&mut session, "BEGIN").await;
    import(&mut session, &options(&[("t", &path)], false))
        .await
        .unwrap();
    assert_eq!(rows(&mut session, "SELECT sum(n) FROM t").await, "3");
    ok(&mut session, "ROLLBACK").await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test]
async fn columns_that_a_file_does_not_name_are_filled_by_the_table_s_rules() {
    let files = Files::new();
    let a = files.write("a.csv", "v\n5\n6\n");
    let b = files.write("b.csv", "d,v\n1,7\n,8\n");
    let c = files.write("c.ndjson", "{\"v\": 9}\n");
    let mut session = setup(
        "CREATE TABLE t (
            id BIGINT GENERATED ALWAYS AS IDENTITY, v INT, d INT DEFAULT 4, g INT GENERATED ALWAYS AS (v * 2)
        )",
    )
    .await;
    let options = options(&[("t", &a), ("t", &b), ("t", &c)], false);
    assert_eq!(import(&mut session, &options).await.unwrap().tables["t"], 5);
    let all = "SELECT v, d, g FROM t ORDER BY v";
    let found = rows(&mut session, all).await;
    assert_eq!(found, "5|4|10; 6|4|12; 7|1|14; 8|NULL|16; 9|4|18");
    let ids = "SELECT count(DISTINCT id), count(id), min(id) > 0 FROM t";
    assert_eq!(rows(&mut session, ids).await, "5|5|true");
}
