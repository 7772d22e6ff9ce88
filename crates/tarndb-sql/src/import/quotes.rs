//! Marks the values of a CSV file, so that a quoted one can be told from a plain one, and watches
//! for a quote that is never closed.
//!
//! Invariant: [`value_of`] gives back every value as the file has it. A file that ends inside a
//! quoted value (it was cut off, or a quote is missing) is an error with the line of the quote,
//! never a value.
//! Spec: docs/sql/insert.md, "Copy from".

use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// Put before what is inside of quotes.
const QUOTED: u8 = 1;

/// Put before a plain value that begins with a mark itself, and in place of a blank line.
const PLAIN: u8 = 2;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// A value as it stands in the file, and whether in quotes.
pub(super) fn value_of(marked: &str) -> (&str, bool) {
    let plain = marked.strip_prefix(char::from(PLAIN));
    match marked.strip_prefix(char::from(QUOTED)) {
        Some(value) => (value, true),
        None => (plain.unwrap_or(marked), false),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the beginning of a value.
    Start,
    /// In a value without quotes.
    Plain,
    /// In a quoted value.
    Quoted,
    /// After a quote in a quoted value: its end, or half of an escaped one.
    Closing,
}

/// A reader that marks values, and fails at the end of a file within quotes.
#[derive(Debug)]
pub(super) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    /// Whether a blank line is a row: of a file with one column it is.
    blank_rows: bool,
    /// Whether rows may come: the header was seen, or there is none.
    begun: bool,
    state: State,
    line: u64,
    opened: u64,
    /// Whether the last byte was a carriage return, which a line feed belongs to.
    returned: bool,
    /// Bytes of the file.
    chunk: Vec<u8>,
    /// Marked bytes, and how many of them were taken.
    marked: Vec<u8>,
    taken: usize,
}

impl<R: Read> Quotes<R> {
    /// `header`: the first line that is not blank names the columns; lines before it are no rows.
    pub(super) fn new(inner: R, delimiter: u8, columns: usize, header: bool) -> Self {
        Self {
            inner,
            delimiter,
            blank_rows: columns == 1,
            begun: !header,
            state: State::Start,
            line: 1,
            opened: 1,
            returned: false,
            chunk: vec![0; CHUNK_BYTES],
            marked: Vec::with_capacity(CHUNK_BYTES * 2),
            taken: 0,
        }
    }

    /// Takes in `count` bytes of the chunk.
    fn mark(&mut self, count: usize) {
        self.marked.clear();
        self.taken = 0;
        let chunk = std::mem::take(&mut self.chunk);
        for byte in chunk.iter().take(count) {
            self.see(*byte);
        }
        self.chunk = chunk;
    }

    fn see(&mut self, byte: u8) {
        let breaks = byte == b'\n' || byte == b'\r';
        let second = byte == b'\n' && self.returned;
        self.returned = byte == b'\r';
        self.line += u64::from(byte == b'\n');
        let was = self.state;
        self.state = match was {
            State::Quoted if byte == b'"' => State::Closing,
            State::Quoted => State::Quoted,
            State::Closing if byte == b'"' => State::Quoted,
            State::Start if byte == b'"' => {
                self.opened = self.line;
                State::Quoted
            }
            _ if breaks || byte == self.delimiter => State::Start,
            _ => State::Plain,
        };
        if was == State::Start {
            let is_mark = (byte == QUOTED || byte == PLAIN) && byte != self.delimiter;
            if is_mark || (breaks && !second && self.blank_rows && self.begun) {
                self.marked.push(PLAIN);
            }
            self.begun |= !breaks;
        }
        self.marked.push(byte);
        if was == State::Start && self.state == State::Quoted {
            self.marked.push(QUOTED);
        }
    }
}

impl<R: Read> BufRead for Quotes<R> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.taken >= self.marked.len() {
            let count = self.inner.read(&mut self.chunk)?;
            if count == 0 && self.state == State::Quoted {
                let reason = format!(
                    "the quote opened at line {} is never closed: the file may be cut off",
                    self.opened
                );
                return Err(Error::new(ErrorKind::UnexpectedEof, reason));
            }
            self.mark(count);
        }
        Ok(self.marked.get(self.taken..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.taken += count;
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: std::result::Result<&str, u64>) {
        let mut out = String::new();
        let read = Quotes::new(text.as_bytes(), b',', columns, true).read_to_string(&mut out);
        match (read, expected) {
            (Ok(_), Ok(expected)) => {
                let expected = expected.replace('^', "\u{1}").replace('~', "\u{2}");
                assert_eq!(out, expected, "{text:?}");
            }
            (Err(error), Err(line)) => {
                let wanted = format!("opened at line {line} ");
                assert!(error.to_string().contains(&wanted), "{text:?}: {error}");
            }
            (read, _) => panic!("{text:?}: {read:?}"),
        }
    }

    #[test]
    fn only_a_quote_that_opens_a_value_must_be_closed() {
        check("a,b\n1,\"x\"\n", 2, Ok("a,b\n1,\"^x\"\n"));
        check("a,b\n1,\"x\"", 2, Ok("a,b\n1,\"^x\""));
        check("\"x \"\"y\"\" z\"\n", 2, Ok("\"^x \"\"y\"\" z\"\n"));
        check("a,b\n1,5\" pipe\n", 2, Ok("a,b\n1,5\" pipe\n"));
        check("a,b\n1,\"two\nlines\"\n", 2, Ok("a,b\n1,\"^two\nlines\"\n"));
        check("a,b\n1,\"x\n", 2, Err(2));
        check("a,b\n1,\"x\"\"", 2, Err(2));
        check("a\n\"x\"\n\"", 1, Err(3));
        check("", 1, Ok(""));
    }

    #[test]
    fn values_are_marked_and_blank_lines_of_one_column_are_rows() {
        check("a,b\n\"\",\n", 2, Ok("a,b\n\"^\",\n"));
        check("a,b\n\u{1},\u{2}x\n", 2, Ok("a,b\n~\u{1},~\u{2}x\n"));
        check("\na\n\n\"\"\n\n", 1, Ok("\na\n~\n\"^\"\n~\n"));
        check("a\r\n\r\nx\r\n", 1, Ok("a\r\n~\r\nx\r\n"));
        check("a,b\n\n1,2\n", 2, Ok("a,b\n\n1,2\n"));
        for (marked, expected) in [
            ("\u{1}", ("", true)),
            ("\u{1}\u{2}x", ("\u{2}x", true)),
            ("\u{2}\u{1}", ("\u{1}", false)),
            ("\u{2}", ("", false)),
            ("x", ("x", false)),
        ] {
            assert_eq!(value_of(marked), expected);
        }
    }
}
