//! As much of HTTP/1.1 as the clients need: requests with a content length, kept connections.
//!
//! Invariant: a request is given only when its body is complete.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request as the server sees it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Upper case.
    pub method: String,
    /// What stands after the bucket, decoded.
    pub key: String,
    /// Decoded.
    pub query: BTreeMap<String, String>,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Complete.
    pub body: Bytes,
}

impl Request {
    /// Whether it creates a key under the condition that there is none.
    pub fn is_create(&self) -> bool {
        let conditions = ["if-none-match", "x-goog-if-generation-match"];
        self.method == "PUT"
            && conditions
                .iter()
                .any(|name| self.headers.contains_key(*name))
    }

    pub(super) fn without_body(&self) -> Self {
        Self {
            body: Bytes::new(),
            ..self.clone()
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: u16,
    /// Beside the content length.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Bytes,
}

impl Response {
    /// An empty one.
    pub fn new(status: u16) -> Self {
        let (headers, body) = (Vec::new(), Bytes::new());
        Self {
            status,
            headers,
            body,
        }
    }

    /// An error in the form that all three clouds use.
    pub fn error(status: u16, code: &str) -> Self {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <Error><Code>{code}</Code><Message>a message</Message></Error>"
        );
        Self::new(status).with_body(Bytes::from(body))
    }

    /// With a header more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this body.
    #[must_use]
    pub fn with_body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }
}

/// The next request, or `None` when the client is gone or speaks what is not understood.
pub(super) async fn read(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<Request> {
    let (mut request, head_bytes) = loop {
        if let Some(found) = parse(rest)? {
            break found;
        }
        fill(stream, rest).await?;
    };
    let length = request
        .headers
        .get("content-length")
        .map_or("0", String::as_str);
    let end = head_bytes + length.parse::<usize>().ok()?;
    while rest.len() < end {
        fill(stream, rest).await?;
    }
    let after = rest.split_off(end);
    let whole = Bytes::from(std::mem::replace(rest, after));
    request.body = whole.slice(head_bytes..);
    Some(request)
}

async fn fill(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(rest).await.ok()?;
    (read > 0).then_some(())
}

/// `Some(None)`: not complete yet.
fn parse(bytes: &[u8]) -> Option<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_bytes = match parsed.parse(bytes).ok()? {
        httparse::Status::Partial => return Some(None),
        httparse::Status::Complete(length) => length,
    };
    let target = parsed.path?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix('/')?;
    let key = path.split_once('/').map_or("", |(_bucket, key)| key);
    let query = url::form_urlencoded::parse(query.as_bytes());
    let mut request = Request {
        method: parsed.method?.to_owned(),
        key: percent_decode_str(key).decode_utf8().ok()?.into_owned(),
        query: query
            .map(|(k, v)| (k.into_owned(), v.into_owned()))
            .collect(),
        ..Request::default()
    };
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value).into_owned();
        request
            .headers
            .insert(header.name.to_ascii_lowercase(), value);
    }
    Some(Some((request, head_bytes)))
}

/// How much of an answer is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Whole,
    HalfHead,
    HalfBody,
}

/// Writes an answer, or a piece of it; one to HEAD has no body.
pub(super) async fn write(
    stream: &mut TcpStream,
    response: &Response,
    head: bool,
    piece: Piece,
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {} Status\r\n", response.status);
    let named = |name: &str| {
        response
            .headers
            .iter()
            .any(|(n, _)| n.eq_ignore_ascii_case(name))
    };
    if !named("content-length") {
        text.push_str(&format!("content-length: {}\r\n", response.body.len()));
    }
    for (name, value) in &response.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    let head_bytes = bytes.len();
    if !head {
        bytes.extend_from_slice(&response.body);
    }
    bytes.truncate(match piece {
        Piece::Whole => usize::MAX,
        Piece::HalfHead => head_bytes / 2,
        Piece::HalfBody => head_bytes + response.body.len() / 2,
    });
    stream.write_all(&bytes).await
}
