//! Z85: 4 bytes as 5 printable characters.
//!
//! Invariant: `decode(encode(bytes))` begins with `bytes`; the rest is zero padding.
//! Deviation: a writer in the wild ends a text with a short group filled up with `#` in
//! front; such a group would overflow in plain Z85, so it can be told apart and is read.
//! Spec: Delta PROTOCOL, "Deletion Vectors"; ZeroMQ RFC 32.

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The text of `bytes`, zero-padded to a multiple of 4.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut word = [0_u8; 4];
        for (target, source) in word.iter_mut().zip(chunk) {
            *target = *source;
        }
        let value = u32::from_be_bytes(word);
        for power in [85_u32.pow(4), 85_u32.pow(3), 85_u32.pow(2), 85, 1] {
            let digit = usize::try_from(value / power % 85).unwrap_or(0);
            text.push(char::from(ALPHABET.get(digit).copied().unwrap_or(b'0')));
        }
    }
    text
}

/// The bytes of a text whose length is a multiple of 5; `None` for anything else. Only a last
/// group that is filled up with `#` gives fewer than 4 bytes.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(5) {
        return None;
    }
    let mut decoded = Vec::with_capacity(bytes.len() / 5 * 4);
    let mut chunks = bytes.chunks_exact(5).peekable();
    while let Some(chunk) = chunks.next() {
        match u32::try_from(value(chunk)?) {
            Ok(word) => decoded.extend(word.to_be_bytes()),
            Err(_) if chunks.peek().is_none() => decoded.extend(short_group(chunk)?),
            Err(_) => return None,
        }
    }
    Some(decoded)
}

fn value(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for character in digits {
        let digit = ALPHABET.iter().position(|known| known == character)?;
        value = value * 85 + u64::try_from(digit).ok()?;
    }
    Some(value)
}

/// The bytes of a last group with one to three `#` in front: one byte fewer for each.
fn short_group(chunk: &[u8]) -> Option<Vec<u8>> {
    let filled = chunk
        .iter()
        .take_while(|character| **character == b'#')
        .count();
    if !(1..=3).contains(&filled) {
        return None;
    }
    let word = u32::try_from(value(chunk.get(filled..)?)?)
        .ok()?
        .to_be_bytes();
    let (zero, bytes) = word.split_at_checked(filled)?;
    zero.iter().all(|byte| *byte == 0).then(|| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{decode, encode};

    #[test]
    fn reference_vector_of_the_rfc() {
        let bytes = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B];
        assert_eq!(encode(&bytes), "HelloWorld");
        assert_eq!(decode("HelloWorld").unwrap(), bytes);
    }

    #[test]
    fn wrong_length_character_or_overflow_is_refused() {
        for text in ["Hell", "Hello\u{e9}", "Hel o", "#####"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn last_group_filled_up_with_hashes_is_short() {
        assert_eq!(decode("HelloWorld##093").unwrap()[8..], [3, 0]);
        assert_eq!(decode("##093Hello"), None);
        assert_eq!(decode("##zzz"), None);
    }

    proptest! {
        #[test]
        fn decoding_gives_the_bytes_and_padding(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            let decoded = decode(&encode(&bytes)).unwrap();
            prop_assert_eq!(&decoded[..bytes.len()], &bytes[..]);
            prop_assert!(decoded[bytes.len()..].iter().all(|byte| *byte == 0));
            prop_assert!(decoded.len() < bytes.len() + 4);
        }
    }
}
