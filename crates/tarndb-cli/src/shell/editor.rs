//! The line editor: keys, history, completion.
//!
//! Invariant: a history that cannot be read or written is no reason to stop.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config};

use super::complete::Names;
use crate::failure::Failure;

const HISTORY_LINES: usize = 2000;

/// What was typed.
pub(super) enum Line {
    Text(String),
    /// Ctrl-C: what was typed so far is dropped.
    Abandoned,
    /// Ctrl-D.
    End,
}

pub(super) struct Editor {
    editor: rustyline::Editor<Names, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    pub(super) fn new() -> Result<Self, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failure)?
            .history_ignore_space(true)
            .build();
        let mut editor = rustyline::Editor::with_config(config).map_err(failure)?;
        let history = history_path();
        if let Some(path) = &history {
            // Absent the first time.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    pub(super) fn read(&mut self, prompt: &str) -> Result<Line, Failure> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Abandoned),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(failure(error)),
        }
    }

    /// Keeps `text` in the history, as one entry, also for later shells.
    pub(super) fn remember(&mut self, text: &str) {
        let added = self.editor.add_history_entry(text).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| added) {
            let _ = self.editor.append_history(path);
        }
    }

    /// Sets what Tab suggests; `None` leaves it.
    pub(super) fn suggest(&mut self, names: Option<Names>) {
        if let Some(names) = names {
            self.editor.set_helper(Some(names));
        }
    }
}

fn history_path() -> Option<PathBuf> {
    match std::env::var_os("TARNDB_HISTORY") {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        None => std::env::home_dir().map(|home| home.join(".tarndb_history")),
    }
}

fn failure(error: ReadlineError) -> Failure {
    let error = match error {
        ReadlineError::Io(error) => error,
        other => std::io::Error::other(other),
    };
    Failure::file(std::path::Path::new("the terminal"), &error)
}
