//! One block as a file: bytes in, bytes out.
//!
//! Invariant: `decode` gives bytes only when they were encoded for the same object and place,
//! and nothing of them changed.
//!
//! ```text
//! magic "TARNBLK1" | length of the body u32 LE | CRC-32 of object, number, body u32 LE | body
//! ```

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::derived::ObjectId;

const MAGIC: &[u8; 8] = b"TARNBLK1";
/// Bytes before the body.
pub(super) const HEAD_BYTES: usize = 16;

/// Tells objects of all stores apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectHash([u8; 16]);

impl ObjectHash {
    pub(super) fn of(store: &str, id: &ObjectId) -> Self {
        let mut hash = Sha256::new();
        for part in [store.as_bytes(), id.key.as_ref().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(id.size_bytes.to_le_bytes());
        hash.update(id.modified_ms.to_le_bytes());
        let whole: [u8; 32] = hash.finalize().into();
        let (first, _) = whole.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        Self(*first)
    }

    /// In hexadecimal.
    pub(super) fn name(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    fn checksum(&self, number: u64, body: &[u8]) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&self.0);
        checksum.update(&number.to_le_bytes());
        checksum.update(body);
        checksum.finalize()
    }
}

/// What stands before the body of a block; `None` when it is too long.
pub(super) fn head(object: &ObjectHash, number: u64, body: &[u8]) -> Option<[u8; HEAD_BYTES]> {
    let length = u32::try_from(body.len()).ok()?;
    let mut head = [0; HEAD_BYTES];
    let fields = MAGIC
        .iter()
        .copied()
        .chain(length.to_le_bytes())
        .chain(object.checksum(number, body).to_le_bytes());
    for (target, byte) in head.iter_mut().zip(fields) {
        *target = byte;
    }
    Some(head)
}

/// The body of a file, if it is the block asked for and whole.
pub(super) fn decode(
    object: &ObjectHash,
    number: u64,
    length: u64,
    file: Vec<u8>,
) -> Option<Bytes> {
    let mut file = Bytes::from(file);
    if file.len() < HEAD_BYTES {
        return None;
    }
    let body = file.split_off(HEAD_BYTES);
    let expected = head(object, number, &body)?;
    (*file == expected && body.len() as u64 == length).then_some(body)
}
