//! Appending one entry, and finding out what became of it.
//!
//! Invariant: until the version is known to be held by another's entry, every attempt sends
//! the same bytes; `Ours` and `Theirs` are judged by what the store holds, never by an error.
//! Spec: docs/format/log.md, "Appending".

use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, join, select};
use tarndb_storage::{Context, PutOutcome, StoreError};

use crate::dir::LogDir;
use crate::error::LogError;

/// The first pause between attempts; each next one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Who holds the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Our entry.
    Ours,
    /// Another's entry, with these bytes, and what was behind it.
    Theirs(Bytes, After),
}

/// What was behind another's entry when that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: it was the last.
    Nothing,
    /// One more, with these bytes.
    Entry(Bytes),
    /// Not known.
    Unknown,
}

/// What one attempt came to.
enum Attempt {
    Done(Appended),
    /// Definitely not stored, now or later.
    Refused(StoreError),
    /// Nobody can tell yet.
    Open,
}

/// What the attempts so far leave open.
#[derive(Default)]
struct Doubt {
    /// An attempt may have taken effect, or may yet take effect.
    open: bool,
    /// The store's last error.
    last: Option<StoreError>,
}

impl After {
    fn of(read: Result<Option<Bytes>, StoreError>) -> Self {
        match read {
            Ok(Some(bytes)) => Self::Entry(bytes),
            Ok(None) => Self::Nothing,
            // Whoever needs it reads it again and gets the error.
            Err(_) => Self::Unknown,
        }
    }
}

impl LogDir {
    /// Puts `bytes` at `version` unless somebody has. When the answer is not "created", reads
    /// back and lets `is_ours` judge; when nothing is there, sends the same bytes again with a
    /// jittered backoff. One request when all goes well, three in two rounds when the version is
    /// taken: the entry behind it is read at the same time, since one that lost is often behind.
    ///
    /// # Errors
    /// [`LogError::Pending`] when `deadline` (from now) passes before the store tells;
    /// [`LogError::NotStored`] when the entry is definitely not there.
    pub async fn append(
        &self,
        version: u64,
        bytes: Bytes,
        is_ours: &(dyn Fn(&[u8]) -> bool + Send + Sync),
        deadline: Duration,
    ) -> Result<Appended, LogError> {
        let context = self.store().context();
        let start = context.monotonic();
        let mut pause = PAUSE_FIRST;
        let mut doubt = Doubt::default();
        loop {
            let waited = context.monotonic().saturating_sub(start);
            let left = deadline.saturating_sub(waited);
            let attempt = Box::pin(self.attempt(version, &bytes, is_ours, &mut doubt));
            match bounded(context, left, attempt).await {
                Some(Attempt::Done(appended)) => return Ok(appended),
                Some(Attempt::Refused(source)) => {
                    return Err(LogError::NotStored { version, source });
                }
                Some(Attempt::Open) | None => {}
            }
            let waited = context.monotonic().saturating_sub(start);
            let left = deadline.saturating_sub(waited);
            if left.is_zero() {
                return Err(LogError::Pending {
                    version,
                    waited,
                    source: doubt.last,
                });
            }
            context.sleep(context.jittered(pause).min(left)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn attempt(
        &self,
        version: u64,
        bytes: &Bytes,
        is_ours: &(dyn Fn(&[u8]) -> bool + Send + Sync),
        doubt: &mut Doubt,
    ) -> Attempt {
        match self
            .store()
            .put_if_absent(&self.key(version), bytes.clone())
            .await
        {
            Ok(PutOutcome::Created) => return Attempt::Done(Appended::Ours),
            Ok(PutOutcome::AlreadyExists) => {}
            Ok(PutOutcome::Unknown(error)) => doubt.last = Some(error),
            // A refusal speaks for this attempt, not for those before it.
            Err(error) if doubt.open => doubt.last = Some(error),
            Err(error) => return Attempt::Refused(error),
        }
        doubt.open = true;
        tracing::debug!(version, error = ?doubt.last, "not created: read back");
        let (key, behind) = (self.key(version), self.key(version.saturating_add(1)));
        let (found, behind) = join(self.store().get(&key), self.store().get(&behind)).await;
        match found {
            Ok(Some(found)) if is_ours(&found) => Attempt::Done(Appended::Ours),
            Ok(Some(found)) => Attempt::Done(Appended::Theirs(found, After::of(behind))),
            Ok(None) => Attempt::Open,
            Err(error) => {
                doubt.last.get_or_insert(error);
                Attempt::Open
            }
        }
    }
}

/// `work`, or `None` when it does not end within `left`.
async fn bounded<T>(
    context: &Context,
    left: Duration,
    work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    let timer = Box::pin(context.sleep(left));
    match select(work, timer).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
