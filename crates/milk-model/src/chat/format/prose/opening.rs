//! How reasoning and tool calls begin when they stand in the text: the table of marks, and whether a text that has only
//! just begun may still become one.

use milk_core::tool::ToolSpec;

/// The names of tags around reasoning.
const THOUGHTS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
];

/// The marks of tool calls.
const CALLS: &[(&str, Frame)] = &[
    ("<tool_call>", Frame::Until("</tool_call>")),
    ("<tools>", Frame::Until("</tools>")),
    ("<function_call>", Frame::Until("</function_call>")),
    ("<function=", Frame::Function),
    ("<|tool_call>", Frame::Until("<tool_call|>")),
    ("<start_function_call>", Frame::Until("<end_function_call>")),
    ("<|tool_call|>", Frame::MarkedJson),
    ("<|python_tag|>", Frame::MarkedJson),
    ("[TOOL_CALLS]", Frame::MarkedJson),
];

/// An end mark that some models write behind a call that had another beginning.
const STRAY_CALL_END: &str = "</tool_call>";

/// What may stand behind the backticks of a fence with a call in it.
const FENCE_INFOS: [&str; 4] = ["json", "xml", "tool_call", ""];

/// The longest beginning that is held back because it may become something, in bytes.
const LONGEST: usize = 256;

/// How a tool call that is written as text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// By this mark.
    Until(&'static str),
    /// By `</function>`; the opening belongs to the call.
    Function,
    /// With the JSON value behind its mark, which may have the tool's name before it.
    MarkedJson,
    /// With the JSON value; nothing marks it.
    BareJson,
    /// By the end of the fence; nothing else marks it.
    Fenced,
}

/// What begins at a place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Nothing.
    None,
    /// Perhaps something: the text ends too early to say.
    Perhaps,
    /// Reasoning; its tag has this length.
    Thought(usize),
    /// The end of reasoning whose beginning was never seen.
    StrayEnd(usize),
    /// A tool call; its mark has this length.
    Call(usize, Frame),
}

impl Opening {
    /// The surer one of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) => other,
            (Self::Perhaps, sure) if sure != Self::None => sure,
            _ => self,
        }
    }
}

/// Where a text stands in its reply.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Nothing visible stands before it in its line.
    pub(super) is_line_start: bool,
    /// Calls stand before it in the reply, so that an end mark may be one too many.
    pub(super) follows_calls: bool,
}

/// Whether something begins at the start of `text`, which stands outside of code.
pub(super) fn find(text: &str, place: Place, tools: &[ToolSpec]) -> Opening {
    let mut found = Opening::None;
    let mut consider = |candidate: Opening| found = found.or(candidate);
    let is_line_start = place.is_line_start;
    if place.follows_calls {
        consider(tag(text, STRAY_CALL_END, Opening::StrayEnd(STRAY_CALL_END.len())));
    }
    if is_line_start && text.starts_with('<') {
        for (open, close) in THOUGHTS {
            consider(tag(text, open, Opening::Thought(open.len())));
            consider(tag(text, close, Opening::StrayEnd(close.len())));
        }
    }
    if !tools.is_empty() && !text.starts_with(['{', '`']) {
        for (mark, frame) in CALLS {
            consider(tag(text, mark, Opening::Call(mark.len(), *frame)));
        }
    }
    if !tools.is_empty() && is_line_start {
        match text.as_bytes().first() {
            Some(b'{' | b'[') => consider(Reader::new(text).json_call(tools).opening(0, Frame::BareJson)),
            Some(b'`') => {
                let mut reader = Reader::new(text);
                let outcome = reader.fence_start();
                let start = reader.at;
                let outcome = outcome.and_then(|| reader.fenced_call(tools));
                consider(outcome.opening(start, Frame::Fenced));
            }
            _ => {}
        }
    }
    if found == Opening::Perhaps && text.len() > LONGEST { Opening::None } else { found }
}

/// The end of reasoning at the start of `text`: its length, if it is there or may come.
pub(super) fn find_thought_end(text: &str) -> Opening {
    THOUGHTS
        .iter()
        .fold(Opening::None, |found, (_, close)| found.or(tag(text, close, Opening::StrayEnd(close.len()))))
}

fn tag(text: &str, tag: &str, whole: Opening) -> Opening {
    let length = text.len().min(tag.len());
    if !text.as_bytes()[..length].eq_ignore_ascii_case(&tag.as_bytes()[..length]) {
        Opening::None
    } else if length < tag.len() {
        Opening::Perhaps
    } else {
        whole
    }
}

/// Whether a text fits so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// It ends before that can be said.
    TooShort,
}

impl Fit {
    fn and_then(self, next: impl FnOnce() -> Self) -> Self {
        if self == Self::Yes { next() } else { self }
    }

    fn opening(self, length: usize, frame: Frame) -> Opening {
        match self {
            Self::Yes => Opening::Call(length, frame),
            Self::No => Opening::None,
            Self::TooShort => Opening::Perhaps,
        }
    }
}

/// Reads a beginning word by word.
#[derive(Clone)]
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn word(&mut self, word: &str) -> Fit {
        let rest = self.rest();
        if rest.starts_with(word) {
            self.at += word.len();
            return Fit::Yes;
        }
        if word.starts_with(rest) { Fit::TooShort } else { Fit::No }
    }

    /// The word, with white space before it.
    fn spaced(&mut self, word: &str) -> Fit {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.word(word)
    }

    fn words(&mut self, words: &[&str]) -> Fit {
        words.iter().fold(Fit::Yes, |fit, word| fit.and_then(|| self.spaced(word)))
    }

    /// A JSON object, or a list of them, that names a tool on offer.
    fn json_call(&mut self, tools: &[ToolSpec]) -> Fit {
        if self.rest().starts_with('[') {
            self.at += 1;
        }
        self.spaced("{").and_then(|| {
            // Each try begins at the same place.
            let forms: [&[&str]; 3] = [
                &["\"name\"", ":", "\""],
                &["\"type\"", ":", "\"function\"", ",", "\"function\"", ":", "{", "\"name\"", ":", "\""],
                &["\"function\"", ":", "{", "\"name\"", ":", "\""],
            ];
            let fits = forms.map(|form| {
                let mut reader = self.clone();
                reader.words(form).and_then(|| reader.tool_name(tools))
            });
            let of = |wanted: Fit| fits.contains(&wanted).then_some(wanted);
            of(Fit::Yes).or_else(|| of(Fit::TooShort)).unwrap_or(Fit::No)
        })
    }

    fn tool_name(&mut self, tools: &[ToolSpec]) -> Fit {
        let (is_known, fit) = match self.rest().split_once('"') {
            Some((name, _)) => (tools.iter().any(|tool| tool.name == name), Fit::Yes),
            None => (tools.iter().any(|tool| tool.name.starts_with(self.rest())), Fit::TooShort),
        };
        if is_known { fit } else { Fit::No }
    }

    /// The line that opens a fence.
    fn fence_start(&mut self) -> Fit {
        self.word("```").and_then(|| {
            let fits = FENCE_INFOS.map(|info| {
                let mut reader = self.clone();
                let fit = reader.word(info).and_then(|| {
                    let blanks = |rest: &str| rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
                    reader.at += blanks(reader.rest());
                    reader.word("\n")
                });
                (fit, reader.at)
            });
            if let Some((_, end)) = fits.iter().find(|(fit, _)| *fit == Fit::Yes) {
                self.at = *end;
                return Fit::Yes;
            }
            if fits.iter().any(|(fit, _)| *fit == Fit::TooShort) { Fit::TooShort } else { Fit::No }
        })
    }

    /// What may stand in such a fence.
    fn fenced_call(&mut self, tools: &[ToolSpec]) -> Fit {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let mut marks = [self.clone(), self.clone(), self.clone()];
        let [tagged, function, json] = &mut marks;
        let fits = [tagged.word("<tool_call>"), function.word("<function="), json.json_call(tools)];
        if fits.contains(&Fit::Yes) {
            Fit::Yes
        } else if fits.contains(&Fit::TooShort) {
            Fit::TooShort
        } else {
            Fit::No
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    const LINE_START: Place = Place { is_line_start: true, follows_calls: false };

    fn at_line_start(text: &str) -> Opening {
        let spec = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: true.into(),
        };
        find(text, LINE_START, &[spec("read_file"), spec("bash")])
    }

    /// Every beginning of an opening is held, and nothing more than the opening is needed.
    #[test]
    fn every_beginning_is_held_back() {
        let cases = [
            ("<think>", Opening::Thought(7)),
            ("<Thinking>", Opening::Thought(10)),
            ("</thought>", Opening::StrayEnd(10)),
            ("<tool_call>", Opening::Call(11, Frame::Until("</tool_call>"))),
            ("<|tool_call>", Opening::Call(12, Frame::Until("<tool_call|>"))),
            ("<|tool_call|>", Opening::Call(13, Frame::MarkedJson)),
            ("<function=", Opening::Call(10, Frame::Function)),
            ("[TOOL_CALLS]", Opening::Call(12, Frame::MarkedJson)),
            ("{\"name\": \"read_file\"", Opening::Call(0, Frame::BareJson)),
            ("[ { \"name\" : \"bash\"", Opening::Call(0, Frame::BareJson)),
            ("{\"type\": \"function\", \"function\": {\"name\": \"bash\"", Opening::Call(0, Frame::BareJson)),
            ("```json\n{\"name\":\"bash\"", Opening::Call(8, Frame::Fenced)),
            ("``` \n<tool_call>", Opening::Call(5, Frame::Fenced)),
            ("```xml\n<function=", Opening::Call(7, Frame::Fenced)),
        ];
        for (text, expected) in cases {
            for end in 1..text.len() {
                assert_eq!(at_line_start(&text[..end]), Opening::Perhaps, "{:?}", &text[..end]);
            }
            assert_eq!(at_line_start(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_become_one_is_let_go_at_once() {
        for text in [
            "< ",
            "<b",
            "x",
            "{\"name\": \"A",
            "{\"name\": \"read_files",
            "{ 1",
            "{\"type\": \"object",
            "[x",
            "[{\"a",
            "```rust",
            "```json\n{\"a",
            "```\nlet",
            "`x",
            "<thinker",
            "<tool_callx",
            "{\"name\": 5",
        ] {
            assert_eq!(at_line_start(text), Opening::None, "{text}");
        }
        assert_eq!(at_line_start(&format!("{{{}", " ".repeat(300))), Opening::None);
        assert_eq!(find("<think>", Place::default(), &[]), Opening::None);
        assert_eq!(find("<tool_call>", LINE_START, &[]), Opening::None);
    }

    #[test]
    fn the_end_of_reasoning_is_found() {
        assert_eq!(find_thought_end("</think>b"), Opening::StrayEnd(8));
        assert_eq!(find_thought_end("</thin"), Opening::Perhaps);
        assert_eq!(find_thought_end("</thinking>"), Opening::StrayEnd(11));
        assert_eq!(find_thought_end("<think>"), Opening::None);
    }
}
