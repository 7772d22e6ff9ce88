//! One line of JSON per measurement, and the numbers in it.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::error::BenchError;

/// A measurement's line: what was asked for, then what was seen.
#[derive(Clone, Debug, Default)]
pub struct Report {
    values: Map<String, Value>,
}

impl Report {
    /// An empty line of the measurement `name`.
    pub fn new(name: &str) -> Self {
        Self::default().with("bench", name)
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.values.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the middle and the tail of durations, in milliseconds.
    #[must_use]
    pub fn with_latencies(self, mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let at = |percent: usize| {
            let last = durations.len().saturating_sub(1);
            let index = (durations.len() * percent / 100).min(last);
            durations.get(index).copied().unwrap_or_default()
        };
        let ms = |duration: Duration| rounded(duration.as_secs_f64() * 1e3);
        let (p50, p99, max) = (ms(at(50)), ms(at(99)), ms(at(100)));
        self.with("p50_ms", p50)
            .with("p99_ms", p99)
            .with("max_ms", max)
    }

    /// A value by its key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Prints the line.
    ///
    /// # Errors
    /// Nobody takes it.
    pub fn print(&self) -> Result<(), BenchError> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!(self.values))?;
        Ok(out.flush()?)
    }
}

/// `count` per second.
pub fn per_second(count: u64, time: Duration) -> f64 {
    rounded(count as f64 / time.as_secs_f64().max(1e-9))
}

/// `part` of `whole`.
pub fn ratio(part: u64, whole: u64) -> f64 {
    rounded(part as f64 / whole.max(1) as f64)
}

/// Four significant digits, so that lines stay readable.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits.max(0));
    (value * scale).round() / scale
}
