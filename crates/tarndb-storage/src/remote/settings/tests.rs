//! Where settings come from, and what is refused before any request.

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use super::Settings;
use crate::environment::Environment;
use crate::error::StoreError;
use crate::options::StoreOptions;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn options(pairs: Pairs<'_>) -> StoreOptions {
    let none = StoreOptions::default();
    pairs
        .iter()
        .fold(none, |all, (key, value)| all.with(key, value))
}

fn variables(pairs: Pairs<'_>) -> Environment {
    let none = Environment::default();
    pairs
        .iter()
        .fold(none, |all, (name, value)| all.with(name, value))
}

fn s3(given: Pairs<'_>, environment: Pairs<'_>) -> Result<Settings<AmazonS3ConfigKey>, StoreError> {
    super::s3(&options(given), &variables(environment))
}

fn azure(given: Pairs<'_>, environment: Pairs<'_>) -> Result<Settings<AzureConfigKey>, StoreError> {
    super::azure(&options(given), &variables(environment), false)
}

fn gcs(given: Pairs<'_>, environment: Pairs<'_>) -> Result<Settings<GoogleConfigKey>, StoreError> {
    super::gcs(&options(given), &variables(environment))
}

const KEYS: Pairs<'_> = &[
    ("AWS_ACCESS_KEY_ID", "env-id"),
    ("AWS_SECRET_ACCESS_KEY", "env-secret"),
    ("AWS_SESSION_TOKEN", "env-token"),
    ("AWS_REGION", "eu-west-1"),
];

#[test]
fn options_stand_above_the_environment_and_credentials_are_not_mixed() {
    let from_environment = s3(&[], KEYS).unwrap();
    assert_eq!(from_environment.value("access_key_id"), Some("env-id"));
    assert_eq!(from_environment.value("session_token"), Some("env-token"));
    let own = [
        ("access_key_id", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("region", "r"),
    ];
    let settings = s3(&own, KEYS).unwrap();
    assert_eq!(settings.value("access_key_id"), Some("id"));
    assert_eq!(settings.value("secret_access_key"), Some("secret"));
    assert_eq!(settings.value("session_token"), None);
    assert_eq!(settings.value("region"), Some("r"));
    let own = [("account_key", "a2V5")];
    let variables = [
        ("AZURE_STORAGE_ACCOUNT", "acc"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=1"),
    ];
    let settings = azure(&own, &variables).unwrap();
    assert_eq!(settings.value("account_name"), Some("acc"));
    assert_eq!(settings.value("sas_token"), None);
    let settings = gcs(
        &[("service_account_key", "{}")],
        &[("GOOGLE_APPLICATION_CREDENTIALS", "/x")],
    );
    assert_eq!(settings.unwrap().value("application_credentials"), None);
}

#[test]
fn a_profile_gives_what_is_not_set() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(
        home.path().join(".aws/config"),
        "[default]\nregion=r1\naws_access_key_id=d\naws_secret_access_key=d\n\
         [profile p]\nregion=r2\naws_access_key_id=p\naws_secret_access_key=p\n",
    )
    .unwrap();
    let found = |given: Pairs<'_>, environment: Pairs<'_>| {
        let home = Some(home.path().to_owned());
        let variables = variables(environment).variables;
        let environment = Environment { variables, home };
        let found: Settings<AmazonS3ConfigKey> = super::s3(&options(given), &environment).unwrap();
        let value = |name: &str| found.value(name).unwrap_or_default().to_owned();
        (
            value("access_key_id"),
            value("session_token"),
            value("region"),
        )
    };
    let expect =
        |id: &str, token: &str, region: &str| (id.to_owned(), token.to_owned(), region.to_owned());
    assert_eq!(found(&[], &[]), expect("d", "", "r1"));
    assert_eq!(found(&[], &[("AWS_PROFILE", "p")]), expect("p", "", "r2"));
    assert_eq!(
        found(&[("profile", "p")], KEYS),
        expect("p", "", "eu-west-1")
    );
    assert_eq!(found(&[], KEYS), expect("env-id", "env-token", "eu-west-1"));
}

#[test]
fn a_connection_string_is_an_option_or_a_variable() {
    let text = "AccountName=acc;AccountKey=a2V5";
    for settings in [
        azure(&[("connection_string", text)], &[]),
        azure(&[], &[("AZURE_STORAGE_CONNECTION_STRING", text)]),
    ] {
        let settings = settings.unwrap();
        assert_eq!(settings.value("account_name"), Some("acc"));
        assert_eq!(settings.value("account_key"), Some("a2V5"));
    }
}

#[track_caller]
fn check_refused<K>(settings: Result<Settings<K>, StoreError>, name: &str, says: &str) {
    let Err(StoreError::InvalidOption { key, reason }) = settings else {
        panic!("{settings:?}")
    };
    assert_eq!(key, name);
    assert!(reason.contains(says), "{reason}");
}

#[test]
fn what_is_missing_is_named_with_where_to_set_it() {
    check_refused(
        s3(&[("access_key_id", "a")], &[("AWS_REGION", "r")]),
        "secret_access_key",
        "missing",
    );
    check_refused(s3(&[], &KEYS[..3]), "region", "AWS_REGION");
    let disabled = [("AWS_EC2_METADATA_DISABLED", "true"), ("AWS_REGION", "r")];
    check_refused(s3(&[], &disabled), "access_key_id", "AWS_ACCESS_KEY_ID");
    check_refused(
        azure(&[("account_key", "a")], &[]),
        "account_name",
        "AZURE_STORAGE_ACCOUNT_NAME",
    );
}

#[test]
fn plain_http_must_be_allowed_by_name() {
    let endpoint = ("endpoint", "http://127.0.0.1:1");
    check_refused(s3(&[endpoint], KEYS), "endpoint", "allow_http=true");
    check_refused(
        s3(&[], &[("AWS_ENDPOINT_URL_S3", "http://x")]),
        "aws_endpoint_url_s3",
        "allow_http",
    );
    check_refused(
        s3(&[endpoint, ("allow_http", "false")], KEYS),
        "endpoint",
        "allow_http=true",
    );
    assert!(s3(&[endpoint, ("allow_http", "true")], KEYS).is_ok());
    assert!(s3(&[endpoint], &[("AWS_ALLOW_HTTP", "true")]).is_ok());
    let account = r#"{"gcs_base_url": "http://127.0.0.1:1"}"#;
    check_refused(
        gcs(&[("service_account_key", account)], &[]),
        "gcs_base_url",
        "allow_http",
    );
    check_refused(
        gcs(&[("base_url", "http://x")], &[]),
        "base_url",
        "allow_http",
    );
    let named = ("account_name", "a");
    check_refused(azure(&[named, endpoint], &[]), "endpoint", "allow_http");
}

#[test]
fn an_endpoint_is_an_address_and_nothing_more() {
    for (endpoint, says) in [
        ("127.0.0.1:9000", "not a URL"),
        ("ftp://x", "neither"),
        ("https://u:hunter2@x", "credentials"),
        ("https://x/?sig=hunter2", "credentials"),
    ] {
        check_refused(s3(&[("endpoint", endpoint)], KEYS), "endpoint", says);
    }
}
