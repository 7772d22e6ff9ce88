//! SAVEPOINT, ROLLBACK TO, RELEASE.

use tarndb_sql::Outcome;

use crate::support::*;

const TABLE: &str = "CREATE TABLE t (n INT NOT NULL); INSERT INTO t VALUES (1)";
const ALL: &str = "SELECT coalesce(string_agg(CAST(n AS TEXT), ',' ORDER BY n), '') FROM t";

/// Scripts after BEGIN, each with the rows that are seen after it inside the transaction.
const STORIES: &[(&str, &[(&str, &str)])] = &[
    (
        "changes after the savepoint go, those before it stay",
        &[
            ("INSERT INTO t VALUES (2); SAVEPOINT a", "1,2"),
            ("INSERT INTO t VALUES (3); DELETE FROM t WHERE n = 1", "2,3"),
            ("ROLLBACK TO a", "1,2"),
            ("INSERT INTO t VALUES (4)", "1,2,4"),
            ("ROLLBACK TO SAVEPOINT A", "1,2"),
        ],
    ),
    (
        "the newest of one name counts, and RELEASE shows the older one again",
        &[
            ("SAVEPOINT a; INSERT INTO t VALUES (2); SAVEPOINT a", "1,2"),
            ("INSERT INTO t VALUES (3); ROLLBACK TO a", "1,2"),
            ("RELEASE a; ROLLBACK TO a", "1"),
        ],
    ),
    (
        "RELEASE keeps the changes and takes later savepoints with it",
        &[
            (
                "SAVEPOINT a; INSERT INTO t VALUES (2); SAVEPOINT b; RELEASE SAVEPOINT a",
                "1,2",
            ),
            ("INSERT INTO t VALUES (3)", "1,2,3"),
        ],
    ),
    (
        "tables made after the savepoint go",
        &[
            ("SAVEPOINT a; CREATE TABLE u (x INT); DROP TABLE u", "1"),
            ("ALTER TABLE t ADD COLUMN m INT; ROLLBACK TO a", "1"),
            ("CREATE TABLE u (y INT); DROP TABLE u", "1"),
        ],
    ),
];

#[tokio::test]
async fn going_back_to_a_savepoint_forgets_what_came_after_it() {
    for (story, steps) in STORIES {
        let mut session = setup(TABLE).await;
        ok(&mut session, "BEGIN").await;
        let mut last = "";
        for (script, expected) in *steps {
            ok(&mut session, script).await;
            assert_eq!(
                rows(&mut session, ALL).await,
                *expected,
                "{story}: {script}"
            );
            last = expected;
        }
        ok(&mut session, "COMMIT").await;
        assert_eq!(rows(&mut session, ALL).await, last, "{story}");
    }
}

#[tokio::test]
async fn a_failed_transaction_goes_on_from_its_savepoint() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "BEGIN; INSERT INTO t VALUES (2); SAVEPOINT a").await;
    // Half of the rows are written when the statement fails.
    let failed = "INSERT INTO t SELECT CASE WHEN i < 3 THEN i END FROM (VALUES (1), (2), (3)) v(i)";
    assert_eq!(err(&mut session, failed).await.sqlstate(), "23502");
    assert!(session.is_failed());
    assert_eq!(err(&mut session, ALL).await.sqlstate(), "25P02");
    assert_eq!(err(&mut session, "SAVEPOINT b").await.sqlstate(), "25P02");
    ok(&mut session, "ROLLBACK TO a").await;
    assert!(!session.is_failed());
    assert_eq!(rows(&mut session, ALL).await, "1,2");
    // A second failure, and one of the parser.
    assert_eq!(err(&mut session, "SELEC").await.sqlstate(), "42601");
    ok(
        &mut session,
        "ROLLBACK TO a; INSERT INTO t VALUES (7); COMMIT",
    )
    .await;
    assert_eq!(rows(&mut session, ALL).await, "1,2,7");
}

#[tokio::test]
async fn a_failed_transaction_is_not_committed_whatever_savepoints_it_has() {
    let mut session = setup(TABLE).await;
    ok(&mut session, "BEGIN; INSERT INTO t VALUES (2); SAVEPOINT a").await;
    err(&mut session, "SELECT nothing FROM t").await;
    assert!(matches!(
        ok(&mut session, "COMMIT").await,
        Outcome::Done { tag: "ROLLBACK" }
    ));
    assert_eq!(rows(&mut session, ALL).await, "1");
    // Nothing of the savepoint is left for the next transaction.
    ok(&mut session, "BEGIN").await;
    assert_eq!(err(&mut session, "ROLLBACK TO a").await.sqlstate(), "3B001");
    assert!(session.is_failed());
}

#[tokio::test]
async fn savepoints_are_for_open_transactions() {
    let mut session = setup(TABLE).await;
    for statement in ["SAVEPOINT a", "ROLLBACK TO a", "RELEASE a"] {
        assert_eq!(
            err(&mut session, statement).await.sqlstate(),
            "25P01",
            "{statement}"
        );
    }
    ok(&mut session, "BEGIN; SAVEPOINT a").await;
    assert_eq!(err(&mut session, "RELEASE b").await.sqlstate(), "3B001");
    ok(&mut session, "ROLLBACK TO a; RELEASE a").await;
    assert_eq!(err(&mut session, "ROLLBACK TO a").await.sqlstate(), "3B001");
}

#[tokio::test]
async fn what_was_read_before_going_back_is_still_judged() {
    let db = database().await;
    let (mut one, mut two) = (session(&db), session(&db));
    ok(&mut one, TABLE).await;
    ok(
        &mut one,
        "CREATE TABLE u (x INT); BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT a",
    )
    .await;
    assert_eq!(rows(&mut one, ALL).await, "1");
    ok(&mut one, "ROLLBACK TO a; INSERT INTO u VALUES (1)").await;
    ok(&mut two, "INSERT INTO t VALUES (2)").await;
    assert_eq!(err(&mut one, "COMMIT").await.sqlstate(), "40001");
}
