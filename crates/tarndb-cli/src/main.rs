//! The binary `tarndb`: SQL, import, inspection and maintenance of a database.
//!
//! Invariant: every way out is an exit code of docs/guide/cli.md and at most a few lines on
//! stderr; no panic and no backtrace reaches the user.
//! Does not: know anything about the database that the crate `tarndb` does not offer.

mod args;
mod command;
mod failure;
mod interrupt;
mod logging;
mod memory;
mod progress;
mod render;
mod shell;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use failure::{Failure, code};

/// Query plans are deep: the engine's own recursion guard needs room below it.
const STACK_BYTES: usize = 16 << 20;

/// How long the end waits for what runs in the background.
const SHUTDOWN_MAX: std::time::Duration = std::time::Duration::from_secs(2);

fn main() -> ExitCode {
    memory::bound_allocator();
    std::panic::set_hook(Box::new(report_bug));
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(run);
    let outcome = match thread {
        Ok(thread) => thread.join(),
        Err(error) => Ok(Err(Failure::file(Path::new("a thread"), &error))),
    };
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            report(&failure);
            failure.exit_code()
        }
        // The hook has said what there is to say.
        Err(_) => ExitCode::from(code::BUG),
    }
}

fn run() -> Result<(), Failure> {
    let meant = args::parse()?;
    logging::start(&meant.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Failure::file(Path::new("the async runtime"), &error))?;
    let result = runtime.block_on(command::run(meant));
    // Waits, so that the threads are joined: detaching one that ends at that moment reads freed
    // memory in the C library (seen in glibc 2.36). What still blocks then (a read of standard
    // input) must not hold up the end.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    result
}

/// Prints a failure on stderr.
pub(crate) fn report(failure: &Failure) {
    if !failure.is_silent() {
        // There is nobody left to tell when stderr is gone.
        let _ = writeln!(std::io::stderr(), "{failure}");
    }
}

/// Says that a panic is a bug, in place of a backtrace.
fn report_bug(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown".to_owned());
    let place = panic
        .location()
        .map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
    let what = what.lines().next().unwrap_or("");
    let _ = writeln!(
        std::io::stderr(),
        "error: this is a bug in tarndb: {what}\n   at: {place}\n help: please report it with \
         the command that led here; nothing uncommitted was made visible"
    );
}
