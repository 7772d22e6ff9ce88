//! Progress of long work, drawn on stderr when it is a terminal.
//!
//! Invariant: draws nothing elsewhere, so that logs and pipes hold no control characters.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, or nothing where nobody watches.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over bytes, with a text in front.
    pub(crate) fn bytes(label: &str) -> Self {
        let template = "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {elapsed}";
        Self::new(label, template)
    }

    /// A bar over steps.
    pub(crate) fn steps(label: &str) -> Self {
        Self::new(label, "{msg} [{bar:30}] {pos}/{len} {elapsed}")
    }

    fn new(label: &str, template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
            };
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Moves to `done` of `total`, when the total is known.
    pub(crate) fn set(&self, done: u64, total: Option<u64>) {
        self.bar.set_length(total.unwrap_or(done));
        self.bar.set_position(done);
    }

    /// Changes the text in front.
    pub(crate) fn label(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
