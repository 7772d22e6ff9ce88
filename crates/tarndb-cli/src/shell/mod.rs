//! `tarndb shell`: a prompt for SQL, and the same language from a pipe.
//!
//! Invariant: at a prompt an error ends the statement and not the shell; from a pipe it ends
//! the shell as it ends `tarndb sql`. A transaction that is open at the end is rolled back.

mod complete;
mod editor;
mod meta;

use std::io::IsTerminal;

use tarndb::{Database, Session};

use crate::command::{Output, Runner, read_stdin};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use editor::{Editor, Line};
use meta::{Meta, Next};

/// Runs the shell until its input ends.
pub(crate) async fn run(
    database: &Database,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut shell = Shell {
        runner: Runner::new(database, interrupt)?,
        name: database_name(database.url()),
    };
    let result = if std::io::stdin().is_terminal() {
        shell.converse(database, output).await
    } else {
        let text = read_stdin(interrupt).await;
        match text {
            Ok(text) => shell.follow(&text, output).await,
            Err(failure) => Err(failure),
        }
    };
    shell.runner.finish(result).await
}

struct Shell {
    runner: Runner,
    /// The last part of the database's URL.
    name: String,
}

impl Shell {
    /// Talks with a person.
    async fn converse(&mut self, database: &Database, output: &mut Output) -> Result<(), Failure> {
        let mut editor = Editor::new()?;
        output.line(&format!(
            "tarndb {} on {}",
            env!("CARGO_PKG_VERSION"),
            database.url()
        ))?;
        output.line("Statements end with ';'. \\? lists the commands, \\q leaves.")?;
        let mut text = String::new();
        loop {
            if text.is_empty() {
                editor.suggest(meta::names(&mut self.runner.session).await);
            }
            let line = tokio::task::block_in_place(|| editor.read(&self.prompt(&text)))?;
            self.runner.interrupt.forget();
            output.begin();
            match line {
                Line::Text(line) if text.is_empty() && line.trim_start().starts_with('\\') => {
                    editor.remember(&line);
                    match self.command(&line, output).await {
                        Ok(Next::Leave) => return Ok(()),
                        Ok(Next::Stay) => {}
                        Err(failure) => tell(failure)?,
                    }
                }
                Line::Text(line) => {
                    text.push_str(&line);
                    text.push('\n');
                    if Session::is_incomplete(&text) {
                        continue;
                    }
                    let script = std::mem::take(&mut text);
                    if script.trim().is_empty() {
                        continue;
                    }
                    editor.remember(script.trim_end());
                    if let Err(failure) = self.run(&script, output).await {
                        tell(failure)?;
                    }
                }
                Line::Abandoned => text.clear(),
                Line::End => return Ok(()),
            }
        }
    }

    /// Runs what came from a pipe: lines that start with a backslash, and statements.
    async fn follow(&mut self, input: &str, output: &mut Output) -> Result<(), Failure> {
        let mut text = String::new();
        for line in input.lines() {
            if text.trim().is_empty() && line.trim_start().starts_with('\\') {
                match self.command(line, output).await? {
                    Next::Leave => return Ok(()),
                    Next::Stay => continue,
                }
            }
            text.push_str(line);
            text.push('\n');
            if !Session::is_incomplete(&text) {
                self.runner
                    .run_script(&std::mem::take(&mut text), None, output)
                    .await?;
            }
        }
        self.runner.run_script(&text, None, output).await
    }

    /// Runs statements typed at the prompt; Ctrl-C rolls an open transaction back.
    async fn run(&mut self, script: &str, output: &mut Output) -> Result<(), Failure> {
        match self.runner.run_script(script, None, output).await {
            Err(failure) if failure.is_interrupt() => match self.runner.roll_back().await? {
                true => Err(failure.rolled_back()),
                false => Err(failure),
            },
            other => other,
        }
    }

    async fn command(&mut self, line: &str, output: &mut Output) -> Result<Next, Failure> {
        match meta::parse(line)? {
            Meta::Quit => Ok(Next::Leave),
            Meta::Help => {
                meta::HELP.lines().try_for_each(|line| output.line(line))?;
                Ok(Next::Stay)
            }
            Meta::Timing => {
                self.runner.timing = !self.runner.timing;
                let state = if self.runner.timing { "on" } else { "off" };
                output.line(&format!("timing is {state}"))?;
                Ok(Next::Stay)
            }
            Meta::Sql(text) => self.run(&text, output).await.map(|()| Next::Stay),
        }
    }

    fn prompt(&self, text: &str) -> String {
        let session = &self.runner.session;
        let mark = match (session.is_failed(), session.in_transaction()) {
            (true, _) => "!",
            (false, true) => "*",
            (false, false) => "",
        };
        let sign = if text.is_empty() { "=>" } else { "->" };
        format!("{}{mark}{sign} ", self.name)
    }
}

/// Prints a failure and goes on, unless nobody can read what follows.
fn tell(failure: Failure) -> Result<(), Failure> {
    if failure.is_silent() {
        return Err(failure);
    }
    crate::report(&failure);
    Ok(())
}

fn database_name(url: &str) -> String {
    let path = url.trim_end_matches('/');
    path.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or("tarndb")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_names_the_last_part_of_the_url() {
        for (url, expected) in [
            ("/tmp/shop", "shop"),
            ("s3://bucket/a/flights/", "flights"),
            ("memory://", "memory:"),
            ("/", "tarndb"),
        ] {
            assert_eq!(database_name(url), expected, "{url}");
        }
    }
}
