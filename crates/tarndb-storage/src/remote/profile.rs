//! Profiles of the AWS tools: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Invariant: only what the files say; a profile that was named and is not there, or that gets
//! its credentials in a way that is not known here, is an error and never skipped.
//! Does not: run programs, sign in, or assume roles.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::environment::Environment;
use crate::error::StoreError;
use crate::options::invalid;

/// Ways to credentials that are not supported, by the keys that ask for them.
const UNSUPPORTED: [&str; 5] = [
    "credential_process",
    "sso_session",
    "sso_start_url",
    "role_arn",
    "credential_source",
];

/// What a profile says.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    values: BTreeMap<String, String>,
}

impl Profile {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Access key, secret and token, when it has them.
    ///
    /// # Errors
    /// It gets them in a way that is not supported.
    pub(super) fn credentials(
        &self,
        name: &str,
    ) -> Result<Option<[(&'static str, &str); 3]>, StoreError> {
        if let (Some(id), Some(secret)) = (
            self.get("aws_access_key_id"),
            self.get("aws_secret_access_key"),
        ) {
            return Ok(Some([
                ("aws_access_key_id", id),
                ("aws_secret_access_key", secret),
                (
                    "aws_session_token",
                    self.get("aws_session_token").unwrap_or_default(),
                ),
            ]));
        }
        match UNSUPPORTED.iter().find(|key| self.get(key).is_some()) {
            None => Ok(None),
            Some(key) => Err(invalid(
                "profile",
                format!(
                    "the profile {name:?} gets its credentials by {key}, which is not supported; \
                     export them: eval \"$(aws configure export-credentials --format env)\""
                ),
            )),
        }
    }
}

/// The profile to use, with its name: the one named by `name`, else by `AWS_PROFILE`, else
/// `default` where that exists.
///
/// # Errors
/// A profile was named and is not there; a file cannot be read.
pub(super) fn load(
    name: Option<&str>,
    environment: &Environment,
) -> Result<Option<(String, Profile)>, StoreError> {
    let named = name
        .or(environment.get("AWS_PROFILE"))
        .or(environment.get("AWS_DEFAULT_PROFILE"));
    let wanted = named.unwrap_or("default");
    let mut found = Profile::default();
    // What both files say, the credentials file says with more right.
    let config = read(environment, "AWS_CONFIG_FILE", "config")?;
    let credentials = read(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
    for (text, in_config) in [(config, true), (credentials, false)] {
        for (section, key, value) in entries(&text) {
            let section = match section.strip_prefix("profile ") {
                Some(name) if in_config => name.trim(),
                _ if in_config && section != "default" => continue,
                _ => section,
            };
            if section == wanted {
                found
                    .values
                    .insert(key.to_ascii_lowercase(), value.to_owned());
            }
        }
    }
    match (found.values.is_empty(), named) {
        (true, Some(name)) => Err(invalid(
            "profile",
            format!("there is no profile {name:?} in ~/.aws/credentials and ~/.aws/config"),
        )),
        (true, None) => Ok(None),
        (false, _) => Ok(Some((wanted.to_owned(), found))),
    }
}

fn read(environment: &Environment, variable: &str, name: &str) -> Result<String, StoreError> {
    let path = match (environment.get(variable), &environment.home) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => home.join(".aws").join(name),
        (None, None) => return Ok(String::new()),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(invalid(
            "profile",
            format!("{} cannot be read: {}", path.display(), error.kind()),
        )),
    }
}

/// Section, key and value of each line that has them. Lines that are set in belong to a nested
/// value and are left out.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        let is_set_in = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.starts_with(['#', ';']) || is_set_in {
            return None;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default().trim();
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((section, key.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests;
