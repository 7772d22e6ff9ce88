//! Why a command failed, as a person reads it and as a script sees it.
//!
//! Invariant: at most one line says what, one where, one what to do; the exit code follows
//! from the kind of error alone. Spec: docs/guide/cli.md, "Errors and exit codes".

use std::fmt;
use std::io;
use std::process::ExitCode;

use tarndb::{ConflictKind, ErrorKind};

/// Exit codes beside those of `ErrorKind`.
pub(crate) mod code {
    pub(crate) const FOUND: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const OPEN_TRANSACTION: u8 = 17;
    pub(crate) const INPUT_OUTPUT: u8 = 18;
    pub(crate) const BUG: u8 = 70;
    /// 128 + SIGINT, as shells report a command that Ctrl-C ended.
    pub(crate) const INTERRUPTED: u8 = 130;
    /// 128 + SIGPIPE, as for a command whose reader went away.
    pub(crate) const BROKEN_PIPE: u8 = 141;
}

/// The end of a command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    what: String,
    place: Option<String>,
    /// Lines that show the place: the statement and a caret.
    shown: Vec<String>,
    advice: Option<String>,
    /// Line and column of the script, from 1, where a statement has it.
    position: Option<Box<(usize, usize)>>,
}

impl Failure {
    fn new(code: u8, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            place: None,
            shown: Vec::new(),
            advice: None,
            position: None,
        }
    }

    /// Wrong arguments.
    pub(crate) fn usage(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(code::USAGE, what).advise(advice)
    }

    /// `check` found something: its findings were printed already.
    pub(crate) fn found(what: impl Into<String>) -> Self {
        Self::new(code::FOUND, what)
    }

    /// The input ended, or a statement failed, inside a transaction, which was rolled back.
    pub(crate) fn open_transaction() -> Self {
        Self::new(
            code::OPEN_TRANSACTION,
            "the input ended inside a transaction, which was rolled back",
        )
        .advise("end the transaction with COMMIT or ROLLBACK")
    }

    /// Ctrl-C.
    pub(crate) fn interrupted(rolled_back: bool) -> Self {
        let what = match rolled_back {
            true => "cancelled; the open transaction was rolled back",
            false => "cancelled",
        };
        Self::new(code::INTERRUPTED, what)
    }

    /// A file of the caller's, or standard output, cannot be used.
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(code::INPUT_OUTPUT, error.to_string())
            .at(path.display().to_string())
            .advise("check the path and its permissions")
    }

    /// A foreign writer's object stands where a version should be published.
    pub(crate) fn diverged(key: &str, version: u64) -> Self {
        let kind = ErrorKind::Diverged;
        Self::new(
            exit_code_of(kind),
            "a foreign writer changed a managed table",
        )
        .at(format!("{key} (table version {version})"))
        .advise("nothing was overwritten: the committed rows are in the database's own log")
    }

    /// Something did not come out as it must.
    pub(crate) fn bug(what: impl Into<String>) -> Self {
        Self::new(code::BUG, what).advise("this is a bug in tarndb: please report it")
    }

    /// Adds where it happened.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Adds what to do.
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        let advice = advice.into();
        self.advice = (!advice.is_empty()).then_some(advice);
        self
    }

    /// Says what happens to the open transaction beside the failure itself.
    pub(crate) fn rolled_back(mut self) -> Self {
        self.what.push_str("; the open transaction was rolled back");
        self
    }

    /// The failure of one statement of `text`: shows its line with a caret below the place.
    pub(crate) fn of_statement(error: &tarndb::Error, text: &str, origin: Option<&str>) -> Self {
        let mut failure = Self::from(error);
        if let Some(position) = failure.position.as_deref().copied() {
            failure.show(position, text, origin);
        }
        failure
    }

    fn show(&mut self, (line, column): (usize, usize), text: &str, origin: Option<&str>) {
        let place = match origin {
            Some(origin) => format!("{origin}, line {line}, column {column}"),
            None => format!("line {line}, column {column}"),
        };
        self.place = Some(match self.place.take() {
            Some(other) => format!("{place}; {other}"),
            None => place,
        });
        self.shown = caret(text, line, column);
    }

    /// Adds where in a script of several statements the failed one begins.
    pub(crate) fn in_script(
        mut self,
        statement: &tarndb::ParsedStatement,
        text: &str,
        origin: Option<&str>,
    ) -> Self {
        let position = self.position.as_deref().copied();
        if let Some(position) = position.filter(|_| self.shown.is_empty()) {
            self.show(position, text, origin);
            return self;
        }
        let whole = text.trim().trim_end_matches(';').trim_end();
        if self.is_interrupt() || self.is_silent() || (origin.is_none() && whole == statement.text)
        {
            return self;
        }
        let (line, _) = statement.position;
        let place = match origin {
            Some(origin) => format!("{origin}, statement at line {line}"),
            None => format!("statement at line {line}"),
        };
        self.place = Some(match self.place.take() {
            Some(other) => format!("{other}; {place}"),
            None => place,
        });
        self
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Whether Ctrl-C was the reason.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.code == code::INTERRUPTED
    }

    /// Whether nothing is to be printed.
    pub(crate) fn is_silent(&self) -> bool {
        self.code == code::BROKEN_PIPE
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.what))?;
        if let Some(place) = &self.place {
            write!(f, "\n   at: {}", one_line(place))?;
        }
        for line in &self.shown {
            write!(f, "\n       {line}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n help: {}", one_line(advice))?;
        }
        Ok(())
    }
}

impl From<&tarndb::Error> for Failure {
    fn from(error: &tarndb::Error) -> Self {
        let what = match error.sqlstate() {
            Some(state) => format!("{} ({state})", error.message()),
            None => error.message().to_owned(),
        };
        Self {
            code: exit_code_of(error.kind()),
            what,
            place: error.context().map(str::to_owned),
            shown: Vec::new(),
            advice: Some(error.advice().to_owned()).filter(|text| !text.is_empty()),
            position: error.position().map(Box::new),
        }
    }
}

impl From<tarndb::Error> for Failure {
    fn from(error: tarndb::Error) -> Self {
        Self::from(&error)
    }
}

impl From<io::Error> for Failure {
    /// An error while writing the results.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(code::BROKEN_PIPE, "the reader went away"),
            _ => Self::new(code::INPUT_OUTPUT, error.to_string())
                .at("standard output")
                .advise("check where the output goes"),
        }
    }
}

/// The exit code of a kind of error; the table of docs/guide/cli.md.
fn exit_code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => 3,
        ErrorKind::NotFound => 4,
        ErrorKind::AlreadyExists => 5,
        ErrorKind::Conflict(ConflictKind::Retryable) => 6,
        ErrorKind::Conflict(ConflictKind::Incompatible) => 7,
        ErrorKind::Unsupported => 8,
        ErrorKind::Corrupt => 9,
        ErrorKind::Diverged => 10,
        ErrorKind::Unavailable => 11,
        ErrorKind::Pending => 12,
        ErrorKind::OutcomeExpired => 13,
        ErrorKind::ResourceExhausted => 14,
        ErrorKind::ReadOnly => 15,
        ErrorKind::Closed => 16,
        ErrorKind::Cancelled => code::INTERRUPTED,
        _ => code::BUG,
    }
}

/// The line of `text` at `line` (from 1) and a caret below `column` (from 1, in characters).
/// A long line is cut around the place.
fn caret(text: &str, line: usize, column: usize) -> Vec<String> {
    const BEFORE: usize = 50;
    const AFTER: usize = 40;
    let Some(line) = line
        .checked_sub(1)
        .and_then(|index| text.lines().nth(index))
    else {
        return Vec::new();
    };
    let Some(column) = column.checked_sub(1) else {
        return Vec::new();
    };
    let characters: Vec<char> = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if column > characters.len() {
        return Vec::new();
    }
    let start = column.saturating_sub(BEFORE);
    let part: String = characters
        .iter()
        .skip(start)
        .take(column - start + AFTER)
        .collect::<String>();
    let (prefix, shift) = if start > 0 { ("...", 3) } else { ("", 0) };
    let suffix = if column + AFTER < characters.len() {
        "..."
    } else {
        ""
    };
    vec![
        format!("{prefix}{}{suffix}", part.trim_end()),
        format!("{:width$}^", "", width = column - start + shift),
    ]
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_stands_below_the_column() {
        assert_eq!(
            caret("SELECT 1;\nSELECT * FORM t", 2, 10),
            ["SELECT * FORM t", "         ^"]
        );
        assert!(caret("SELECT 1", 7, 1).is_empty());
        assert!(caret("SELECT 1", 1, 99).is_empty());
    }

    #[test]
    fn caret_of_a_long_line_shows_what_is_around_it() {
        let text = format!("{}HERE{}", "x".repeat(200), "y".repeat(200));
        let lines = caret(&text, 1, 201);
        let at = lines[1].find('^').unwrap();
        assert_eq!(&lines[0][at..at + 4], "HERE");
        assert!(lines[0].starts_with("...") && lines[0].ends_with("..."));
        assert!(lines[0].len() < 110);
    }

    #[test]
    fn a_failure_is_what_where_and_what_to_do() {
        let failure = Failure::usage("no such thing\nat all", "try another").at("here");
        assert_eq!(
            failure.to_string(),
            "error: no such thing; at all\n   at: here\n help: try another"
        );
    }
}
