//! What is logged, to stderr, line by line as it happens.
//!
//! Invariant: one event is one write, so that lines of several processes do not mix and a
//! killed process has told all that it did. An event of the target `tarndb::step` is printed
//! as `step <name> key=value ..`, without time or level, for programs that follow the steps.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::args::LogChoice;
use crate::failure::Failure;

const STEP_TARGET: &str = "tarndb::step";

/// Starts logging as chosen.
pub(crate) fn start(choice: &LogChoice) -> Result<(), Failure> {
    let text = match choice {
        LogChoice::Steps => "off,tarndb::step=trace",
        LogChoice::Filter(text) => text,
    };
    let filter = EnvFilter::builder().parse(text).map_err(|error| {
        Failure::usage(
            format!("not a log level: {text:?}: {error}"),
            "give off, error, warn, info, debug, trace, step, or a filter such as tarndb_db=debug",
        )
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .event_format(LineFormat)
        .init();
    Ok(())
}

struct LineFormat;

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        if metadata.target() == STEP_TARGET {
            stop_at(&fields.message);
            writeln!(writer, "step {}{}", fields.message, fields.others)
        } else {
            let level = metadata.level().as_str().to_ascii_lowercase();
            let target = metadata.target();
            writeln!(
                writer,
                "{level}: {}{} ({target})",
                fields.message, fields.others
            )
        }
    }
}

/// Stops this process, as SIGSTOP does, at the step that `TARNDB_TEST_STOP_AT` names
/// (`<step>` or `<step>:<n>`, the n-th time), for tests of paused processes. Only in debug builds
/// and with `--log step`.
fn stop_at(step: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    if !cfg!(debug_assertions) {
        return;
    }
    let Ok(wanted) = std::env::var("TARNDB_TEST_STOP_AT") else {
        return;
    };
    let (name, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if name == step && SEEN.fetch_add(1, Ordering::SeqCst) + 1 == nth.parse().unwrap_or(1) {
        let stop = rustix::process::Signal::STOP;
        // A process that cannot be stopped goes on, and its test fails.
        let _ = rustix::process::kill_process(rustix::process::getpid(), stop);
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => {
                let text: String = value.chars().filter(|c| !c.is_control()).collect();
                self.others.push_str(&format!(" {name}={text}"));
            }
        }
    }
}
