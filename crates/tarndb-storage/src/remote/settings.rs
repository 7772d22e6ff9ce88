//! The settings of a client: options first, then the environment, then a profile.
//!
//! Invariant: credentials come from one of the three, never mixed from two; plain http and
//! what is missing are refused here, by name, before any request. No value gets into an error.
//! Spec: docs/guide/storage.md, "Options and environment".

use std::str::FromStr;

use url::Url;

use super::secrets::Secrets;
use super::{connection_string, profile};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::location::Cloud;
use crate::options::{StoreOptions, invalid};

/// One setting: the client's key, the name under which it was given, its value.
pub(super) struct Setting<K> {
    pub(super) key: K,
    pub(super) name: String,
    pub(super) value: String,
}

/// Settings in no particular order, at most one of a key.
pub(super) struct Settings<K> {
    pub(super) all: Vec<Setting<K>>,
    pub(super) secrets: Secrets,
}

impl<K> std::fmt::Debug for Settings<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.all.iter().map(|setting| &setting.name);
        f.debug_set().entries(names).finish()
    }
}

/// What differs from cloud to cloud.
struct Words {
    cloud: &'static str,
    /// Of the variables.
    prefix: &'static str,
    /// Names of settings that say who asks. One of them in the options hides those of the
    /// environment.
    credentials: &'static [&'static str],
    /// Names of settings that are addresses.
    endpoints: &'static [&'static str],
}

const S3: Words = Words {
    cloud: "S3",
    prefix: "AWS_",
    credentials: &[
        "access_key_id",
        "secret_access_key",
        "session_token",
        "web_identity_token_file",
        "role_arn",
        "container_credentials_relative_uri",
        "container_credentials_full_uri",
        "skip_signature",
    ],
    endpoints: &["endpoint", "aws_endpoint_url_s3", "endpoint_url_sts"],
};

const GCS: Words = Words {
    cloud: "GCS",
    prefix: "GOOGLE_",
    credentials: &[
        "service_account",
        "service_account_key",
        "application_credentials",
        "skip_signature",
    ],
    endpoints: &["base_url"],
};

const AZURE: Words = Words {
    cloud: "Azure",
    prefix: "AZURE_",
    credentials: &[
        "account_key",
        "sas_token",
        "bearer_token",
        "client_secret",
        "federated_token_file",
        "use_azure_cli",
        "skip_signature",
    ],
    endpoints: &["endpoint"],
};

/// Variables of the Azure tools and services whose names the client does not know, and its own
/// names for them.
const AZURE_NAMES: [(&str, &str); 4] = [
    ("AZURE_STORAGE_ACCOUNT", "account_name"),
    ("AZURE_STORAGE_KEY", "account_key"),
    ("AZURE_STORAGE_AUTH_TOKEN", "bearer_token"),
    ("IDENTITY_ENDPOINT", "msi_endpoint"),
];

/// The settings of a client of S3.
///
/// # Errors
/// [`StoreError::InvalidOption`] names what is unknown, missing or refused.
pub(super) fn s3<K: FromStr + PartialEq>(
    options: &StoreOptions,
    environment: &Environment,
) -> Result<Settings<K>, StoreError> {
    let mut settings = Settings::begin();
    let mut profile_name = None;
    for (name, value) in options.cloud() {
        match name.to_ascii_lowercase().as_str() {
            "profile" | "aws_profile" => profile_name = Some(value),
            _ => settings.option(&S3, name, value)?,
        }
    }
    let chosen = settings.has_any(S3.credentials);
    // A profile that is named in an option stands above the environment.
    let named = profile_name.is_some() && !chosen;
    let hidden = chosen || named;
    settings.variables(&S3, environment, hidden);
    let profile = match settings.has_any(S3.credentials) && profile_name.is_none() {
        // Region and endpoint may still be the profile's, but nobody asked for it.
        true => profile::load(None, environment).unwrap_or_default(),
        false => profile::load(profile_name, environment)?,
    };
    if let Some((name, profile)) = profile {
        if !settings.has_any(S3.credentials) {
            for (key, value) in profile.credentials(&name)?.into_iter().flatten() {
                settings.fill(key, value);
            }
        }
        settings.fill("region", profile.get("region").unwrap_or_default());
        settings.fill("endpoint", profile.get("endpoint_url").unwrap_or_default());
    }
    settings.check_pair("access_key_id", "secret_access_key")?;
    settings.check_endpoints(S3.endpoints)?;
    let has_place = settings.has_any(&[
        "region",
        "default_region",
        "endpoint",
        "aws_endpoint_url_s3",
    ]);
    if !has_place {
        let reason = "missing; set AWS_REGION, the region of a profile, or the storage option \
                      region (for a store that speaks S3: endpoint)";
        return Err(invalid("region", reason));
    }
    if environment.get("AWS_EC2_METADATA_DISABLED") == Some("true")
        && !settings.has_any(S3.credentials)
    {
        let reason = "missing; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or \
                      the storage options access_key_id and secret_access_key";
        return Err(invalid("access_key_id", reason));
    }
    Ok(settings)
}

/// The settings of a client of Google Cloud Storage.
///
/// # Errors
/// As [`s3`].
pub(super) fn gcs<K: FromStr + PartialEq>(
    options: &StoreOptions,
    environment: &Environment,
) -> Result<Settings<K>, StoreError> {
    let mut settings = Settings::begin();
    for (name, value) in options.cloud() {
        settings.option(&GCS, name, value)?;
    }
    let hidden = settings.has_any(GCS.credentials);
    settings.variables(&GCS, environment, hidden);
    settings.check_endpoints(GCS.endpoints)?;
    settings.check_account_url()?;
    Ok(settings)
}

/// The settings of a client of Azure Blob Storage.
///
/// # Errors
/// As [`s3`].
pub(super) fn azure<K: FromStr + PartialEq>(
    options: &StoreOptions,
    environment: &Environment,
    host_names_account: bool,
) -> Result<Settings<K>, StoreError> {
    let mut settings = Settings::begin();
    let mut given = None;
    for (name, value) in options.cloud() {
        match name.to_ascii_lowercase().as_str() {
            "connection_string" | "azure_storage_connection_string" => given = Some(value),
            _ => settings.option(&AZURE, name, value)?,
        }
    }
    if let Some(text) = given {
        settings.connection_string(text)?;
    }
    let hidden = settings.has_any(AZURE.credentials);
    settings.variables(&AZURE, environment, hidden);
    for (variable, key) in AZURE_NAMES {
        let is_credential = AZURE.credentials.contains(&key);
        let value = environment.get(variable).unwrap_or_default();
        if !(is_credential && hidden) {
            settings.fill(key, value);
        }
    }
    let variable = environment.get("AZURE_STORAGE_CONNECTION_STRING");
    if let (Some(text), false) = (variable, settings.has_any(AZURE.credentials)) {
        settings.connection_string(text)?;
    }
    settings.check_endpoints(AZURE.endpoints)?;
    if !host_names_account && !settings.has_any(&["account_name", "use_emulator"]) {
        let reason = "missing; set AZURE_STORAGE_ACCOUNT_NAME, a connection string, or the \
                      storage option account_name, or name the account in an abfss:// URL";
        return Err(invalid("account_name", reason));
    }
    Ok(settings)
}

impl<K: FromStr + PartialEq> Settings<K> {
    fn begin() -> Self {
        let (all, secrets) = (Vec::new(), Secrets::default());
        Self { all, secrets }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let key = K::from_str(name).ok()?;
        let found = self.all.iter().find(|setting| setting.key == key)?;
        Some(&found.value)
    }

    fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.value(name).is_some())
    }

    /// Sets what is not set yet; `None` when the client knows no such key.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let key = K::from_str(&name.to_ascii_lowercase()).ok()?;
        self.secrets.note(name, value);
        if !self.all.iter().any(|setting| setting.key == key) {
            self.all.push(Setting {
                key,
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
        Some(())
    }

    /// The same for a value that may be empty: then there is none.
    fn fill(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.set(name, value);
        }
    }

    fn option(&mut self, words: &Words, name: &str, value: &str) -> Result<(), StoreError> {
        let set = self.set(name, value);
        set.ok_or_else(|| {
            let cloud = words.cloud;
            let advice = "docs/guide/storage.md lists the options";
            invalid(name, format!("not an option of {cloud}; {advice}"))
        })
    }

    /// The variables of the environment that the client knows, without credentials when those
    /// are hidden.
    fn variables(&mut self, words: &Words, environment: &Environment, hide_credentials: bool) {
        let hidden: Vec<K> = match hide_credentials {
            true => words
                .credentials
                .iter()
                .flat_map(|name| K::from_str(name))
                .collect(),
            false => Vec::new(),
        };
        for (name, value) in &environment.variables {
            let Ok(key) = K::from_str(&name.to_ascii_lowercase()) else {
                continue;
            };
            if name.starts_with(words.prefix) && !hidden.contains(&key) {
                self.set(name, value);
            }
        }
    }

    fn connection_string(&mut self, text: &str) -> Result<(), StoreError> {
        self.secrets.note("connection_string", text);
        for (key, value) in connection_string::parse(text)? {
            self.fill(key, &value);
        }
        Ok(())
    }

    fn check_pair(&self, one: &str, other: &str) -> Result<(), StoreError> {
        for (given, missing) in [(one, other), (other, one)] {
            if self.value(given).is_some() && self.value(missing).is_none() {
                return Err(invalid(missing, format!("missing beside {given}")));
            }
        }
        Ok(())
    }

    fn allows_http(&self) -> bool {
        let value = self.value("allow_http").unwrap_or_default();
        ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
    }

    fn check_endpoints(&self, names: &[&str]) -> Result<(), StoreError> {
        let given = |name: &&str| self.value(name).map(|value| self.check_url(name, value));
        names.iter().filter_map(given).collect()
    }

    /// A service account's key may name another endpoint.
    fn check_account_url(&self) -> Result<(), StoreError> {
        let account = self.value("service_account_key").unwrap_or_default();
        let Some((_, rest)) = account.split_once("\"gcs_base_url\"") else {
            return Ok(());
        };
        match rest.split('"').nth(1) {
            Some(url) => self.check_url("gcs_base_url", url),
            None => Ok(()),
        }
    }

    fn check_url(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let url =
            Url::parse(value).map_err(|_| invalid(name, "not a URL; write https://host[:port]"))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            let reason = "credentials and queries do not belong in it; use the options for them";
            return Err(invalid(name, reason));
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.allows_http() => Ok(()),
            "http" => Err(invalid(
                name,
                "plain http shows data and requests to the network; use https, or set \
                 allow_http=true if you trust it",
            )),
            _ => Err(invalid(name, "neither https nor http")),
        }
    }
}

/// The names of the settings that a cloud's client refuses when it is given nothing else.
pub(super) fn culprits<K>(
    settings: &Settings<K>,
    is_accepted: impl Fn(&Setting<K>) -> bool,
) -> Vec<String> {
    let refused = settings.all.iter().filter(|setting| !is_accepted(setting));
    refused.map(|setting| setting.name.clone()).collect()
}

/// The cloud's name in errors.
pub(super) fn name(cloud: Cloud) -> &'static str {
    match cloud {
        Cloud::S3 => S3.cloud,
        Cloud::Gcs => GCS.cloud,
        Cloud::Azure => AZURE.cloud,
    }
}

#[cfg(test)]
mod tests;
