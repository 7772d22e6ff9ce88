//! COPY .. FROM, and where COPY .. TO may not write.

use tarndb_db::{Database, DbOptions};
use tarndb_storage::{Context, StoreOptions};

use crate::support::*;

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn write(path: &str, name: &str, text: &str) {
    std::fs::write(format!("{path}/{name}"), text).unwrap();
}

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL, Name TEXT, d DATE)";

#[tokio::test]
async fn copy_reads_every_format_by_name_or_position() {
    for (name, text, copy, expected) in [
        (
            "a.csv",
            "d,ID,name\n2024-01-02,1,\"x,y\"\n,2,\n",
            "",
            "1|x,y|2024-01-02; 2|NULL|NULL",
        ),
        ("a.csv", "1,x,\n", "(HEADER false)", "1|x|NULL"),
        (
            "a.csv",
            "1;NA;2024-01-02\n",
            "(HEADER off, DELIMITER ';', NULL 'NA')",
            "1|NULL|2024-01-02",
        ),
        (
            "a.dat",
            "id\tname\n1\tx\n",
            "WITH (FORMAT csv, DELIMITER '\\t')",
            "1|x|NULL",
        ),
        ("a.tsv", "id\tname\n1\tx\n", "", "1|x|NULL"),
        (
            "a.json",
            "{\"id\":1,\"NAME\":\"x\"}\n{\"d\":\"2024-01-02\",\"id\":2}\n",
            "",
            "1|x|NULL; 2|NULL|2024-01-02",
        ),
        ("a.txt", "{\"id\":1}\n", "(FORMAT json)", "1|NULL|NULL"),
    ] {
        let (_guard, path) = folder();
        write(&path, name, text);
        for in_transaction in [false, true] {
            let mut session = setup(TABLE).await;
            if in_transaction {
                ok(&mut session, "BEGIN").await;
            }
            let copy = format!("COPY t FROM '{path}/{name}' {copy}").replace("off", "false");
            let lines = expected.split("; ").count() as u64;
            assert_eq!(count(&mut session, &copy).await, lines, "{copy}");
            let all = rows(&mut session, "SELECT * FROM t ORDER BY id").await;
            assert_eq!(all, expected, "{copy}");
            if in_transaction {
                ok(&mut session, "ROLLBACK").await;
                assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
            }
        }
    }
}

#[tokio::test]
async fn columns_named_are_those_of_the_file_in_order() {
    let (_guard, path) = folder();
    write(&path, "a.csv", "x,y\n5,n\n");
    let mut session = setup("CREATE TABLE t (id INT NOT NULL, name TEXT, n INT DEFAULT 3)").await;
    ok(
        &mut session,
        &format!("COPY t (id, name) FROM '{path}/a.csv'"),
    )
    .await;
    write(&path, "b.csv", "6,4\n");
    let copy = format!("COPY main.t (ID, n) FROM '{path}/b.csv' (HEADER false)");
    ok(&mut session, &copy).await;
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY id").await,
        "5|n|3; 6|NULL|4"
    );
}

#[tokio::test]
async fn a_copy_of_what_copy_wrote_gives_the_same_rows() {
    let (_guard, path) = folder();
    let mut session = setup(
        "CREATE TABLE t (id INT, v TEXT, f DOUBLE, d DECIMAL(9,2));
         INSERT INTO t VALUES (1, 'a \"q\" b', 0.1, 1.25), (2, NULL, NULL, NULL), (3, 'x', -1e300, -0.01)",
    )
    .await;
    let all = "SELECT * FROM t ORDER BY id";
    let before = rows(&mut session, all).await;
    for name in ["x.csv", "x.csv.gz", "x.json", "x.parquet"] {
        ok(
            &mut session,
            &format!("COPY t TO '{path}/{name}'; DELETE FROM t"),
        )
        .await;
        assert_eq!(
            count(&mut session, &format!("COPY t FROM '{path}/{name}'")).await,
            3,
            "{name}"
        );
        assert_eq!(rows(&mut session, all).await, before, "{name}");
    }
}

#[tokio::test]
async fn patterns_mean_all_their_files_or_an_error() {
    let (_guard, path) = folder();
    for (folder, id) in [("p1", 1), ("p2", 2), ("q", 3)] {
        std::fs::create_dir(format!("{path}/{folder}")).unwrap();
        write(&path, &format!("{folder}/f.csv"), &format!("id\n{id}\n"));
        write(&path, &format!("{folder}/.hidden.csv"), "id\n100\n");
    }
    let mut session = setup(TABLE).await;
    assert_eq!(
        count(&mut session, &format!("COPY t FROM '{path}/p?/*.csv'")).await,
        2
    );
    assert_eq!(rows(&mut session, "SELECT sum(id) FROM t").await, "3");
    for pattern in ["z*/f.csv", "p?/*.json", "nothing.csv"] {
        let error = err(&mut session, &format!("COPY t FROM '{path}/{pattern}'")).await;
        assert_eq!(error.sqlstate(), "58P01", "{pattern}: {}", chain(&error));
        assert!(chain(&error).contains(pattern), "{}", chain(&error));
    }
}

#[tokio::test]
async fn an_error_names_the_place_and_nothing_is_copied() {
    let (_guard, path) = folder();
    write(&path, "good.csv", "id\n1\n2\n");
    write(&path, "wrong.csv", "id,name\n1,\"two\nlines\"\nx,b\n");
    write(&path, "null.csv", "id,name\n,b\n");
    write(&path, "wide.csv", "id,name,e\n1,b,c\n");
    write(&path, "wrong.json", "{\"id\":1}\n{\"id\":\"x\"}\n");
    let mut session = setup(TABLE).await;
    for (copy, sqlstate, says) in [
        (
            "t FROM '{p}/wrong.csv'",
            "22P02",
            "line=4 column=id value=\"x\"",
        ),
        ("t FROM '{p}/*.csv'", "22P02", "null.csv"),
        ("t FROM '{p}/null.csv'", "22P02", "line=2 column=id"),
        ("t FROM '{p}/wide.csv'", "42703", "e (of "),
        ("t FROM '{p}/wrong.json'", "22P02", "line=2"),
        ("t (id) FROM '{p}/wide.csv'", "58030", "3 columns"),
        ("t (id, x) FROM '{p}/good.csv'", "42703", "x"),
        ("t (id) FROM '{p}/wrong.json'", "0A000", "column list"),
        ("t FROM '{p}/good.csv' (FORMAT xml)", "0A000", "xml"),
        ("t FROM '{p}/good.csv' (HEDER true)", "22023", "heder"),
        (
            "t FROM '{p}/good.csv' (DELIMITER 'ab')",
            "22023",
            "delimiter",
        ),
        (
            "t FROM '{p}/wrong.json' (HEADER true, FORMAT json)",
            "22023",
            "header",
        ),
        ("nowhere FROM '{p}/good.csv'", "42P01", "nowhere"),
        ("t FROM '{p}'", "58030", "format"),
        ("t FROM 'what://x/y.csv'", "58030", "what://x/y.csv"),
    ] {
        let copy = format!("COPY {}", copy.replace("{p}", &path));
        let error = err(&mut session, &copy).await;
        assert_eq!(error.sqlstate(), sqlstate, "{copy}: {}", chain(&error));
        assert!(chain(&error).contains(says), "{copy}: {}", chain(&error));
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test]
async fn copy_does_not_write_into_the_database() {
    let (_guard, path) = folder();
    let root = format!("{path}/db");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(&root, format!("{path}/link")).unwrap();
    let store = tarndb_storage::open(&root, &StoreOptions::default(), Context::system()).unwrap();
    let db = Database::create(store, DbOptions::default()).await.unwrap();
    let mut session = session(&db);
    ok(&mut session, TABLE).await;
    for target in [
        "db/x.csv",
        "link/x.csv",
        "db/../db/x.csv",
        "link/main/../x.csv",
    ] {
        if !std::path::Path::new(&format!("{path}/{target}"))
            .parent()
            .unwrap()
            .is_dir()
        {
            continue;
        }
        let error = err(&mut session, &format!("COPY t TO '{path}/{target}'")).await;
        assert_eq!(error.sqlstate(), "58030", "{target}");
        assert!(
            chain(&error).contains("database"),
            "{target}: {}",
            chain(&error)
        );
    }
    ok(&mut session, &format!("COPY t TO '{path}/beside.csv'")).await;
    db.close().await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_cannot_be_used_is_told_each_time() {
    let mut session = setup(TABLE).await;
    for statement in [
        "COPY t TO 'nowhere://bucket/x.csv'",
        "COPY t FROM 'nowhere://bucket/x.csv'",
        "SELECT * FROM read_csv('nowhere://bucket/x.csv')",
    ] {
        for _ in 0..2 {
            let error = err(&mut session, statement).await;
            assert_eq!(error.sqlstate(), "58030", "{statement}: {}", chain(&error));
            assert!(chain(&error).contains("nowhere"), "{}", chain(&error));
        }
    }
}

#[tokio::test]
async fn values_of_json_arrive_unchanged_or_not_at_all() {
    const WIDE: &str = "CREATE TABLE t (id INT, s TEXT, n DECIMAL(5,2), d DATE, b BOOLEAN,
        big BIGINT, ts TIMESTAMP, f REAL, l INT[], o STRUCT<a BIGINT, n DECIMAL(5,2)>)";
    let (_guard, path) = folder();
    let mut session = setup(WIDE).await;
    for (value, column, says) in [
        ("{\"id\":1.5}", "column=id", "1.5"),
        ("{\"id\":-2.9}", "column=id", "-2.9"),
        ("{\"id\":2147483648}", "column=id", "2147483648"),
        ("{\"id\":true}", "column=id", "true"),
        ("{\"id\":\"1.5\"}", "column=id", "1.5"),
        ("{\"big\":9223372036854775808.0}", "column=big", "long"),
        ("{\"d\":1}", "column=d ", "date"),
        ("{\"d\":\"x\"}", "column=d ", "x"),
        ("{\"ts\":1}", "column=ts", "timestamp"),
        ("{\"b\":1}", "column=b ", "boolean"),
        ("{\"n\":1000}", "column=n", "1000"),
        ("{\"n\":999.995}", "column=n", "decimal(5,2)"),
        ("{\"f\":1e39}", "column=f", "1e39"),
        ("{\"s\":1}", "column=s", "string"),
        ("{\"s\":{}}", "column=s", "string"),
        ("{\"id\":1,\"id\":2}", "column=id", "twice"),
        ("{\"id\":1,\"ID\":1}", "column=ID", "twice"),
        ("{\"l\":[1,2.5]}", "column=l", "integer"),
        ("{\"o\":{\"a\":-9223372036854775809}}", "column=o", "long"),
        ("{\"o\":{\"a\":1,\"A\":2}}", "column=o", "twice"),
        ("{\"o\":{\"c\":1}}", "column=o", "no field c"),
        ("{\"o\":{\"n\":1000}}", "line=3", ""),
        ("[1]", "line=3", "object"),
    ] {
        write(&path, "w.json", &format!("{{\"id\":7}}\n\n{value}\n"));
        let error = err(&mut session, &format!("COPY t FROM '{path}/w.json'")).await;
        let text = chain(&error);
        assert_eq!(error.sqlstate(), "22P02", "{value}: {text}");
        assert!(text.contains("line=3"), "{value}: {text}");
        assert!(text.contains(column), "{value}: {text}");
        assert!(text.contains(says), "{value}: {text}");
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "0");
    write(
        &path,
        "r.json",
        "{\"id\":5.0,\"n\":1.999,\"big\":9007199254740993.0,\"d\":\"2024-01-02\",\"b\":true}\n\
         {\"id\":1e3,\"n\":-1.005,\"big\":-9223372036854775808,\"f\":1e2,\"s\":\"\\u00e9\\\"\"}\n\
         {\"id\":\"2000\",\"n\":\"1.235\",\"l\":[1,2.0,null],\"o\":{\"A\":9007199254740993,\"n\":1.999}}\n",
    );
    ok(&mut session, &format!("COPY t FROM '{path}/r.json'")).await;
    let first = "SELECT id, n, big, d, b, f, s FROM t ORDER BY id";
    assert_eq!(
        rows(&mut session, first).await,
        "5|2.00|9007199254740993|2024-01-02|true|NULL|NULL; \
         1000|-1.01|-9223372036854775808|NULL|NULL|100.0|\u{e9}\"; \
         2000|1.24|NULL|NULL|NULL|NULL|NULL"
    );
    let nested = "SELECT l[2], l[3], o.a, o.n FROM t WHERE id = 2000";
    assert_eq!(
        rows(&mut session, nested).await,
        "2|NULL|9007199254740993|2.00"
    );
}

#[tokio::test]
async fn csv_tells_the_empty_text_from_null() {
    let (_guard, path) = folder();
    let mut session = setup(
        "CREATE TABLE t (id INT, s TEXT);
         INSERT INTO t VALUES (1, ''), (2, NULL), (3, 'NA'), (4, ' a'), (5, 'x,\"y\"\nz'), (NULL, '\u{1}\u{2}'), (7, '\u{2}');
         CREATE TABLE one (s TEXT);
         INSERT INTO one VALUES (''), (NULL), (NULL), ('x'), (NULL)",
    )
    .await;
    let all = "SELECT *, s IS NULL FROM t ORDER BY id";
    let before = rows(&mut session, all).await;
    for (name, options) in [
        ("es.csv", ""),
        ("es.csv.gz", ""),
        ("es.csv", "(NULL 'NA')"),
        ("es.csv", "(NULL '7', HEADER false)"),
        ("es.csv", "(DELIMITER ';')"),
    ] {
        let copy = format!("COPY t TO '{path}/{name}' {options}; DELETE FROM t");
        ok(&mut session, &copy).await;
        let copy = format!("COPY t FROM '{path}/{name}' {options}");
        if options.contains('7') {
            // A number in quotes may be NULL still: only texts are told apart.
            ok(&mut session, &copy).await;
            ok(&mut session, "UPDATE t SET id = 7 WHERE s = '\u{2}'").await;
        } else {
            ok(&mut session, &copy).await;
        }
        assert_eq!(rows(&mut session, all).await, before, "{name} {options}");
    }
    ok(
        &mut session,
        &format!("COPY t TO '{path}/es.csv' (NULL 'NA')"),
    )
    .await;
    let text = std::fs::read_to_string(format!("{path}/es.csv")).unwrap();
    for line in [
        "id,s\n",
        "\n1,\"\"\n",
        "\n2,NA\n",
        "\n3,\"NA\"\n",
        "\n4, a\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let copy = format!("COPY one TO '{path}/one.csv'; DELETE FROM one");
    ok(&mut session, &copy).await;
    let copy = format!("COPY one FROM '{path}/one.csv'");
    assert_eq!(count(&mut session, &copy).await, 5);
    let counts = "SELECT count(*), count(s), max(s), min(s) = '' FROM one";
    assert_eq!(rows(&mut session, counts).await, "5|2|x|true");
    // Nothing in quotes is still NULL where there is no empty value.
    write(&path, "n.csv", "id,s\n\"\",\"\"\n");
    ok(
        &mut session,
        &format!("DELETE FROM t; COPY t FROM '{path}/n.csv'"),
    )
    .await;
    let found = rows(&mut session, "SELECT id, s = '' FROM t").await;
    assert_eq!(found, "NULL|true");
    let error = err(
        &mut session,
        &format!("COPY t TO '{path}/e.csv' (NULL ',')"),
    )
    .await;
    assert_eq!(error.sqlstate(), "22023", "{}", chain(&error));
}

#[tokio::test]
async fn json_refuses_numbers_that_it_does_not_have() {
    let (_guard, path) = folder();
    let mut session = setup("CREATE TABLE t (id INT, f DOUBLE)").await;
    ok(&mut session, "INSERT INTO t VALUES (1, 0.5), (2, NULL)").await;
    for query in [
        "SELECT id, CAST('NaN' AS DOUBLE) AS f FROM t",
        "SELECT id, CAST('-inf' AS REAL) AS f FROM t",
        "SELECT id, [f, CAST('inf' AS DOUBLE)] AS f FROM t",
    ] {
        let error = err(&mut session, &format!("COPY ({query}) TO '{path}/x.json'")).await;
        let text = chain(&error);
        assert_eq!(error.sqlstate(), "0A000", "{query}: {text}");
        assert!(text.contains("column f"), "{query}: {text}");
        assert!(
            !std::path::Path::new(&format!("{path}/x.json")).exists(),
            "{query}"
        );
        ok(
            &mut session,
            &format!("COPY ({query}) TO '{path}/x.parquet'"),
        )
        .await;
    }
    ok(&mut session, &format!("COPY t TO '{path}/x.json'")).await;
    let text = std::fs::read_to_string(format!("{path}/x.json")).unwrap();
    assert_eq!(text, "{\"id\":1,\"f\":0.5}\n{\"id\":2}\n");
}
