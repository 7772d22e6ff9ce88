//! What becomes of requests when the wire or the server fails: real HTTP, to the stub.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use tarndb_storage::stub::{Answer, HandClock, Reaction, Request, Response, Stub};
use tarndb_storage::{Clock, Context, Path, PutOutcome, SeededRandom, Store, StoreError, open};
use tokio::sync::mpsc;

/// Longer than any request may stay silent, and two of it than an operation may last.
const SILENCE: Duration = Duration::from_secs(65);

struct Scene {
    stub: Stub,
    store: Store,
    clock: HandClock,
}

async fn scene(url: &str) -> Scene {
    let clock = HandClock::default();
    let context = Context::new(Arc::new(clock.clone()), Arc::new(SeededRandom::new(11)));
    let stub = Stub::start(context.clone()).await;
    let options = match url.starts_with("gs:") {
        true => stub.gcs_options(),
        false => stub.s3_options(),
    };
    let store = open(url, &options, context).unwrap();
    Scene { stub, store, clock }
}

impl Scene {
    /// Treats the first `count` requests that `which` picks so; time passes while the client
    /// waits in vain, or has been asked to wait.
    fn first(&self, mut count: usize, which: fn(&Request) -> bool, reaction: Reaction) {
        let clock = self.clock.clone();
        self.stub.set_hook(move |request| {
            if count == 0 || !which(request) {
                return Reaction::honest();
            }
            count -= 1;
            match &reaction.answer {
                Answer::Silence | Answer::HalfBodySilence => clock.run(SILENCE),
                Answer::Instead(answer) if answer.status == 409 => {
                    clock.run(Duration::from_secs(1))
                }
                _ => {}
            }
            reaction.clone()
        });
    }
}

fn answer(status: u16, code: &str) -> Answer {
    Answer::Instead(Response::error(status, code).with("x-amz-request-id", "REQ7"))
}

fn key() -> Path {
    Path::from("log/1")
}

#[tokio::test]
async fn a_conditional_put_is_sent_once_and_its_outcome_never_guessed() {
    let broken = [
        Answer::Close,
        Answer::Reset,
        Answer::Half,
        Answer::Silence,
        answer(500, "InternalError"),
        answer(503, "SlowDown"),
        answer(408, "RequestTimeout"),
    ];
    for url in ["s3://bucket/db", "gs://bucket/db"] {
        for broken in &broken {
            for is_done in [true, false] {
                let scene = scene(url).await;
                let (stub, store) = (&scene.stub, &scene.store);
                let answer = broken.clone();
                let reaction = Reaction { is_done, answer };
                scene.first(1, Request::is_create, reaction);
                let outcome = store.put_if_absent(&key(), Bytes::from("1")).await;
                let named = format!("{url} {broken:?} done={is_done}: {outcome:?}");
                assert!(matches!(outcome, Ok(PutOutcome::Unknown(_))), "{named}");
                let sent = stub.take_seen();
                assert_eq!(sent.len(), 1, "{named}");
                // The same again decides.
                let again = store.put_if_absent(&key(), Bytes::from("1")).await.unwrap();
                match is_done {
                    true => assert!(matches!(again, PutOutcome::AlreadyExists), "{named}"),
                    false => assert!(matches!(again, PutOutcome::Created), "{named}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn try_again_is_followed_and_is_not_already_exists() {
    let conflict = Reaction::not_done(answer(409, "ConditionalRequestConflict"));
    for (refused, created) in [(1, true), (3, true), (100, false)] {
        let scene = scene("s3://bucket/db").await;
        let (stub, store) = (&scene.stub, &scene.store);
        scene.first(refused, Request::is_create, conflict.clone());
        let outcome = store.put_if_absent(&key(), Bytes::from("1")).await.unwrap();
        match outcome {
            PutOutcome::Created => assert!(created),
            PutOutcome::Unknown(error) => {
                assert!(!created && error.remote().is_some(), "{error:?}");
                assert_eq!(stub.take_seen().len(), 4);
            }
            PutOutcome::AlreadyExists => panic!("nothing is there"),
        }
        assert_eq!(store.get(&key()).await.unwrap().is_some(), created);
    }
    // While an object in the way is one, whatever the status.
    for taken in [
        answer(409, "BlobAlreadyExists"),
        answer(412, "PreconditionFailed"),
    ] {
        let scene = scene("s3://bucket/db").await;
        let store = &scene.store;
        scene.first(1, Request::is_create, Reaction::not_done(taken));
        let outcome = store.put_if_absent(&key(), Bytes::from("1")).await.unwrap();
        assert!(matches!(outcome, PutOutcome::AlreadyExists), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_first_attempt_is_definite() {
    for (status, code) in [(403, "AccessDenied"), (401, "InvalidAccessKeyId")] {
        let scene = scene("s3://bucket/db").await;
        let store = &scene.store;
        scene.first(
            9,
            Request::is_create,
            Reaction::not_done(answer(status, code)),
        );
        let error = store
            .put_if_absent(&key(), Bytes::from("1"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, StoreError::PermissionDenied { .. }),
            "{error:?}"
        );
        assert!(error.is_not_stored());
        let failure = error.remote().unwrap();
        assert!(
            failure
                .reason
                .contains(&format!("{status} {code}: a message")),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn an_error_names_our_operation_and_the_stores_request() {
    let scene = scene("s3://bucket/db").await;
    let (stub, store) = (&scene.stub, &scene.store);
    scene.first(
        9,
        Request::is_create,
        Reaction::not_done(answer(503, "SlowDown")),
    );
    let outcome = store.put_if_absent(&key(), Bytes::from("1")).await.unwrap();
    let PutOutcome::Unknown(error) = outcome else {
        panic!("{outcome:?}")
    };
    let failure = error.remote().unwrap();
    assert_eq!(failure.request_id.as_deref(), Some("REQ7"));
    assert_eq!(failure.requests, 1);
    let agent = &stub.take_seen()[0].headers["user-agent"];
    assert!(
        agent.ends_with(&format!("operation/{}", failure.operation)),
        "{agent}"
    );
    let text = failure.to_string();
    assert!(
        text.contains("503 SlowDown") && text.contains("request=REQ7"),
        "{text}"
    );
    // Another operation, another id; the attempts of one share it.
    scene.first(2, |_| true, Reaction::done(Answer::Close));
    assert_eq!(store.get(&key()).await.unwrap(), None);
    let agents: Vec<String> = stub
        .take_seen()
        .iter()
        .map(|request| request.headers["user-agent"].clone())
        .collect();
    assert!(
        agents.len() == 3 && agents.iter().all(|other| other == &agents[0]),
        "{agents:?}"
    );
    assert!(!agents[0].ends_with(&failure.operation));
}

#[tokio::test]
async fn what_may_be_repeated_is_repeated_until_it_is_whole() {
    let broken = [
        Answer::Close,
        Answer::Reset,
        Answer::Half,
        Answer::HalfBody,
        Answer::HalfBodySilence,
        Answer::Silence,
        answer(500, "InternalError"),
        answer(503, "SlowDown"),
        answer(429, "TooManyRequests"),
    ];
    let content = Bytes::from("0123456789".repeat(20_000));
    for url in ["s3://bucket/db", "gs://bucket/db"] {
        for broken in &broken {
            let scene = scene(url).await;
            let (stub, store) = (&scene.stub, &scene.store);
            store.put(&key(), content.clone()).await.unwrap();
            // A silence lasts longer than half an operation.
            let is_silent = matches!(broken, Answer::HalfBodySilence | Answer::Silence);
            let count = if is_silent { 1 } else { 2 };
            let hook = || scene.first(count, |_| true, Reaction::done(broken.clone()));
            hook();
            assert_eq!(
                store.get_required(&key()).await.unwrap(),
                content,
                "{url} {broken:?}"
            );
            hook();
            let range = store.get_range(&key(), 7..100_007).await.unwrap();
            assert_eq!(range, content.slice(7..100_007), "{url} {broken:?}");
            if matches!(broken, Answer::HalfBody | Answer::HalfBodySilence) {
                // The answers below have no body, or one that is not streamed.
                continue;
            }
            hook();
            let listed = store.list_after(&Path::ROOT, None).await.unwrap();
            assert_eq!(listed.len(), 1, "{url} {broken:?}");
            hook();
            store.put(&key(), Bytes::from("new")).await.unwrap();
            hook();
            store.delete(&key()).await.unwrap();
            assert_eq!(stub.keys(), Vec::<String>::new(), "{url} {broken:?}");
        }
    }
}

#[tokio::test]
async fn an_upload_whose_answers_are_lost_is_whole_or_fails() {
    let parts = |request: &Request| request.query.contains_key("partNumber");
    let ends =
        |request: &Request| request.method == "POST" && request.query.contains_key("uploadId");
    for url in ["s3://bucket/db", "gs://bucket/db"] {
        for which in [parts as fn(&Request) -> bool, ends] {
            for broken in [Answer::Close, Answer::Reset, answer(500, "InternalError")] {
                for is_done in [true, false] {
                    let scene = scene(url).await;
                    let answer = broken.clone();
                    scene.first(1, which, Reaction { is_done, answer });
                    let objects = scene.store.objects();
                    let mut upload = objects.put_multipart(&key()).await.unwrap();
                    upload.put_part("0123456789".into()).await.unwrap();
                    upload.put_part("abc".into()).await.unwrap();
                    upload.complete().await.unwrap();
                    let found = scene.store.get_required(&key()).await.unwrap();
                    assert_eq!(found, "0123456789abc", "{url} {broken:?} done={is_done}");
                }
            }
        }
    }
    // Somebody aborted it: nothing is there, and nothing is made up.
    let scene = scene("s3://bucket/db").await;
    let objects = scene.store.objects();
    let mut upload = objects.put_multipart(&key()).await.unwrap();
    upload.put_part("0123456789".into()).await.unwrap();
    scene.first(9, |_| true, Reaction::not_done(answer(404, "NoSuchUpload")));
    upload.complete().await.unwrap_err();
}

#[tokio::test]
async fn a_server_that_stays_silent_ends_an_operation_within_its_budget() {
    let scene = scene("s3://bucket/db").await;
    scene.first(usize::MAX, |_| true, Reaction::done(Answer::Silence));
    let begun = scene.clock.monotonic();
    let error = scene.store.get(&key()).await.unwrap_err();
    let took = scene.clock.monotonic() - begun;
    assert!(took >= Duration::from_secs(120), "{took:?}");
    assert!(took < Duration::from_secs(120) + 3 * SILENCE, "{took:?}");
    let failure = error.remote().unwrap();
    assert!(failure.requests >= 2, "{failure}");
    assert!(failure.to_string().contains("operation="), "{failure}");
    let outcome = scene.store.put_if_absent(&key(), Bytes::from("1")).await;
    let PutOutcome::Unknown(error) = outcome.unwrap() else {
        panic!("an answer out of silence")
    };
    let reason = &error.remote().unwrap().reason;
    assert!(reason.contains("did not go on within 10s"), "{reason}");
}

#[tokio::test]
async fn a_dropped_call_ends_its_request() {
    let scene = scene("s3://bucket/db").await;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    scene.stub.set_hook(move |_| {
        arrived.send(()).unwrap();
        Reaction::done(Answer::Silence)
    });
    let key = key();
    tokio::select! {
        _ = scene.store.get(&key) => panic!("an answer out of silence"),
        _ = arrivals.recv() => {}
    }
    // Long enough for any limit and pause.
    scene.clock.run(4 * SILENCE);
    scene.clock.sleep(3 * SILENCE).await;
    assert_eq!(scene.stub.take_seen().len(), 1);
}

#[tokio::test]
async fn a_place_where_nobody_listens_is_told_without_the_url() {
    let gone = scene("s3://bucket/db").await;
    let options = gone.stub.s3_options();
    let Scene { stub, store, clock } = gone;
    drop((stub, store));
    let context = Context::new(Arc::new(clock), Arc::new(SeededRandom::new(11)));
    let store = open("s3://bucket/db", &options, context).unwrap();
    let outcome = store.put_if_absent(&key(), Bytes::from("1")).await;
    let PutOutcome::Unknown(error) = outcome.unwrap() else {
        panic!("an answer out of nowhere")
    };
    let reason = &error.remote().unwrap().reason;
    assert!(
        reason.contains("onnect") && !reason.contains("127.0.0.1"),
        "{reason}"
    );
}
