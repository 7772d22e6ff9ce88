//! The commands.
//!
//! Invariant: a command that opened a database closes it, also after a failure, so that what
//! is committed is also published.

mod demo;
mod import;
mod inspect;
mod listing;
mod maintain;
mod optimize;
mod sql;
mod vacuum;

pub(crate) use sql::{Runner, read_stdin};

use std::io::{BufWriter, IsTerminal, Stdout, Write};

use tarndb::{Database, ErrorKind, Options};

use crate::args::{Action, Meant};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::render::Renderer;
use crate::shell;

/// Results go here.
pub(crate) type Output = Renderer<BufWriter<Stdout>>;

/// Runs the command.
pub(crate) async fn run(meant: Meant) -> Result<(), Failure> {
    let mut output = output(&meant);
    let interrupt = Interrupt::watch();
    if let Action::Demo { keep } = &meant.action {
        let shown = demo::run(&meant, keep.as_deref(), &interrupt, &mut output);
        return interrupt
            .guard(shown)
            .await
            .map_err(|_| Failure::interrupted(false))?;
    }
    let url = meant.db.as_deref().unwrap_or_default();
    let options = options(&meant);
    let opened = interrupt.guard(async {
        match meant.action {
            Action::Init => Database::create_with(url, &options).await,
            _ => Database::open_with(url, &options).await,
        }
    });
    let database = match opened.await.map_err(|_| Failure::interrupted(false))? {
        Err(error)
            if error.kind() == ErrorKind::Corrupt
                && matches!(meant.action, Action::Check { .. }) =>
        {
            let checked = inspect::check_log(url, &options, error, &mut output);
            return interrupt
                .guard(checked)
                .await
                .map_err(|_| Failure::interrupted(false))?;
        }
        opened => opened?,
    };
    let result = dispatch(&meant, &database, &interrupt, &mut output).await;
    let closed = interrupt.after_cancelling().guard(database.close()).await;
    if meant.print_requests {
        let _ = writeln!(std::io::stderr(), "requests: {}", database.requests());
    }
    result?;
    match closed {
        Ok(closed) => closed.map_err(Failure::from),
        Err(_) => Err(Failure::interrupted(false)),
    }
}

async fn dispatch(
    meant: &Meant,
    database: &Database,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let cancelled = |_| Failure::interrupted(false);
    match &meant.action {
        Action::Init => maintain::report_created(database, output),
        Action::Sql(source) => sql::run(source, database, interrupt, output).await,
        Action::Shell => shell::run(database, interrupt, output).await,
        Action::Import(plan) => import::run(plan, database, interrupt, output).await,
        Action::Log { limit } => interrupt
            .guard(inspect::log(database, *limit, output))
            .await
            .map_err(cancelled)?,
        Action::Status { probe } => interrupt
            .guard(inspect::status(database, *probe, output))
            .await
            .map_err(cancelled)?,
        Action::Txn { reference } => interrupt
            .guard(inspect::txn(database, reference, output))
            .await
            .map_err(cancelled)?,
        Action::Check { deep } => interrupt
            .guard(inspect::check(database, *deep, output))
            .await
            .map_err(cancelled)?,
        Action::Publish => interrupt
            .guard(maintain::publish(database, output))
            .await
            .map_err(cancelled)?,
        Action::Checkpoint => interrupt
            .guard(maintain::checkpoint(database, output))
            .await
            .map_err(cancelled)?,
        Action::Optimize(plan) => interrupt
            .guard(optimize::run(plan, database, output))
            .await
            .map_err(cancelled)?,
        Action::Vacuum(plan) => interrupt
            .guard(vacuum::vacuum(plan, database, output))
            .await
            .map_err(cancelled)?,
        Action::Cleanup(plan) => interrupt
            .guard(vacuum::cleanup(plan, database, output))
            .await
            .map_err(cancelled)?,
        // Handled before a database was opened.
        Action::Demo { .. } => Ok(()),
    }
}

/// The options of the database handle that the command line asks for.
pub(crate) fn options(meant: &Meant) -> Options {
    Options {
        storage: meant.storage_options.clone(),
        memory_limit_bytes: meant.memory_limit_bytes,
        temp_dir: meant.temp_dir.clone(),
        threads: meant.threads,
        upkeep: meant.upkeep,
        txn_id: meant.txn_id,
        head_expiry: head_expiry(),
        ..Options::default()
    }
}

/// What tests of paused processes make of the 15 minutes; nothing in a release build.
fn head_expiry() -> Option<std::time::Duration> {
    let text = std::env::var("TARNDB_TEST_HEAD_EXPIRY_MS").ok();
    let ms = text.filter(|_| cfg!(debug_assertions))?.parse().ok()?;
    Some(std::time::Duration::from_millis(ms))
}

fn output(meant: &Meant) -> Output {
    let stdout = std::io::stdout();
    let styled = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Renderer::new(
        BufWriter::with_capacity(64 << 10, stdout),
        meant.format,
        styled,
    )
}
