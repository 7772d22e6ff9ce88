//! The parts of an error's text: what, where, what to do.
//!
//! Invariant: nothing of the text is lost; a text without the usual shape is all message.
//! The crates below write `what happened: name=value, name=value; what to do`.

use super::{ConflictKind, ErrorKind};

pub(super) struct Parts {
    pub(super) message: String,
    pub(super) context: Option<String>,
    pub(super) advice: Option<String>,
}

impl Parts {
    /// Adds what an error came from, unless it says the same.
    pub(super) fn add_cause(&mut self, cause: Parts) {
        if !self.message.contains(&cause.message) {
            self.message = format!("{}: {}", self.message, cause.message);
        }
        self.context = match (self.context.take(), cause.context) {
            (Some(ours), Some(theirs)) if !ours.contains(&theirs) => {
                Some(format!("{ours}, {theirs}"))
            }
            (ours, theirs) => ours.or(theirs),
        };
        self.advice = self.advice.take().or(cause.advice);
    }
}

/// Splits `what: name=value; advice`, also `what; advice: name=value`.
pub(super) fn split(text: &str) -> Parts {
    let text = text.trim();
    let (before, rest) = match values_start(text) {
        Some(at) => (text.get(..at).unwrap_or(text), text.get(at..)),
        None => (text, None),
    };
    let (message, first) = halves(before.trim_end_matches([' ', ':', ',']));
    let (context, second) = rest.map_or((None, None), |rest| {
        let (context, advice) = halves(rest);
        (Some(context), advice)
    });
    let advice = match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second).map(str::to_owned),
    };
    Parts {
        message: message.to_owned(),
        context: context.map(str::to_owned),
        advice,
    }
}

fn halves(text: &str) -> (&str, Option<&str>) {
    match text.split_once("; ") {
        Some((first, second)) => (first, Some(second)),
        None => (text, None),
    }
}

/// Where the `name=value` part begins: after a `: `, at a word followed by `=`.
fn values_start(text: &str) -> Option<usize> {
    text.match_indices(": ")
        .map(|(at, separator)| at + separator.len())
        .find(|at| {
            let rest = text.get(*at..).unwrap_or("");
            rest.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            })
        })
}

/// What to do about a kind of error when the case itself says nothing.
pub(super) fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict(ConflictKind::Retryable) => "run the transaction again",
        ErrorKind::Conflict(ConflictKind::Incompatible) => {
            "look at what was committed meanwhile (tarndb log), then decide anew"
        }
        ErrorKind::NotFound => "check the name and the path",
        ErrorKind::AlreadyExists => "use another name, or what is there",
        ErrorKind::Invalid => "",
        ErrorKind::Unsupported => "see docs/guide for what is supported",
        ErrorKind::Corrupt => "run tarndb check to see what else is damaged",
        ErrorKind::Diverged => "run tarndb check to see which versions differ",
        ErrorKind::Unavailable => "nothing was committed; try again when the store answers",
        ErrorKind::Pending => "ask for the outcome with tarndb txn when the store answers",
        ErrorKind::OutcomeExpired => "look at the data to see whether it was applied",
        ErrorKind::ResourceExhausted => "free some space, or raise the limit (--memory-limit)",
        ErrorKind::ReadOnly => "check the permissions of the user or the credentials",
        ErrorKind::Closed => "open the database again",
        ErrorKind::Cancelled => "",
        ErrorKind::Internal => "this is a bug in tarndb: please report it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, message: &str, context: Option<&str>, advice: Option<&str>) {
        let parts = split(text);
        assert_eq!(parts.message, message);
        assert_eq!(parts.context.as_deref(), context);
        assert_eq!(parts.advice.as_deref(), advice);
    }

    #[test]
    fn causes_are_added_once() {
        let mut parts = split("a record is damaged: key=k");
        parts.add_cause(split("line 2 is cut off: line=2; copy it back"));
        parts.add_cause(split("line 2 is cut off"));
        assert_eq!(parts.message, "a record is damaged: line 2 is cut off");
        assert_eq!(parts.context.as_deref(), Some("key=k, line=2"));
        assert_eq!(parts.advice.as_deref(), Some("copy it back"));
    }

    #[test]
    fn text_is_split_into_what_where_and_what_to_do() {
        check(
            "no space left: path=/a; free some space, then run it again",
            "no space left",
            Some("path=/a"),
            Some("free some space, then run it again"),
        );
        check(
            "object not found: key=a/b",
            "object not found",
            Some("key=a/b"),
            None,
        );
        check(
            "too late; begin again",
            "too late",
            None,
            Some("begin again"),
        );
        check("plain: nothing here", "plain: nothing here", None, None);
        check(
            "null in column: table=main.t, column=a: not null",
            "null in column",
            Some("table=main.t, column=a: not null"),
            None,
        );
        check("WHERE a = 1: b=2", "WHERE a = 1", Some("b=2"), None);
        check(
            "the log has a hole; restore the record: missing=3 key=a",
            "the log has a hole",
            Some("missing=3 key=a"),
            Some("restore the record"),
        );
    }
}
