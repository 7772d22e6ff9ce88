//! One operation on a cloud: its id, what its requests were answered, and the error that says
//! so.
//!
//! Invariant: an error carries the operation's id, which every request sent along, and the
//! store's id of the last answer where it had one. Nothing secret gets into an error: no URL's
//! query, no header, no body but its code and message, and known secrets are blotted out.
//! Does not: decide what an answer means for the caller.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::Stream;
use futures::stream::BoxStream;
use object_store::{Error, Result};

use super::secrets::Secrets;

tokio::task_local! {
    static CURRENT: Arc<Operation>;
}

/// What the last request of an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// No request was made.
    Nothing,
    /// An answer; code and message where it was an error and had them.
    Answer {
        status: u16,
        code: Option<String>,
        message: Option<String>,
    },
    /// None, and why.
    NoAnswer(String),
}

#[derive(Debug)]
struct Notes {
    requests: u32,
    last: Last,
    request_id: Option<String>,
    hint: Option<&'static str>,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    id: String,
    secrets: Arc<Secrets>,
    notes: Mutex<Notes>,
}

impl Operation {
    pub(super) fn new(id: u64, secrets: &Arc<Secrets>) -> Arc<Self> {
        Arc::new(Self {
            id: format!("{id:016x}"),
            secrets: Arc::clone(secrets),
            notes: Mutex::new(Notes {
                requests: 0,
                last: Last::Nothing,
                request_id: None,
                hint: None,
            }),
        })
    }

    /// The operation that the running task works for.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Goes along with every request.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn note_request(&self) {
        self.with(|notes| {
            notes.requests = notes.requests.saturating_add(1);
            notes.request_id = None;
        });
    }

    pub(super) fn note_last(&self, last: Last, request_id: Option<String>) {
        self.with(|notes| {
            notes.last = last;
            notes.request_id = request_id.or(notes.request_id.take());
        });
    }

    /// What to do about it, for the error.
    pub(super) fn note_hint(&self, hint: &'static str) {
        self.with(|notes| notes.hint = Some(hint));
    }

    /// Status and code of the last answer, when that was an error.
    pub(super) fn refusal(&self) -> Option<(u16, Option<String>)> {
        match self.with(|notes| notes.last.clone()) {
            Last::Answer { status, code, .. } if status >= 300 => Some((status, code)),
            _ => None,
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Notes) -> T) -> T {
        look(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `work` as part of this operation, and tells its errors.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let result = CURRENT.scope(Arc::clone(self), work).await;
        result.map_err(|error| self.told(error))
    }

    /// Polls `stream` as part of this operation, and tells its errors.
    pub(super) fn stream<T: 'static>(
        self: &Arc<Self>,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        Box::pin(Scoped {
            operation: Arc::clone(self),
            stream,
        })
    }

    /// An error of this operation's own.
    pub(super) fn failed(&self, reason: &str) -> Error {
        Error::Generic {
            store: "cloud",
            source: Box::new(self.failure(reason.to_owned())),
        }
    }

    /// The same error with what is known of the operation in place of the client's own words,
    /// which repeat URLs and bodies.
    pub(super) fn told(&self, error: Error) -> Error {
        let (last, hint) = self.with(|notes| (notes.last.clone(), notes.hint));
        let reason = match last {
            // What answered, or did not, was the machine's metadata service.
            _ if hint.is_some() => "the store was not asked".to_owned(),
            Last::Answer {
                status,
                code,
                message,
            } if status >= 300 => {
                let code = code.map(|code| format!(" {code}")).unwrap_or_default();
                let message = message.map(|text| format!(": {text}")).unwrap_or_default();
                format!("the store answered {status}{code}{message}")
            }
            Last::NoAnswer(reason) => format!("no answer from the store: {reason}"),
            _ => chain(&error),
        };
        let failure = self.failure(reason);
        let is_bucket_missing = failure.is_bucket_missing();
        let source: Box<dyn StdError + Send + Sync> = Box::new(failure);
        match error {
            // The absence of an object is an answer; that of the bucket is none.
            _ if is_bucket_missing => Error::Generic {
                store: "cloud",
                source,
            },
            Error::NotFound { path, .. } => Error::NotFound { path, source },
            Error::AlreadyExists { path, .. } => Error::AlreadyExists { path, source },
            Error::Precondition { path, .. } => Error::Precondition { path, source },
            Error::NotModified { path, .. } => Error::NotModified { path, source },
            Error::PermissionDenied { path, .. } => Error::PermissionDenied { path, source },
            Error::Unauthenticated { path, .. } => Error::Unauthenticated { path, source },
            Error::NotSupported { .. } => Error::NotSupported { source },
            unanswered @ Error::NotImplemented { .. } => unanswered,
            Error::Generic { store, .. } => Error::Generic { store, source },
            _ => Error::Generic {
                store: "cloud",
                source,
            },
        }
    }

    fn failure(&self, reason: String) -> RemoteFailure {
        self.with(|notes| RemoteFailure {
            reason: self.secrets.blotted(&reason),
            hint: notes.hint,
            operation: self.id.clone(),
            request_id: notes.request_id.clone(),
            requests: notes.requests,
            status: match notes.last {
                Last::Answer { status, .. } if status >= 300 => Some(status),
                _ => None,
            },
            code: match &notes.last {
                Last::Answer { code, .. } => code.clone(),
                _ => None,
            },
        })
    }
}

/// An error's text and those of its sources, as far as they say something new.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// Why an operation on a cloud failed. In the source chain of a
/// [`StoreError`](crate::StoreError); see [`StoreError::remote`](crate::StoreError::remote).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFailure {
    /// What happened: the store's answer, or why there was none.
    pub reason: String,
    /// What to do about it, where that is known.
    pub hint: Option<&'static str>,
    /// Our id of the operation; its requests carried it in their user agent.
    pub operation: String,
    /// The store's id of the last answer.
    pub request_id: Option<String>,
    /// Requests made.
    pub requests: u32,
    /// Status of the last answer, when that was an error.
    pub status: Option<u16>,
    /// The code that came with it, such as `SlowDown`.
    pub code: Option<String>,
}

impl RemoteFailure {
    /// The store has no such bucket or container, or does not show it to these credentials.
    pub fn is_bucket_missing(&self) -> bool {
        let code = self.code.as_deref();
        matches!(code, Some("NoSuchBucket" | "ContainerNotFound"))
    }

    /// The store refused the credentials, or what they may do.
    pub fn is_refused(&self) -> bool {
        matches!(self.status, Some(401 | 403))
    }

    /// The failure that `error` carries.
    pub(crate) fn find(error: &Error) -> Option<&Self> {
        let mut source = error.source();
        while let Some(error) = source {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            source = error.source();
        }
        None
    }
}

impl fmt::Display for RemoteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(hint) = self.hint {
            write!(f, "; {hint}")?;
        }
        write!(f, " (operation={}", self.operation)?;
        if let Some(id) = &self.request_id {
            write!(f, ", request={id}")?;
        }
        write!(f, ", requests={})", self.requests)
    }
}

impl StdError for RemoteFailure {}

struct Scoped<T> {
    operation: Arc<Operation>,
    stream: BoxStream<'static, Result<T>>,
}

impl<T> Stream for Scoped<T> {
    type Item = Result<T>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let operation = Arc::clone(&self.operation);
        let polled = CURRENT.sync_scope(Arc::clone(&operation), || {
            self.stream.as_mut().poll_next(cx)
        });
        polled.map(|item| item.map(|result| result.map_err(|error| operation.told(error))))
    }
}
