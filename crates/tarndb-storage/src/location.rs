//! What a database URL names.
//!
//! Invariant: a text that is not clearly one of the accepted forms is refused, so that a
//! mistyped URL never becomes a folder; secrets in a URL are refused and never repeated.
//! In cloud and memory URLs the prefix is taken literally (a percent sign is a percent sign);
//! a `file://` URL is percent-decoded, as that standard says.

use std::path::PathBuf;

use object_store::path::Path;
use percent_encoding::percent_decode_str;

use crate::error::StoreError;

/// A parsed database URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder, absolute.
    Folder(PathBuf),
    /// The process-wide memory store of that name.
    Memory {
        /// Name; may be empty.
        name: String,
        /// Prefix in it.
        prefix: Path,
    },
    /// A bucket or container of a cloud store.
    Cloud {
        /// Which cloud.
        cloud: Cloud,
        /// Bucket or container.
        bucket: String,
        /// Azure only: `account.dfs.core.windows.net` of an abfss URL.
        host: Option<String>,
        /// Prefix in it.
        prefix: Path,
    },
}

/// A kind of remote store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

const SCHEMES: [&str; 9] = [
    "s3", "s3a", "gs", "gcs", "az", "azure", "abfss", "abfs", "memory",
];

/// Parses a database URL or a folder's path.
///
/// # Errors
/// [`StoreError::InvalidUrl`] says what is wrong and lists the accepted forms.
pub fn parse(text: &str) -> Result<Location, StoreError> {
    if text.trim().is_empty() {
        return Err(invalid(text, "it is empty"));
    }
    if text.contains('\0') {
        return Err(invalid("", "it contains a null byte"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return parse_path(text);
    };
    match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => parse_cloud(text, Cloud::S3, rest),
        "gs" | "gcs" => parse_cloud(text, Cloud::Gcs, rest),
        "az" | "azure" => parse_cloud(text, Cloud::Azure, rest),
        "abfss" | "abfs" => parse_abfss(text, rest),
        "file" => parse_file(text, rest),
        "memory" => {
            let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            Ok(Location::Memory {
                name: name.to_owned(),
                prefix: parse_prefix(text, prefix)?,
            })
        }
        other => Err(invalid(text, format!("unknown scheme {other:?}"))),
    }
}

fn invalid(text: &str, reason: impl Into<String>) -> StoreError {
    StoreError::InvalidUrl {
        url: redacted(text),
        reason: reason.into(),
    }
}

/// The text without its query and without what stands between its scheme and the last `@`: a
/// password may hold any character, slashes too.
fn redacted(text: &str) -> String {
    let text = text.split_once('?').map_or(text, |(before, _)| before);
    let Some((before, after)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    match before.split_once(':') {
        Some((scheme, _)) if looks_like_scheme(scheme) => format!("{scheme}://..@{after}"),
        _ => format!("..@{after}"),
    }
}

fn parse_path(text: &str) -> Result<Location, StoreError> {
    if let Some((scheme, _)) = text.split_once(':') {
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" || scheme.starts_with("http") || SCHEMES.contains(&scheme.as_str()) {
            return Err(invalid(text, "two slashes must follow the scheme's colon"));
        }
        if looks_like_scheme(&scheme) {
            let reason = format!("unknown scheme {scheme:?}; write ./{text} for a folder");
            return Err(invalid(text, reason));
        }
    }
    let absolute = std::path::absolute(text);
    absolute
        .map(Location::Folder)
        .map_err(|error| invalid(text, error.to_string()))
}

/// A folder's name with a colon is rarer than a mistyped scheme, and can be written as `./a:b`.
fn looks_like_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn parse_file(text: &str, rest: &str) -> Result<Location, StoreError> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(invalid(
            text,
            "a file URL has three slashes: file:///folder",
        ));
    }
    if path.contains(['?', '#']) {
        return Err(invalid(
            text,
            "a file URL has no query and no fragment; write %3F and %23",
        ));
    }
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .map_err(|_| invalid(text, "its percent-encoding is not UTF-8"))?;
    if decoded.contains('\0') {
        return Err(invalid(text, "it contains a null byte"));
    }
    Ok(Location::Folder(PathBuf::from(decoded.into_owned())))
}

fn parse_cloud(text: &str, cloud: Cloud, rest: &str) -> Result<Location, StoreError> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    check_authority(text, bucket)?;
    if bucket.is_empty() {
        return Err(invalid(text, "the bucket or container is missing"));
    }
    let prefix = parse_prefix(text, prefix)?;
    Ok(Location::Cloud {
        cloud,
        bucket: bucket.to_owned(),
        host: None,
        prefix,
    })
}

fn parse_abfss(text: &str, rest: &str) -> Result<Location, StoreError> {
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let Some((container, host)) = authority.split_once('@') else {
        return Err(invalid(
            text,
            "an abfss URL names container@account.dfs.core.windows.net",
        ));
    };
    check_authority(text, container)?;
    check_authority(text, host)?;
    if container.is_empty() || host.is_empty() || container.contains(':') {
        return Err(invalid(
            text,
            "an abfss URL names container@account.dfs.core.windows.net",
        ));
    }
    let prefix = parse_prefix(text, prefix)?;
    let (cloud, host) = (Cloud::Azure, Some(host.to_owned()));
    Ok(Location::Cloud {
        cloud,
        bucket: container.to_owned(),
        host,
        prefix,
    })
}

fn check_authority(text: &str, authority: &str) -> Result<(), StoreError> {
    // A password may hold a slash, after which the authority seems to end.
    if authority.contains(['@', ':']) {
        let reason = "credentials do not belong in a URL; give them as storage options or in \
                      the environment";
        return Err(invalid(text, reason));
    }
    if authority.contains(['?', '#']) || authority.chars().any(char::is_whitespace) {
        return Err(invalid(
            text,
            "the bucket or container has a character that no name has",
        ));
    }
    Ok(())
}

fn parse_prefix(text: &str, prefix: &str) -> Result<Path, StoreError> {
    // A signed URL carries its secret in the query; a real prefix with `?` is unheard of.
    if prefix.contains('?') {
        return Err(invalid(
            text,
            "it has a query; give options as storage options",
        ));
    }
    if prefix.contains('\\') {
        return Err(invalid(
            text,
            "its prefix has a backslash, which some stores take for a slash",
        ));
    }
    // The parser of keys would silently drop a second slash.
    if prefix.starts_with('/') {
        return Err(invalid(text, "its prefix has an empty segment"));
    }
    Path::parse(prefix).map_err(|error| match error {
        object_store::path::Error::EmptySegment { .. } => {
            invalid(text, "its prefix has an empty segment")
        }
        _ => invalid(
            text,
            "its prefix has a segment `.` or `..`, or a control character",
        ),
    })
}

#[cfg(test)]
mod tests;
