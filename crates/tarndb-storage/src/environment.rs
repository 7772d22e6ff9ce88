//! What the process's environment says about clouds: variables, and where profiles are.
//!
//! Invariant: read once, at the edge, when a store is opened; nothing below asks the machine.
//! `Debug` shows names only, since values may be secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The variables that the clients of the clouds understand, and the home folder.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Values by name, as written (`AWS_REGION`).
    pub variables: BTreeMap<String, String>,
    /// Where `.aws` is.
    pub home: Option<PathBuf>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let prefixes = ["AWS_", "AZURE_", "GOOGLE_", "IDENTITY_ENDPOINT"];
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let known = prefixes.iter().any(|prefix| name.starts_with(prefix));
            // An empty variable is how a shell script unsets one.
            (known && !value.is_empty()).then_some((name, value))
        });
        Self {
            variables: variables.collect(),
            home: std::env::home_dir(),
        }
    }

    /// This environment with one variable more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}
