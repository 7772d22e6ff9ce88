//! RETURNING.

use crate::support::*;

const TABLE: &str = "
    CREATE TABLE t (Id INT, v TEXT, n INT DEFAULT 7);
    INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', NULL)";

/// The rows in order: RETURNING promises none.
async fn sorted(session: &mut tarndb_sql::Session, statement: &str) -> String {
    let text = rows(session, statement).await;
    let mut lines = text.split("; ").collect::<Vec<_>>();
    lines.sort_unstable();
    lines.join("; ")
}

#[tokio::test]
async fn returning_gives_the_rows_as_they_are_committed() {
    for (statement, returned) in [
        (
            "INSERT INTO t (v, id) VALUES ('x', 8), ('y', 9) RETURNING *",
            "8|x|7; 9|y|7",
        ),
        (
            "INSERT INTO t SELECT id + 10, v, n FROM t RETURNING id AS i, upper(v) || 'z', t.n",
            "11|Az|1; 12|Bz|2; 13|Cz|NULL",
        ),
        (
            "INSERT INTO t AS x DEFAULT VALUES RETURNING x.id, x.n",
            "NULL|7",
        ),
        (
            "UPDATE t SET n = n * 10 WHERE id < 3 RETURNING id, n",
            "1|10; 2|20",
        ),
        (
            "UPDATE t AS y SET n = DEFAULT RETURNING y.n, y.id",
            "7|1; 7|2; 7|3",
        ),
        ("UPDATE t SET n = 0 WHERE false RETURNING *", ""),
        ("DELETE FROM t WHERE n IS NULL RETURNING *", "3|c|NULL"),
        ("DELETE FROM t RETURNING id", "1; 2; 3"),
        ("DELETE FROM t WHERE id > 5 RETURNING id", ""),
        (
            "INSERT INTO t VALUES (1, 'A', 1), (5, 'E', 5) ON CONFLICT (id)
             DO UPDATE SET v = excluded.v WHERE t.n = 1 RETURNING *",
            "1|A|1; 5|E|5",
        ),
        (
            "INSERT INTO t VALUES (1, 'A', 1), (5, 'E', 5) ON CONFLICT (id) DO NOTHING
             RETURNING id",
            "5",
        ),
        (
            "INSERT OVERWRITE t VALUES (4, 'd', 4) RETURNING id, (SELECT count(*) FROM t) AS old",
            "4|3",
        ),
        (
            "INSERT INTO t REPLACE WHERE id = 2 VALUES (2, 'B', 2) RETURNING v",
            "B",
        ),
    ] {
        for options in ["", "PARTITIONED BY (v)", "WITH (deletion_vectors = 'off')"] {
            for in_transaction in [false, true] {
                let table = TABLE.replacen("DEFAULT 7);", &format!("DEFAULT 7) {options};"), 1);
                let mut session = setup(&table).await;
                if in_transaction {
                    ok(&mut session, "BEGIN; INSERT INTO t VALUES (99, 'zz', 9)").await;
                    ok(&mut session, "DELETE FROM t WHERE id = 99").await;
                }
                let given = sorted(&mut session, statement).await;
                assert_eq!(given, returned, "{statement} {options}");
                if in_transaction {
                    ok(&mut session, "COMMIT").await;
                }
            }
        }
    }
}

#[tokio::test]
async fn columns_are_spelled_as_the_table_spells_them() {
    let mut session = setup(TABLE).await;
    let statement = "INSERT INTO t VALUES (5, 'e', 5) RETURNING ID, n + 1, v AS Name, v";
    let names = columns(&mut session, statement).await;
    assert_eq!(names, ["Id", "n + 1", "Name", "v"]);
}

#[tokio::test]
async fn generated_and_identity_values_are_returned() {
    let mut session = setup(
        "CREATE TABLE t (no BIGINT GENERATED ALWAYS AS IDENTITY, n INT,
                         twice INT GENERATED ALWAYS AS (n * 2))",
    )
    .await;
    let insert = "INSERT INTO t (n) VALUES (1), (2) RETURNING *";
    assert_eq!(sorted(&mut session, insert).await, "1|1|2; 2|2|4");
    let update = "UPDATE t SET n = n + 10 RETURNING twice, no";
    assert_eq!(sorted(&mut session, update).await, "22|1; 24|2");
}

#[tokio::test]
async fn an_error_in_returning_undoes_the_statement() {
    for (returning, sqlstate) in [
        ("1 / (n - 2)", "22012"),
        ("nothing", "42703"),
        ("count(*)", "42803"),
        ("row_number() OVER (ORDER BY id)", "42803"),
        ("unnest([1, 2])", "42803"),
    ] {
        for statement in [
            "INSERT INTO t SELECT id + 10, v, n FROM t",
            "UPDATE t SET v = 'z'",
            "DELETE FROM t",
        ] {
            let mut session = setup(TABLE).await;
            let statement = format!("{statement} RETURNING {returning}");
            let error = err(&mut session, &statement).await;
            assert_eq!(error.sqlstate(), sqlstate, "{statement}: {}", chain(&error));
            let left = rows(&mut session, "SELECT * FROM t ORDER BY id").await;
            assert_eq!(left, "1|a|1; 2|b|2; 3|c|NULL", "{statement}");
        }
    }
    let mut session = setup(TABLE).await;
    for statement in [
        "DELETE FROM t RETURNING",
        "DELETE FROM t RETURNING id FROM t",
        "DELETE FROM t RETURNING id ORDER BY id",
        "DELETE FROM t RETURNING id LIMIT 1",
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), "42601", "{statement}: {}", chain(&error));
    }
}

#[tokio::test]
async fn a_large_result_is_given_whole_after_the_commit() {
    const ROWS: i64 = 1_500_000;
    let mut session = setup("CREATE TABLE t (id BIGINT, v BIGINT)").await;
    let insert = format!(
        "INSERT INTO t SELECT value, value * 3 FROM generate_series(1, {ROWS}) RETURNING *"
    );
    let outcome = ok(&mut session, &insert).await;
    // What comes after does not touch the rows.
    ok(&mut session, "DELETE FROM t WHERE id > 10").await;
    let batches = outcome.collect().await.unwrap();
    let count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(count, usize::try_from(ROWS).unwrap());
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "10");
}

#[tokio::test]
async fn nothing_is_given_out_when_the_commit_fails() {
    let db = database().await;
    let mut one = session(&db);
    ok(&mut one, TABLE).await;
    let mut two = session(&reopened(&db).await);
    ok(&mut two, "BEGIN; SELECT * FROM t").await;
    let held = sorted(&mut two, "DELETE FROM t WHERE id = 1 RETURNING v").await;
    assert_eq!(held, "a");
    // In autocommit the rows are those of the run that was committed.
    ok(&mut one, "UPDATE t SET v = 'new' WHERE id = 1").await;
    let error = err(&mut two, "COMMIT").await;
    assert_eq!(error.sqlstate(), "40001");
    let again = "DELETE FROM t WHERE id = 1 RETURNING v";
    assert_eq!(sorted(&mut two, again).await, "new");
    assert_eq!(
        rows(&mut one, "SELECT count(*) FROM t WHERE id = 1").await,
        "0"
    );
}

#[tokio::test]
async fn a_table_by_path_refuses_by_name() {
    let fields = ["id", "p"]
        .map(|name| tarndb_table::Field::new(name, tarndb_table::DataType::Integer, true));
    let (_guard, path) = table_by_path(fields.into(), &[], &[]).await;
    let mut session = setup("").await;
    for clause in [
        "INSERT INTO {t} VALUES (1, 1) RETURNING *",
        "INSERT INTO {t} VALUES (1, 1) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 1)",
        "UPDATE {t} SET id = 1 RETURNING id",
        "DELETE FROM {t} RETURNING id",
    ] {
        let statement = clause.replace("{t}", &format!("delta.`{path}`"));
        let error = err(&mut session, &statement).await;
        assert_eq!(error.sqlstate(), "0A000", "{statement}");
        assert!(error.hint().is_some(), "{statement}");
    }
}
