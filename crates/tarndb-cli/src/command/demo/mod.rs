//! `tarndb demo`: the database at work on real data, checked while it is shown.
//!
//! Invariant: everything printed was just done by this program on this machine; where
//! something does not come out as it must, the demo fails.

mod data;
mod steps;
mod writers;

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use tarndb::{Context, Database};

use super::{Output, Runner, options};
use crate::args::Meant;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::render::human_duration;

/// Runs the demonstration in a temporary folder, in `keep`, or where `--db` says.
pub(super) async fn run(
    meant: &Meant,
    keep: Option<&Path>,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let started = Context::system().monotonic();
    let data = data::find()?;
    let place = Place::new(meant, keep)?;
    let url = place.url();
    let database = Database::create_with(&url, &options(meant)).await?;
    let mut demo = Demo {
        runner: Runner::new(&database, interrupt)?,
        database: database.clone(),
        interrupt: interrupt.clone(),
        url: database.url().trim_end_matches('/').to_owned(),
        storage: meant.storage_options.clone(),
        data,
        output,
    };
    demo.say(&format!("A new database in {url}: no server."))?;
    let shown = demo.show().await;
    let Demo { runner, output, .. } = demo;
    let ended = runner.finish(shown).await;
    let closed = database.close().await;
    ended?;
    closed?;
    let time = human_duration(Context::system().monotonic().saturating_sub(started));
    output.line("")?;
    output.line(&format!("All of it was checked while it ran ({time})."))?;
    place.leave(output)
}

/// Where the database of the demonstration is.
enum Place {
    /// A folder that goes away again.
    Temporary(tempfile::TempDir),
    /// A folder or URL that the user named: the database stays.
    Named(String),
}

impl Place {
    fn new(meant: &Meant, keep: Option<&Path>) -> Result<Self, Failure> {
        match (&meant.db, keep) {
            (Some(_), Some(_)) => Err(Failure::usage(
                "the demo's database was named twice",
                "give --db URL or --keep DIR",
            )),
            (Some(url), None) => Ok(Self::Named(url.clone())),
            (None, Some(path)) => Ok(Self::Named(kept(path)?)),
            (None, None) => {
                let folder = tempfile::Builder::new().prefix("tarndb-demo-").tempdir();
                let folder =
                    folder.map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
                Ok(Self::Temporary(folder))
            }
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Temporary(folder) => folder.path().to_string_lossy().into_owned(),
            Self::Named(url) => url.clone(),
        }
    }

    fn leave(self, output: &mut Output) -> Result<(), Failure> {
        match self {
            Self::Temporary(folder) => {
                output.line("The folder was removed; demo --keep DIR leaves it.")?;
                let path = folder.path().to_owned();
                folder.close().map_err(|error| Failure::file(&path, &error))
            }
            Self::Named(url) => {
                output.line(&format!("The database is yours: tarndb --db {url} shell"))
            }
        }
    }
}

/// A folder for the database, which must be empty.
fn kept(path: &Path) -> Result<String, Failure> {
    if std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(
            Failure::usage("the folder is not empty", "name another folder")
                .at(path.display().to_string()),
        );
    }
    let failed = |error: std::io::Error| Failure::file(path, &error);
    std::fs::create_dir_all(path).map_err(failed)?;
    let path = path.canonicalize().map_err(failed)?;
    Ok(path.to_string_lossy().into_owned())
}

/// The demonstration in progress.
struct Demo<'a> {
    runner: Runner,
    database: Database,
    interrupt: Interrupt,
    /// Folder or URL of the database.
    url: String,
    /// Options of its store, for other processes.
    storage: BTreeMap<String, String>,
    data: data::Data,
    output: &'a mut Output,
}

impl Demo<'_> {
    fn heading(&mut self, text: &str) -> Result<(), Failure> {
        self.output.line("")?;
        self.output.line(&format!("== {text} =="))?;
        self.output.line("")
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.output.line(text)
    }

    /// Shows SQL text and runs it.
    async fn sql(&mut self, text: &str) -> Result<(), Failure> {
        self.echo(text)?;
        self.runner.run_script(text, None, self.output).await
    }

    fn echo(&mut self, text: &str) -> Result<(), Failure> {
        let mut prompt = "sql>";
        for line in text.lines() {
            self.output.line(&format!("{prompt} {line}"))?;
            prompt = "    ";
        }
        Ok(())
    }

    /// The numbers of the first row of a query, which is not shown.
    async fn numbers(&mut self, sql: &str) -> Result<Vec<i64>, Failure> {
        numbers(&mut self.runner.session, sql).await
    }

    /// Fails the demo unless `holds`.
    fn must(holds: bool, what: &str) -> Result<(), Failure> {
        if holds {
            Ok(())
        } else {
            Err(Failure::bug(format!("not as it must be: {what}")))
        }
    }

    /// Where a table lies, as a path or URL for `delta_scan`.
    async fn table_path(&self, table: &str) -> Result<String, Failure> {
        let snapshot = self.database.snapshot().await?;
        let entry = snapshot.catalog().find("main", table);
        let location = entry
            .map(|entry| entry.location.to_string())
            .unwrap_or_default();
        Ok(format!("{}/{location}", self.url))
    }
}

/// The numbers of the first row of a query.
async fn numbers(session: &mut tarndb::Session, sql: &str) -> Result<Vec<i64>, Failure> {
    let batches = session.query(sql).await?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0);
    let columns = first.map(|batch| batch.columns()).unwrap_or_default();
    columns
        .iter()
        .map(|column| {
            let column = cast(column, &DataType::Int64)
                .map_err(|error| Failure::bug(format!("not a number: {error}")))?;
            Ok(column.as_primitive::<Int64Type>().value(0))
        })
        .collect()
}

/// The values of one column (from 0) of a query, as texts.
async fn texts(
    session: &mut tarndb::Session,
    sql: &str,
    column: usize,
) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for batch in session.query(sql).await? {
        let Some(column) = batch.columns().get(column) else {
            continue;
        };
        for row in 0..batch.num_rows() {
            let text = arrow::util::display::array_value_to_string(column, row);
            found.push(text.map_err(|error| Failure::bug(error.to_string()))?);
        }
    }
    Ok(found)
}
