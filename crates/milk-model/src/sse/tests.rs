use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn decode_in(pieces: &[&[u8]]) -> Vec<Event> {
    let mut decoder = Decoder::new();
    for piece in pieces {
        decoder.push(piece).unwrap();
    }
    decoder.finish();
    std::iter::from_fn(|| decoder.next_event()).collect()
}

fn data_of(stream: &str) -> Vec<String> {
    decode_in(&[stream.as_bytes()]).into_iter().map(|event| event.data).collect()
}

#[test]
fn case_082_comments_and_other_fields_are_as_if_absent() {
    let stream = ": ping\n\n:\nevent: message\nid: 3\nretry: 10\n\ndata: a\n\n: between\ndata: b\n\n: before\ndata: [DONE]\n\n";
    assert_eq!(data_of(stream), ["a", "b", "[DONE]"]);
}

#[test]
fn case_083_any_line_end_and_any_number_of_spaces() {
    for end in ["\n", "\r\n", "\r"] {
        for (field, expected) in [("data: x", "x"), ("data:x", "x"), ("data:  x", " x")] {
            assert_eq!(
                data_of(&format!("{field}{end}{end}{field}{end}{end}")),
                [expected, expected],
                "{end:?} {field}"
            );
        }
    }
}

#[test]
fn case_085_characters_split_over_packets() {
    let stream = "data: naïve 漢字 👩‍🚀\n\n".as_bytes();
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode_in(&bytes)[0].data, "naïve 漢字 👩‍🚀");
}

#[test]
fn case_086_unicode_line_separators_are_data() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f";
    assert_eq!(data_of(&format!("data: {text}\n\n")), [text]);
}

#[test]
fn case_088e_the_last_event_needs_no_blank_line() {
    assert_eq!(data_of("data: a\n\ndata: [DONE]\n"), ["a", "[DONE]"]);
    assert_eq!(data_of("data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
    assert_eq!(data_of("data: [DONE]\r"), ["[DONE]"]);
    assert_eq!(data_of("data: a\n\nevent: x"), ["a"]);
}

#[test]
fn events_hold_their_fields() {
    let events = decode_in(&[
        b"event: e\nid: 7\ndata: 1\ndata\ndata: 2\n\ndata:\n\nevent: lost\n\nid: a\0b\ndata: 3\n\n",
    ]);
    let event = |name: &str, data: &str| Event { name: name.into(), data: data.into(), id: "7".into() };
    assert_eq!(events, [event("e", "1\n\n2"), event("", ""), event("", "3")]);
}

#[test]
fn a_byte_order_mark_counts_only_at_the_very_start() {
    assert_eq!(data_of("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n"), ["a", "c"]);
    assert_eq!(decode_in(&[b"\xEF", b"\xBB", b"\xBFdata: a", b"\n\n"])[0].data, "a");
    assert_eq!(data_of("\u{feff}\ndata: a\n\n"), ["a"]);
}

#[test]
fn a_return_dispatches_at_once_and_its_line_feed_is_not_a_second_line() {
    let mut decoder = Decoder::new();
    decoder.push(b"data: a\r\r").unwrap();
    assert_eq!(decoder.next_event().unwrap().data, "a");
    decoder.push(b"\ndata: b\r").unwrap();
    decoder.push(b"\ndata: c\r\n").unwrap();
    assert_eq!(decoder.next_event(), None);
    decoder.push(b"\r\n").unwrap();
    assert_eq!(decoder.next_event().unwrap().data, "b\nc");
}

#[test]
fn retry_is_digits_or_nothing() {
    let mut decoder = Decoder::new();
    decoder.push(b"retry: 12\nretry: x\nretry:\nretry: 1 2\n").unwrap();
    assert_eq!(decoder.retry_ms(), Some(12));
}

#[test]
fn bytes_that_are_no_text_become_marks() {
    assert_eq!(decode_in(&[b"data: a\xFFb\n\n"])[0].data, "a\u{fffd}b");
}

#[test]
fn size_is_bounded_and_what_came_before_is_kept() {
    let line = "x".repeat(40);
    for too_large in [
        format!("data: {line}"),
        format!("data: {line}\n"),
        format!(": {line}"),
        format!("data: {0}\ndata: {0}\n", &line[..20]),
        format!("data:{}", "\ndata:".repeat(50)),
    ] {
        let mut decoder = Decoder::with_limit(32);
        let result = decoder.push(format!("data: before\n\n{too_large}").as_bytes());
        assert_eq!(result, Err(EventTooLarge { limit: 32 }), "{too_large}");
        assert_eq!(decoder.push(b"\n\ndata: after\n\n"), Err(EventTooLarge { limit: 32 }));
        decoder.finish();
        assert_eq!(decoder.next_event().unwrap().data, "before");
        assert_eq!(decoder.next_event(), None);
        assert!(decoder.line.capacity() <= 32 && decoder.data.text.capacity() == 0);
    }
}

/// Whatever a seed of the corpus holds, it decodes without a panic and alike however it is cut.
#[test]
fn the_fuzz_corpus_replays() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sse");
    let seeds =
        std::fs::read_dir(&folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let mut count = 0;
    for seed in seeds {
        let whole = decode_in(&[&seed]);
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(decode_in(&seed.chunks(size).collect::<Vec<_>>()), whole, "in pieces of {size}");
        }
        count += 1;
    }
    assert!(count >= 5, "only {count} seeds in {}", folder.display());
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        stream in prop::collection::vec(prop::sample::select(b"data: \r\n:eventid\xEF\xBB\xBF\0x".to_vec()), 0..200),
        size in 1_usize..9,
    ) {
        let whole = decode_in(&[&stream]);
        prop_assert_eq!(decode_in(&stream.chunks(size).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn data_survives_the_round_trip(lines in prop::collection::vec("[^\r\n]{0,20}", 1..5), end in prop::sample::select(vec!["\n", "\r\n", "\r"])) {
        let fields: Vec<String> = lines.iter().map(|line| format!("data: {line}{end}")).collect();
        prop_assert_eq!(data_of(&format!("{}{end}", fields.concat())), [lines.join("\n")]);
    }
}
