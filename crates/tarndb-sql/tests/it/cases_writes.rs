//! Cases that other systems got wrong, through SQL: BC-11, BC-13, BC-14, BC-23, EX-05, EX-08.
//!
//! Source: shared/cases/bug-cases.md (the ids).

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, LargeStringArray, RecordBatch, StringViewArray,
    TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;

use crate::support::*;

#[tokio::test]
async fn bc_11_not_null_holds_for_rows_that_are_written_and_names_have_any_case() {
    let mut session = setup(
        "CREATE TABLE t (createdAt BIGINT NOT NULL, id STRING, n INT);
         CREATE TABLE s (ID STRING, N INT, CREATEDAT BIGINT);
         INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2);
         INSERT INTO s VALUES ('b', 20, 22), ('c', 30, 33)",
    )
    .await;
    // Rows of the target that the source lacks are no reason to refuse.
    let upsert = "INSERT INTO t BY NAME SELECT * FROM s ON CONFLICT (ID)
                  DO UPDATE SET createdat = excluded.CREATEDAT, N = excluded.n";
    assert_eq!(count(&mut session, upsert).await, 2);
    let all = "SELECT * FROM t ORDER BY id";
    assert_eq!(rows(&mut session, all).await, "1|a|1; 22|b|20; 33|c|30");
    for name in ["createdat", "CREATEDAT", "\"createdAt\""] {
        let query = format!("SELECT max({name}) FROM t");
        assert_eq!(rows(&mut session, &query).await, "33", "{name}");
    }
    assert_eq!(columns(&mut session, all).await, ["createdAt", "id", "n"]);
    for statement in [
        "INSERT INTO t (createdAt, id) VALUES (NULL, 'd')",
        "INSERT INTO t (createdAt, id) VALUES (1, 'd'), (NULL, 'e') ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT (id) DO UPDATE SET createdAt = NULL",
        "UPDATE t SET CREATEDAT = NULL WHERE id = 'a'",
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), "23502", "{statement}");
        assert!(chain(&error).contains("createdAt"), "{}", chain(&error));
    }
    let error = err(&mut session, "CREATE TABLE u (a INT, A INT)").await;
    assert_eq!(error.sqlstate(), "42701");
    assert_eq!(rows(&mut session, all).await, "1|a|1; 22|b|20; 33|c|30");
}

#[tokio::test]
async fn bc_13_rows_for_which_a_condition_is_unknown_stay() {
    const ROWS: &str = "('X', 0), (NULL, 1), ('Y', NULL)";
    let plain = "CREATE TABLE t (status STRING, c INT)";
    for table in [
        plain.to_owned(),
        format!("{plain} PARTITIONED BY (status)"),
        format!("{plain} WITH (deletion_vectors = 'off')"),
    ] {
        let filled = format!("{table}; INSERT INTO t VALUES {ROWS}");
        for (statement, left) in [
            ("DELETE FROM t WHERE status = 'X'", "NULL|1; Y|NULL"),
            ("DELETE FROM t WHERE NOT (status <> 'X')", "NULL|1; Y|NULL"),
            ("DELETE FROM t WHERE c <> 7", "Y|NULL"),
            (
                "INSERT INTO t REPLACE WHERE status = 'X' SELECT 'X', 5",
                "NULL|1; X|5; Y|NULL",
            ),
            (
                "UPDATE t SET c = 9 WHERE status = 'X' OR c > 0",
                "NULL|9; X|9; Y|NULL",
            ),
        ] {
            let mut session = setup(&filled).await;
            ok(&mut session, statement).await;
            let all = "SELECT * FROM t ORDER BY status NULLS FIRST";
            assert_eq!(rows(&mut session, all).await, left, "{statement} {table}");
        }
        let mut session = setup(&filled).await;
        for condition in ["(c <> 3) OR (c < 9)", "NOT (c = 3)", "c NOT IN (3)"] {
            let query = format!("SELECT c FROM t WHERE {condition} ORDER BY c");
            assert_eq!(
                rows(&mut session, &query).await,
                "0; 1",
                "{condition} {table}"
            );
        }
    }
}

#[tokio::test]
async fn bc_14_writes_of_no_rows_succeed_and_add_no_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    std::fs::write(format!("{path}/none.csv"), "id,p\n").unwrap();
    let mut session = setup(
        "CREATE TABLE t (id INT, p INT) PARTITIONED BY (p);
         INSERT INTO t VALUES (1, 1); DELETE FROM t",
    )
    .await;
    let before = rows(&mut session, "DESCRIBE HISTORY t").await;
    let copy = format!("COPY t FROM '{path}/none.csv'");
    for statement in [
        "INSERT INTO t BY NAME SELECT 1 AS id WHERE false",
        "INSERT INTO t SELECT 1, 1 WHERE false ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t SELECT 1, 1 WHERE false ON CONFLICT (id) DO UPDATE SET p = 1",
        &copy,
    ] {
        assert_eq!(count(&mut session, statement).await, 0, "{statement}");
    }
    for statement in [
        "INSERT INTO t SELECT 1, 1 WHERE false RETURNING *",
        "UPDATE t SET p = 3 RETURNING *",
        "DELETE FROM t RETURNING *",
        "DELETE FROM t WHERE p = 1 RETURNING id",
    ] {
        assert_eq!(rows(&mut session, statement).await, "", "{statement}");
    }
    assert_eq!(rows(&mut session, "DESCRIBE HISTORY t").await, before);
}

#[tokio::test]
async fn bc_23_generated_columns_outlive_other_columns_and_follow_their_inputs() {
    let mut session = setup(
        "CREATE TABLE t (ts TIMESTAMP, y INT GENERATED ALWAYS AS (year(ts)));
         INSERT INTO t (ts) VALUES ('2024-05-01 00:00:00')",
    )
    .await;
    let expression = "GENERATED ALWAYS AS (year(ts))";
    for statement in [
        "ALTER TABLE t ADD COLUMN z INT",
        "INSERT INTO t (ts, z) VALUES ('2025-05-01 00:00:00', 1)",
        "INSERT INTO t BY NAME SELECT TIMESTAMP '2026-05-01 00:00:00' AS ts",
        "UPDATE t SET ts = ts + INTERVAL '1 year'",
        "INSERT INTO t (ts, z) VALUES ('2025-05-01 00:00:00', 9) ON CONFLICT (ts)
             DO UPDATE SET z = excluded.z",
        "INSERT INTO t (ts, z) VALUES ('2000-01-01 00:00:00', 9) ON CONFLICT (z)
             DO UPDATE SET ts = excluded.ts",
    ] {
        ok(&mut session, statement).await;
        let shown = rows(&mut session, "DESCRIBE t").await;
        assert!(shown.contains(expression), "{statement}: {shown}");
        let nulls = rows(&mut session, "SELECT count(*) FROM t WHERE y IS NULL").await;
        assert_eq!(nulls, "0", "{statement}");
    }
    let all = "SELECT y, z FROM t ORDER BY y";
    assert_eq!(rows(&mut session, all).await, "2000|9; 2026|1; 2027|NULL");
    for statement in [
        "UPDATE t SET y = 1",
        "INSERT INTO t (ts, y) VALUES ('2024-05-01 00:00:00', 1)",
        "INSERT INTO t (ts) VALUES ('2000-01-01 00:00:00') ON CONFLICT (ts) DO UPDATE SET y = 1",
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), "23514", "{statement}");
        assert!(chain(&error).contains("year(ts)"), "{}", chain(&error));
    }
    assert_eq!(rows(&mut session, all).await, "2000|9; 2026|1; 2027|NULL");
}

#[tokio::test]
async fn ex_05_a_check_that_is_null_is_broken_and_the_row_is_shown() {
    let mut session = setup(
        "CREATE TABLE t (id INT, n INT, CONSTRAINT positive CHECK (n > 0));
         INSERT INTO t VALUES (1, 1)",
    )
    .await;
    for statement in [
        "INSERT INTO t VALUES (77, NULL)",
        "INSERT INTO t (id) VALUES (77)",
        "INSERT INTO t BY NAME SELECT 77 AS id",
        "UPDATE t SET n = NULL, id = 77",
        "INSERT INTO t VALUES (77, NULL) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = NULLIF(t.n, 1)",
        "INSERT INTO t REPLACE WHERE id = 77 SELECT 77, NULL",
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), "23514", "{statement}: {}", chain(&error));
        let text = chain(&error);
        assert!(
            text.contains("positive") && text.contains("NULL"),
            "{statement}: {text}"
        );
    }
    let error = err(
        &mut session,
        "CREATE TABLE u (n INT); INSERT INTO u VALUES (1), (NULL);
         ALTER TABLE u ADD CONSTRAINT c CHECK (n > 0)",
    )
    .await;
    assert_eq!(error.sqlstate(), "23514", "{}", chain(&error));
    assert_eq!(rows(&mut session, "SELECT * FROM t").await, "1|1");
}

/// A Parquet file with the types that some writers and readers get wrong.
fn foreign_types(path: &str, nanos: i64) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u8", Arc::new(UInt8Array::from(vec![133, u8::MAX]))),
        ("u16", Arc::new(UInt16Array::from(vec![1, u16::MAX]))),
        ("u32", Arc::new(UInt32Array::from(vec![1, u32::MAX]))),
        ("u64", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
        (
            "dict",
            Arc::new(
                vec!["a", "b"]
                    .into_iter()
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        ("large", Arc::new(LargeStringArray::from(vec!["c", "d"]))),
        ("view", Arc::new(StringViewArray::from(vec!["e", "f"]))),
        (
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![1000, nanos])),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[tokio::test]
async fn ex_08_foreign_types_are_widened_or_refused_alike_on_every_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    foreign_types(&format!("{path}/a.parquet"), 2_000_000);
    foreign_types(&format!("{path}/lost.parquet"), 2_000_001);
    let mut session = setup("").await;
    ok(
        &mut session,
        &format!("CREATE TABLE t AS SELECT * FROM '{path}/a.parquet'"),
    )
    .await;
    let expected = "133|1|1|1|a|c|e|1970-01-01T00:00:00.000001; \
                    255|65535|4294967295|18446744073709551615|b|d|f|1970-01-01T00:00:00.002";
    let all = "SELECT DISTINCT * FROM t ORDER BY u8";
    assert_eq!(rows(&mut session, all).await, expected);
    // Later writes, on every way in, say the same.
    for statement in [
        format!("INSERT INTO t SELECT * FROM '{path}/a.parquet'"),
        format!("INSERT INTO t BY NAME SELECT * FROM '{path}/a.parquet'"),
        format!("COPY t FROM '{path}/a.parquet'"),
        format!("INSERT OVERWRITE t SELECT * FROM '{path}/a.parquet'"),
        format!("INSERT INTO t SELECT * FROM '{path}/a.parquet' ON CONFLICT (u8) DO NOTHING"),
    ] {
        ok(&mut session, &statement).await;
        assert_eq!(rows(&mut session, all).await, expected, "{statement}");
    }
    let types = rows(&mut session, "DESCRIBE t").await;
    for column in [
        "u8|SMALLINT",
        "u16|INT",
        "u32|BIGINT",
        "u64|DECIMAL(20,0)",
        "dict|VARCHAR",
    ] {
        assert!(types.contains(column), "{column}: {types}");
    }
    for statement in [
        format!("INSERT INTO t SELECT * FROM '{path}/lost.parquet'"),
        format!("COPY t FROM '{path}/lost.parquet'"),
        "INSERT INTO t (u8) VALUES (40000)".to_owned(),
    ] {
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), "22003", "{statement}: {}", chain(&error));
    }
    assert_eq!(rows(&mut session, all).await, expected);
}
