//! Bodies of answers that break off and go on.
//!
//! Invariant: the bytes are those of one object from the first to the last: what comes after a
//! break is asked for on the condition that the object is still the same, where the store told
//! its tag. A body is complete or ends with an error.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, GetResultPayload, ObjectStore, Result};

use super::{Attempts, Patience, RetryStore};
use crate::meter::short_read;

struct Body {
    inner: Arc<dyn ObjectStore>,
    clock: Patience,
    location: Path,
    options: GetOptions,
    /// What was asked for, as the store understood it.
    whole: Range<u64>,
    /// What has not come yet.
    left: Range<u64>,
    parts: BoxStream<'static, Result<Bytes>>,
}

/// The answer, with a body that goes on where it broke off. A file is given on as it is.
pub(super) fn patient(
    store: &RetryStore,
    location: &Path,
    options: &GetOptions,
    result: GetResult,
) -> GetResult {
    let parts = match result.payload {
        GetResultPayload::Stream(parts) => parts,
        #[allow(unreachable_patterns, reason = "files exist with a feature only")]
        payload => return GetResult { payload, ..result },
    };
    let mut options = options.clone();
    if options.if_match.is_none() {
        options.if_match.clone_from(&result.meta.e_tag);
    }
    let body = Body {
        inner: Arc::clone(&store.inner),
        clock: store.clock.clone(),
        location: location.clone(),
        options,
        whole: result.range.clone(),
        left: result.range.clone(),
        parts,
    };
    let payload = futures::stream::try_unfold(body, next_part).boxed();
    GetResult {
        payload: GetResultPayload::Stream(payload),
        ..result
    }
}

async fn next_part(mut body: Body) -> Result<Option<(Bytes, Body)>> {
    let clock = body.clock.clone();
    let mut attempts = clock.attempts(0);
    while !body.left.is_empty() {
        let part = match body.part(&attempts).await {
            Ok(part) => part,
            Err(error) => {
                body.go_on(&mut attempts, error).await?;
                continue;
            }
        };
        body.left.start += u64::try_from(part.len()).unwrap_or(u64::MAX);
        if body.left.start > body.left.end {
            return Err(Error::Generic {
                store: "store",
                source: format!("more bytes than asked for: key={}", body.location).into(),
            });
        }
        if !part.is_empty() {
            return Ok(Some((part, body)));
        }
    }
    Ok(None)
}

impl Body {
    async fn part(&mut self, attempts: &Attempts<'_>) -> Result<Bytes> {
        let got = self.left.start.saturating_sub(self.whole.start);
        let short = short_read(&self.location, &self.whole, got);
        let next = self.parts.next();
        let part = attempts.run(async { next.await.transpose() }).await?;
        part.ok_or(short)
    }

    /// Asks for what is left, until that is answered.
    async fn go_on(&mut self, attempts: &mut Attempts<'_>, mut error: Error) -> Result<()> {
        loop {
            attempts.again(error).await?;
            let options = GetOptions {
                range: Some(GetRange::Bounded(self.left.clone())),
                ..self.options.clone()
            };
            let get = self.inner.get_opts(&self.location, options);
            error = match attempts.run(get).await {
                Ok(result) if result.range == self.left => {
                    self.parts = result.into_stream();
                    return Ok(());
                }
                Ok(result) => short_read(&self.location, &self.left, result.range.end),
                Err(error) => error,
            };
        }
    }
}
