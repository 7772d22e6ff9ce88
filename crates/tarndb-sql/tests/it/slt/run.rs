//! Runs the records of a file over one fresh database.
//!
//! A connection is a session of its own; one whose name has a stroke (`two/a`) belongs to
//! another process, which has a handle of its own on the same store.

use std::collections::BTreeMap;

use tarndb_db::Database;
use tarndb_sql::{Outcome, Session, SqlError};

use super::render::{Form, lines, values};
use super::script::{Expect, Record, Sort};
use crate::support::{chain, database, reopened, session};

/// How one record went.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// As it should.
    Passed,
    /// It failed, with this error.
    Error {
        state: &'static str,
        message: String,
    },
    /// It did not fail, but should.
    NoError,
    /// It gave something else.
    Other(String),
}

/// A database and the sessions of its file.
pub(crate) struct Runner {
    form: Form,
    processes: BTreeMap<String, Database>,
    sessions: BTreeMap<String, Session>,
}

enum Answer {
    Rows(Vec<Vec<String>>, usize),
    Count(u64),
    Done,
}

impl Runner {
    pub(crate) async fn new(form: Form) -> Self {
        let processes = BTreeMap::from([(String::new(), database().await)]);
        let sessions = BTreeMap::new();
        Self {
            form,
            processes,
            sessions,
        }
    }

    async fn session(&mut self, connection: &str) -> &mut Session {
        let process = connection
            .split_once('/')
            .map_or("", |(process, _)| process);
        if !self.processes.contains_key(process) {
            let db = reopened(self.processes.get("").unwrap()).await;
            self.processes.insert(process.to_owned(), db);
        }
        let db = self.processes.get(process).unwrap();
        self.sessions
            .entry(connection.to_owned())
            .or_insert_with(|| session(db))
    }

    async fn ask(&mut self, record: &Record) -> Result<Answer, SqlError> {
        let form = self.form;
        let session = self.session(&record.connection).await;
        match session.sql(&record.sql).await? {
            Outcome::Rows { schema, stream } => {
                let columns = schema.fields().len();
                let outcome = Outcome::Rows { schema, stream };
                let batches = outcome.collect().await.inspect_err(|_| session.fail())?;
                Ok(Answer::Rows(values(&batches, form), columns))
            }
            Outcome::Count { rows, .. } => Ok(Answer::Count(rows)),
            Outcome::Done { .. } => Ok(Answer::Done),
        }
    }

    /// Runs one record.
    pub(crate) async fn run(&mut self, record: &Record) -> Verdict {
        let answer = self.ask(record).await;
        match (&record.expect, answer) {
            (Expect::Error(wanted), Err(error)) => {
                let hint = error.hint().unwrap_or_default();
                let told = format!("{} {} {hint}", error.sqlstate(), chain(&error));
                let (state, part) = wanted.split_once(' ').unwrap_or((wanted, ""));
                let right = told.starts_with(state) && told.contains(part.trim());
                match self.form {
                    // Messages of the engine's files are the engine's.
                    Form::Rounded => Verdict::Passed,
                    Form::Exact if right => Verdict::Passed,
                    Form::Exact => Verdict::Other(told),
                }
            }
            (_, Err(error)) => Verdict::Error {
                state: error.sqlstate(),
                message: chain(&error),
            },
            (Expect::Error(_), Ok(_)) => Verdict::NoError,
            (Expect::Ok, Ok(_)) => Verdict::Passed,
            (Expect::Count(wanted), Ok(Answer::Count(count))) if *wanted == count => {
                Verdict::Passed
            }
            (Expect::Count(_), Ok(Answer::Count(count))) => Verdict::Other(count.to_string()),
            // Without rows there is nothing to count.
            (Expect::Count(0), Ok(Answer::Done)) => Verdict::Passed,
            (Expect::Count(_), Ok(_)) => Verdict::Other("no count".to_owned()),
            (Expect::Rows { types, sort, rows }, Ok(answer)) => {
                let (found, columns) = match answer {
                    Answer::Rows(found, columns) => (found, columns),
                    Answer::Count(count) => (vec![vec![count.to_string()]], 1),
                    Answer::Done => (Vec::new(), types.len()),
                };
                compare(types, *sort, rows, &found, columns)
            }
        }
    }
}

fn compare(
    types: &str,
    sort: Sort,
    wanted: &[String],
    found: &[Vec<String>],
    columns: usize,
) -> Verdict {
    if types.len() != columns {
        return Verdict::Other(format!("{columns} columns"));
    }
    let wanted = wanted.iter().map(|line| vec![line.clone()]);
    let wanted = lines(&wanted.collect::<Vec<_>>(), sort);
    let found = lines(found, sort);
    if wanted == found {
        Verdict::Passed
    } else {
        Verdict::Other(found.join("\n"))
    }
}
