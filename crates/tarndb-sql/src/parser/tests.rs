//! What parses, as what, and where errors point.

use tarndb_table::{DataType, Position};

use super::*;
use crate::error::SqlError;

fn one(text: &str) -> Statement {
    let mut statements = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).statement
}

#[track_caller]
fn error_at(text: &str, line: usize, column: usize) -> SqlError {
    let error = parse(text).expect_err(text);
    assert_eq!(error.position(), Some((line, column)), "{error}");
    assert_eq!(error.sqlstate(), "42601");
    error
}

#[track_caller]
fn refused(text: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.sqlstate(), "0A000", "{text}: {error}");
    assert!(error.hint().is_some(), "{text}: {error}");
}

fn table(text: &str) -> CreateTable {
    match one(text) {
        Statement::CreateTable(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_script_is_cut_outside_strings_and_comments() {
    let script = "SELECT ';' AS a; -- no; cut\n/* ; */ SELECT $$;$$;;\n  COMMIT";
    let statements = parse(script).unwrap();
    let texts = statements
        .iter()
        .map(|s| s.text.as_str())
        .collect::<Vec<_>>();
    assert_eq!(texts, ["SELECT ';' AS a", "SELECT $$;$$", "COMMIT"]);
    assert_eq!(statements[1].position, (2, 9));
    assert_eq!(statements[2].position, (3, 3));
}

#[test]
fn an_incomplete_statement_is_told_from_a_complete_one() {
    assert!(is_incomplete("SELECT 1"));
    assert!(is_incomplete("SELECT 'a;"));
    assert!(!is_incomplete("SELECT 1;"));
    assert!(!is_incomplete(""));
}

#[test]
fn clauses_of_create_table_come_in_any_order() {
    let clauses = [
        "USING DELTA",
        "PARTITIONED BY (B)",
        "WITH (deletion_vectors = 'off')",
        "COMMENT 'c'",
    ];
    for turn in 0..clauses.len() {
        let mut order = clauses.to_vec();
        order.rotate_left(turn);
        let text = format!(
            "CREATE TABLE S.T (a INT NOT NULL COMMENT 'x', B TEXT) {}",
            order.join(" ")
        );
        let table = table(&text);
        assert_eq!(table.name.to_string(), "S.T");
        assert_eq!(table.partition_columns, ["B"]);
        assert_eq!(
            table.options,
            [("deletion_vectors".to_owned(), "off".to_owned())]
        );
        assert_eq!(table.comment.as_deref(), Some("c"));
        assert!(!table.columns[0].nullable && table.columns[1].nullable);
        assert_eq!(table.columns[0].comment.as_deref(), Some("x"));
    }
    let filled = table("CREATE OR REPLACE TABLE t USING delta AS SELECT 1 AS a");
    assert!(filled.or_replace && filled.query.is_some());
}

#[test]
fn types_nest() {
    let table = table(
        "CREATE TABLE t (a ARRAY<ARRAY<INT>>, b MAP<STRING, STRUCT<x: INT, Y DECIMAL(5,2) NOT NULL>>, \
         c INT[], d DOUBLE PRECISION, e TIMESTAMP WITH TIME ZONE, f BIGINT UNSIGNED, g VARCHAR(9))",
    );
    let types = table
        .columns
        .iter()
        .map(|c| c.data_type.to_string())
        .collect::<Vec<_>>();
    assert_eq!(
        types,
        [
            "array<array<integer>>",
            "map<string,struct<x:integer,Y:decimal(5,2)>>",
            "array<integer>",
            "double",
            "timestamp",
            "decimal(20,0)",
            "string"
        ]
    );
}

#[test]
fn columns_are_changed_by_their_paths() {
    let action = |text: &str| match one(&format!("ALTER TABLE t {text}")) {
        Statement::AlterTable { action, .. } => action,
        other => panic!("{other:?}"),
    };
    for text in ["RENAME COLUMN A TO b", "rename a to B"] {
        let AlterAction::RenameColumn { column, to } = action(text) else {
            panic!("{text}");
        };
        assert_eq!(
            (column.to_string().to_lowercase(), to.to_lowercase()),
            ("a".into(), "b".into())
        );
    }
    let AlterAction::DropColumns { columns, if_exists } =
        action("DROP COLUMN IF EXISTS a.\"b.c\".d, e")
    else {
        panic!();
    };
    let names: Vec<_> = columns.iter().map(ToString::to_string).collect();
    assert_eq!(
        (names, if_exists),
        (vec!["a.`b.c`.d".to_owned(), "e".to_owned()], true)
    );
    let AlterAction::AddColumns { columns, .. } =
        action("ADD COLUMNS (a.b INT COMMENT 'x' FIRST, c TEXT AFTER d, e DATE)")
    else {
        panic!();
    };
    assert_eq!(columns[0].parents, ["a"]);
    assert_eq!(columns[0].position, Position::First);
    assert_eq!(columns[1].position, Position::After("d".to_owned()));
    assert_eq!(columns[2].position, Position::Last);
    for text in [
        "ALTER COLUMN a.b TYPE BIGINT",
        "alter column a.b set data type int8",
    ] {
        let AlterAction::SetType { column, data_type } = action(text) else {
            panic!("{text}");
        };
        assert_eq!(
            (column.to_string(), data_type),
            ("a.b".to_owned(), DataType::Long)
        );
    }
    for (text, expected) in [("SET NOT NULL", false), ("DROP NOT NULL", true)] {
        let AlterAction::SetNullable { nullable, .. } = action(&format!("ALTER COLUMN a {text}"))
        else {
            panic!("{text}");
        };
        assert_eq!(nullable, expected);
    }
    assert!(matches!(action("RENAME TO u"), AlterAction::Rename(_)));
}

#[test]
fn begin_has_levels() {
    use tarndb_txn::Isolation;
    let level = |text: &str| match one(text) {
        Statement::Begin { isolation } => isolation,
        other => panic!("{other:?}"),
    };
    assert_eq!(level("BEGIN"), None);
    assert_eq!(
        level("begin transaction isolation level serializable"),
        Some(Isolation::Serializable)
    );
    assert_eq!(
        level("START TRANSACTION ISOLATION LEVEL SNAPSHOT"),
        Some(Isolation::Snapshot)
    );
    assert_eq!(
        level("BEGIN ISOLATION LEVEL REPEATABLE READ"),
        Some(Isolation::Snapshot)
    );
}

#[test]
fn errors_name_the_place_in_the_script() {
    let error = error_at("SELECT 1;\nCREATE TABLE t (\n  a NOTYPE\n)", 3, 5);
    assert!(error.to_string().contains("  a NOTYPE\n      ^"), "{error}");
    error_at("SELEC 1", 1, 1);
    error_at("SELECT 1 FROM", 1, 14);
    error_at("SELECT (1", 1, 10);
    error_at("UPDATE t SET a 1", 1, 16);
    error_at("SELECT 'open", 1, 8);
    error_at("INSERT INTO t VALUES (1) garbage", 1, 26);
    error_at("CREATE TABLE t", 1, 15);
    let error = error_at("CREATE TABLE t (a INTT)", 1, 19);
    assert!(
        error.hint().is_some_and(|hint| hint.contains("INT")),
        "{error:?}"
    );
}

#[test]
fn what_would_change_the_meaning_is_refused() {
    for text in [
        "DELETE FROM t WHERE a = 1 LIMIT 1",
        "DELETE FROM t LIMIT 1",
        "UPDATE t SET a = 1 WHERE b = 2 LIMIT 3",
        "UPDATE t SET (a, b) = (1, 2)",
        "UPDATE t SET s.a = 1",
        "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT k DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 1 DO NOTHING",
        "INSERT OVERWRITE t PARTITION (a = 1) VALUES (1)",
        "INSERT OR REPLACE INTO t VALUES (1)",
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE t (a INT, PRIMARY KEY (a))",
        "CREATE TABLE t (a INT, CONSTRAINT u UNIQUE (a))",
        "CREATE TABLE t (a INT GENERATED ALWAYS AS (b) VIRTUAL)",
        "CREATE TABLE t (a INT) USING ICEBERG",
        "COPY t (a) TO 'x.csv'",
        "SELECT * FROM t FOR UPDATE",
    ] {
        refused(text);
    }
}

#[test]
fn statements_with_optional_parts_parse() {
    for text in [
        "CREATE SCHEMA IF NOT EXISTS s",
        "DROP SCHEMA IF EXISTS s CASCADE",
        "DROP TABLE IF EXISTS a, s.b",
        "ALTER TABLE IF EXISTS t RENAME TO s.u",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT COMMENT 'x'",
        "ALTER TABLE t ADD COLUMNS (c INT, d TEXT)",
        "ALTER TABLE t SET TBLPROPERTIES ('a.b' = 'c')",
        "ALTER TABLE t SET (zstd_level = 5)",
        "ALTER TABLE t UNSET TBLPROPERTIES ('a.b')",
        "COMMENT ON TABLE s.t IS 'x'",
        "COMMENT ON COLUMN s.t.c IS NULL",
        "SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT a",
        "RELEASE a",
        "PREPARE p (INT, DECIMAL(10, 2)) AS SELECT $1, $2",
        "EXECUTE p (1, CAST('2' AS DECIMAL(10, 2)))",
        "DEALLOCATE PREPARE p",
        "TRUNCATE TABLE t",
        "RESTORE TABLE t TO VERSION AS OF 3",
        "RESTORE s.t TO TIMESTAMP AS OF '2026-01-31'",
        "TRUNCATE t",
        "SHOW TABLES IN s",
        "SHOW SCHEMAS",
        "SHOW tarndb.transaction_id",
        "SET datafusion.execution.batch_size = 100",
        "SET x.y TO 'z'",
        "RESET x.y",
        "DESCRIBE TABLE s.t",
        "EXPLAIN ANALYZE DELETE FROM t",
        "EXPLAIN (ANALYZE, FORMAT tree) SELECT 1",
        "COPY t TO 'x.csv' (FORMAT csv, HEADER false, DELIMITER ';')",
        "COPY (SELECT 1) TO 'x.parquet'",
        "COPY t TO 'x' STORED AS PARQUET",
        "FROM t",
        "TABLE t",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "INSERT INTO t (a, b) (SELECT 1, 2)",
        "INSERT INTO t (SELECT 1, 2)",
        "INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM a",
        "DELETE FROM t AS x WHERE x.a IN (SELECT a FROM s)",
        "UPDATE s.t x SET x.a = x.a + 1, \"B\" = NULL",
        "CREATE TABLE t PARTITIONED BY (d DATE) AS SELECT 1",
    ] {
        let parsed = parse(text);
        assert!(
            parsed.is_ok() || text.contains("(d DATE) AS"),
            "{text}: {parsed:?}"
        );
    }
}

#[test]
fn random_bytes_never_panic() {
    let words = [
        "CREATE", "TABLE", "(", ")", "<", ">>", "'", "\"", ";", "SELECT", "x", ",", "WITH", "=",
        "MAP", "ARRAY", "NOT", "$$", "--", "\n", "/*", "\u{e9}", "1", ".", "SET", "UPDATE", "[",
        "]",
    ];
    let mut state = 1_u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push(' ');
        }
        if let Err(error) = parse(&text) {
            let _ = (error.to_string(), error.hint(), error.position());
        }
    }
}

#[test]
fn vacuum_takes_a_table_or_the_database_a_retention_and_a_dry_run() {
    let vacuum = |text: &str| match one(text) {
        Statement::Vacuum(vacuum) => {
            let name = vacuum.name.map(|name| name.to_string());
            let hours = vacuum.retention.map(|time| time.as_secs() / 3600);
            (name, hours, vacuum.dry_run)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(vacuum("VACUUM DATABASE"), (None, None, false));
    assert_eq!(
        vacuum("vacuum s.t RETAIN 12 HOURS"),
        (Some("s.t".to_owned()), Some(12), false)
    );
    assert_eq!(
        vacuum("VACUUM t RETAIN 2 DAYS DRY RUN"),
        (Some("t".to_owned()), Some(48), true)
    );
    assert_eq!(
        vacuum("VACUUM \"database\" DRY RUN"),
        (Some("database".to_owned()), None, true)
    );
    error_at("VACUUM", 1, 7);
    error_at("VACUUM t RETAIN 3 WEEKS", 1, 19);
}
