//! Which requests fetch some ranges of one object.
//!
//! Invariant: the requests cover every range, ascending and without overlap; what they bring is
//! cut back into exactly the ranges asked for, in their order.
//! Does not: fetch what lies more than the largest gap away from a range.
//! Spec: docs/performance.md, "Reading".

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _};

/// Ranges that lie no farther apart are fetched by one request. The bytes between them take
/// about 10 ms of one connection (some 100 MB/s), a request of its own takes about 50 ms: well
/// below where the two meet, since bandwidth is shared by all requests under way and what is
/// read too much is held in memory.
pub(crate) const GAP_BYTES_MAX: u64 = 1 << 20;

/// A longer run is fetched by several requests at the same time: 8 MiB take about 80 ms, so the
/// latency of one more request is hidden by the others.
pub(crate) const REQUEST_BYTES_MAX: u64 = 8 << 20;

/// Requests of one call under way at the same time.
const PARALLEL: usize = 16;

/// The requests for `ranges`, in any order and overlapping as they may be.
pub(crate) fn requests(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match runs.last_mut() {
            Some(run) if range.start <= run.end.saturating_add(GAP_BYTES_MAX) => {
                run.end = run.end.max(range.end);
            }
            _ => runs.push(range.clone()),
        }
    }
    runs.into_iter().flat_map(parts).collect()
}

/// A run in parts of about equal length.
fn parts(run: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let length = run.end - run.start;
    let count = length.div_ceil(REQUEST_BYTES_MAX).max(1);
    let part = length.div_ceil(count);
    (0..count).map(move |number| {
        let start = run.start + number * part;
        start..run.end.min(start + part)
    })
}

/// The bytes of `ranges`, by as few requests as [`requests`] says, all at the same time.
///
/// # Errors
/// The first error of `read`. A range is shorter than asked for when `read` gave too little.
pub(crate) async fn fetch<E, F>(
    ranges: &[Range<u64>],
    read: impl FnMut(Range<u64>) -> F,
) -> Result<Vec<Bytes>, E>
where
    F: Future<Output = Result<Bytes, E>>,
{
    let requests = requests(ranges);
    let fetched: Vec<Bytes> = futures::stream::iter(requests.iter().cloned())
        .map(read)
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let fetched: Vec<(u64, Bytes)> = requests
        .into_iter()
        .map(|request| request.start)
        .zip(fetched)
        .collect();
    Ok(ranges.iter().map(|range| cut(range, &fetched)).collect())
}

/// The bytes of `range` out of pieces that begin at the offsets given, ascending and without a
/// gap within the range. Without a copy when they are in one piece.
pub(crate) fn cut(range: &Range<u64>, pieces: &[(u64, Bytes)]) -> Bytes {
    let first = pieces.partition_point(|(start, _)| *start <= range.start);
    let from = pieces.get(first.saturating_sub(1)..).unwrap_or_default();
    let mut found = from
        .iter()
        .take_while(|(start, _)| *start < range.end)
        .map(|(start, piece)| within(range, *start, piece))
        .filter(|part| !part.is_empty());
    let Some(one) = found.next() else {
        return Bytes::new();
    };
    let Some(other) = found.next() else {
        return one;
    };
    let mut all = BytesMut::from(one.as_ref());
    all.extend_from_slice(&other);
    found.for_each(|part| all.extend_from_slice(&part));
    all.freeze()
}

/// The part of `range` that lies in a piece which begins at `start`.
fn within(range: &Range<u64>, start: u64, piece: &Bytes) -> Bytes {
    let length = piece.len();
    let offset =
        |at: u64| usize::try_from(at.saturating_sub(start)).map_or(length, |n| n.min(length));
    let (from, to) = (offset(range.start), offset(range.end));
    if from < to {
        piece.slice(from..to)
    } else {
        Bytes::new()
    }
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, some with one"
)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[track_caller]
    fn check(ranges: &[Range<u64>], expected: &[Range<u64>]) {
        assert_eq!(requests(ranges), expected);
    }

    #[test]
    fn near_ranges_are_one_request_and_long_runs_are_several() {
        check(&[], &[]);
        check(&[5..5], &[]);
        check(&[10..20, 0..10], &[0..20]);
        check(&[0..KIB, KIB + MIB..MIB * 2], &[0..MIB * 2]);
        check(
            &[0..KIB, KIB + MIB + 1..MIB * 2],
            &[0..KIB, KIB + MIB + 1..MIB * 2],
        );
        check(&[0..MIB * 8], &[0..MIB * 8]);
        check(&[0..MIB * 16], &[0..MIB * 8, MIB * 8..MIB * 16]);
        check(&[0..9, 1..3, 2..12], &[0..12]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn every_range_comes_back_as_it_is_stored(
            ranges in prop::collection::vec((0_u64..24 * MIB, 0_u64..9 * MIB), 0..6),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, length)| start..start + length).collect();
            let object = object();
            let stored = |range: Range<u64>| object.slice(range.start as usize..range.end as usize);
            let planned = requests(&ranges);
            prop_assert!(planned.iter().all(|one| one.end - one.start <= REQUEST_BYTES_MAX));
            prop_assert!(planned.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let read = |range| futures::future::ready(Ok::<_, Infallible>(stored(range)));
            let got = futures::executor::block_on(fetch(&ranges, read)).unwrap();
            for (range, bytes) in ranges.into_iter().zip(got) {
                prop_assert!(bytes == stored(range));
            }
        }
    }

    /// Bytes of which every thousandth or so tells where it stands.
    fn object() -> Bytes {
        let mut bytes = vec![0; 33 << 20];
        for at in (0..bytes.len()).step_by(997) {
            bytes[at] = (at / 997 % 251) as u8;
        }
        bytes.into()
    }
}
