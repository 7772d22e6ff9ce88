//! Names: case kept, compared without.

use tarndb_sql::Session;

use crate::support::*;

const TABLE: &str = "
    CREATE TABLE Events (Id INT, createdAt DATE, \"user Name\" TEXT);
    INSERT INTO EVENTS (ID, CREATEDAT) VALUES (1, '2024-01-01')";

#[tokio::test]
async fn a_name_with_a_blank_is_refused() {
    let error = err(&mut setup("").await, "CREATE TABLE t (\"user Name\" TEXT)").await;
    assert!(error.sqlstate() == "42602", "{}", chain(&error));
}

fn table() -> String {
    TABLE.replace(", \"user Name\" TEXT", "")
}

#[tokio::test]
async fn columns_resolve_without_case_and_come_back_as_stored() {
    let mut session = setup(&table()).await;
    for (query, names) in [
        ("SELECT * FROM events", "Id, createdAt"),
        (
            "SELECT createdat, \"createdAt\", CREATEDAT FROM Events",
            "createdAt, createdAt, createdAt",
        ),
        (
            "SELECT e.ID FROM events e WHERE E.CreatedAt > '2000-01-01'",
            "Id",
        ),
        ("SELECT id AS Total FROM events", "Total"),
        ("SELECT Q.X FROM (SELECT createdat AS X FROM events) q", "X"),
        (
            "WITH Cte AS (SELECT id FROM events) SELECT c.* FROM CTE c",
            "Id",
        ),
        ("SELECT main.EVENTS.id FROM MAIN.Events", "Id"),
        (
            "SELECT id, count(*) AS N FROM events GROUP BY ID HAVING COUNT(*) > 0 ORDER BY n",
            "Id, N",
        ),
        (
            "SELECT a.id, B.ID FROM events a JOIN Events b ON A.id = b.Id",
            "Id, Id",
        ),
    ] {
        let found = columns(&mut session, query).await.join(", ");
        assert_eq!(found, names, "{query}");
        assert_eq!(
            rows(&mut session, query).await.split("; ").count(),
            1,
            "{query}"
        );
    }
}

#[tokio::test]
async fn an_inner_column_is_not_taken_for_an_outer_one_spelled_alike() {
    let mut session = setup(
        "CREATE TABLE a (ID INT); CREATE TABLE b (id INT);
         INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (2), (3)",
    )
    .await;
    let query = "SELECT id FROM b WHERE EXISTS (SELECT 1 FROM a WHERE id = 1) ORDER BY 1";
    assert_eq!(rows(&mut session, query).await, "2; 3");
    let error = err(&mut session, "SELECT id FROM a, b").await;
    assert_eq!(error.sqlstate(), "42702", "{error}");
}

#[tokio::test]
async fn names_that_differ_by_case_only_are_one() {
    let mut session = setup(&table()).await;
    assert_eq!(
        err(&mut session, "CREATE TABLE EVENTS (a INT)")
            .await
            .sqlstate(),
        "42P07"
    );
    assert_eq!(
        err(&mut session, "ALTER TABLE events ADD COLUMN ID TEXT")
            .await
            .sqlstate(),
        "42701"
    );
    assert_eq!(
        err(&mut session, "CREATE SCHEMA Main").await.sqlstate(),
        "42P06"
    );
    assert_eq!(rows(&mut session, "SHOW TABLES").await, "main|Events");
    ok(&mut session, "ALTER TABLE events RENAME TO EVENTS").await;
    assert_eq!(rows(&mut session, "SHOW TABLES").await, "main|EVENTS");
    let query = "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE table_schema = 'main' ORDER BY ordinal_position";
    assert_eq!(
        rows(&mut session, query).await,
        "main|EVENTS|Id; main|EVENTS|createdAt"
    );
}

#[tokio::test]
async fn unknown_names_get_suggestions() {
    let mut session = setup(&table()).await;
    for (query, state, hint) in [
        ("SELECT createdOn FROM events", "42703", "createdAt"),
        ("SELECT * FROM event", "42P01", "Events"),
        ("SELECT * FROM mian.events", "3F000", "main"),
        ("SELECT e.createdta FROM events e", "42703", "createdAt"),
        ("SELECT cuont(*) FROM events", "42883", "count"),
        ("UPDATE events SET createdate = NULL", "42703", "createdAt"),
    ] {
        let error = err(&mut session, query).await;
        assert_eq!(error.sqlstate(), state, "{query}: {}", chain(&error));
        let told = error.hint().unwrap_or_default();
        assert!(told.contains(hint), "{query}: {told:?}");
    }
}

#[tokio::test]
async fn created_tables_keep_the_spelling_of_queries() {
    let mut session = setup(&table()).await;
    ok(
        &mut session,
        "CREATE TABLE Copy AS SELECT ID, CREATEDAT AS WhenIt FROM events",
    )
    .await;
    assert_eq!(
        columns(&mut session, "SELECT * FROM copy").await,
        ["Id", "WhenIt"]
    );
}

#[tokio::test]
async fn an_error_about_a_name_has_its_place_in_the_script() {
    let mut session = setup("CREATE TABLE t (id INT)").await;
    for (script, place) in [
        ("SELECT 1; SELECT\n  id, naem FROM t", Some((2, 7))),
        ("  SELECT id FROM main.tt", Some((1, 23))),
        ("SELECT \u{e4}, sume(id) FROM t", Some((1, 8))),
        ("SELECT sume(id) FROM t", Some((1, 8))),
        ("INSERT INTO t (\"Nope\") VALUES (1)", Some((1, 16))),
        ("UPDATE t SET id = t.nope", Some((1, 21))),
        ("ROLLBACK TO nowhere", None),
        ("SELECT 1 / 0", None),
    ] {
        let statements = Session::parse(script).unwrap();
        let mut error = None;
        for statement in &statements {
            match session.execute(statement).await {
                Ok(outcome) => {
                    if let Err(failed) = outcome.collect().await {
                        error = Some(failed.place_in(statement));
                    }
                }
                Err(failed) => error = Some(failed.place_in(statement)),
            }
        }
        assert_eq!(error, Some(place), "{script}");
    }
}
