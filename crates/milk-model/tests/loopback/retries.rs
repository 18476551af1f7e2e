//! What is sent again, when, and what is not (bug case 092).

use std::time::{Duration, SystemTime};

use milk_core::model::ModelErrorKind;
use milk_model::ChatConfig;
use milk_model::retry::RetryPolicy;
use milk_testkit::fault::RefusedPort;
use milk_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;

use crate::support::*;

#[tokio::test]
async fn case_092_failures_that_may_pass_are_repeated() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let server =
            ModelServer::script([Reply::status(status), Reply::status(status), Reply::text("ok")]).await;
        let outcome = say(&on(&server), "hi").await;
        assert_eq!(outcome.success(), "ok", "{status}");
        let attempts: Vec<(u32, u32)> =
            outcome.retries.iter().map(|retry| (retry.attempt, retry.limit)).collect();
        assert_eq!(attempts, [(2, 4), (3, 4)]);
        assert!(outcome.retries[0].cause.contains(&status.to_string()), "{outcome:?}");
        server.assert_played();
    }
}

#[tokio::test]
async fn case_092_permanent_failures_are_not() {
    use ModelErrorKind::{BadRequest, NotFound, Unauthorized};
    for (status, kind) in
        [(400, BadRequest), (401, Unauthorized), (403, Unauthorized), (404, NotFound), (422, BadRequest)]
    {
        let server = ModelServer::script([Reply::status(status)]).await;
        let outcome = say(&on(&server), "hi").await;
        let failure = outcome.failure();
        assert_eq!((failure.kind, failure.status, server.count()), (kind, Some(status), 1), "{failure}");
        assert!(!failure.kind.retry_can_help());
    }
}

#[tokio::test]
async fn case_092_tries_are_bounded() {
    let server = ModelServer::respond(|_| Reply::status(503)).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(
        (outcome.failure().kind, server.count(), outcome.retries.len()),
        (ModelErrorKind::ServerFailed, 4, 3)
    );
    let server = ModelServer::respond(|_| Reply::status(429)).await;
    let once = RetryPolicy { tries: 1, ..RetryPolicy::default() };
    let outcome = say(&model(ChatConfig { retry: once, ..config(server.url()) }), "hi").await;
    assert_eq!((outcome.failure().kind, server.count()), (ModelErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn case_092_the_wait_that_a_server_asks_for() {
    // The wait itself is announced before it begins; only the shortest one is sat through here.
    let in_two_seconds = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    let cases = [("2".to_owned(), 1_900..2_100), (in_two_seconds, 500..2_100), ("banana".to_owned(), 0..100)];
    for (asked, range) in cases {
        let server = ModelServer::script([Reply::status(503).header("retry-after", asked.as_str())]).await;
        let model = on(&server);
        let mut stream = milk_core::ports::Model::respond(&model, request(vec![user("hi")]));
        let first = futures_util::StreamExt::next(&mut stream).await.unwrap().unwrap();
        let milk_core::model::ModelEvent::Retrying(retry) = first else { panic!("{first:?}") };
        assert!(range.contains(&retry.wait.as_millis()), "{asked}: {retry:?}");
    }
    let server =
        ModelServer::script([Reply::status(429).header("retry-after-ms", "80"), Reply::text("ok")]).await;
    let start = std::time::Instant::now();
    assert_eq!(say(&on(&server), "hi").await.success(), "ok");
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn case_092_a_day_is_too_long() {
    let server = ModelServer::script([Reply::status(429).header("retry-after", "86400")]).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!(
        (outcome.failure().kind, server.count(), outcome.retries.len()),
        (ModelErrorKind::RateLimited, 1, 0)
    );
    assert!(outcome.failure().details.contains("1440 minutes"), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_fast_with_a_cure() {
    let port = RefusedPort::take().unwrap();
    let outcome = say(&model(config(port.url())), "hi").await;
    assert_eq!((outcome.failure().kind, outcome.retries.len()), (ModelErrorKind::Unreachable, 1));
    let told = outcome.failure().to_string();
    let address = port.address();
    assert!(told.starts_with(&format!("local: nothing answers at {address} (connection refused)")), "{told}");
    assert!(told.contains("Is the server running?") && told.contains("`coder`"), "{told}");
}

#[tokio::test]
async fn nothing_is_repeated_once_something_was_shown() {
    let server = ModelServer::script([Reply::stream().think("hm").reset()]).await;
    let outcome = say(&on(&server), "hi").await;
    assert_eq!((outcome.thought.as_str(), server.count()), ("hm", 1));
    outcome.failure();
}
