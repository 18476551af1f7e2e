//! Retries, silence and slowness.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use milk_testkit::{Reply, Script};

use super::{Deltas as _, three};
use crate::support::{Plan, answered, assert_has, failed, within};

// ---- 092: retries

#[tokio::test]
async fn case_092_retry_after_is_waited_for() {
    for status in [429, 503] {
        let rig = Plan::replies([Reply::status(status).header("retry-after", "2"), Reply::text("fine")])
            .start()
            .await;
        answered(&rig.turn("go").await, "fine");
        let waited = rig.server.request(1).await.at - rig.server.request(0).await.at;
        assert!(waited >= Duration::from_secs(2), "{status}: asked for 2 s, waited {waited:?}");
        within(waited, Duration::from_secs(6), "more than what was asked for");
    }
}

#[tokio::test]
async fn case_092_retry_after_may_be_a_date() {
    let until = SystemTime::now() + Duration::from_secs(3);
    let rig =
        Plan::replies([Reply::status(429).header("retry-after", http_date(until)), Reply::text("fine")])
            .start()
            .await;
    answered(&rig.turn("go").await, "fine");
    // A date has whole seconds.
    let came = SystemTime::now() + Duration::from_secs(1);
    assert!(came >= until, "the retry came {:?} early", until.duration_since(came));
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
fn http_date(time: SystemTime) -> String {
    let seconds = i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 in eras of 400 years (Gregorian).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = usize::try_from((from_march + 2) % 12).unwrap();
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let weekday =
        ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days.rem_euclid(7)).unwrap()];
    let name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month];
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday}, {day:02} {name} {year} {hours:02}:{minutes:02}:{seconds:02} GMT")
}

#[test]
fn dates_are_as_in_the_standard() {
    let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
}

#[tokio::test]
async fn case_092_nonsense_in_retry_after_falls_back() {
    for nonsense in ["banana", "-5", "", "1e9", "99999999999999999999999999"] {
        let rig = Plan::replies([Reply::status(429).header("retry-after", nonsense), Reply::text("fine")])
            .start()
            .await;
        let turn = rig.turn("go").await;
        if nonsense.starts_with(['1', '9']) && turn.response.is_err() {
            // Read as a number it is longer than anybody waits: an error at once is right as well.
            continue;
        }
        answered(&turn, "fine");
    }
}

/// A day is longer than anybody waits in front of an editor: the user is told at once.
#[tokio::test]
async fn case_092_a_day_is_not_waited_for() {
    let rig =
        Plan::replies([Reply::status(429).header("retry-after", "86400"), Reply::text("fine")]).start().await;
    let began = Instant::now();
    let error = failed(&rig.turn("go").await);
    within(began.elapsed(), Duration::from_secs(10), &error);
    assert_has(&error.to_string(), "429");
    answered(&rig.turn("again").await, "fine");
}

#[tokio::test]
async fn case_092_retries_are_bounded() {
    for reply in [Reply::status(500), Reply::status(408), Reply::broken()] {
        let rig = Plan::new(Script::respond(move |_| reply.clone())).agent("retry_limit", 1).start().await;
        failed(&rig.turn("go").await);
        assert_eq!(rig.server.count(), 2, "one try and one retry");
    }
}

#[tokio::test]
async fn case_092_what_can_pass_is_retried() {
    for reply in
        [Reply::status(408), Reply::status(500), Reply::status(502), Reply::status(504), Reply::broken()]
    {
        let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
        answered(&rig.turn("go").await, "fine");
        assert_eq!(rig.server.count(), 2);
    }
}

#[tokio::test]
async fn case_092_what_can_never_succeed_is_asked_once() {
    for status in [400, 401, 403, 404, 422] {
        let rig = Plan::replies([Reply::status(status), Reply::text("fine")]).start().await;
        failed(&rig.turn("go").await);
        assert_eq!(rig.server.count(), 1, "{status}");
        answered(&rig.turn("again").await, "fine");
    }
}

/// A wait for a retry ends with a cancel.
#[tokio::test]
async fn case_092_a_cancel_ends_the_wait() {
    let rig =
        Plan::replies([Reply::status(429).header("retry-after", "20"), Reply::text("fine")]).start().await;
    let prompt = rig.agent.prompt(&rig.session, "go");
    rig.server.replied(0).await;
    rig.agent.cancel(&rig.session);
    let began = Instant::now();
    rig.agent.response(prompt).await.unwrap();
    within(began.elapsed(), Duration::from_secs(2), "the cancel");
    assert_eq!(rig.agent.until_idle(&rig.session).await, "cancelled");
    answered(&rig.turn("again").await, "fine");
}

// ---- 093, 094: silence

#[tokio::test]
async fn case_093_a_silent_stream_ends_at_the_idle_limit() {
    let rig =
        Plan::replies([three().hang(), Reply::text("fine")]).agent("idle_timeout_secs", 1).start().await;
    let began = Instant::now();
    let turn = rig.turn("go").await;
    failed(&turn);
    assert_eq!(turn.text, "one two three");
    assert!(began.elapsed() >= Duration::from_secs(1), "the limit is 1 s: {:?}", began.elapsed());
    within(began.elapsed(), Duration::from_secs(5), &turn);
    rig.server.closed(0).await;
    answered(&rig.turn("again").await, "fine");
}

#[tokio::test]
async fn case_093_the_limit_counts_silence_and_not_time() {
    let mut slow = Reply::stream();
    for _ in 0..8 {
        slow = slow.say("x").pause(Duration::from_millis(400));
    }
    let rig = Plan::replies([slow.end()]).agent("idle_timeout_secs", 1).start().await;
    answered(&rig.turn("go").await, "xxxxxxxx");
}

#[tokio::test]
async fn case_093_no_byte_at_all_ends_at_its_own_limit() {
    for silence in [Reply::silence(), Reply::headers_only()] {
        let rig = Plan::replies([silence, Reply::text("fine")])
            .agent("first_byte_timeout_secs", 1)
            .no_retries()
            .start()
            .await;
        let began = Instant::now();
        let turn = rig.turn("go").await;
        failed(&turn);
        within(began.elapsed(), Duration::from_secs(5), &turn);
        answered(&rig.turn("again").await, "fine");
    }
}

/// The idle limit does not hold for the first token, whatever the server sends to keep the connection alive.
#[tokio::test]
async fn case_094_a_slow_first_token_is_no_failure() {
    let pause = Duration::from_millis(1800);
    let replies = [
        Reply::stream().pause(pause).deltas_then(["fine"]),
        Reply::text("fine").delayed(pause),
        Reply::stream().bytes(": processing\n\n").pause(pause).deltas_then(["fine"]),
        Reply::stream().role().pause(pause).deltas_then(["fine"]),
    ];
    let count = replies.len();
    let rig = Plan::replies(replies).agent("idle_timeout_secs", 1).no_retries().start().await;
    for _ in 0..count {
        answered(&rig.turn("go").await, "fine");
    }
}

/// The case as reported, in its full length.
#[tokio::test]
#[ignore = "takes 150 seconds"]
async fn case_094_a_slow_first_token_in_full_length() {
    let mut slow = Reply::stream();
    for _ in 0..10 {
        slow = slow.bytes(": processing\n\n").pause(Duration::from_secs(15));
    }
    let rig = Plan::replies([slow.deltas_then(["fine"])]).start().await;
    let prompt = rig.agent.prompt(&rig.session, "go");
    rig.server.request(0).await;
    tokio::time::sleep(Duration::from_secs(145)).await;
    rig.agent.response(prompt).await.unwrap();
    assert_has(&rig.text(), "fine");
}
