//! Model servers as they are: framing, cut streams, errors, retries, time-outs, proxies (issue text: Model server; R11,
//! R17).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 086, its part on replay after a restart | stored sessions |
//! | 087, its part on `/usage` | the command |

use std::net::{Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use milk_testkit::client::Speaker;
use milk_testkit::fault::{RefusedPort, peak_rss_bytes};
use milk_testkit::server::{Framing, LineEnd};
use milk_testkit::{ModelServer, Policy, Reply, Script, ToolCall};
use serde_json::{Value, json};

use crate::support::{
    Plan, Rig, answered, assert_has, assert_has_any, assert_lacks, ended, failed, results, within,
};

/// Plays each reply in a turn of its own, in one session; each must give this text.
async fn all_answer(text: &str, replies: impl IntoIterator<Item = Reply>) {
    let rig = Plan::replies(replies).no_retries().start().await;
    while rig.server.left() > 0 {
        let number = rig.server.count();
        let turn = rig.turn("go").await;
        assert_eq!(turn.text, text, "reply {number}: {turn:#?}");
        answered(&turn, text);
    }
}

fn chunk(choice: Value) -> Value {
    let mut chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"});
    chunk["choices"] = Value::Array(vec![choice]);
    chunk
}

// ---- 082 to 086: framing

#[tokio::test]
async fn case_082_comments_and_other_fields() {
    all_answer(
        "ab",
        [
            Reply::stream()
                .bytes(": ping\n\n:\nevent: message\nid: 3\nretry: 10\n")
                .say("a")
                .bytes(": OPENROUTER PROCESSING\n\n")
                .say("b")
                .bytes(": x\n")
                .finish("stop")
                .bytes(": before done\n")
                .done(),
            Reply::stream()
                .bytes(":\n\n:\n\n\n\n")
                .say("a")
                .bytes("id: 1\n\nevent: ping\ndata:\n\n")
                .say("b")
                .bytes("data\n\n")
                .end(),
            Reply::stream()
                .bytes("unknown: field\nno colon\n")
                .say("a")
                .bytes("retry: not a number\n\n")
                .say("b")
                .end(),
            Reply::stream()
                .bytes(": {\"choices\":[{\"delta\":{\"content\":\"in a comment\"}}]}\n\n")
                .deltas_then(["a", "b"]),
        ],
    )
    .await;
}

/// Continues a reply with text deltas and its ordinary end.
trait Deltas {
    fn deltas_then<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Reply;
}

impl Deltas for Reply {
    fn deltas_then<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Reply {
        texts.into_iter().fold(self, Reply::say).end()
    }
}

#[tokio::test]
async fn case_083_line_ends_and_spaces() {
    let reply = || Reply::deltas(["one ", "two"]);
    let mut replies = Vec::new();
    for end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
        for prefix in ["data: ", "data:", "data:  "] {
            replies.push(reply().line_end(end).data_prefix(prefix));
            replies.push(reply().line_end(end).data_prefix(prefix).byte_by_byte());
        }
    }
    replies.push(Reply::stream().bytes("\u{feff}").deltas_then(["one ", "two"]));
    all_answer("one two", replies).await;
}

/// An event's data may be spread over several lines (SSE standard).
#[tokio::test]
async fn case_083_one_event_in_several_data_lines() {
    let event = "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"one two\"},\ndata: \"finish_reason\":null}]}\n\n";
    all_answer("one two", [Reply::stream().bytes(event).end()]).await;
}

#[tokio::test]
async fn case_085_characters_split_over_packets() {
    let text = "naïve 漢字 👩\u{200d}🚀";
    all_answer(
        text,
        [Reply::text(text).byte_by_byte(), Reply::text(text).framing(Framing::UntilClose).byte_by_byte()],
    )
    .await;
}

const SEPARATORS: &str = "a\u{2028}b\u{2029}c\u{85}d\u{b}e";

#[tokio::test]
async fn case_086_unicode_line_separators_are_data() {
    let rig = Plan::replies([
        Reply::stream()
            .say(SEPARATORS)
            .call(ToolCall::new("read_file", json!({"path": "s.txt"})))
            .finish("tool_calls")
            .done(),
        Reply::text(SEPARATORS),
        Reply::text("next"),
    ])
    .start()
    .await;
    rig.home.write("s.txt", SEPARATORS);
    let turn = rig.turn("go").await;
    answered(&turn, &format!("{SEPARATORS}{SEPARATORS}"));
    let request = rig.server.request(1).await;
    assert_has(&results(&request)[0], SEPARATORS);
    answered(&rig.turn("go on").await, "next");
    let history = rig.server.request(2).await;
    assert_has(history.body["messages"].to_string().as_str(), "a\u{2028}b\u{2029}c\u{85}d");
}

// ---- 087: chunks with no choice in them

#[tokio::test]
async fn case_087_chunks_with_no_choice() {
    let filter =
        json!({"id": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]});
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    let odd = [
        json!({"choices": []}),
        json!({}),
        json!({"choices": null}),
        json!({"usage": null}),
        json!({"choices": null, "usage": {"prompt_tokens": null, "completion_tokens": "2"}}),
        json!({"choices": [{}]}),
        json!({"choices": [null]}),
        json!({"error": null, "choices": []}),
        chunk(json!({"index": 0, "delta": null})),
        chunk(json!({"index": 0})),
        chunk(json!({"index": 0, "delta": {"content": null}})),
        chunk(json!({"index": 0, "delta": {"content": null, "tool_calls": null, "reasoning_content": null}})),
        chunk(json!({"index": 0, "delta": {"tool_calls": []}, "finish_reason": null})),
        chunk(json!({"index": 0, "delta": {"role": null, "content": ""}})),
    ];
    let plain = Reply::stream()
        .chunk(&filter)
        .say("one ")
        .chunk(&json!({}))
        .say("two")
        .finish("stop")
        .chunk(&usage)
        .done();
    let mut replies = vec![plain];
    replies.extend(odd.iter().map(|chunk| {
        Reply::stream()
            .chunk(chunk)
            .say("one ")
            .chunk(chunk)
            .say("two")
            .chunk(chunk)
            .finish("stop")
            .chunk(chunk)
            .done()
    }));
    all_answer("one two", replies).await;
}

// ---- 088: the stream ends early

/// Text has been shown: no retry, an error that says so, and the text once.
async fn broke_after_text(reply: Reply) {
    let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
    let turn = rig.turn("go").await;
    let error = failed(&turn);
    assert_eq!(turn.text.matches("one two three").count(), 1, "the text that came stays, once: {turn:#?}");
    assert_has_any(&error.to_string(), &["stream", "connection", "broke", "ended", "closed"]);
    assert_eq!(rig.server.count(), 1, "no retry once text has been shown");
    answered(&rig.turn("again").await, "fine");
}

fn three() -> Reply {
    Reply::stream().role().say("one ").say("two ").say("three")
}

#[tokio::test]
async fn case_088_stream_ends_early_a_after_text() {
    broke_after_text(three().close()).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_a_after_text_in_good_form() {
    broke_after_text(three()).await;
    broke_after_text(three().framing(Framing::UntilClose)).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_c_reset() {
    broke_after_text(three().reset()).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_b_half_a_tool_call_is_never_run() {
    let half = || {
        let call = r#"{"path":"w.txt","content":"half of it"#;
        let head = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
            "function": {"name": "write_file", "arguments": call}}]});
        Reply::stream().role().delta(head)
    };
    // The last is complete JSON by chance, and yet the server had not finished.
    let whole = || {
        Reply::stream()
            .role()
            .call(ToolCall::new("write_file", json!({"path": "w.txt", "content": "x"})).pieces(3))
    };
    for cut in [half().close(), half().reset(), half(), whole().close(), whole().reset()] {
        let mut first = Some(cut);
        let rig = Plan::respond(move |_| first.take().unwrap_or_else(|| Reply::text("fine")))
            .policy(Policy::Allow)
            .start()
            .await;
        let turn = rig.turn("go").await;
        assert!(!rig.home.exists("w.txt"), "half a call was run: {turn:#?}");
        assert_eq!(rig.questions().len(), 0, "half a call was asked about: {turn:#?}");
        match &turn.response {
            Ok(_) => answered(&turn, "fine"),
            Err(_) => drop(failed(&turn)),
        }
        rig.assert_rows_ended();
        answered(&rig.turn("again").await, "fine");
    }
}

/// What becomes of a stream that ends at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Broken,
    Either,
    Whole,
}

/// Cuts a text and a call at every third byte: what came before is a prefix, the cut is an error, half a call is
/// never run, and a reply that has its finish reason is whole.
async fn cut_everywhere(framing: Framing, judge: fn(usize, &[usize; 2]) -> Cut) {
    let event = |choice: Value| format!("data: {}\n\n", chunk(choice));
    let call = json!({"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{\"command\":\"touch ran\"}"}});
    let before_finish = event(json!({"index": 0, "delta": {"content": "naïve "}}))
        + &event(json!({"index": 0, "delta": {"content": "漢字"}}))
        + &event(json!({"index": 0, "delta": {"tool_calls": [call]}}));
    let finish = event(json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"}));
    let whole = before_finish.clone() + &finish + "data: [DONE]\n\n";
    let complete = [before_finish.len() + finish.trim_end().len(), before_finish.len() + finish.len()];
    let cuts = || (0..whole.len()).step_by(3);
    let mut bodies: Vec<Vec<u8>> = cuts().map(|cut| whole.as_bytes()[..cut].to_vec()).rev().collect();
    let mut rig = Plan::respond(move |request| match request.messages().last() {
        Some(newest) if newest["role"] == "tool" => Reply::text(" done"),
        _ => Reply::stream().framing(framing).bytes(bodies.pop().expect("a cut")).close(),
    })
    .no_retries()
    .root("dangerously_skip_permissions", true)
    .start()
    .await;
    for (round, cut) in cuts().enumerate() {
        if round % 20 == 0 {
            rig.session = rig.session_in(rig.home.workspace()).await;
        }
        let turn = rig.turn("go").await;
        let expected = judge(cut, &complete);
        if expected == Cut::Broken || (expected == Cut::Either && turn.response.is_err()) {
            failed(&turn);
            assert!(!rig.home.exists("ran"), "cut at {cut}: half a call was run");
            assert!("naïve 漢字".starts_with(&turn.text), "cut at {cut}: {}", turn.text);
        } else {
            answered(&turn, "naïve 漢字 done");
            std::fs::remove_file(rig.home.workspace().join("ran")).unwrap();
        }
    }
}

#[tokio::test]
async fn case_088_stream_ends_early_wherever_the_body_ends() {
    let judge = |cut, [finish, _]: &[usize; 2]| if cut < *finish { Cut::Broken } else { Cut::Whole };
    cut_everywhere(Framing::UntilClose, judge).await;
}

/// The connection breaks in the middle of the body: once the event with the finish reason is whole, so is the reply.
#[tokio::test]
async fn case_088_stream_ends_early_wherever_the_connection_breaks() {
    let judge = |cut, [finish, whole]: &[usize; 2]| match cut {
        cut if cut < *finish => Cut::Broken,
        cut if cut < *whole => Cut::Either,
        _ => Cut::Whole,
    };
    cut_everywhere(Framing::Chunked, judge).await;
}

#[tokio::test]
async fn case_088_stream_ends_early_d_without_done() {
    all_answer(
        "one two three",
        [
            three().finish("stop"),
            three().finish("stop").framing(Framing::UntilClose),
            three().finish("stop").usage(1, 1),
        ],
    )
    .await;
}

#[tokio::test]
async fn case_088_stream_ends_early_e_without_the_last_blank_line() {
    let last = json!({"choices": [{"index": 0, "delta": {"content": "three"}, "finish_reason": "stop"}]});
    let head = || Reply::stream().role().say("one ").say("two ");
    all_answer(
        "one two three",
        [
            head().bytes(format!("data: {last}\n")),
            head().bytes(format!("data: {last}")),
            head().bytes(format!("data: {last}\n\ndata: [DONE]\n")),
            head().bytes(format!("data: {last}\n\ndata: [DONE]")),
        ],
    )
    .await;
}

// ---- 089: the server keeps the socket

#[tokio::test]
async fn case_089_the_socket_stays_open_after_done() {
    let rig = Plan::replies([three().end().hang(), Reply::text("fine")]).start().await;
    let turn = rig.turn("go").await;
    answered(&turn, "one two three");
    let idle = rig.agent.with_transcript(|transcript| {
        let entry = transcript.entries.iter().rfind(|entry| entry.json["id"] == *turn.id.as_json());
        entry.unwrap().at
    });
    // Known to be over on the server's side once milk has let go of it.
    rig.server.replied(0).await;
    let sent = *rig.server.sent(0).last().unwrap();
    within(idle.saturating_duration_since(sent), Duration::from_secs(1), "the end after [DONE]");
    answered(&rig.turn("again").await, "fine");
}

#[tokio::test]
async fn case_089_the_socket_stays_open_with_no_done() {
    let rig = Plan::replies([three().finish("stop").hang(), Reply::text("fine")])
        .agent("idle_timeout_secs", 1)
        .start()
        .await;
    let began = Instant::now();
    answered(&rig.turn("go").await, "one two three");
    within(began.elapsed(), Duration::from_secs(4), "the idle limit");
    assert_eq!(rig.server.count(), 1);
    answered(&rig.turn("again").await, "fine");
}

// ---- 090: an error object inside a 200 stream

#[tokio::test]
async fn case_090_an_error_inside_the_stream() {
    let errors = [
        json!({"error": {"message": "overloaded", "code": 502}, "choices": []}),
        json!({"error": {"message": "overloaded", "type": "server_error", "code": "server_error"}}),
        json!({"error": "overloaded"}),
        json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            "error": {"code": "server_error", "message": "overloaded"}}),
    ];
    for error in errors {
        let rig = Plan::replies([
            Reply::stream().say("one ").say("two").chunk(&error).done(),
            Reply::stream().chunk(&error).done(),
            Reply::text("fine"),
        ])
        .no_retries()
        .start()
        .await;
        let turn = rig.turn("go").await;
        assert_has(&failed(&turn).to_string(), "overloaded");
        assert_has(&turn.text, "one two");
        let turn = rig.turn("go").await;
        assert_has(&failed(&turn).to_string(), "overloaded");
        answered(&rig.turn("again").await, "fine");
    }
}

#[tokio::test]
async fn case_090_finish_reason_error() {
    let rig = Plan::replies([three().finish("error").done(), Reply::text("fine")]).no_retries().start().await;
    failed(&rig.turn("go").await);
    answered(&rig.turn("again").await, "fine");
}

/// 045: a failure is one line, and no dump of the body.
#[tokio::test]
async fn bodies_that_are_no_answer_fail_in_one_line() {
    let page = format!("<!DOCTYPE html><html><body>{}</body></html>", "<p>Bad gateway</p>".repeat(500));
    let replies = [
        Reply::body(200, "text/html", page.clone()),
        Reply::body(502, "text/html", page),
        Reply::body(200, "application/json", "{not json"),
        Reply::body(200, "text/event-stream", ""),
        Reply::body(404, "text/plain", ""),
    ];
    let count = replies.len();
    let rig = Plan::replies(replies.into_iter().chain([Reply::text("fine")])).no_retries().start().await;
    for _ in 0..count {
        let turn = rig.turn("go").await;
        let error = failed(&turn);
        let (message, details) =
            (error["message"].as_str().unwrap(), error["data"]["details"].as_str().unwrap());
        for line in [message, details] {
            assert!(line.lines().count() == 1 && line.len() < 1000, "one line: {line}");
            assert_lacks(line, "<p>");
        }
    }
    answered(&rig.turn("again").await, "fine");
}

/// Nothing that a server sends makes milk grow without bound.
#[tokio::test]
async fn floods_from_a_server_are_bounded_in_memory() {
    let flood = || "x".repeat(96 << 20);
    let replies = [
        Reply::stream().bytes("data: ").bytes(flood()).end(),
        Reply::stream().bytes(": ").bytes(flood()).end(),
        Reply::body(500, "application/json", flood()),
        Reply::body(200, "text/html", flood()),
        Reply::stream().bytes("data: x\n".repeat(12 << 20)).end(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let rig = Plan::replies([Reply::text("fine"), reply, Reply::text("fine")]).no_retries().start().await;
        answered(&rig.turn("go").await, "fine");
        let before = peak_rss_bytes(rig.agent.pid()).unwrap();
        let turn = rig.turn("go").await;
        // A comment is no content, however long it is; everything else is a fault.
        if number != 1 || turn.response.is_err() {
            failed(&turn);
        }
        let after = peak_rss_bytes(rig.agent.pid()).unwrap();
        assert!(after - before < 64 << 20, "reply {number}: memory grew by {} KiB", (after - before) >> 10);
        let shown = turn.response.map_or_else(|error| error.to_string().len(), |_| 0);
        assert!(shown < 64 << 10, "reply {number}: an error of {shown} bytes");
        answered(&rig.turn("again").await, "fine");
    }
}

// ---- R17: errors say what happened, to machines and to people

#[tokio::test]
async fn errors_carry_kind_details_provider_and_status() {
    for (status, retryable) in
        [(400, false), (401, false), (403, false), (404, false), (429, true), (500, true), (503, true)]
    {
        let rig = Plan::replies([Reply::status(status), Reply::text("fine")]).no_retries().start().await;
        let error = failed(&rig.turn("go").await);
        let data = error["data"].as_object().expect("data");
        assert!(data["kind"].as_str().is_some_and(|kind| !kind.is_empty()), "{error}");
        let details = data["details"].as_str().expect("a sentence for a person");
        assert_has(details, &status.to_string());
        assert!(data.values().any(|value| *value == json!(status)), "its HTTP status: {error}");
        assert!(data.values().any(|value| *value == json!("local")), "the provider's name: {error}");
        assert!(data.values().any(|value| *value == json!(retryable)), "whether a retry can help: {error}");
        answered(&rig.turn("again").await, "fine");
    }
}

#[tokio::test]
async fn errors_to_a_v1_client_use_its_code() {
    let rig = Plan::replies([Reply::status(401), Reply::text("fine")]).version(1).no_retries().start().await;
    let turn = rig.turn("go").await;
    let error = turn.response.unwrap_err();
    // R16: v1 clients read -32000 as "authentication required".
    assert_eq!(error["code"], -32603);
    assert_has(error["data"]["details"].as_str().unwrap(), "401");
    assert_eq!(rig.turn("again").await.text, "fine");
}

#[tokio::test]
async fn a_refused_connection_is_named() {
    let refused = RefusedPort::take().unwrap();
    let rig = Plan::replies([]).no_retries().agent("url", refused.url()).start().await;
    let error = failed(&rig.turn("go").await);
    assert_has(&error["data"]["details"].to_string(), &refused.address().to_string());
    failed(&rig.turn("again").await);
}

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

// ---- 095, 096: context overflow

const WINDOW: usize = 8192;

/// What a server counts as tokens: characters through four.
fn tokens(body: &[u8]) -> usize {
    String::from_utf8_lossy(body).chars().count() / 4
}

fn llama_refusal(size: usize) -> Value {
    json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": size, "n_ctx": WINDOW,
        "message": "the request exceeds the available context size, try increasing it"}})
}

fn openai_refusal(size: usize) -> Value {
    json!({"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "param": "messages",
        "message": format!("This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {size} tokens.")}})
}

/// A session whose history is over the window.
async fn long_session(script: Script) -> Rig {
    let rig = Plan::new(script).root("local_context_budget_chars", 400_000).start().await;
    for number in 0..12 {
        ended(&rig.turn(&format!("number {number}: {}", "word ".repeat(800))).await, "end_turn");
    }
    let request = rig.server.request(11).await;
    assert!(tokens(&request.raw_body) > WINDOW, "the history is over the window");
    rig
}

#[tokio::test]
async fn case_095_an_overflow_is_trimmed_with_the_servers_number() {
    for refusal in [llama_refusal, openai_refusal] {
        let strict = StrictSwitch::new();
        let rig = long_session(strict.script(refusal)).await;
        strict.on();
        let turn = rig.turn("the newest question").await;
        answered(&turn, "fine");
        let tries = rig.server.count() - 12;
        assert!(tries <= 3, "at most two trims: {tries} requests");
        let last = rig.server.request(rig.server.count() - 1).await;
        assert_has(&last.last_user(), "the newest question");
        assert_eq!(last.system(), rig.server.request(0).await.system(), "the system prompt stays");
    }
}

#[tokio::test]
async fn case_095_an_overflow_that_never_fits_ends() {
    let strict = StrictSwitch::new();
    let rig = long_session(strict.script_never(llama_refusal)).await;
    strict.on();
    let turn = rig.turn("the newest question").await;
    let error = failed(&turn);
    assert_has_any(&error.to_string(), &["context"]);
    let tries = rig.server.count() - 12;
    assert!(tries <= 4, "bounded: {tries} requests");
    strict.off();
    answered(&rig.turn("and now").await, "fine");
    let last = rig.server.request(rig.server.count() - 1).await;
    let all = last.body["messages"].to_string();
    for number in 0..12 {
        assert_has(&all, &format!("number {number}: "));
    }
}

/// Turned on by the test between turns.
#[derive(Clone)]
struct StrictSwitch(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl StrictSwitch {
    fn new() -> Self {
        Self(std::sync::Arc::default())
    }

    fn on(&self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn off(&self) {
        self.0.store(false, std::sync::atomic::Ordering::SeqCst);
    }

    fn is_on(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// While on, a request over the window is refused.
    fn script(&self, refusal: fn(usize) -> Value) -> Script {
        let switch = self.clone();
        Script::respond(move |request| {
            let size = tokens(&request.raw_body);
            if switch.is_on() && size >= WINDOW {
                Reply::json(400, &refusal(size))
            } else {
                Reply::text("fine")
            }
        })
    }

    /// While on, every request is refused.
    fn script_never(&self, refusal: fn(usize) -> Value) -> Script {
        let switch = self.clone();
        Script::respond(move |request| {
            if switch.is_on() {
                Reply::json(400, &refusal(tokens(&request.raw_body) + WINDOW))
            } else {
                Reply::text("fine")
            }
        })
    }
}

#[tokio::test]
async fn case_096_other_failures_are_no_overflow() {
    let failures = [
        (
            500,
            json!({"error": "model requires more system memory (9 GiB) than is available; context deadline"}),
        ),
        (404, json!({"error": {"message": "model not found", "type": "not_found"}})),
        (400, json!({"error": {"message": "unsupported parameter: context"}})),
    ];
    for (status, body) in failures {
        let rig = Plan::replies([
            Reply::text("first answer"),
            Reply::text("second answer"),
            Reply::json(status, &body),
            Reply::text("fine"),
        ])
        .no_retries()
        .start()
        .await;
        rig.turn("first question").await;
        rig.turn("second question").await;
        let error = failed(&rig.turn("third question").await);
        assert_has(&error.to_string(), &status.to_string());
        assert_eq!(rig.server.count(), 3, "no second try with less: {status}");
        answered(&rig.turn("fourth question").await, "fine");
        let (refused, next) = (rig.server.request(2).await, rig.server.request(3).await);
        assert_eq!(
            next.messages()[..refused.messages().len() - 1],
            refused.messages()[..refused.messages().len() - 1]
        );
        for text in ["first question", "first answer", "second question", "second answer"] {
            assert_has(&next.body["messages"].to_string(), text);
        }
    }
}

// ---- 097: proxies, and forms of the base URL

const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"];

fn behind_proxy(plan: Plan, proxy: &str) -> Plan {
    PROXIES.iter().fold(plan, |plan, name| plan.env(name, proxy))
}

#[tokio::test]
async fn case_097_loopback_is_never_proxied() {
    let refused = RefusedPort::take().unwrap();
    let v6: SocketAddr = (Ipv6Addr::LOCALHOST, 0).into();
    for suffix in ["", "/", "/v1", "/v1/"] {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let bind = if host == "[::1]" { v6 } else { ([127, 0, 0, 1], 0).into() };
            let Ok(server) = ModelServer::try_start(Script::replies([Reply::text("fine")]).bind(bind)).await
            else {
                // A machine without IPv6.
                continue;
            };
            let url = format!("http://{host}:{}{suffix}", server.address().port());
            let rig = behind_proxy(Plan::replies([]), &refused.url())
                .no_retries()
                .agent("url", url.clone())
                .start()
                .await;
            let turn = rig.turn("go").await;
            answered(&turn, "fine");
            assert_eq!(server.request(0).await.path, "/v1/chat/completions", "{url}");
        }
    }
}

#[tokio::test]
async fn case_097_a_remote_name_goes_through_the_proxy_and_not_where_no_proxy_says() {
    // What stands as a proxy gets the whole URL in the request line.
    let proxy = ModelServer::script([Reply::text("by the proxy")]).await;
    let rig = Plan::replies([])
        .no_retries()
        .env("HTTP_PROXY", &proxy.url())
        .env("http_proxy", &proxy.url())
        .agent("url", "http://model.invalid:8000/v1")
        .start()
        .await;
    answered(&rig.turn("go").await, "by the proxy");
    assert_eq!(proxy.request(0).await.path, "http://model.invalid:8000/v1/chat/completions");

    let rig = Plan::replies([])
        .no_retries()
        .env("HTTP_PROXY", &proxy.url())
        .env("http_proxy", &proxy.url())
        .env("NO_PROXY", "example.invalid,model.invalid")
        .env("no_proxy", "example.invalid,model.invalid")
        .agent("url", "http://model.invalid:8000/v1")
        .start()
        .await;
    failed(&rig.turn("go").await);
    assert_eq!(proxy.count(), 1, "NO_PROXY was not honoured");
}

// ---- 098: finish_reason and tool calls disagree

#[tokio::test]
async fn case_098_a_tool_call_runs_whatever_the_reason_says() {
    let call = || Reply::stream().role().call(ToolCall::new("read_file", json!({"path": "a.txt"})));
    let replies = [
        call().finish("stop").done(),
        call().finish("length").done(),
        call().finish("function_call").done(),
        call().finish("eos").done(),
        call().finish("").done(),
        call().done(),
        call().delta(json!({})).done(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let rig = Plan::replies([reply, Reply::text("fine")]).start().await;
        rig.home.write("a.txt", "content of a\n");
        let turn = rig.turn("go").await;
        if number == 1 && rig.server.count() == 1 {
            // Cut at the limit of tokens: the call may be incomplete, and then it is said so.
            ended(&turn, "max_tokens");
            continue;
        }
        answered(&turn, "fine");
        assert_has(&results(&rig.server.request(1).await)[0], "content of a");
    }
}

#[tokio::test]
async fn case_098_text_is_the_answer_whatever_the_reason_says() {
    let text = || Reply::stream().role().say("fine");
    all_answer(
        "fine",
        [
            text().finish("tool_calls").done(),
            text().delta(json!({"tool_calls": []})).finish("tool_calls").done(),
            text().finish("function_call").done(),
            text().finish("eos").done(),
            text().finish("").done(),
        ],
    )
    .await;
}

// ---- credentials reach the server, in every form of the config

#[tokio::test]
async fn keys_and_headers_reach_the_server() {
    let rig = Plan::replies([Reply::text("fine")])
        .env("CASE_KEY", "key-from-env")
        .env("CASE_HEADER", "header-from-env")
        .agent("api_key", "${CASE_KEY}")
        .agent("headers", json!({"X-Case": "${CASE_HEADER}", "X-Plain": "plain"}))
        .start()
        .await;
    answered(&rig.turn("go").await, "fine");
    let request = rig.server.request(0).await;
    assert_eq!(request.header("authorization"), Some("Bearer key-from-env"));
    assert_eq!(request.header("x-case"), Some("header-from-env"));
    assert_eq!(request.header("x-plain"), Some("plain"));
}

/// A refused token is fetched anew, once.
#[tokio::test]
async fn a_refused_token_is_fetched_again() {
    let rig = Plan::replies([Reply::status(401), Reply::text("fine")])
        .agent(
            "token_cmd",
            "n=$(cat ~/count 2>/dev/null || echo 0); n=$((n+1)); echo $n > ~/count; echo token-$n",
        )
        .start()
        .await;
    answered(&rig.turn("go").await, "fine");
    let tokens: Vec<_> = rig
        .server
        .requests()
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-2"]);
}

// ---- thoughts of the reply do not mix with its text (R8)

#[tokio::test]
async fn each_model_response_has_ids_of_its_own() {
    let rig = Plan::replies([
        Reply::stream()
            .think("first")
            .say("Let me look.")
            .call(ToolCall::new("read_file", json!({"path": "a.txt"})))
            .finish("tool_calls")
            .done(),
        Reply::stream().think("second").say("Found it.").end(),
    ])
    .start()
    .await;
    rig.home.write("a.txt", "x");
    let turn = rig.turn("go").await;
    ended(&turn, "end_turn");
    let messages = rig.agent.transcript().texts(&rig.session);
    let said: Vec<(Speaker, &str)> =
        messages.iter().map(|message| (message.speaker, message.text.as_str())).collect();
    assert_eq!(
        said,
        [
            (Speaker::User, "go"),
            (Speaker::Thought, "first"),
            (Speaker::Agent, "Let me look."),
            (Speaker::Thought, "second"),
            (Speaker::Agent, "Found it."),
        ]
    );
}
