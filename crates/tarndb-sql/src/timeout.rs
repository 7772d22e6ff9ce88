//! The time that a statement may take.
//!
//! Invariant: a statement whose time is up ends with 57014 and has changed nothing. Once its
//! commit is on its way it is waited for, so that its outcome is known; that wait has a bound of
//! its own. Rows are cut off with an error, never with an end that looks like the last row.
//! Spec: docs/guide/sql.md, "Resources".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{Either, select};
use tarndb_storage::Context;

use crate::error::SqlError;
use crate::outcome::{Outcome, RowStream};

/// Whether the commit of the present statement is on its way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committing(Arc<AtomicBool>);

impl Committing {
    /// No more, or not yet.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// From now on.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_on_its_way(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Runs a statement for so long at most.
pub(crate) async fn limited(
    context: &Context,
    limit: Duration,
    committing: &Committing,
    work: impl Future<Output = Result<Outcome, SqlError>>,
) -> Result<Outcome, SqlError> {
    let until = context.monotonic().saturating_add(limit);
    let (work, timer) = (Box::pin(work), Box::pin(context.sleep(limit)));
    let outcome = match select(work, timer).await {
        Either::Left((outcome, _)) => outcome?,
        Either::Right(((), work)) if committing.is_on_its_way() => work.await?,
        Either::Right(((), work)) => {
            drop(work);
            return Err(SqlError::TimedOut { limit });
        }
    };
    Ok(match outcome {
        Outcome::Rows { schema, stream } => {
            let stream = limited_rows(context.clone(), until, limit, stream);
            Outcome::Rows { schema, stream }
        }
        other => other,
    })
}

/// Rows until the time is up, and then an error.
fn limited_rows(
    context: Context,
    until: Duration,
    limit: Duration,
    stream: RowStream,
) -> RowStream {
    let left = until.saturating_sub(context.monotonic());
    let timer = Box::pin(async move { context.sleep(left).await });
    futures::stream::unfold(Some((stream, timer)), move |state| async move {
        let (mut stream, timer) = state?;
        match select(stream.next(), timer).await {
            Either::Left((batch, timer)) => Some((batch?, Some((stream, timer)))),
            Either::Right(_) => Some((Err(SqlError::TimedOut { limit }), None)),
        }
    })
    .boxed()
}
