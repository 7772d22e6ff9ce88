//! The file in which faults are noted as they happen.
//!
//! Invariant: a line is written at once and by one call, so that processes can share the file
//! and what one of them noted stays when it is killed.
//! Spec: docs/guide/faults.md.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path as FilePath;

use object_store::path::Path;

use super::kind::{Fault, Operation};
use crate::error::StoreError;
use crate::options::invalid;

#[derive(Debug)]
pub(super) struct Report {
    file: File,
}

impl Report {
    /// Opens the file for appending.
    ///
    /// # Errors
    /// [`StoreError::InvalidOption`] when it cannot be opened.
    pub(super) fn open(path: &FilePath) -> Result<Self, StoreError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        match file {
            Ok(file) => Ok(Self { file }),
            Err(error) => Err(invalid(
                "fault.report",
                format!("cannot be opened: {error}"),
            )),
        }
    }

    pub(super) fn note(&self, fault: Fault, operation: Operation, key: &Path) {
        let key: String = key
            .as_ref()
            .chars()
            .filter(|c| !c.is_control() && !matches!(c, '"' | '\\'))
            .collect();
        let line = format!(
            "{{\"fault\":\"{}\",\"operation\":\"{}\",\"key\":\"{key}\"}}\n",
            fault.name(),
            operation.name(),
        );
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            tracing::warn!(%error, "a fault could not be noted in the report");
        }
    }
}
