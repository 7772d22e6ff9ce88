//! No secret is shown: markers everywhere a user can put one, errors of every kind provoked,
//! and everything that can be read afterwards searched for them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tarndb_db::Database;
use tarndb_storage::stub::{Answer, Reaction, Request, Response, Stub};
use tarndb_storage::{Context, Environment, Path, StoreOptions, open, open_in};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::support::*;

/// Everything that is told, in one text.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<String>>);

impl Told {
    fn add(&self, text: &str) {
        let mut all = self.0.lock().unwrap();
        all.push_str(text);
        all.push('\n');
    }

    /// An error as `Display`, `Debug`, and with all its sources.
    fn error(&self, error: &(dyn std::error::Error + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.add(&format!("{error}\n{error:?}\n{error:#?}"));
            next = error.source();
        }
    }

    #[track_caller]
    fn assert_shows_none_of(&self, markers: &[&str]) {
        let text = self.0.lock().unwrap();
        for marker in markers {
            if let Some(at) = text.find(marker) {
                let from = text[..at].rfind('\n').map_or(0, |line| line + 1);
                let line = text[from..].lines().next().unwrap();
                panic!("{marker} is shown: {line}");
            }
        }
    }
}

/// A subscriber that writes down every event and span of every crate, at every level.
impl tracing::Subscriber for Told {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut Fields(self));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Fields(self));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.add(&format!("event of {}", event.metadata().target()));
        event.record(&mut Fields(self));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a Told);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.add(&format!("{field}={value:?}"));
    }
}

const MARKERS: [&str; 12] = [
    "MarkKeyId",
    "MarkSecretKey",
    "MarkSessionToken",
    "MarkProfileSecret",
    "MarkProfileKeyId",
    "TWFya0F6dXJlS2V5", // "MarkAzureKey" in base64
    "MarkSasSignature",
    "MarkBearer",
    "MarkPrivateKey",
    "MarkClientSecret",
    "MarkInUrl",
    "MarkValue",
];

fn options(pairs: &[(&str, &str)]) -> StoreOptions {
    let none = StoreOptions::default();
    pairs
        .iter()
        .fold(none, |all, (key, value)| all.with(key, value))
}

/// One way to give secrets: a URL, options, an environment.
struct Given {
    url: &'static str,
    options: StoreOptions,
    environment: Environment,
}

fn given(url: &'static str, pairs: &[(&str, &str)]) -> Given {
    Given {
        url,
        options: options(pairs),
        environment: Environment::default(),
    }
}

/// Every way in which the clouds' clients take secrets, to `endpoint`.
fn all_ways(endpoint: &str, home: &std::path::Path) -> Vec<Given> {
    let http = ("allow_http", "true");
    let s3 = [
        ("endpoint", endpoint),
        ("access_key_id", "MarkKeyId"),
        ("secret_access_key", "MarkSecretKey"),
        ("session_token", "MarkSessionToken"),
        http,
    ];
    let azure = |name: &'static str, value: &str| {
        let pairs = [
            ("account_name", "acc"),
            ("endpoint", endpoint),
            http,
            (name, value),
        ];
        given("az://container/p", &pairs)
    };
    let connection = format!(
        "AccountName=acc;AccountKey=TWFya0F6dXJlS2V5;BlobEndpoint={endpoint};\
         DefaultEndpointsProtocol=http"
    );
    let signed = format!(
        "BlobEndpoint={endpoint};AccountName=acc;SharedAccessSignature=sv=2022&sig=MarkSasSignature"
    );
    let account = format!(
        r#"{{"gcs_base_url":"{endpoint}","disable_oauth":true,"client_email":"",
        "private_key":"MarkPrivateKey","private_key_id":"MarkPrivateKey"}}"#
    );
    let variables = Environment::default()
        .with("AWS_ACCESS_KEY_ID", "MarkKeyId")
        .with("AWS_SECRET_ACCESS_KEY", "MarkSecretKey")
        .with("AWS_SESSION_TOKEN", "MarkSessionToken")
        .with("AWS_ENDPOINT_URL", endpoint);
    let profile = Environment {
        home: Some(home.to_owned()),
        ..Environment::default()
    };
    let of_variables = Given {
        environment: variables,
        ..given("s3://bucket/p", &[http])
    };
    let of_profile = Given {
        environment: profile,
        ..given("s3://bucket/p", &[http, ("endpoint", endpoint)])
    };
    vec![
        given("s3://bucket/p", &s3),
        of_variables,
        of_profile,
        azure("account_key", "TWFya0F6dXJlS2V5"),
        azure("sas_token", "sv=2022&sig=MarkSasSignature"),
        azure("bearer_token", "MarkBearer"),
        given(
            "az://container/p",
            &[("connection_string", &connection), http],
        ),
        given("az://container/p", &[("connection_string", &signed), http]),
        given("gs://bucket/p", &[("service_account_key", &account), http]),
    ]
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let text = "[default]\naws_access_key_id=MarkProfileKeyId\n\
                aws_secret_access_key=MarkProfileSecret\naws_session_token=MarkSessionToken\n";
    std::fs::write(home.path().join(".aws/credentials"), text).unwrap();
    home
}

/// Refuses, and repeats in its message all that it was sent.
fn echo(request: &Request, status: u16) -> Reaction {
    let mut sent = format!("{} {}", request.method, request.key);
    for (name, value) in request.headers.iter().chain(&request.query) {
        write!(sent, " {name}: {value}").unwrap();
    }
    let sent = sent.replace('&', "&amp;").replace('<', "&lt;");
    // One element as the client looks for it, and the rest as the services put it.
    let body = format!(
        "<Error><Code>AccessDenied</Code><Message>{sent}</Message>\
         <StringToSign>{sent}</StringToSign><Signature>{sent}</Signature></Error>"
    );
    Reaction::not_done(Answer::Instead(
        Response::new(status).with_body(Bytes::from(body)),
    ))
}

/// Opens and uses a store in every way, and writes down every error.
async fn provoke(told: &Told, way: &Given) -> usize {
    told.add(&format!("{:?} {:?}", way.options, way.environment));
    let context = Context::seeded(1);
    let store = match open_in(&way.environment, way.url, &way.options, context) {
        Ok(store) => store,
        Err(error) => {
            told.error(&error);
            return 0;
        }
    };
    let objects = store.objects();
    told.add(&format!("{store:?} {} {objects:?} {objects}", store.url()));
    let key = Path::from("k");
    let mut errors = 0;
    let mut note = |error: Option<tarndb_storage::StoreError>| {
        if let Some(error) = error {
            told.error(&error);
            errors += 1;
        }
    };
    note(store.put_if_absent(&key, Bytes::from("1")).await.err());
    note(store.put(&key, Bytes::from("1")).await.err());
    note(store.get(&key).await.err());
    note(store.get_range(&key, 0..1).await.err());
    note(store.head(&key).await.err());
    note(store.list_after(&key, None).await.err());
    note(store.delete(&key).await.err());
    note(store.probe(&key).await.err());
    errors
}

#[tokio::test]
async fn no_secret_is_shown_when_credentials_are_refused() {
    let told = Told::default();
    let _subscriber = tracing::subscriber::set_default(told.clone());
    let home = home();
    let stub = Stub::start(Context::seeded(1)).await;
    for status in [403, 400] {
        stub.set_hook(move |request| echo(request, status));
        for way in all_ways(&stub.endpoint(), home.path()) {
            let mut way = way;
            if way.url.starts_with("s3:") {
                way.options = way.options.with("region", "eu-west-1");
            }
            let errors = provoke(&told, &way).await;
            assert!(
                errors >= 7,
                "{}: {:?}: {errors} errors",
                way.url,
                way.options
            );
        }
    }
    // The secrets were sent, and came back.
    let sent = format!("{:?}", stub.take_seen());
    for marker in [
        "MarkKeyId",
        "MarkSessionToken",
        "MarkSasSignature",
        "MarkBearer",
    ] {
        assert!(sent.contains(marker), "{marker} was never sent");
    }
    let text = told.0.lock().unwrap().clone();
    assert!(text.contains("403 AccessDenied") && text.contains("event of tarndb_storage"));
    told.assert_shows_none_of(&MARKERS);
}

#[tokio::test]
async fn no_secret_is_shown_when_options_are_wrong() {
    let told = Told::default();
    let _subscriber = tracing::subscriber::set_default(told.clone());
    for url in [
        "s3://bucket/p",
        "az://container/p",
        "gs://bucket/p",
        "/tmp/x",
        "memory://x",
    ] {
        for name in [
            "allow_http",
            "timeout",
            "connect_timeout",
            "pool_max_idle_per_host",
            "proxy_url",
            "skip_signature",
            "virtual_hosted_style_request",
            "conditional_put",
            "checksum_algorithm",
            "account_key",
            "sas_token",
            "client_secret",
            "connection_string",
            "service_account_key",
            "service_account",
            "endpoint",
            "base_url",
            "profile_",
            "durability",
            "fault.lost_answer",
            "no_such_option",
        ] {
            let value = match name {
                "endpoint" | "base_url" => "https://u:MarkValue@host/?sig=MarkValue",
                _ => "MarkValue",
            };
            let all = options(&[(name, value), ("region", "r"), ("account_name", "acc")]);
            let all = match url.starts_with("s3") {
                true => all
                    .with("access_key_id", "MarkKeyId")
                    .with("secret_access_key", "MarkSecretKey"),
                false => options(&[(name, value)]),
            };
            told.add(&format!("{all:?}"));
            match open(url, &all, Context::seeded(1)) {
                Ok(store) => told.add(&format!("{store:?} {:?}", store.objects())),
                Err(error) => told.error(&error),
            }
        }
    }
    for url in [
        "s3://MarkInUrl:MarkInUrl@bucket/p",
        "https://u:MarkInUrl@host/p",
        "az://container/p?sv=1&sig=MarkInUrl",
        "abfss://c:MarkInUrl@acc.dfs.core.windows.net/p",
        "s3:/user:MarkInUrl@bucket",
        "s3://user:MarkInUrl/MarkInUrl@bucket",
        "s3://bucket/p?X-Amz-Signature=MarkInUrl",
        "memory://m/p?token=MarkInUrl",
    ] {
        let error = open(url, &StoreOptions::default(), Context::seeded(1)).unwrap_err();
        told.error(&error);
    }
    told.assert_shows_none_of(&MARKERS);
}

#[tokio::test]
async fn no_secret_is_shown_when_nobody_answers() {
    let told = Told::default();
    let _subscriber = tracing::subscriber::set_default(told.clone());
    let home = home();
    let closed = Stub::start(Context::seeded(1)).await.endpoint();
    for endpoint in [closed.as_str(), "http://no-such-host.invalid"] {
        for way in all_ways(endpoint, home.path()) {
            let options = match way.url.starts_with("s3:") {
                true => way.options.with("region", "eu-west-1"),
                false => way.options,
            };
            let context = Context::seeded(1);
            let store = open_in(&way.environment, way.url, &options, context).unwrap();
            let outcome = store
                .put_if_absent(&Path::from("k"), Bytes::from("1"))
                .await;
            match outcome {
                Ok(tarndb_storage::PutOutcome::Unknown(error)) => told.error(&error),
                other => panic!("{}: {other:?}", way.url),
            }
        }
    }
    told.assert_shows_none_of(&MARKERS);
}

#[tokio::test]
async fn no_secret_is_stored_or_in_the_status() {
    let told = Told::default();
    let _subscriber = tracing::subscriber::set_default(told.clone());
    let home = home();
    let stub = Stub::start(Context::seeded(1)).await;
    let ways = all_ways(&stub.endpoint(), home.path());
    for way in ways.into_iter().filter(|way| !way.url.starts_with("az:")) {
        let options = match way.url.starts_with("s3:") {
            true => way.options.with("region", "eu-west-1"),
            false => way.options,
        };
        let url = format!("{}/{}", way.url, Context::system().uuid());
        let store = open_in(&way.environment, &url, &options, Context::seeded(1)).unwrap();
        let db = Database::create(store, manual()).await.unwrap();
        let id = create_table(&db, "t").await;
        insert(&db, id, &[(1, 1)]).await;
        db.publish().await.unwrap();
        db.checkpoint().await.unwrap();
        told.add(&format!("{:?} {db:?}", db.status().await.unwrap()));
        told.add(&format!("{:?}", db.log(10).await.unwrap()));
        assert_clean(&db).await;
    }
    for (key, content) in stub.objects() {
        told.add(&format!("{key} {}", String::from_utf8_lossy(&content)));
    }
    assert!(told.0.lock().unwrap().contains("commitInfo"));
    told.assert_shows_none_of(&MARKERS);
}
