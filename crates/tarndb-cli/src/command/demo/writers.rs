//! Writers in processes of their own, all at once.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::Failure;

/// Starts one process for each script, waits for all, and fails when one of them failed.
///
/// The scripts are handed over only after every process runs, so that they start together.
pub(super) fn run_all(
    url: &str,
    storage: &BTreeMap<String, String>,
    scripts: &[String],
) -> Result<(), Failure> {
    let binary = std::env::current_exe()
        .map_err(|error| Failure::file(Path::new("this program's own file"), &error))?;
    let failed = |error: std::io::Error| Failure::file(&binary, &error);
    let mut processes = Vec::new();
    for _ in scripts {
        processes.push(start(&binary, url, storage).map_err(failed)?);
    }
    for (process, script) in processes.iter_mut().zip(scripts) {
        // Closing the pipe ends the script.
        if let Some(mut stdin) = process.stdin.take() {
            stdin.write_all(script.as_bytes()).map_err(failed)?;
        }
    }
    let mut failures = Vec::new();
    for process in processes {
        let id = process.id();
        let result = process.wait_with_output().map_err(failed)?;
        if !result.status.success() {
            let said = String::from_utf8_lossy(&result.stderr).into_owned();
            failures.push(format!("process {id} ended with {}: {said}", result.status));
        }
    }
    match failures.first() {
        Some(first) => Err(Failure::bug(format!("a writer failed: {first}"))),
        None => Ok(()),
    }
}

fn start(binary: &Path, url: &str, storage: &BTreeMap<String, String>) -> std::io::Result<Child> {
    let options = storage
        .iter()
        .map(|(key, value)| format!("--storage-option={key}={value}"));
    Command::new(binary)
        .args(["--db", url])
        .args(options)
        .args(["sql", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}
