//! What a session may use: memory, threads, a folder to spill to, time for a statement.
//!
//! Invariant: a limit that is set holds from the next statement on; rows of earlier ones that
//! are still being read keep the memory that they were given.
//! Spec: docs/guide/sql.md, "Resources".

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;

use crate::engine::Engine;
use crate::error::{SqlError, translate::translate};
use crate::name::Spelling;
use crate::options::SessionOptions;

/// The share of the machine's memory that a process takes by default.
const DEFAULT_SHARE: (u64, u64) = (3, 5);

/// The memory pool of a session.
pub(crate) fn pool(options: &SessionOptions) -> Arc<dyn MemoryPool> {
    match options.pool_bytes() {
        None => Arc::new(UnboundedMemoryPool::default()),
        Some(bytes) => {
            let top = std::num::NonZeroUsize::MIN.saturating_add(2);
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), top))
        }
    }
}

/// Gives the engine the memory, folder and threads of the options.
pub(crate) fn apply(engine: &Engine, options: &SessionOptions) -> Result<(), SqlError> {
    let state = engine.context.state_ref();
    let mut state = state.write();
    let mode = match &options.temp_dir {
        Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(pool(options))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build()
        .map_err(|error| translate(error, &Spelling::default()))?;
    let mut changed = SessionStateBuilder::from(state.clone())
        .with_runtime_env(Arc::new(runtime))
        .build();
    crate::engine::limit(changed.config_mut(), options);
    *state = changed;
    Ok(())
}

/// A number of bytes as people write it: `512MB`, `2GiB`, `1048576`; `None` for `none` and 0.
pub(crate) fn bytes(text: &str) -> Result<Option<usize>, String> {
    let text = text.trim();
    if is_none(text) {
        return Ok(None);
    }
    let (number, unit) = split(text);
    let factor = match unit.to_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1_u64 << 30,
        _ => return Err("takes a size such as 512MB or 2GiB, or 'none'".to_owned()),
    };
    let value = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    let value = value.and_then(|value| usize::try_from(value).ok());
    value
        .map(Some)
        .ok_or_else(|| "takes a size such as 512MB or 2GiB, or 'none'".to_owned())
}

/// A time as people write it: `30s`, `500ms`, `2min`; a bare number is milliseconds, as in
/// PostgreSQL. `None` for `none` and 0.
pub(crate) fn duration(text: &str) -> Result<Option<Duration>, String> {
    let text = text.trim();
    if is_none(text) {
        return Ok(None);
    }
    let refused = || "takes a time such as 30s, 500ms or 2min, or 'none'".to_owned();
    let (number, unit) = split(text);
    let factor_ms = match unit.to_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(refused()),
    };
    let ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor_ms));
    ms.map(|ms| Some(Duration::from_millis(ms)))
        .ok_or_else(refused)
}

fn is_none(text: &str) -> bool {
    text.eq_ignore_ascii_case("none") || text.chars().all(|digit| digit == '0')
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim())
}

/// A folder that statements spill to.
pub(crate) fn folder(text: &str) -> Result<Option<PathBuf>, String> {
    let text = text.trim();
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let path = PathBuf::from(text);
    match path.is_dir() {
        true => Ok(Some(path)),
        false => Err("takes a folder that is there, or 'none'".to_owned()),
    }
}

/// The memory that the sessions of a process should use when nobody says: three fifths of what
/// the machine, or the control group that the process is in, has. `None` where nothing tells.
#[must_use]
pub fn default_memory_limit() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().ok();
    let machine = machine_bytes(&read("/proc/meminfo"));
    let all: u64 = match (group, machine) {
        (Some(group), Some(machine)) => std::cmp::min(group, machine),
        (group, machine) => group.or(machine)?,
    };
    let (numerator, denominator) = DEFAULT_SHARE;
    usize::try_from(all / denominator * numerator).ok()
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim();
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(bytes("512MB"), Ok(Some(512_000_000)));
        assert_eq!(bytes(" 2 GiB "), Ok(Some(2 << 30)));
        assert_eq!(bytes("65536"), Ok(Some(65_536)));
        for none in ["none", "0", "NONE"] {
            assert_eq!(bytes(none), Ok(None));
            assert_eq!(duration(none), Ok(None));
        }
        for wrong in ["", "MB", "-1", "1.5GB", "5 parsecs", "99999999999999999999"] {
            assert!(wrong.is_empty() || bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("250"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(duration("30s"), Ok(Some(Duration::from_secs(30))));
        assert_eq!(duration("2min"), Ok(Some(Duration::from_secs(120))));
        assert!(duration("2 fortnights").is_err());
        assert!(duration("s").is_err());
    }

    #[test]
    fn the_memory_of_a_machine_is_found_in_what_it_tells() {
        let told = "MemTotal:       16265016 kB\nMemFree:         1 kB\n";
        assert_eq!(machine_bytes(told), Some(16_265_016 * 1024));
        for nothing in ["", "MemTotal: x kB", "MemTotal: 18446744073709551615 kB"] {
            assert_eq!(machine_bytes(nothing), None);
        }
    }
}
