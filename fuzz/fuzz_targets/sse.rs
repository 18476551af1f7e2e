//! Any bytes from a model server become the same events however packets cut them, and no event is over the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milk_model::sse::{Decoder, Event};

/// Small enough for the fuzzer to find the way over it.
const LIMITS: [usize; 3] = [1, 64, 1 << 20];

fuzz_target!(|input: &[u8]| {
    for limit in LIMITS {
        let whole = decode(input.chunks(input.len().max(1)), limit);
        for event in &whole.0 {
            // A byte that is no UTF-8 becomes a mark of three, so only text that had none can be measured.
            let as_sent = !event.data.contains('\u{FFFD}');
            assert!(!as_sent || event.data.len() <= limit, "an event over the limit");
            assert!(!event.name.contains(['\r', '\n']), "a line end in a name");
            assert!(!event.data.contains('\r'), "a carriage return in the data");
        }
        for size in [1, 2, 7] {
            assert_eq!(decode(input.chunks(size), limit), whole, "cut every {size}");
        }
    }
});

/// The events, and whether the stream was given up because one was too large.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> (Vec<Event>, bool) {
    let mut decoder = Decoder::with_limit(limit);
    let mut gave_up = false;
    for piece in pieces {
        gave_up |= decoder.push(piece).is_err();
    }
    decoder.finish();
    (std::iter::from_fn(|| decoder.next_event()).collect(), gave_up)
}
