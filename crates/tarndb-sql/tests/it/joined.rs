//! UPDATE .. FROM and DELETE .. USING.

use crate::support::*;

const TABLES: &str = "
    CREATE TABLE t (id INT, v TEXT);
    CREATE TABLE s (id INT, v TEXT);
    CREATE TABLE u (v TEXT, n INT);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL), (NULL, 'n');
    INSERT INTO s VALUES (2, 'B'), (3, 'C'), (9, 'I'), (NULL, 'N');
    INSERT INTO u VALUES ('B', 20), ('C', 30), ('C', 31)";
const ALL: &str = "SELECT * FROM t ORDER BY id";

#[tokio::test]
async fn update_from_and_delete_using_change_the_joined_rows() {
    for (statement, changed, left) in [
        (
            "UPDATE t SET v = s.v FROM s WHERE t.id = s.id",
            2,
            "1|a; 2|B; 3|C; 4|NULL; NULL|n",
        ),
        (
            "UPDATE t AS x SET v = x.v || y.v FROM s y WHERE x.id = y.id AND y.id > 2",
            1,
            "1|a; 2|b; 3|cC; 4|NULL; NULL|n",
        ),
        (
            "UPDATE t SET id = u.n FROM s JOIN u ON s.v = u.v WHERE t.id = s.id AND n < 31",
            2,
            "1|a; 4|NULL; 20|b; 30|c; NULL|n",
        ),
        (
            "UPDATE t SET v = q.m FROM (SELECT max(v) AS m FROM s) q WHERE t.id < 2",
            1,
            "1|N; 2|b; 3|c; 4|NULL; NULL|n",
        ),
        (
            "UPDATE t SET v = o.v FROM t AS o WHERE o.id = t.id + 1",
            3,
            "1|b; 2|c; 3|NULL; 4|NULL; NULL|n",
        ),
        (
            "UPDATE t SET v = 'x' FROM s WHERE false",
            0,
            "1|a; 2|b; 3|c; 4|NULL; NULL|n",
        ),
        (
            "DELETE FROM t USING s WHERE t.id = s.id",
            2,
            "1|a; 4|NULL; NULL|n",
        ),
        // Two rows of u join one of t: it goes once.
        (
            "DELETE FROM t USING s, u WHERE t.id = s.id AND s.v = u.v",
            2,
            "1|a; 4|NULL; NULL|n",
        ),
        ("DELETE FROM t USING s", 5, ""),
        (
            "DELETE FROM t USING s WHERE NULL",
            0,
            "1|a; 2|b; 3|c; 4|NULL; NULL|n",
        ),
    ] {
        let mut session = setup(TABLES).await;
        assert_eq!(count(&mut session, statement).await, changed, "{statement}");
        assert_eq!(rows(&mut session, ALL).await, left, "{statement}");
    }
}

#[tokio::test]
async fn a_row_that_several_rows_would_change_is_an_error_and_nothing_changes() {
    let mut session = setup(TABLES).await;
    let twice = "UPDATE t SET id = u.n FROM s, u WHERE t.id = s.id AND s.v = u.v";
    let error = err(&mut session, twice).await;
    assert_eq!(error.sqlstate(), "21000");
    assert!(error.to_string().contains("main.t"), "{error}");
    let all = rows(&mut session, ALL).await;
    assert_eq!(all, "1|a; 2|b; 3|c; 4|NULL; NULL|n");
}

#[tokio::test]
async fn columns_of_one_name_on_both_sides_of_a_join_are_told_apart() {
    let mut session = setup(TABLES).await;
    let query = "SELECT t.id, t.v, u.n FROM t, s, u WHERE t.id = s.id AND s.v = u.v ORDER BY 3";
    assert_eq!(rows(&mut session, query).await, "2|b|20; 3|c|30; 3|c|31");
    let query = "SELECT t.id, s.v FROM t JOIN s ON t.id = s.id ORDER BY s.v DESC LIMIT 1";
    assert_eq!(rows(&mut session, query).await, "3|C");
}
