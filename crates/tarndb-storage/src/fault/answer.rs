//! Answers that are not what they should be: bodies that end early, listings that are stale.
//!
//! Invariant: what is told is true; it is only not all of it.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{GetResult, GetResultPayload, ObjectMeta, Result};

use super::error;
use super::kind::Fault;

/// What was written so long before the newest name of a listing is always listed.
const STALE_SECONDS: i64 = 60;

/// The answer to a read of which only `share` of the body comes; then an error, or nothing.
pub(super) async fn cut_body(whole: GetResult, share: f64, told: bool) -> Result<GetResult> {
    let (meta, range, attributes) = (
        whole.meta.clone(),
        whole.range.clone(),
        whole.attributes.clone(),
    );
    let bytes = whole.bytes().await?;
    let mut parts = vec![Ok(cut(&bytes, share))];
    if told {
        parts.push(Err(error(Fault::PartialRead)));
    }
    let payload = GetResultPayload::Stream(futures::stream::iter(parts).boxed());
    Ok(GetResult {
        payload,
        meta,
        range,
        attributes,
    })
}

/// Ranges of which the last is cut off.
pub(super) fn cut_ranges(mut parts: Vec<Bytes>, share: f64) -> Vec<Bytes> {
    if let Some(last) = parts.last_mut() {
        *last = cut(last, share);
    }
    parts
}

fn cut(bytes: &Bytes, share: f64) -> Bytes {
    let kept = (bytes.len() as f64 * share) as usize;
    let Range { start, end } = 0..kept.min(bytes.len().saturating_sub(1));
    bytes.slice(start..end)
}

/// A listing without up to `count` of the names that were written last.
pub(super) fn stale(mut listed: Vec<ObjectMeta>, count: usize) -> Vec<ObjectMeta> {
    let Some(newest) = listed.iter().map(|meta| meta.last_modified).max() else {
        return listed;
    };
    let mut recent: Vec<(i64, String)> = listed
        .iter()
        .filter(|meta| (newest - meta.last_modified).num_seconds() < STALE_SECONDS)
        .map(|meta| {
            let nanos = meta.last_modified.timestamp_nanos_opt();
            (nanos.unwrap_or(i64::MAX), meta.location.to_string())
        })
        .collect();
    recent.sort();
    let hidden: Vec<String> = recent
        .into_iter()
        .rev()
        .take(count)
        .map(|(_, name)| name)
        .collect();
    listed.retain(|meta| !hidden.iter().any(|name| name == meta.location.as_ref()));
    listed
}
