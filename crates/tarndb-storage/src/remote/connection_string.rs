//! Connection strings of Azure: `AccountName=..;AccountKey=..;EndpointSuffix=..`.
//!
//! Invariant: a part that is not known is an error, named by its key; no value is ever shown.

use crate::error::StoreError;
use crate::options::invalid;

/// The settings in a connection string, by the client's names.
///
/// # Errors
/// It has a part without `=`, no account, or no way to sign.
pub(super) fn parse(text: &str) -> Result<Vec<(&'static str, String)>, StoreError> {
    let wrong = |reason: String| invalid("connection_string", reason);
    let (mut settings, mut protocol, mut suffix) = (Vec::new(), "https", "core.windows.net");
    let (mut account, mut endpoint) = (None, None);
    for part in text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| wrong("a part of it has no `=`".to_owned()))?;
        match key.to_ascii_lowercase().as_str() {
            "accountname" => account = Some(value.to_owned()),
            "accountkey" => settings.push(("account_key", value.to_owned())),
            "sharedaccesssignature" => settings.push(("sas_token", value.to_owned())),
            "blobendpoint" => endpoint = Some(value.trim_end_matches('/').to_owned()),
            "defaultendpointsprotocol" => protocol = value,
            "endpointsuffix" => suffix = value,
            "usedevelopmentstorage" => settings.push(("use_emulator", value.to_owned())),
            // Other services of the same account.
            other if other.ends_with("endpoint") => {}
            _ => return Err(wrong(format!("it has a part that is not known: {key:?}"))),
        }
    }
    match (account, endpoint) {
        (Some(account), None) if (protocol, suffix) != ("https", "core.windows.net") => {
            let endpoint = format!("{protocol}://{account}.blob.{suffix}");
            settings.extend([("endpoint", endpoint), ("account_name", account)]);
        }
        (Some(account), None) => settings.push(("account_name", account)),
        (account, Some(endpoint)) => {
            // `https://account.blob...`, where a signature stands in for the name.
            let host = endpoint.split("://").nth(1).unwrap_or_default();
            let implied = host
                .split_once(".blob.")
                .map(|(account, _)| account.to_owned());
            settings.extend(account.or(implied).map(|name| ("account_name", name)));
            settings.push(("endpoint", endpoint));
        }
        (None, None) => {}
    }
    let has = |name: &str| settings.iter().any(|(key, _)| *key == name);
    if !has("account_name") && !has("use_emulator") {
        return Err(wrong("it has no AccountName".to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let mut found = parse(text).unwrap();
        found.sort();
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (*k, v.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn account_and_key_endpoint_or_signature() {
        check(
            "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5==;EndpointSuffix=core.windows.net",
            &[("account_key", "a2V5=="), ("account_name", "acc")],
        );
        check(
            "DefaultEndpointsProtocol=http;AccountName=dev;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/dev;",
            &[
                ("account_key", "a2V5"),
                ("account_name", "dev"),
                ("endpoint", "http://127.0.0.1:1/dev"),
            ],
        );
        check(
            "BlobEndpoint=https://acc.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x%3D",
            &[
                ("account_name", "acc"),
                ("endpoint", "https://acc.blob.core.windows.net"),
                ("sas_token", "sv=1&sig=x%3D"),
            ],
        );
        check(
            "AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn;QueueEndpoint=https://q",
            &[
                ("account_key", "a2V5"),
                ("account_name", "acc"),
                ("endpoint", "https://acc.blob.core.chinacloudapi.cn"),
            ],
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_without_its_value() {
        for text in [
            "hunter2",
            "AccountKey=hunter2",
            "AccountName=a;Hint=hunter2",
        ] {
            let error = parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("hunter2") && shown.contains("connection_string"),
                "{shown}"
            );
        }
    }
}
