//! INSERT, UPDATE, DELETE: the hard cases.

use crate::support::*;

const TABLES: &str = "
    CREATE TABLE t (id INT, v TEXT);
    CREATE TABLE s (id INT, v TEXT);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL);
    INSERT INTO s VALUES (2, 'B'), (3, 'C'), (9, 'I')";
const ALL: &str = "SELECT * FROM t ORDER BY id";

#[tokio::test]
async fn delete_changes_exactly_the_rows_of_its_where() {
    for (statement, deleted, left) in [
        (
            "DELETE FROM t WHERE id = 2 AND v LIKE 'b%'",
            1,
            "1|a; 3|c; 4|NULL",
        ),
        (
            "DELETE FROM t WHERE id IN (SELECT id FROM s)",
            2,
            "1|a; 4|NULL",
        ),
        (
            "DELETE FROM t WHERE id NOT IN (SELECT id FROM s)",
            2,
            "2|b; 3|c",
        ),
        (
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id = t.id)",
            2,
            "1|a; 4|NULL",
        ),
        (
            "DELETE FROM t AS x WHERE EXISTS (SELECT 1 FROM s WHERE s.id = x.id)",
            2,
            "1|a; 4|NULL",
        ),
        (
            "DELETE FROM main.t WHERE main.t.id = 1",
            1,
            "2|b; 3|c; 4|NULL",
        ),
        ("DELETE FROM t WHERE false", 0, "1|a; 2|b; 3|c; 4|NULL"),
        ("DELETE FROM t WHERE NULL", 0, "1|a; 2|b; 3|c; 4|NULL"),
        ("DELETE FROM t WHERE true", 4, ""),
        ("DELETE FROM t", 4, ""),
        (
            "DELETE FROM t WHERE id = (SELECT max(id) FROM s WHERE id < 5)",
            1,
            "1|a; 2|b; 4|NULL",
        ),
        (
            "DELETE FROM t WHERE id < (SELECT avg(id) FROM t)",
            2,
            "3|c; 4|NULL",
        ),
        (
            "DELETE FROM t WHERE id = (SELECT max(id) FROM t)",
            1,
            "1|a; 2|b; 3|c",
        ),
        ("DELETE FROM t WHERE v <> 'a'", 2, "1|a; 4|NULL"),
        ("DELETE FROM t WHERE NOT (v = 'a')", 2, "1|a; 4|NULL"),
        ("DELETE FROM t WHERE v IS NULL OR id = 1", 2, "2|b; 3|c"),
        (
            "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 2)",
            2,
            "3|c; 4|NULL",
        ),
        (
            "DELETE FROM t WHERE random() < 0",
            0,
            "1|a; 2|b; 3|c; 4|NULL",
        ),
    ] {
        let mut session = setup(TABLES).await;
        assert_eq!(count(&mut session, statement).await, deleted, "{statement}");
        assert_eq!(rows(&mut session, ALL).await, left, "{statement}");
        let n = if left.is_empty() {
            0
        } else {
            left.split("; ").count()
        };
        assert_eq!(
            rows(&mut session, "SELECT count(*) FROM t").await,
            n.to_string()
        );
    }
}

#[tokio::test]
async fn update_changes_exactly_the_rows_of_its_where() {
    for (statement, changed, after) in [
        (
            "UPDATE t SET v = 'z' WHERE id IN (SELECT id FROM s)",
            2,
            "1|a; 2|z; 3|z; 4|NULL",
        ),
        ("UPDATE t SET v = v", 4, "1|a; 2|b; 3|c; 4|NULL"),
        (
            "UPDATE t SET v = 'z' WHERE false",
            0,
            "1|a; 2|b; 3|c; 4|NULL",
        ),
        (
            "UPDATE t SET id = id + 10 WHERE v > 'a'",
            2,
            "1|a; 4|NULL; 12|b; 13|c",
        ),
        (
            "UPDATE t SET id = 7, v = id || v WHERE id = 1",
            1,
            "2|b; 3|c; 4|NULL; 7|1a",
        ),
        (
            "UPDATE t x SET v = upper(x.v) WHERE x.id < 3",
            2,
            "1|A; 2|B; 3|c; 4|NULL",
        ),
        (
            "UPDATE t SET v = (SELECT max(s.v) FROM s WHERE s.id = t.id)",
            4,
            "1|NULL; 2|B; 3|C; 4|NULL",
        ),
        (
            "UPDATE t SET id = (SELECT max(id) FROM t) + id WHERE id = 1",
            1,
            "2|b; 3|c; 4|NULL; 5|a",
        ),
        ("UPDATE t SET v = NULL", 4, "1|NULL; 2|NULL; 3|NULL; 4|NULL"),
        (
            "UPDATE T SET V = 'x' WHERE ID = 1",
            1,
            "1|x; 2|b; 3|c; 4|NULL",
        ),
        (
            "UPDATE t SET v = CASE WHEN id = 1 THEN 'one' ELSE v END WHERE id <= 2",
            2,
            "1|one; 2|b; 3|c; 4|NULL",
        ),
    ] {
        let mut session = setup(TABLES).await;
        assert_eq!(count(&mut session, statement).await, changed, "{statement}");
        assert_eq!(rows(&mut session, ALL).await, after, "{statement}");
    }
}

#[tokio::test]
async fn a_subquery_with_two_values_for_one_row_is_an_error_and_changes_nothing() {
    let mut session = setup(TABLES).await;
    ok(&mut session, "INSERT INTO s VALUES (2, 'BB')").await;
    let statement = "UPDATE t SET v = (SELECT s.v FROM s WHERE s.id = t.id)";
    let error = err(&mut session, statement).await;
    assert!(
        matches!(error.sqlstate(), "21000" | "0A000" | "42000"),
        "{error:?}"
    );
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|b; 3|c; 4|NULL");
}

#[tokio::test]
async fn changes_add_up_over_many_files_and_deletion_vectors() {
    let mut session = setup("CREATE TABLE t (id INT, v INT)").await;
    for file in 0..5 {
        let from = file * 100;
        let script = format!(
            "INSERT INTO t SELECT value, 0 FROM generate_series({from}, {})",
            from + 99
        );
        assert_eq!(count(&mut session, &script).await, 100);
    }
    for step in 2..6 {
        let statement = format!("DELETE FROM t WHERE id % {} = 0", step * 7);
        ok(&mut session, &statement).await;
        ok(
            &mut session,
            &format!("UPDATE t SET v = v + 1 WHERE id % {step} = 1"),
        )
        .await;
    }
    let expected = (0..500_u64)
        .filter(|id| (2..6).all(|step| id % (step * 7) != 0))
        .map(|id| (2..6).filter(|step| id % step == 1).count() as u64)
        .fold((0, 0), |(n, sum), v| (n + 1, sum + v));
    let actual = rows(
        &mut session,
        "SELECT count(*), sum(v), count(DISTINCT id) FROM t",
    )
    .await;
    assert_eq!(
        actual,
        format!("{}|{}|{}", expected.0, expected.1, expected.0)
    );
}

#[tokio::test]
async fn user_columns_called_file_and_pos_work() {
    let mut session = setup(
        "CREATE TABLE t (_file TEXT, _pos INT, \"_FILE1\" INT);
         INSERT INTO t VALUES ('x', 1, 10), ('y', 2, 20), ('z', 3, 30)",
    )
    .await;
    assert_eq!(count(&mut session, "DELETE FROM t WHERE _pos = 2").await, 1);
    assert_eq!(
        count(
            &mut session,
            "UPDATE t SET _pos = _pos + 1, _file = 'q' WHERE _file = 'x'"
        )
        .await,
        1
    );
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY _pos DESC").await,
        "z|3|30; q|2|10"
    );
}

#[tokio::test]
async fn insert_maps_columns_and_refuses_what_does_not_fit() {
    let mut session = setup("CREATE TABLE t (a INT NOT NULL, B TEXT, c DATE)").await;
    assert_eq!(
        count(
            &mut session,
            "INSERT INTO t (c, A) VALUES ('2024-02-29', 1)"
        )
        .await,
        1
    );
    assert_eq!(
        count(&mut session, "INSERT INTO t (a, b) SELECT 2, 'x'").await,
        1
    );
    assert_eq!(
        rows(&mut session, "FROM t ORDER BY a").await,
        "1|NULL|2024-02-29; 2|x|NULL"
    );
    for (statement, state, word) in [
        ("INSERT INTO t (b) VALUES ('x')", "23502", "column a"),
        (
            "INSERT INTO t VALUES (NULL, 'x', NULL)",
            "23502",
            "column a of",
        ),
        (
            "INSERT INTO t VALUES (1, 'x')",
            "42601",
            "2 values for 3 columns",
        ),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "42701", "named twice"),
        ("INSERT INTO t (a, nope) VALUES (1, 2)", "42703", "nope"),
        (
            "INSERT INTO t VALUES (3000000000, 'x', NULL)",
            "22003",
            "column=a",
        ),
        ("INSERT INTO t VALUES (1.5, 'x', NULL)", "22003", "column=a"),
        (
            "INSERT INTO t VALUES (1, 'x', 'no date')",
            "22P02",
            "column=c",
        ),
        (
            "INSERT INTO t VALUES (true, 'x', NULL)",
            "42804",
            "column=a",
        ),
        ("INSERT INTO nope VALUES (1)", "42P01", "nope"),
        ("UPDATE t SET a = NULL", "23502", "column a of"),
        ("UPDATE t SET a = a * 3000000000", "22003", "column=a"),
        ("UPDATE t SET zz = 1", "42703", "zz"),
        ("UPDATE t SET a = 1, A = 2", "42701", "named twice"),
    ] {
        let error = err(&mut session, statement).await;
        assert_eq!(error.sqlstate(), state, "{statement}: {}", chain(&error));
        assert!(
            chain(&error).contains(word),
            "{statement}: {}",
            chain(&error)
        );
    }
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await, "2");
}

#[tokio::test]
async fn copy_on_write_tables_change_the_same_way() {
    let mut session = setup(
        "CREATE TABLE t (id INT, v TEXT) WITH (deletion_vectors = 'off');
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    .await;
    assert_eq!(count(&mut session, "DELETE FROM t WHERE id = 1").await, 1);
    assert_eq!(
        count(&mut session, "UPDATE t SET v = 'z' WHERE id = 3").await,
        1
    );
    assert_eq!(rows(&mut session, ALL).await, "2|b; 3|z");
}

#[tokio::test]
async fn partitioned_tables_prune_update_their_partition_and_say_empty_is_null() {
    let mut session = setup(
        "CREATE TABLE t (id INT, p TEXT, q INT) PARTITIONED BY (p, q);
         INSERT INTO t SELECT value, 'p' || value % 3, value % 2 FROM generate_series(1, 12)",
    )
    .await;
    assert_eq!(
        rows(
            &mut session,
            "SELECT sum(id) FROM t WHERE p = 'p1' AND q = 0"
        )
        .await,
        "14"
    );
    let plan = rows(
        &mut session,
        "EXPLAIN SELECT id FROM t WHERE p = 'p1' AND q = 0",
    )
    .await;
    assert_eq!(plan.matches(".parquet").count(), 1, "{plan}");
    assert_eq!(
        count(&mut session, "UPDATE t SET p = 'new dir/%' WHERE id = 4").await,
        1
    );
    assert_eq!(
        rows(&mut session, "SELECT id, q FROM t WHERE p LIKE 'new%'").await,
        "4|0"
    );
    ok(&mut session, "INSERT INTO t VALUES (99, '', 0)").await;
    let notices = session.take_notices();
    assert!(
        notices.iter().any(|notice| notice.contains("NULL")),
        "{notices:?}"
    );
    assert_eq!(
        rows(&mut session, "SELECT id FROM t WHERE p IS NULL").await,
        "99"
    );
    assert_eq!(
        rows(&mut session, "SELECT count(*) FROM t WHERE p = ''").await,
        "0"
    );
}

#[tokio::test]
async fn pruning_by_bounds_keeps_every_matching_row() {
    let mut session = setup("CREATE TABLE t (id INT, s TEXT, d DOUBLE, ts TIMESTAMP)").await;
    for (id, s, d) in [
        (1, "'a'", "1.5"),
        (2, "NULL", "'NaN'"),
        (3, "'zz'", "NULL"),
        (4, "''", "-0.0"),
    ] {
        let script = format!(
            "INSERT INTO t VALUES ({id}, {s}, {d}, TIMESTAMP '1969-12-31 23:59:59.999999' + INTERVAL '{id} microsecond')"
        );
        ok(&mut session, &script).await;
    }
    for (filter, expected) in [
        ("id > 2", "3; 4"),
        ("s IS NULL", "2"),
        ("s IS NOT NULL", "1; 3; 4"),
        ("s >= 'z'", "3"),
        ("s <> 'a'", "3; 4"),
        ("NOT (s = 'a')", "3; 4"),
        ("s = '' OR d IS NULL", "3; 4"),
        ("d > 1", "1; 2"),
        ("d = 0", "4"),
        ("ts >= TIMESTAMP '1970-01-01 00:00:00.000001'", "2; 3; 4"),
        ("ts < TIMESTAMP '1970-01-01'", ""),
        ("id IN (SELECT max(id) FROM t)", "4"),
        ("id BETWEEN 2 AND 3 AND s IS NULL", "2"),
    ] {
        let query = format!("SELECT id FROM t WHERE {filter} ORDER BY id");
        assert_eq!(rows(&mut session, &query).await, expected, "{filter}");
    }
    let plan = rows(&mut session, "EXPLAIN SELECT id FROM t WHERE id > 2").await;
    assert_eq!(plan.matches(".parquet").count(), 2, "{plan}");
}

#[tokio::test]
async fn explain_of_a_change_tells_our_plan_and_changes_nothing() {
    let mut session = setup(TABLES).await;
    let plan = rows(&mut session, "EXPLAIN DELETE FROM t WHERE id > 1").await;
    assert!(
        plan.contains("Delete: table=main.t") && plan.contains("deletion vectors"),
        "{plan}"
    );
    let plan = rows(&mut session, "EXPLAIN UPDATE t SET v = 'q'").await;
    assert!(plan.contains("Update: table=main.t"), "{plan}");
    let plan = rows(&mut session, "EXPLAIN INSERT INTO t SELECT * FROM s").await;
    assert!(plan.contains("Insert: table=main.t"), "{plan}");
    assert_eq!(rows(&mut session, ALL).await, "1|a; 2|b; 3|c; 4|NULL");
    let plan = rows(&mut session, "EXPLAIN ANALYZE DELETE FROM t WHERE id > 1").await;
    assert!(plan.contains("rows=3"), "{plan}");
    assert_eq!(rows(&mut session, ALL).await, "1|a");
}
