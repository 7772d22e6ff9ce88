//! The commands of the shell that start with a backslash.
//!
//! Invariant: what shows tables or columns is SQL that anybody could type.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use tarndb::Session;

use super::complete::Names;
use crate::failure::Failure;

pub(super) const HELP: &str = "\
\\d          the tables and views
\\d NAME     the columns of a table or view
\\dt         the tables
\\dv         the views
\\timing     turns the time of each statement on and off
\\q          leaves (as Ctrl-D does)
\\?          this help
Statements end with ';'. Tab completes. Ctrl-C drops what was typed, or cancels what runs.";

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    Sql(String),
    Timing,
    Help,
    Quit,
}

/// Whether the shell goes on.
pub(super) enum Next {
    Stay,
    Leave,
}

/// Reads a line that starts with a backslash; a `;` at its end is allowed.
pub(super) fn parse(line: &str) -> Result<Meta, Failure> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (command, argument) = match line.split_once(char::is_whitespace) {
        Some((command, argument)) => (command, argument.trim()),
        None => (line, ""),
    };
    match (command, argument) {
        ("\\q" | "\\quit", "") => Ok(Meta::Quit),
        ("\\?" | "\\h" | "\\help", "") => Ok(Meta::Help),
        ("\\timing", "") => Ok(Meta::Timing),
        ("\\d", "") => Ok(Meta::Sql(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables \
             WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name"
                .to_owned(),
        )),
        ("\\dt", "") => Ok(Meta::Sql("SHOW TABLES".to_owned())),
        ("\\dv", "") => Ok(Meta::Sql("SHOW VIEWS".to_owned())),
        ("\\d", table) => Ok(Meta::Sql(format!("DESCRIBE {table}"))),
        _ => Err(Failure::usage(
            format!("no such command: {line}"),
            "\\? lists the commands",
        )),
    }
}

/// The names of tables and columns, for completion; `None` when they cannot be had now.
pub(super) async fn names(session: &mut Session) -> Option<Names> {
    if session.is_failed() {
        return None;
    }
    let query = "SELECT table_schema, table_name, column_name FROM information_schema.columns \
                 WHERE table_schema <> 'information_schema'";
    let batches = session.query(query).await.ok()?;
    let (mut tables, mut columns) = (BTreeSet::new(), BTreeSet::new());
    for batch in batches {
        let texts = batch
            .columns()
            .iter()
            .map(|array| cast(array, &DataType::Utf8).ok())
            .collect::<Option<Vec<_>>>()?;
        let [schemas, names, fields] = texts.as_slice() else {
            return None;
        };
        let parts = [schemas, names, fields].map(|array| array.as_string::<i32>());
        let [schemas, names, fields] = parts;
        for row in 0..batch.num_rows().min(schemas.len()) {
            tables.insert(names.value(row).to_owned());
            tables.insert(format!("{}.{}", schemas.value(row), names.value(row)));
            columns.insert(fields.value(row).to_owned());
        }
    }
    Some(Names::new(tables, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslash_commands_are_read_with_or_without_a_semicolon() {
        assert_eq!(parse("\\q;").unwrap(), Meta::Quit);
        assert_eq!(
            parse(" \\d  flights ; ").unwrap(),
            Meta::Sql("DESCRIBE flights".into())
        );
        assert_eq!(parse("\\dt").unwrap(), Meta::Sql("SHOW TABLES".into()));
        assert!(parse("\\nope").is_err());
        assert!(parse("\\q now").is_err());
    }
}
