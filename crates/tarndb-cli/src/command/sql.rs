//! `tarndb sql`, and the running of statements for the shell.
//!
//! Invariant: statements run in order until the first that fails; a transaction that is open
//! at the end, after an error or after Ctrl-C is rolled back, and the exit code is not 0.

use std::io::{IsTerminal, Read, Write};

use futures::StreamExt;
use tarndb::{Context, Database, Outcome, ParsedStatement, Session, TxnRef};

use super::Output;
use crate::args::SqlSource;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupted};
use crate::render::human_duration;

/// Runs the statements of `source`.
pub(super) async fn run(
    source: &SqlSource,
    database: &Database,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let (text, origin) = read(source, interrupt).await?;
    let mut runner = Runner::new(database, interrupt)?;
    let result = runner.run_script(&text, origin.as_deref(), output).await;
    runner.finish(result).await
}

async fn read(
    source: &SqlSource,
    interrupt: &Interrupt,
) -> Result<(String, Option<String>), Failure> {
    match source {
        SqlSource::Text(text) => Ok((text.clone(), None)),
        SqlSource::File(path) => match std::fs::read_to_string(path) {
            Ok(text) => Ok((text, Some(path.display().to_string()))),
            Err(error) => Err(Failure::file(path, &error)),
        },
        SqlSource::Stdin => Ok((read_stdin(interrupt).await?, Some("standard input".into()))),
    }
}

/// All of standard input; Ctrl-C ends the wait.
pub(crate) async fn read_stdin(interrupt: &Interrupt) -> Result<String, Failure> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    });
    let stdin = std::path::Path::new("standard input");
    match interrupt.guard(reading).await {
        Ok(Ok(Ok(text))) => Ok(text),
        Ok(Ok(Err(error))) => Err(Failure::file(stdin, &error)),
        Ok(Err(error)) => Err(Failure::file(stdin, &error.into())),
        Err(Interrupted) => Err(Failure::interrupted(false)),
    }
}

/// Runs statements in one session and writes what they give.
pub(crate) struct Runner {
    pub(crate) session: Session,
    pub(crate) interrupt: Interrupt,
    /// Whether the time of each statement is told.
    pub(crate) timing: bool,
}

impl Runner {
    /// A runner with a new session.
    pub(crate) fn new(database: &Database, interrupt: &Interrupt) -> Result<Self, Failure> {
        Ok(Self {
            session: database.session()?,
            interrupt: interrupt.clone(),
            timing: false,
        })
    }

    /// Runs every statement of `text`; `origin` is the file's name for messages.
    pub(crate) async fn run_script(
        &mut self,
        text: &str,
        origin: Option<&str>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let statements = match Session::parse(text) {
            Ok(statements) => statements,
            Err(error) => {
                if self.session.in_transaction() {
                    // The session itself must see the error, so that it fails the transaction.
                    let _ = self.session.run(text).await;
                }
                return Err(Failure::of_statement(&error, text, origin));
            }
        };
        for statement in &statements {
            self.run_statement(statement, output)
                .await
                .map_err(|failure| failure.in_script(statement, text, origin))?;
        }
        Ok(())
    }

    async fn run_statement(
        &mut self,
        statement: &ParsedStatement,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let interrupt = self.interrupt.clone();
        let started = clock().monotonic();
        let before = (self.session.in_transaction(), self.session.transaction());
        let result = interrupt
            .guard(async {
                match self.session.execute(statement).await? {
                    Outcome::Rows { schema, mut stream } => {
                        let mut rows = output.rows(schema)?;
                        while let Some(batch) = stream.next().await {
                            rows.batch(&batch?)?;
                        }
                        rows.finish()
                    }
                    Outcome::Count { tag, rows } => output.line(&format!("{tag} {rows}")),
                    Outcome::Done { tag } => output.line(tag),
                }
            })
            .await;
        self.tell_notices();
        if self.timing {
            let time = clock().monotonic().saturating_sub(started);
            output.line(&format!("time: {}", human_duration(time)))?;
        }
        let result = result.unwrap_or_else(|Interrupted| Err(self.interrupted(before)));
        // The rows are read after the statement: the session does not see their errors.
        result.inspect_err(|_| self.session.fail())
    }

    /// The failure of a cancelled statement. When its commit may have been under way already,
    /// it says how to find out.
    fn interrupted(&self, before: (bool, Option<TxnRef>)) -> Failure {
        let failure = Failure::interrupted(false);
        let now = (self.session.in_transaction(), self.session.transaction());
        match now.1 {
            Some(txn) if !now.0 && now != before => failure
                .at(format!(
                    "transaction {txn}, whose commit may have been under way"
                ))
                .advise(format!("tarndb txn {txn} tells whether it committed")),
            _ => failure,
        }
    }

    /// Prints what is worth saying about the last statement.
    pub(crate) fn tell_notices(&mut self) {
        let mut stderr = std::io::stderr();
        let (start, end) = if stderr.is_terminal() {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        for notice in self.session.take_notices() {
            let _ = writeln!(stderr, "{start}notice: {notice}{end}");
        }
    }

    /// Rolls an open transaction back; true when there was one.
    pub(crate) async fn roll_back(&mut self) -> Result<bool, Failure> {
        let open = self.session.in_transaction();
        if open {
            self.session.run("ROLLBACK").await?;
        }
        Ok(open)
    }

    /// Ends the session after its last statement had `result`.
    pub(crate) async fn finish(mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        let rolled_back = self.roll_back().await;
        let closed = self.session.close().await;
        match (result, rolled_back) {
            (Err(failure), Ok(true)) => Err(failure.rolled_back()),
            (Err(failure), _) => Err(failure),
            (Ok(()), Ok(true)) => Err(Failure::open_transaction()),
            (Ok(()), Err(failure)) => Err(failure),
            (Ok(()), Ok(false)) => Ok(closed?),
        }
    }
}

fn clock() -> Context {
    Context::system()
}
