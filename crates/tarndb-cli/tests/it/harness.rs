//! Runs the binary and keeps what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a database in it.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) db: PathBuf,
}

/// What a run of the binary gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Fixture {
    /// A folder without a database.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("db");
        Self { folder, db }
    }

    /// A folder with a database.
    pub(crate) fn new() -> Self {
        let fixture = Self::empty();
        fixture.run(&["init"]).ok();
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, "")
    }

    #[track_caller]
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> Run {
        run_binary(&self.db, arguments, stdin)
    }

    #[track_caller]
    pub(crate) fn sql(&self, text: &str) -> Run {
        self.run(&["sql", text])
    }

    /// The only value of a query.
    #[track_caller]
    pub(crate) fn value(&self, text: &str) -> String {
        let run = self.run(&["--format", "csv", "sql", text]).ok();
        run.stdout.lines().nth(1).unwrap_or_default().to_owned()
    }

    /// A text with this run's folder replaced by `DIR`.
    pub(crate) fn tidy(&self, text: &str) -> String {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let canonical = self
            .folder
            .path()
            .canonicalize()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        text.replace(&canonical, "DIR").replace(&folder, "DIR")
    }
}

impl Run {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        assert!(self.stderr.starts_with("error: ") || self.stderr.contains("\nerror: "));
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "{part:?} is not in: {}",
                self.stderr
            );
        }
        self
    }
}

#[track_caller]
pub(crate) fn run_binary(db: &Path, arguments: &[&str], stdin: &str) -> Run {
    let mut child = binary(db)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The binary without what this process's environment would tell it.
pub(crate) fn binary(db: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarndb"));
    command
        .env_remove("TARNDB_DB")
        .env("TARNDB_HISTORY", "")
        .env("NO_COLOR", "1");
    command
        .env("TARNDB_DB", db)
        .args(["--storage-option", "durability=none"]);
    command
}
