//! The bytes of one deletion vector: magic number and 64-bit portable roaring bitmap.
//!
//! ```text
//! magic u32 LE = 1681511377 | bucket count u64 LE | { key u32 LE | 32-bit roaring }...
//! ```
//! Invariant: bytes from outside are checked as a whole; nothing follows the last bucket.
//! Spec: Delta PROTOCOL, "Deletion Vector Format".

use roaring::{RoaringBitmap, RoaringTreemap};

const MAGIC_PORTABLE: u32 = 1_681_511_377;
/// An older form: count u32 LE, then { byte length i32 LE | 32-bit roaring }, index = key.
const MAGIC_NATIVE: u32 = 1_681_511_376;

/// The serialised form of `rows`.
pub(crate) fn serialize(rows: &RoaringTreemap) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + rows.serialized_size());
    bytes.extend(MAGIC_PORTABLE.to_le_bytes());
    // Writing to a Vec cannot fail; a short result would be caught by every reader's CRC.
    let _ = rows.serialize_into(&mut bytes);
    bytes
}

/// The rows of a serialised vector; `Err` says what is wrong with it.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<RoaringTreemap, String> {
    let (magic, body) = bytes
        .split_first_chunk::<4>()
        .ok_or("shorter than its magic number")?;
    match u32::from_le_bytes(*magic) {
        MAGIC_PORTABLE => portable(body),
        MAGIC_NATIVE => native(body),
        other => Err(format!("unknown magic number {other}")),
    }
}

fn portable(mut body: &[u8]) -> Result<RoaringTreemap, String> {
    let rows = RoaringTreemap::deserialize_from(&mut body)
        .map_err(|error| format!("malformed bitmap, {error}"))?;
    if !body.is_empty() {
        return Err(format!("{} bytes follow the bitmap", body.len()));
    }
    if rows.max().is_some_and(|max| max > i64::MAX.unsigned_abs()) {
        return Err("a row position is above 2^63".to_owned());
    }
    Ok(rows)
}

fn native(body: &[u8]) -> Result<RoaringTreemap, String> {
    let short = || "shorter than its bitmap count says".to_owned();
    let (count, mut rest) = body.split_first_chunk::<4>().ok_or_else(short)?;
    let mut bitmaps = Vec::new();
    for key in 0..u32::from_le_bytes(*count) {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let length = usize::try_from(i32::from_le_bytes(*length))
            .map_err(|_| "negative bitmap length".to_owned())?;
        let (data, tail) = tail.split_at_checked(length).ok_or_else(short)?;
        let bitmap = RoaringBitmap::deserialize_from(data)
            .map_err(|error| format!("malformed bitmap, {error}"))?;
        bitmaps.push((key, bitmap));
        rest = tail;
    }
    Ok(RoaringTreemap::from_bitmaps(bitmaps))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roaring::{RoaringBitmap, RoaringTreemap};

    use super::{MAGIC_NATIVE, deserialize, serialize};
    use crate::dv::z85;

    #[test]
    fn sample_of_the_specification_round_trips() {
        let rows: RoaringTreemap = [3, 4, 7, 11, 18, 29].into_iter().collect();
        let bytes = serialize(&rows);
        assert_eq!(bytes.len(), 44);
        let text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
        assert_eq!(z85::encode(&bytes), text);
        assert_eq!(deserialize(&z85::decode(text).unwrap()).unwrap(), rows);
    }

    #[test]
    fn native_form_is_read() {
        let low: RoaringBitmap = [1, 5].into_iter().collect();
        let high: RoaringBitmap = [2].into_iter().collect();
        let mut bytes = MAGIC_NATIVE.to_le_bytes().to_vec();
        bytes.extend(2_u32.to_le_bytes());
        for bitmap in [&low, &high] {
            bytes.extend(
                i32::try_from(bitmap.serialized_size())
                    .unwrap()
                    .to_le_bytes(),
            );
            bitmap.serialize_into(&mut bytes).unwrap();
        }
        let rows = deserialize(&bytes).unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [1, 5, (1 << 32) + 2]);
    }

    #[test]
    fn damage_is_an_error_that_names_it() {
        let bytes = serialize(&[1, 2, 3].into_iter().collect());
        assert!(deserialize(&[]).unwrap_err().contains("magic"));
        assert!(
            deserialize(&bytes[..bytes.len() - 1])
                .unwrap_err()
                .contains("malformed")
        );
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(deserialize(&longer).unwrap_err().contains("follow"));
        let mut other = bytes;
        other[0] ^= 1;
        other[1] ^= 1;
        assert!(deserialize(&other).unwrap_err().contains("unknown magic"));
    }

    proptest! {
        #[test]
        fn rows_round_trip(
            small in proptest::collection::btree_set(0_u64..10_000, 0..600),
            big in proptest::collection::btree_set(0_u64..(1 << 40), 0..40),
            run in 0_u64..(1 << 33),
        ) {
            let mut rows: RoaringTreemap = small.into_iter().chain(big).collect();
            rows.insert_range(run..run + 5_000);
            prop_assert_eq!(deserialize(&serialize(&rows)).unwrap(), rows);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = super::MAGIC_PORTABLE.to_le_bytes().to_vec();
            framed.extend(&bytes);
            let _ = deserialize(&framed);
            let _ = deserialize(&bytes);
        }
    }
}
