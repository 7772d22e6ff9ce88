//! Profiles from files.

use super::load;
use crate::environment::Environment;

const CREDENTIALS: &str = "# comment\n[default]\naws_access_key_id = AK1\n\
    aws_secret_access_key = s3cret1 ; = kept\n\n[work]\naws_access_key_id=AK2\n\
    aws_secret_access_key=s3cret2\naws_session_token=t2\n";
const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n\
    [profile work]\nregion=eu-central-1\nendpoint_url = https://s3.example.com\n\
    [work]\nregion=ignored\n[profile signs-in]\nsso_session = corp\nregion = x\n";

fn home() -> (tempfile::TempDir, Environment) {
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    std::fs::create_dir(&aws).unwrap();
    std::fs::write(aws.join("credentials"), CREDENTIALS).unwrap();
    std::fs::write(aws.join("config"), CONFIG).unwrap();
    let environment = Environment {
        home: Some(home.path().to_owned()),
        ..Environment::default()
    };
    (home, environment)
}

#[test]
fn a_profile_is_named_by_an_option_or_a_variable_or_is_the_default() {
    let (_home, environment) = home();
    let (name, default) = load(None, &environment).unwrap().unwrap();
    assert_eq!(
        (name.as_str(), default.get("region")),
        ("default", Some("eu-west-1"))
    );
    let [id, secret, token] = default.credentials(&name).unwrap().unwrap();
    assert_eq!((id.1, secret.1, token.1), ("AK1", "s3cret1 ; = kept", ""));
    let by_variable = load(None, &environment.clone().with("AWS_PROFILE", "work"));
    let by_option = load(Some("work"), &environment.with("AWS_PROFILE", "default"));
    for found in [by_variable, by_option] {
        let (name, work) = found.unwrap().unwrap();
        assert_eq!(work.get("region"), Some("eu-central-1"));
        assert_eq!(work.get("endpoint_url"), Some("https://s3.example.com"));
        let [id, _, token] = work.credentials(&name).unwrap().unwrap();
        assert_eq!((id.1, token.1), ("AK2", "t2"));
    }
}

#[test]
fn what_is_missing_or_not_supported_is_said() {
    let (_home, environment) = home();
    let missing = load(Some("wrok"), &environment).err().unwrap().to_string();
    assert!(missing.contains("no profile \"wrok\""), "{missing}");
    let (name, profile) = load(Some("signs-in"), &environment).unwrap().unwrap();
    let error = profile.credentials(&name).unwrap_err().to_string();
    assert!(
        error.contains("sso_session") && error.contains("export-credentials"),
        "{error}"
    );
    let nowhere = Environment::default();
    assert!(load(None, &nowhere).unwrap().is_none());
}

#[test]
fn the_files_may_be_elsewhere() {
    let (home, _) = home();
    let aws = home.path().join(".aws");
    let environment = Environment::default()
        .with(
            "AWS_SHARED_CREDENTIALS_FILE",
            aws.join("credentials").to_str().unwrap(),
        )
        .with("AWS_CONFIG_FILE", aws.join("config").to_str().unwrap());
    assert!(load(Some("work"), &environment).unwrap().is_some());
}
