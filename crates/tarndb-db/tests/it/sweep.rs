//! Random histories against a list of rows, with publishing and checkpoints at any moment.

use proptest::prelude::*;
use tarndb_db::Database;
use tarndb_types::TableId;

use crate::support::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<i64>),
    Delete(i64),
    Update(i64),
    Truncate,
    Publish,
    Checkpoint,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(0_i64..20, 1..6).prop_map(Step::Insert),
        3 => (2_i64..5).prop_map(Step::Delete),
        3 => (2_i64..5).prop_map(Step::Update),
        1 => Just(Step::Truncate),
        2 => Just(Step::Publish),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Reopen),
    ]
}

async fn run(steps: Vec<Step>, copy_on_write: bool) {
    let world = World::new();
    let mut db: Database = world.create().await;
    let mut table = new_table("t");
    if copy_on_write {
        table
            .properties
            .insert("tarndb.deletionVectors".into(), "off".into());
    }
    let id: TableId = create(&db, table).await;
    let mut model: Vec<Row> = Vec::new();
    for step in steps {
        match step {
            Step::Insert(ids) => {
                let new: Vec<Row> = ids.iter().map(|id| (*id, 0)).collect();
                insert(&db, id, &new).await;
                model.extend(new);
            }
            Step::Delete(modulus) => {
                let mut txn = begin(&db).await;
                delete(&mut txn, id, |row| row.0 % modulus == 0).await;
                txn.commit().await.unwrap();
                model.retain(|row| row.0 % modulus != 0);
            }
            Step::Update(modulus) => {
                let mut txn = begin(&db).await;
                let bump = |row: Row| (row.0, row.1 + 1);
                update(&mut txn, id, |row| row.0 % modulus == 1, bump).await;
                txn.commit().await.unwrap();
                for row in model.iter_mut().filter(|row| row.0 % modulus == 1) {
                    row.1 += 1;
                }
            }
            Step::Truncate => {
                let mut txn = begin(&db).await;
                txn.truncate(id).await.unwrap();
                txn.commit().await.unwrap();
                model.clear();
            }
            Step::Publish => {
                db.publish().await.unwrap();
            }
            Step::Checkpoint => {
                db.checkpoint().await.unwrap();
            }
            Step::Reopen => db = world.open().await,
        }
        model.sort_unstable();
        assert_eq!(rows(&db, id).await, model);
    }
    assert_eq!(rows(&world.open().await, id).await, model);
    assert_clean(&world.open().await).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_rows_of_the_model(
        steps in proptest::collection::vec(step(), 1..20),
        copy_on_write in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps, copy_on_write));
    }
}
