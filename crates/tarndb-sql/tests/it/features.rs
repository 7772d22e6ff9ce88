//! Table features by SQL: properties, ADD and DROP FEATURE, CLUSTER BY, and what UPDATE keeps.

use crate::support::*;

#[tokio::test]
async fn features_are_added_and_dropped_and_an_error_says_what_uses_one() {
    let mut session = setup("CREATE TABLE t (id INT, v TEXT) CLUSTER BY (id)").await;
    ok(&mut session, "ALTER TABLE t ADD FEATURE appendOnly").await;
    ok(&mut session, "ALTER TABLE t DROP FEATURE appendOnly").await;
    for (statement, why) in [
        (
            "ALTER TABLE t DROP FEATURE appendOnly",
            "does not have the feature",
        ),
        ("ALTER TABLE t DROP FEATURE clustering", "clustered by id"),
        (
            "ALTER TABLE t DROP FEATURE tarndbManaged",
            "every table of a database",
        ),
        (
            "ALTER TABLE t ADD FEATURE icebergCompatV2",
            "does not have the feature",
        ),
        (
            "ALTER TABLE t DROP FEATURE clustering TRUNCATE HISTORY",
            "TRUNCATE HISTORY",
        ),
        ("ALTER TABLE t CLUSTER BY (nope)", "no such column"),
        (
            "ALTER TABLE t SET TBLPROPERTIES ('delta.checkpointInterval' = 'often')",
            "a whole number",
        ),
        (
            "CREATE TABLE p (id INT, v TEXT) PARTITIONED BY (v) CLUSTER BY (id)",
            "partitioned",
        ),
    ] {
        let error = err(&mut session, statement).await;
        let told = chain(&error);
        assert!(told.contains(why), "{statement}: {told}");
    }
    ok(&mut session, "ALTER TABLE t CLUSTER BY NONE").await;
    ok(&mut session, "ALTER TABLE t DROP FEATURE clustering").await;
}

#[tokio::test]
async fn update_keeps_the_rows_right_with_row_tracking_and_a_change_feed() {
    let mut session = setup(
        "CREATE TABLE t (id INT, v TEXT) TBLPROPERTIES (
             'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true');
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    .await;
    assert_eq!(
        count(&mut session, "UPDATE t SET v = 'x' WHERE id > 1").await,
        2
    );
    assert_eq!(
        count(&mut session, "UPDATE t SET id = id + 10 WHERE v = 'x'").await,
        2
    );
    assert_eq!(count(&mut session, "DELETE FROM t WHERE id = 1").await, 1);
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY id").await,
        "12|x; 13|x"
    );
}
