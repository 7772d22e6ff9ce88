//! Watches the bytes of a CSV file for a quote that is never closed.
//!
//! Invariant: bytes pass unchanged; a file that ends inside a quoted value (it was cut off, or
//! a quote is missing) is an error with the line of the quote, never a value.

use std::io::{Error, ErrorKind, Read, Result};

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

/// A reader that fails at the end of a file within quotes.
#[derive(Debug)]
pub(super) struct Quotes<R> {
    inner: R,
    delimiter: u8,
    state: State,
    line: u64,
    opened: u64,
}

impl<R: Read> Quotes<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> Self {
        Self {
            inner,
            delimiter,
            state: State::Start,
            line: 1,
            opened: 1,
        }
    }

    fn see(&mut self, byte: u8) {
        self.line += u64::from(byte == b'\n');
        let ends = byte == self.delimiter || byte == b'\n' || byte == b'\r';
        self.state = match self.state {
            State::Quoted if byte == b'"' => State::Closing,
            State::Quoted => State::Quoted,
            State::Closing if byte == b'"' => State::Quoted,
            State::Start if byte == b'"' => {
                self.opened = self.line;
                State::Quoted
            }
            _ if ends => State::Start,
            _ => State::Plain,
        };
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.state == State::Quoted {
            let reason = format!(
                "the quote opened at line {} is never closed: the file may be cut off",
                self.opened
            );
            return Err(Error::new(ErrorKind::UnexpectedEof, reason));
        }
        for byte in buffer.iter().take(count) {
            self.see(*byte);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, unclosed_line: Option<u64>) {
        let mut out = String::new();
        let read = Quotes::new(text.as_bytes(), b',').read_to_string(&mut out);
        match (read, unclosed_line) {
            (Ok(_), None) => assert_eq!(out, text),
            (Err(error), Some(line)) => {
                let wanted = format!("opened at line {line} ");
                assert!(error.to_string().contains(&wanted), "{text:?}: {error}");
            }
            (read, _) => panic!("{text:?}: {read:?}"),
        }
    }

    #[test]
    fn only_a_quote_that_opens_a_value_must_be_closed() {
        check("a,b\n1,\"x\"\n", None);
        check("a,b\n1,\"x\"", None);
        check("a,b\n1,\"x \"\"y\"\" z\"\n", None);
        check("a,b\n1,5\" pipe\n", None);
        check("a,b\n1,\"two\nlines\"\n", None);
        check("a,b\n1,\"x\n", Some(2));
        check("a,b\n1,\"x\"\"", Some(2));
        check("a\n\"x\"\n\"", Some(3));
        check("", None);
    }
}
