//! The clients of the clouds against servers: emulators of S3 and Azure where there are any
//! (`scripts/emulators.py run -- COMMAND`), and the stub for S3 and Google Cloud Storage.

use tarndb_storage::stub::{Answer, Reaction, Response, Stub};
use tarndb_storage::{Context, Path, Store, StoreError, StoreOptions, conformance, open};

fn context() -> Context {
    // Real ids: the emulators keep what earlier runs stored.
    Context::system()
}

/// The URL and options of an emulator's bucket; says so when there is none.
fn emulator(name: &str, test: &str) -> Option<(String, StoreOptions)> {
    let variable = |kind: &str| std::env::var(format!("TARNDB_TEST_{name}_{kind}")).ok();
    let (Some(url), Some(endpoint)) = (variable("URL"), variable("ENDPOINT")) else {
        eprintln!("SKIPPED {test}: TARNDB_TEST_{name}_URL and _ENDPOINT are not set");
        return None;
    };
    let options = StoreOptions::default()
        .with("endpoint", &endpoint)
        .with("allow_http", "true");
    let options = match name {
        "S3" => options
            .with("access_key_id", "test")
            .with("secret_access_key", "test")
            .with("region", "us-east-1"),
        _ => options
            .with("account_name", "devstoreaccount1")
            // The key of every emulator, printed in its documentation.
            .with(
                "account_key",
                "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
            ),
    };
    Some((url, options))
}

async fn conforms(url: &str, options: &StoreOptions) {
    let odd = format!("{url}/conform/some prefix/%20/\u{e9}");
    let store = open(&odd, options, context()).unwrap();
    conformance::all(&store).await;
    for _ in 0..5 {
        conformance::create_has_one_winner(&store).await;
    }
    let outside = open(&format!("{url}/conform"), options, context()).unwrap();
    let listed = outside.list_after(&Path::ROOT, None).await.unwrap();
    let below = |key: &Path| key.as_ref().starts_with("some prefix/%20/\u{e9}/");
    assert!(listed.iter().all(|info| below(&info.key)));
    conformance::long_listings_are_complete(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn emulated_s3_conforms() {
    if let Some((url, options)) = emulator("S3", "emulated_s3_conforms") {
        conforms(&url, &options).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn emulated_azure_conforms() {
    if let Some((url, options)) = emulator("AZURE", "emulated_azure_conforms") {
        conforms(&url, &options).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_stub_as_s3_conforms() {
    let stub = Stub::start(context()).await;
    conforms("s3://bucket", &stub.s3_options()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_stub_as_google_cloud_storage_conforms() {
    let stub = Stub::start(context()).await;
    conforms("gs://bucket", &stub.gcs_options()).await;
}

/// A store over the stub, whose hook makes it ignore conditions.
async fn lying(url: &str) -> (Stub, Store) {
    let stub = Stub::start(context()).await;
    let options = match url.starts_with("gs:") {
        true => stub.gcs_options(),
        false => stub.s3_options(),
    };
    stub.set_hook(|request| {
        request.headers.remove("if-none-match");
        request.headers.remove("x-goog-if-generation-match");
        Reaction::honest()
    });
    let store = open(url, &options, context()).unwrap();
    (stub, store)
}

#[tokio::test]
async fn ex_16_a_server_that_ignores_conditions_is_refused_by_name() {
    for url in ["s3://lying-bucket/db", "gs://lying-bucket/db"] {
        let (stub, store) = lying(url).await;
        let error = store.probe(&Path::from("_tarndb")).await.unwrap_err();
        assert!(
            matches!(error, StoreError::ConditionalPutIgnored { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(url), "{error}");
        assert!(stub.keys().is_empty(), "{:?}", stub.keys());
    }
}

fn refusal(status: u16, code: &str) -> Reaction {
    Reaction::not_done(Answer::Instead(Response::error(status, code)))
}

/// Nothing in a bucket that is not there is "absent": every request says what is wrong.
async fn says_that_there_is_no_bucket(url: &str, options: &StoreOptions) {
    let store = open(url, options, context()).unwrap();
    let key = Path::from("_tarndb/log/0.json");
    let bytes = bytes::Bytes::from_static(b"x");
    let answers = [
        store.probe(&Path::from("_tarndb")).await.map(drop),
        store.put(&key, bytes.clone()).await,
        store.put_if_absent(&key, bytes).await.map(drop),
        store.get(&key).await.map(drop),
        store.list_after(&Path::ROOT, None).await.map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, StoreError::NoBucket { .. }), "{error:?}");
        assert!(error.is_not_stored());
        assert_eq!(error.kind(), tarndb_storage::StoreErrorKind::Invalid);
    }
}

#[tokio::test]
async fn emulated_s3_and_azure_have_no_such_bucket() {
    for (name, url) in [
        ("S3", "s3://no-such-bucket/x"),
        ("AZURE", "az://no-such-bucket/x"),
    ] {
        if let Some((_, options)) = emulator(name, "emulated_s3_and_azure_have_no_such_bucket") {
            says_that_there_is_no_bucket(url, &options).await;
        }
    }
}

#[tokio::test]
async fn a_list_that_is_refused_is_a_matter_of_permission() {
    for (status, code) in [(403, "AccessDenied"), (401, "InvalidAccessKeyId")] {
        let stub = Stub::start(context()).await;
        stub.set_hook(move |_| refusal(status, code));
        let store = open("s3://bucket/x", &stub.s3_options(), context()).unwrap();
        let error = store.list_after(&Path::ROOT, None).await.unwrap_err();
        let kind = tarndb_storage::StoreErrorKind::PermissionDenied;
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(format!("{error:?}").contains(code), "{error:?}");
    }
}

#[tokio::test]
async fn the_stub_has_no_such_bucket() {
    let stub = Stub::start(context()).await;
    stub.set_hook(|_| refusal(404, "NoSuchBucket"));
    says_that_there_is_no_bucket("s3://bucket/x", &stub.s3_options()).await;
    says_that_there_is_no_bucket("gs://bucket/x", &stub.gcs_options()).await;
}
