//! A server of one bucket in this process, for tests: it speaks what the clients of S3 and of
//! Google Cloud Storage speak (their XML protocols are alike), and misbehaves as it is told.
//!
//! Invariant: it listens on the loopback address; each request is seen by the hook, takes
//! effect at once or not at all, and then gets the answer that the hook chose.
//! Does not: check signatures, speak TLS, or know Azure's protocol (its answers can be given).

#![expect(clippy::expect_used, reason = "a test's server fails by panicking")]

mod bucket;
mod clock;
mod http;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use self::bucket::Bucket;
pub use self::clock::HandClock;
use self::http::Piece;
pub use self::http::{Request, Response};
use crate::context::Context;
use crate::options::StoreOptions;

/// What the client sees of a request that has or has not taken effect.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The true answer.
    Honest,
    /// This one.
    Instead(Response),
    /// The first bytes of the true answer, then the end of the connection.
    Half,
    /// The head of the true answer and half its body, then the end of the connection.
    HalfBody,
    /// The same, and the connection stays open.
    HalfBodySilence,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing, and the connection stays open.
    Silence,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub struct Reaction {
    /// Whether it takes effect.
    pub is_done: bool,
    /// What the client sees.
    pub answer: Answer,
}

impl Reaction {
    /// What an honest server does.
    pub fn honest() -> Self {
        Self::done(Answer::Honest)
    }

    /// It takes effect, and the client sees this.
    pub fn done(answer: Answer) -> Self {
        let is_done = true;
        Self { is_done, answer }
    }

    /// It has no effect, and the client sees this.
    pub fn not_done(answer: Answer) -> Self {
        let is_done = false;
        Self { is_done, answer }
    }
}

type Hook = Box<dyn FnMut(&mut Request) -> Reaction + Send>;

struct Shared {
    bucket: Mutex<Bucket>,
    hook: Mutex<Hook>,
    seen: Mutex<Vec<Request>>,
    tasks: Mutex<Vec<AbortHandle>>,
    context: Context,
}

/// A running server; it ends when this is dropped.
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl fmt::Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Stub {
    /// Starts an honest one on a free port.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn start(context: Context) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("the port's number");
        let shared = Arc::new(Shared {
            bucket: Mutex::default(),
            hook: Mutex::new(Box::new(|_| Reaction::honest())),
            seen: Mutex::default(),
            tasks: Mutex::default(),
            context,
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        lock(&shared.tasks).push(accepting.abort_handle());
        Self { address, shared }
    }

    /// Where it listens: `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Options of an S3 client of it; any bucket name will do.
    pub fn s3_options(&self) -> StoreOptions {
        StoreOptions::default()
            .with("endpoint", &self.endpoint())
            .with("allow_http", "true")
            .with("region", "us-east-1")
            .with("access_key_id", "key")
            .with("secret_access_key", "secret")
    }

    /// Options of a client of Google Cloud Storage of it.
    pub fn gcs_options(&self) -> StoreOptions {
        let account = format!(
            r#"{{"gcs_base_url":"{}","disable_oauth":true,"client_email":"","private_key":"",
            "private_key_id":""}}"#,
            self.endpoint()
        );
        StoreOptions::default()
            .with("service_account_key", &account)
            .with("allow_http", "true")
    }

    /// From now on `hook` looks at each request first; it may change it.
    pub fn set_hook(&self, hook: impl FnMut(&mut Request) -> Reaction + Send + 'static) {
        *lock(&self.shared.hook) = Box::new(hook);
    }

    /// The requests so far, without bodies, and forgets them.
    pub fn take_seen(&self) -> Vec<Request> {
        std::mem::take(&mut *lock(&self.shared.seen))
    }

    /// The keys that are stored.
    pub fn keys(&self) -> Vec<String> {
        lock(&self.shared.bucket).keys()
    }

    /// Keys and contents.
    pub fn objects(&self) -> Vec<(String, Bytes)> {
        lock(&self.shared.bucket).contents()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        for task in lock(&self.shared.tasks).drain(..) {
            task.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let serving = tokio::spawn(serve(stream, Arc::clone(&shared)));
        lock(&shared.tasks).push(serving.abort_handle());
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut rest = Vec::new();
    while let Some(mut request) = http::read(&mut stream, &mut rest).await {
        lock(&shared.seen).push(request.without_body());
        let reaction = (lock(&shared.hook))(&mut request);
        let head = request.method == "HEAD";
        let honest = match reaction.is_done {
            true => lock(&shared.bucket).answer(&request, &shared.context),
            false => Response::new(200),
        };
        let written = match reaction.answer {
            Answer::Honest => http::write(&mut stream, &honest, head, Piece::Whole).await,
            Answer::Instead(other) => http::write(&mut stream, &other, head, Piece::Whole).await,
            Answer::Half => {
                drop(http::write(&mut stream, &honest, head, Piece::HalfHead).await);
                return;
            }
            Answer::HalfBody => {
                drop(http::write(&mut stream, &honest, head, Piece::HalfBody).await);
                return;
            }
            Answer::HalfBodySilence => {
                drop(http::write(&mut stream, &honest, head, Piece::HalfBody).await);
                std::future::pending().await
            }
            Answer::Close => return,
            Answer::Reset => {
                stream.set_zero_linger().expect("a linger option");
                return;
            }
            Answer::Silence => std::future::pending().await,
        };
        if written.is_err() {
            return;
        }
    }
}
