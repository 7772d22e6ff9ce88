//! Completion of keywords, tables and columns with the Tab key.
//!
//! Invariant: suggests only; asks the store for nothing (the names are those of the last
//! statement's end).

use std::collections::BTreeSet;

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Result};

const KEYWORDS: &[&str] = &[
    "ALTER TABLE",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COMMIT",
    "COPY",
    "COUNT",
    "CREATE SCHEMA",
    "CREATE TABLE",
    "CREATE TAG",
    "CREATE VIEW",
    "CROSS JOIN",
    "DELETE FROM",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP SCHEMA",
    "DROP TABLE",
    "DROP TAG",
    "DROP VIEW",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "FULL JOIN",
    "GROUP BY",
    "HAVING",
    "IF EXISTS",
    "IF NOT EXISTS",
    "INNER JOIN",
    "INSERT INTO",
    "INTERSECT",
    "INTO",
    "IS NOT NULL",
    "IS NULL",
    "ISOLATION LEVEL",
    "JOIN",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "PARTITIONED BY",
    "RENAME TO",
    "REPLACE",
    "RESTORE DATABASE TO",
    "RIGHT JOIN",
    "ROLLBACK",
    "SELECT",
    "SERIALIZABLE",
    "SET",
    "SHOW TABLES",
    "SHOW TAGS",
    "SHOW TRANSACTIONS",
    "SHOW VIEWS",
    "SNAPSHOT",
    "SUM",
    "THEN",
    "TRUNCATE",
    "UNION",
    "UNION ALL",
    "UPDATE",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

const COMMANDS: &[&str] = &["\\?", "\\d", "\\dt", "\\dv", "\\q", "\\timing"];

/// What the line editor asks while a line is typed.
#[derive(Debug, Default)]
pub(super) struct Names {
    tables: BTreeSet<String>,
    columns: BTreeSet<String>,
}

impl Names {
    /// The names of a database: tables (plain and qualified) and columns.
    pub(super) fn new(tables: BTreeSet<String>, columns: BTreeSet<String>) -> Self {
        Self { tables, columns }
    }

    /// Where the word that ends at `pos` starts, and what it may become.
    fn candidates(&self, line: &str, pos: usize) -> (usize, Vec<Pair>) {
        let before = line.get(..pos).unwrap_or(line);
        if before.starts_with('\\') && !before.contains(char::is_whitespace) {
            return (0, pairs(COMMANDS.iter().copied(), before, false));
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let start = before.rfind(|c| !is_name(c)).map_or(0, |at| {
            at + before
                .get(at..)
                .and_then(|rest| rest.chars().next())
                .map_or(0, char::len_utf8)
        });
        let word = before.get(start..).unwrap_or("");
        if word.is_empty() {
            return (start, Vec::new());
        }
        let lower_case = word.chars().any(char::is_lowercase);
        let names = self.tables.iter().chain(&self.columns).map(String::as_str);
        let mut found = pairs(names, word, false);
        if !before.starts_with('\\') {
            found.extend(pairs(KEYWORDS.iter().copied(), word, lower_case));
        }
        (start, found)
    }
}

fn pairs<'a>(names: impl Iterator<Item = &'a str>, word: &str, lower: bool) -> Vec<Pair> {
    let starts = |name: &str| {
        name.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    names
        .filter(|name| starts(name))
        .map(|name| {
            if lower {
                name.to_lowercase()
            } else {
                name.to_owned()
            }
        })
        .map(|name| Pair {
            display: name.clone(),
            replacement: name,
        })
        .collect()
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        Ok(self.candidates(line, pos))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, start: usize, expected: &[&str]) {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let names = Names::new(
            set(&["flights", "main.flights"]),
            set(&["Flight", "origin"]),
        );
        let (from, found) = names.candidates(line, line.len());
        let found: Vec<_> = found.into_iter().map(|pair| pair.replacement).collect();
        assert_eq!(
            (from, found.as_slice()),
            (start, expected.map_owned().as_slice())
        );
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|s| (*s).to_owned()).collect()
        }
    }

    #[test]
    fn names_complete_without_regard_to_case_and_keywords_keep_the_typed_case() {
        check("SELECT * FROM fli", 14, &["flights", "Flight"]);
        check("SELECT main.f", 7, &["main.flights"]);
        check("sele", 0, &["select"]);
        check("SELE", 0, &["SELECT"]);
        check("SELECT ori", 7, &["origin"]);
        check("SELECT ", 7, &[]);
    }

    #[test]
    fn backslash_commands_complete_and_take_table_names() {
        check("\\t", 0, &["\\timing"]);
        check("\\d fl", 3, &["flights", "Flight"]);
    }
}
