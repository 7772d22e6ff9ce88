//! How long a request to a cloud may take.
//!
//! Invariant: a server that stops answering ends every request within these limits, by the
//! clock of the context; a slow line that still moves does not.
//! Spec: docs/guide/storage.md, "Time-outs and retries".

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::context::Context;

/// The whole of one operation: all attempts, their pauses and their answers' heads.
pub(super) const OPERATION: Duration = Duration::from_secs(120);
/// No new attempt is made after so long.
const ATTEMPTS_END: Duration = Duration::from_secs(60);
/// Until the head of an answer, beside the time that sending the body may take.
const ANSWER: Duration = Duration::from_secs(30);
/// The same for a conditional write: a commit has to ask what became of it within its deadline.
const CONDITIONAL_ANSWER: Duration = Duration::from_secs(10);
/// The slowest line on which a body is still waited for, in bytes per second.
const SLOWEST_LINE: u64 = 64 << 10;
/// Between two pieces of an answer's body.
pub(super) const STALL: Duration = Duration::from_secs(30);
/// One request with its answer's body, whatever moves.
const REQUEST: Duration = Duration::from_secs(600);
/// Making a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Servers close idle connections after about 20 seconds; a write on one just closed is lost.
const IDLE: Duration = Duration::from_secs(15);

/// How long to wait for the head of an answer to a request with so many bytes of body.
pub(super) fn answer(is_conditional: bool, body_bytes: usize) -> Duration {
    let sending = Duration::from_secs(body_bytes as u64 / SLOWEST_LINE);
    sending
        + match is_conditional {
            true => CONDITIONAL_ANSWER,
            false => ANSWER,
        }
}

/// What the clients begin with; options may change it.
pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_timeout(REQUEST)
        .with_connect_timeout(CONNECT)
        .with_pool_idle_timeout(IDLE)
}

/// For conditional writes: sent once.
pub(super) fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// For everything else: with growing, jittered pauses.
pub(super) fn patient() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        retry_timeout: ATTEMPTS_END,
        ..RetryConfig::default()
    }
}

/// `work`, or `None` when it takes longer than `limit` by the context's clock; it is dropped
/// then.
pub(super) async fn within<T>(
    context: &Context,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (work, timer) = (std::pin::pin!(work), std::pin::pin!(context.sleep(limit)));
    match futures::future::select(work, timer).await {
        futures::future::Either::Left((value, _)) => Some(value),
        futures::future::Either::Right(_) => None,
    }
}
