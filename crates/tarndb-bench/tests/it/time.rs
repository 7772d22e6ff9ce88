//! Virtual time passes by waiting and in no other way.

use std::time::Duration;

use tarndb_bench::BenchError;
use tarndb_bench::lab::{Mode, Setting};
use tarndb_db::PublishMode;

fn at(latency: Duration) -> Setting {
    Setting {
        latency,
        jitter: 0.0,
        seed: 1,
    }
}

#[test]
fn virtual_time_jumps_to_the_next_waiter_in_order() {
    let order = Mode::Virtual.run(at(Duration::ZERO), |lab| async move {
        let mut tasks = Vec::new();
        for seconds in [3600, 5, 5, 1] {
            let lab = std::sync::Arc::clone(&lab);
            tasks.push(tokio::spawn(async move {
                lab.sleep(Duration::from_secs(seconds)).await;
                lab.monotonic().as_secs()
            }));
        }
        let mut woken = Vec::new();
        for task in tasks {
            woken.push(task.await?);
        }
        Ok::<_, BenchError>(woken)
    });
    assert_eq!(order.unwrap(), [3600, 5, 5, 1]);
}

#[test]
fn every_request_takes_the_latency() {
    let latency = Duration::from_millis(40);
    let took = Mode::Virtual.run(at(latency), |lab| async move {
        lab.create().await?;
        let db = lab.open(PublishMode::Manual).await?;
        let before = lab.monotonic();
        // One GET: nothing new.
        db.snapshot().await?;
        Ok::<_, BenchError>(lab.monotonic() - before)
    });
    assert_eq!(took.unwrap(), latency);
}
