//! Files in FROM, COPY, delta_scan.

use crate::support::*;

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

#[tokio::test]
async fn copy_writes_what_from_reads() {
    let (_guard, path) = folder();
    let mut session = setup(
        "CREATE TABLE t (Id INT, theName TEXT, d DATE);
         INSERT INTO t VALUES (1, 'a,b', '2024-01-01'), (2, NULL, NULL)",
    )
    .await;
    for name in ["x.csv", "x.csv.gz", "x.json", "x.parquet"] {
        let copy = format!("COPY (SELECT * FROM t ORDER BY id) TO '{path}/{name}'");
        assert_eq!(count(&mut session, &copy).await, 2, "{name}");
        let query = format!("SELECT ID, thename, CAST(D AS DATE) FROM '{path}/{name}' ORDER BY 1");
        assert_eq!(
            rows(&mut session, &query).await,
            "1|a,b|2024-01-01; 2|NULL|NULL",
            "{name}"
        );
        if name == "x.json" {
            continue;
        }
        let names = columns(&mut session, &format!("SELECT * FROM \"{path}/{name}\"")).await;
        assert_eq!(names, ["Id", "theName", "d"], "{name}");
    }
    ok(
        &mut session,
        &format!("INSERT INTO t SELECT id + 10, thename, d FROM '{path}/x.parquet'"),
    )
    .await;
    assert_eq!(rows(&mut session, "SELECT sum(id) FROM t").await, "26");
    let copy = format!("COPY t TO '{path}/y.txt' (FORMAT csv, HEADER false, DELIMITER ';')");
    assert_eq!(count(&mut session, &copy).await, 4);
    let text = std::fs::read_to_string(format!("{path}/y.txt")).unwrap();
    assert!(text.contains("1;a,b;2024-01-01"), "{text}");
    for name in ["wh?t.csv", "*.parquet", "a[1].json"] {
        let error = err(&mut session, &format!("COPY t TO '{path}/{name}'")).await;
        assert_eq!(error.sqlstate(), "58030", "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn csv_functions_take_options() {
    let (_guard, path) = folder();
    std::fs::write(format!("{path}/a.csv"), "1;NA\n2;5\n").unwrap();
    let mut session = setup("").await;
    let query = format!(
        "SELECT column_1, column_2 FROM read_csv('{path}/a.csv', header => false, delimiter => ';', null => 'NA') ORDER BY 1"
    );
    assert_eq!(rows(&mut session, &query).await, "1|NULL; 2|5");
    let error = err(
        &mut session,
        &format!("SELECT * FROM read_csv('{path}/a.csv', headr => false)"),
    )
    .await;
    assert_eq!(error.sqlstate(), "42883");
    let error = err(&mut session, &format!("SELECT * FROM '{path}/none.csv'")).await;
    assert!(error.to_string().contains("none.csv"), "{error}");
    assert_eq!(error.sqlstate(), "58P01");
}

#[tokio::test]
async fn delta_scan_reads_a_published_table_and_its_versions() {
    let (_guard, path) = folder();
    let store = tarndb_storage::open(
        &path,
        &tarndb_storage::StoreOptions::default(),
        tarndb_storage::Context::system(),
    )
    .unwrap();
    let options = tarndb_db::DbOptions {
        publish: tarndb_db::PublishMode::Sync,
        ..Default::default()
    };
    let db = tarndb_db::Database::create(store, options).await.unwrap();
    let mut session = session(&db);
    ok(
        &mut session,
        "CREATE TABLE T (theId INT, p TEXT) PARTITIONED BY (p)",
    )
    .await;
    ok(&mut session, "INSERT INTO t VALUES (1, 'a b'), (2, 'x/y')").await;
    ok(&mut session, "DELETE FROM t WHERE theid = 1").await;
    let status = db.status().await.unwrap();
    let location = format!("{path}/{}", status.tables[0].location);
    let scan = format!("SELECT THEID, p FROM delta_scan('{location}') AS d WHERE D.theid > 0");
    assert_eq!(rows(&mut session, &scan).await, "2|x/y");
    let old = format!("SELECT theid FROM delta_scan('{location}', version => 1) ORDER BY 1");
    assert_eq!(rows(&mut session, &old).await, "1; 2");
    assert_eq!(columns(&mut session, &old).await, ["theId"]);
    let join =
        format!("SELECT count(*) FROM t JOIN delta_scan('{location}') d ON t.theid = d.theid");
    assert_eq!(rows(&mut session, &join).await, "1");
    for (call, state) in [
        (
            format!("delta_scan('{location}', version => 99)"),
            Some("58P01"),
        ),
        (format!("delta_scan('{path}/nothing')"), Some("58P01")),
        ("delta_scan(1)".to_owned(), Some("42883")),
        (
            format!("delta_scan('{location}', vers => 1)"),
            Some("42883"),
        ),
        ("delta_scan()".to_owned(), Some("42883")),
    ] {
        let error = err(&mut session, &format!("SELECT * FROM {call}")).await;
        if let Some(state) = state {
            assert_eq!(error.sqlstate(), state, "{call}: {}", chain(&error));
        }
    }
    for (time, text) in [
        ("2999-01-01", "2999-01-01T00:00:00.000Z is yet to come"),
        ("2001-01-01", "begins at 20"),
    ] {
        let scan = format!("SELECT * FROM delta_scan('{location}', timestamp => '{time}')");
        let error = err(&mut session, &scan).await;
        assert_eq!(error.sqlstate(), "58P01", "{}", chain(&error));
        assert!(chain(&error).contains(text), "{}", chain(&error));
    }
}
