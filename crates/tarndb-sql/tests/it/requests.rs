//! What a query costs in requests: promised, so counted.
//! Spec: docs/performance.md, "Reading".

use tarndb_db::Database;
use tarndb_sql::Session;
use tarndb_storage::Counts;

use crate::support::*;

/// `small` has three small files, `large` one that is not.
const SETUP: &str = "CREATE TABLE small (id INT, v TEXT);
    INSERT INTO small SELECT value, 'a' || value FROM generate_series(1, 500);
    INSERT INTO small SELECT value, 'b' || value FROM generate_series(501, 1000);
    INSERT INTO small SELECT value, 'c' || value FROM generate_series(1001, 1500);
    CREATE TABLE large (id INT, v TEXT, w TEXT);
    INSERT INTO large SELECT value, md5(CAST(value AS TEXT)), md5(CAST(value + 1 AS TEXT))
        FROM generate_series(1, 50000)";

struct World {
    db: Database,
    session: Session,
}

impl World {
    async fn new() -> Self {
        let db = database().await;
        let mut writer = session(&db);
        ok(&mut writer, SETUP).await;
        let db = reopened(&db).await;
        let session = session(&db);
        Self { db, session }
    }

    /// Reads of ranges, and that the rows are `expected`.
    async fn cost(&mut self, query: &str, expected: &str) -> Counts {
        let before = self.db.store().meter().counts();
        assert_eq!(rows(&mut self.session, query).await, expected);
        self.db.store().meter().counts() - before
    }
}

#[tokio::test]
async fn a_small_file_is_one_request() {
    let mut world = World::new().await;
    let query = "SELECT count(v), sum(id) FROM small";
    for _ in 0..2 {
        let cost = world.cost(query, "1500|1125750").await;
        assert_eq!(cost.get_range, 3, "{cost}");
    }
    // Files that cannot match are not asked for at all.
    let cost = world
        .cost("SELECT v FROM small WHERE id = 700", "b700")
        .await;
    assert_eq!(cost.get_range, 1, "{cost}");
}

#[tokio::test]
async fn a_footer_is_read_once_per_handle_and_with_it_the_page_index() {
    let mut world = World::new().await;
    let query = "SELECT count(upper(v)) FROM large";
    let first = world.cost(query, "50000").await;
    assert_eq!(first.get_range, 2, "{first}");
    let second = world.cost(query, "50000").await;
    assert_eq!(second.get_range, 1, "{second}");
    // Another session of the handle, and a predicate that is looked up in the page index.
    world.session = session(&world.db);
    let query = "SELECT id FROM large WHERE id = 40000";
    let cost = world.cost(query, "40000").await;
    assert_eq!(cost.get_range, 1, "{cost}");
    assert!(cost.bytes_read < first.bytes_read, "{cost}");
}
