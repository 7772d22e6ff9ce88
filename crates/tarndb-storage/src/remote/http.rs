//! The wire under the clients: limits, ids, and what was answered.
//!
//! Invariant: a request ends within the limits by the context's clock; each names its operation
//! in the user agent; of an error's body only code and message are noted.
//! Does not: retry; the client above does, or does not.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};

use super::limits::{self, within};
use super::operation::{Last, Operation};
use crate::context::Context;

/// Longest body of an error that is looked at, in bytes.
const ERROR_BODY_MAX: usize = 64 << 10;
/// Longest message of an error that is shown, in characters.
const MESSAGE_MAX: usize = 200;
/// Where machines of a cloud ask for credentials.
const METADATA_HOSTS: [&str; 3] = [
    "169.254.169.254",
    "metadata.google.internal",
    "169.254.170.2",
];
/// The stores' names for their id of a request.
const REQUEST_ID_HEADERS: [&str; 3] = [
    "x-amz-request-id",
    "x-ms-request-id",
    "x-guploader-uploadid",
];
/// Conditions that make a write exclusive.
const CONDITION_HEADERS: [&str; 3] = ["if-none-match", "if-match", "x-goog-if-generation-match"];
const NO_CREDENTIALS: &str = "no credentials were found: set them in the environment, in a \
     profile or as storage options (docs/guide/storage.md)";

/// Makes clients whose requests are watched; equal options share one, with its connections.
/// Cheap to clone.
#[derive(Clone)]
pub(super) struct WatchedConnector {
    context: Context,
    made: Arc<Mutex<Vec<(String, HttpClient)>>>,
}

impl fmt::Debug for WatchedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedConnector")
    }
}

impl WatchedConnector {
    pub(super) fn new(context: &Context) -> Self {
        let (context, made) = (context.clone(), Arc::default());
        Self { context, made }
    }
}

impl HttpConnector for WatchedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The only way to compare them; it is shown to nobody.
        let named = format!("{options:?}");
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = made.iter().find(|(other, _)| *other == named) {
            return Ok(client.clone());
        }
        let client = ReqwestConnector::default().connect(options)?;
        let context = self.context.clone();
        let client = HttpClient::new(Watched { client, context });
        made.push((named, client.clone()));
        Ok(client)
    }
}

struct Watched {
    client: HttpClient,
    context: Context,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

/// The server stopped answering.
#[derive(Debug, thiserror::Error)]
#[error("the store did not go on within {limit:?}")]
struct Stalled {
    limit: Duration,
}

impl Stalled {
    fn into_http(self) -> HttpError {
        HttpError::new(HttpErrorKind::Timeout, self)
    }
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let operation = Operation::current();
        let host = request.uri().host().unwrap_or_default();
        let asks_metadata = METADATA_HOSTS.contains(&host);
        let method = request.method().clone();
        let is_conditional = CONDITION_HEADERS
            .iter()
            .any(|name| request.headers().contains_key(*name));
        if let Some(operation) = &operation {
            operation.note_request();
            let agent = concat!("tarndb/", env!("CARGO_PKG_VERSION"));
            let agent = format!("{agent} operation/{}", operation.id());
            if let Ok(agent) = HeaderValue::from_str(&agent) {
                request.headers_mut().insert(USER_AGENT, agent);
            }
        }
        let limit = limits::answer(
            is_conditional && method == http::Method::PUT,
            request.body().content_length(),
        );
        let begun = self.context.monotonic();
        let answer = match within(&self.context, limit, self.client.execute(request)).await {
            Some(Ok(response)) => self.looked_at(response, operation.as_ref()).await,
            Some(Err(error)) => Err(error),
            None => Err(Stalled { limit }.into_http()),
        };
        let took = self.context.monotonic().saturating_sub(begun);
        let id = operation.as_ref().map_or("", |operation| operation.id());
        match answer {
            Ok(response) => {
                let status = response.status().as_u16();
                tracing::trace!(operation = id, %method, status, ?took, "answered");
                if asks_metadata && status >= 400 {
                    note_no_credentials(operation.as_ref());
                }
                Ok(response)
            }
            Err(error) => {
                let reason = reason(&error);
                tracing::debug!(operation = id, %method, reason, ?took, "no answer");
                if let Some(operation) = &operation {
                    operation.note_last(Last::NoAnswer(reason), None);
                }
                if asks_metadata {
                    note_no_credentials(operation.as_ref());
                }
                let kind = kind_for_client(error.kind(), is_conditional, asks_metadata);
                Err(HttpError::new(kind, error))
            }
        }
    }
}

/// What the client above is told of a failed request; it repeats the kinds `Connect` and
/// `Request`, others only where it thinks that it may (not, for one, a deletion).
fn kind_for_client(
    kind: HttpErrorKind,
    is_conditional: bool,
    asks_metadata: bool,
) -> HttpErrorKind {
    match kind {
        // Not on a machine of the cloud: asking again does not help.
        _ if asks_metadata => HttpErrorKind::Unknown,
        // Whatever has no condition may be done twice.
        HttpErrorKind::Timeout | HttpErrorKind::Interrupted if !is_conditional => {
            HttpErrorKind::Request
        }
        other => other,
    }
}

impl Watched {
    /// Notes an answer; the body of an error is read for its code.
    async fn looked_at(
        &self,
        response: HttpResponse,
        operation: Option<&Arc<Operation>>,
    ) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let body = HttpResponseBody::new(Timed {
            body,
            context: self.context.clone(),
            timer: Mutex::new(None),
            operation: operation.map(Arc::clone),
        });
        let status = parts.status.as_u16();
        let mut last = Last::Answer {
            status,
            code: None,
            message: None,
        };
        let mut request_id = request_id(&parts.headers);
        let is_error = parts.status.is_client_error() || parts.status.is_server_error();
        let body = match is_error {
            false => body,
            true => {
                let bytes = body.bytes().await?;
                let told = told_by(&bytes, &parts.headers);
                request_id = request_id.or(told.request_id);
                let (code, message) = (told.code, told.message);
                last = Last::Answer {
                    status,
                    code,
                    message,
                };
                bytes.into()
            }
        };
        if let Some(operation) = operation {
            operation.note_last(last, request_id);
        }
        Ok(HttpResponse::from_parts(parts, body))
    }
}

fn note_no_credentials(operation: Option<&Arc<Operation>>) {
    if let Some(operation) = operation {
        operation.note_hint(NO_CREDENTIALS);
    }
}

/// The error's own words and those of its sources; none of them holds a URL.
fn reason(error: &HttpError) -> String {
    let mut words = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        words.push(error.to_string());
        source = error.source();
    }
    words.dedup();
    words.join(": ")
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = REQUEST_ID_HEADERS
        .iter()
        .find_map(|name| headers.get(*name))?;
    value.to_str().ok().and_then(word)
}

/// What an error's body says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    code: Option<String>,
    message: Option<String>,
    request_id: Option<String>,
}

/// All three clouds answer errors with an XML document of these elements; Azure puts the code
/// into a header too, since answers to HEAD have no body.
fn told_by(body: &Bytes, headers: &HeaderMap) -> Told {
    let body = String::from_utf8_lossy(body.get(..ERROR_BODY_MAX).unwrap_or(body));
    let header = headers
        .get("x-ms-error-code")
        .and_then(|value| value.to_str().ok());
    let message = element(&body, "Message").map(|text| {
        let line = text.lines().next().unwrap_or_default();
        line.chars().take(MESSAGE_MAX).collect()
    });
    Told {
        code: element(&body, "Code").or(header).and_then(word),
        message,
        request_id: element(&body, "RequestId").and_then(word),
    }
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
        .map(|(inner, _)| inner)
}

/// A code or an id, not a text.
fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= 200;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.=+/".contains(c);
    (fits && text.chars().all(plain)).then(|| text.to_owned())
}

/// A body that must go on.
struct Timed {
    body: HttpResponseBody,
    context: Context,
    /// Runs while the next piece is waited for. The lock is never contended; it makes the
    /// timer shareable, as the client wants its bodies to be.
    timer: Mutex<Option<BoxFuture<'static, ()>>>,
    operation: Option<Arc<Operation>>,
}

impl Body for Timed {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        let timer = this.timer.get_mut();
        let timer = timer.unwrap_or_else(PoisonError::into_inner);
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        let frame = match polled {
            Poll::Ready(frame) => {
                *timer = None;
                frame
            }
            Poll::Pending => {
                let context = this.context.clone();
                let waiting = timer.get_or_insert_with(|| {
                    async move { context.sleep(limits::STALL).await }.boxed()
                });
                if waiting.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                *timer = None;
                let limit = limits::STALL;
                Some(Err(Stalled { limit }.into_http()))
            }
        };
        if let (Some(Err(error)), Some(operation)) = (&frame, &this.operation) {
            operation.note_last(Last::NoAnswer(reason(error)), None);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
