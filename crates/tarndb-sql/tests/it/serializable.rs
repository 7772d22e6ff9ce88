//! SERIALIZABLE: what a statement reads is the predicate of its scan.

use crate::support::*;

const SETUP: &str = "CREATE TABLE a (id INT, n INT); INSERT INTO a VALUES (1, 1), (2, 1); \
    CREATE TABLE b (id INT, n INT); INSERT INTO b VALUES (1, 1), (2, 1)";

/// Both sessions begin, each runs its own statements, the second commits last.
async fn second_commit(one: &str, two: &str) -> Result<(), String> {
    let db = database().await;
    let (mut first, mut second) = (session(&db), session(&db));
    ok(&mut first, SETUP).await;
    for (session, script) in [(&mut first, one), (&mut second, two)] {
        ok(session, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
        ok(session, script).await;
    }
    ok(&mut first, "COMMIT").await;
    match second.sql("COMMIT").await {
        Ok(_) => Ok(()),
        Err(error) => {
            assert_eq!(error.sqlstate(), "40001", "{}", chain(&error));
            Err(chain(&error))
        }
    }
}

#[tokio::test]
async fn write_skew_across_two_tables_is_refused_when_the_predicates_meet() {
    let one = "SELECT n FROM a WHERE id = 1; UPDATE b SET n = 0 WHERE id = 1";
    let two = "SELECT n FROM b WHERE id = 1; UPDATE a SET n = 0 WHERE id = 1";
    let text = second_commit(one, two).await.unwrap_err();
    assert!(text.contains("id = 1"), "{text}");
}

#[tokio::test]
async fn reads_of_other_rows_do_not_conflict() {
    let one = "SELECT n FROM a WHERE id = 1; UPDATE b SET n = 0 WHERE id = 1";
    let two = "SELECT n FROM b WHERE id = 2; UPDATE a SET n = 0 WHERE id = 2";
    second_commit(one, two).await.unwrap();
}

#[tokio::test]
async fn a_row_that_appears_under_a_predicate_that_was_read_is_a_conflict() {
    let two = "SELECT count(*) FROM a WHERE id > 10; INSERT INTO b VALUES (3, 3)";
    second_commit("INSERT INTO a VALUES (11, 1)", two)
        .await
        .unwrap_err();
    second_commit("INSERT INTO a VALUES (9, 1), (NULL, 1)", two)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_unfiltered_read_counts_every_change() {
    let two = "SELECT sum(n) FROM a; INSERT INTO b VALUES (3, 3)";
    second_commit("INSERT INTO a VALUES (11, 1)", two)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn what_the_row_does_not_decide_counts_as_the_whole_table() {
    let two = "SELECT n FROM a WHERE id = (SELECT max(id) FROM b); INSERT INTO b VALUES (3, 3)";
    second_commit("INSERT INTO a VALUES (11, 1)", two)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn explain_says_what_would_be_judged() {
    let mut session = setup(SETUP).await;
    ok(&mut session, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    let text = rows(
        &mut session,
        "EXPLAIN SELECT a.n FROM a JOIN b ON a.id = b.id WHERE a.n > 5",
    )
    .await;
    assert!(text.contains("serializable reads:"), "{text}");
    assert!(text.contains("main.a: rows where"), "{text}");
    ok(&mut session, "ROLLBACK").await;
    let text = rows(&mut session, "EXPLAIN SELECT n FROM a").await;
    assert!(!text.contains("serializable reads:"), "{text}");
}
