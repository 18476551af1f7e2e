//! What the server answers: status, headers and a list of steps, built with a few words each.

use std::time::Duration;

use serde_json::{Value, json};

use super::gate::Gate;

/// One thing the server does while it answers.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes these bytes as they are.
    Bytes(Vec<u8>),
    /// Writes one SSE event with this data, with the reply's line end and data prefix.
    Event(String),
    /// Writes one `chat.completion.chunk` whose first choice has this `delta`.
    Delta(Value),
    /// Writes one tool call, in as many chunks as it has pieces.
    Call(ToolCall),
    /// Writes the chunk that carries `finish_reason`.
    Finish(String),
    /// Writes the chunk that carries usage and no choice.
    Usage {
        /// `prompt_tokens`
        prompt: u64,
        /// `completion_tokens`
        completion: u64,
    },
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Waits this long, for tests whose subject is time.
    Pause(Duration),
    /// Waits until this long after the first step, so that a paced stream does not drift.
    At(Duration),
    /// Holds the connection open until the client or the server goes.
    Hang,
    /// Closes the connection (FIN) here, with the body unfinished if it is.
    Close,
    /// Resets the connection (RST) here.
    Reset,
}

/// How the end of a body is made known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// `transfer-encoding: chunked`, one HTTP chunk per write.
    #[default]
    Chunked,
    /// `content-length`, counting the data of all steps, also of those behind a `Close`.
    ContentLength,
    /// Neither: the body ends when the connection does.
    UntilClose,
}

/// The line end of SSE lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`, legal too
    Cr,
}

impl LineEnd {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// How writes are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// One write for each step.
    #[default]
    PerStep,
    /// Writes of this many bytes each, whatever the step.
    Every(usize),
    /// As few writes as possible: steps with no wait between them go out together.
    Burst,
}

/// What comes before the body.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// A status line and headers.
    Http { status: u16, headers: Vec<(String, String)> },
    /// Nothing: the steps write every byte of the answer, the status line included.
    Raw,
}

/// One answer of the server.
///
/// ```
/// use milk_testkit::{Gate, Reply, ToolCall};
/// use serde_json::json;
///
/// // Whole replies
/// let _ = Reply::text("hello");
/// let _ = Reply::tool("read_file", json!({"path": "a.txt"}));
/// let _ = Reply::status(429).header("retry-after", "2");
/// let _ = Reply::silence();
///
/// // A reply built step by step: half of a tool call, then the connection breaks
/// let call = ToolCall::new("write_file", json!({"path": "a", "content": "x"})).pieces(4);
/// let _ = Reply::stream().think("hmm").say("I will ").call(call).reset();
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) head: Head,
    pub(crate) before_head: Vec<Step>,
    pub(crate) steps: Vec<Step>,
    pub(crate) framing: Framing,
    pub(crate) line_end: LineEnd,
    pub(crate) data_prefix: String,
    pub(crate) cut: Cut,
    pub(crate) close_after: bool,
}

impl Reply {
    fn with(head: Head) -> Self {
        Self {
            head,
            before_head: Vec::new(),
            steps: Vec::new(),
            framing: Framing::default(),
            line_end: LineEnd::default(),
            data_prefix: "data: ".to_owned(),
            cut: Cut::default(),
            close_after: false,
        }
    }

    // ---- whole replies

    /// An event stream with no event yet: status 200, to be continued with steps.
    pub fn stream() -> Self {
        Self::with(Head::Http {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
        })
    }

    /// A complete text answer in one delta, with usage and `[DONE]`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::deltas([text])
    }

    /// A complete text answer in these deltas, with usage and `[DONE]`.
    pub fn deltas<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        texts.into_iter().fold(Self::stream().role(), Self::say).end()
    }

    /// A complete answer that calls one tool.
    pub fn tool(name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self::tools([ToolCall::new(name, arguments)])
    }

    /// A complete answer that calls these tools.
    pub fn tools(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        calls.into_iter().fold(Self::stream().role(), Self::call).finish("tool_calls").usage(10, 5).done()
    }

    /// A status with an error body as such servers send it (none for success).
    pub fn status(status: u16) -> Self {
        if status < 400 {
            return Self::with(Head::Http { status, headers: Vec::new() }).framing(Framing::ContentLength);
        }
        let message = format!("scripted failure {status}");
        Self::json(status, &json!({"error": {"message": message, "type": "scripted", "code": status}}))
    }

    /// A status with this JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// A status with this body.
    pub fn body(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::with(Head::Http { status, headers: vec![("content-type".into(), content_type.into())] })
            .framing(Framing::ContentLength)
            .bytes(body)
    }

    /// A reply whose steps write every byte, the status line included.
    pub fn raw() -> Self {
        Self::with(Head::Raw)
    }

    /// Takes the request and never answers: not even a status line comes.
    pub fn silence() -> Self {
        Self::raw().hang()
    }

    /// Status and headers at once, then nothing.
    pub fn headers_only() -> Self {
        Self::stream().hang()
    }

    /// Breaks the connection (RST) in place of an answer.
    pub fn broken() -> Self {
        Self::raw().reset()
    }

    // ---- steps

    /// Adds any step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The first delta of ordinary servers: the role, with empty content.
    pub fn role(self) -> Self {
        self.delta(json!({"role": "assistant", "content": ""}))
    }

    /// A text delta.
    pub fn say(self, text: impl Into<String>) -> Self {
        let text: String = text.into();
        self.delta(json!({ "content": text }))
    }

    /// A reasoning delta (`reasoning_content`).
    pub fn think(self, text: impl Into<String>) -> Self {
        let text: String = text.into();
        self.delta(json!({ "reasoning_content": text }))
    }

    /// A chunk with this delta.
    pub fn delta(self, delta: Value) -> Self {
        self.step(Step::Delta(delta))
    }

    /// A tool call.
    pub fn call(self, call: ToolCall) -> Self {
        self.step(Step::Call(call))
    }

    /// An event with this JSON as its data, with no envelope of the kit's.
    pub fn chunk(self, chunk: &Value) -> Self {
        self.step(Step::Event(chunk.to_string()))
    }

    /// An event with this data.
    pub fn event(self, data: impl Into<String>) -> Self {
        self.step(Step::Event(data.into()))
    }

    /// These bytes.
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Bytes(bytes.into()))
    }

    /// The usage chunk.
    pub fn usage(self, prompt: u64, completion: u64) -> Self {
        self.step(Step::Usage { prompt, completion })
    }

    /// The chunk with the finish reason.
    pub fn finish(self, reason: impl Into<String>) -> Self {
        self.step(Step::Finish(reason.into()))
    }

    /// `data: [DONE]`.
    pub fn done(self) -> Self {
        self.event("[DONE]")
    }

    /// The ordinary end: finish reason `stop`, usage, `[DONE]`.
    pub fn end(self) -> Self {
        self.finish("stop").usage(10, 5).done()
    }

    /// Waits at a gate.
    pub fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    /// Waits this long (for tests whose subject is time).
    pub fn pause(self, time: Duration) -> Self {
        self.step(Step::Pause(time))
    }

    /// Holds the connection open until the client or the server goes.
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    /// Closes the connection here, unfinished.
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Resets the connection here.
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    // ---- form

    /// Adds a header, or replaces it.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        if let Head::Http { headers, .. } = &mut self.head {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            headers.push((name.to_owned(), value.into()));
        }
        self
    }

    /// Waits at a gate before anything is written, the status line included.
    pub fn held(mut self, gate: &Gate) -> Self {
        self.before_head.push(Step::Wait(gate.clone()));
        self
    }

    /// Waits this long before anything is written (for tests whose subject is time).
    pub fn delayed(mut self, time: Duration) -> Self {
        self.before_head.push(Step::Pause(time));
        self
    }

    /// Chooses how the end of the body is made known.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Chooses the line end of SSE lines (bytes given as such are left alone).
    pub fn line_end(mut self, line_end: LineEnd) -> Self {
        self.line_end = line_end;
        self
    }

    /// Writes this before the data of each event in place of `data: `.
    pub fn data_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.data_prefix);
        self
    }

    /// Chooses how writes are cut.
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    /// Sends one byte per write, and per HTTP chunk where the body is chunked.
    pub fn byte_by_byte(self) -> Self {
        self.cut(Cut::Every(1))
    }

    /// Says `connection: close` and closes after the body.
    pub fn close_after(mut self) -> Self {
        self.close_after = true;
        self
    }
}

/// A tool call as the model sends it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) pieces: usize,
}

/// The id of a call, as sent.
#[derive(Clone, Debug)]
pub(crate) enum CallId {
    /// The server makes one that is unique in its life.
    Fresh,
    Given(String),
}

impl ToolCall {
    /// A call in one piece, with an id that is unique for its server.
    pub fn new(name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let arguments: Value = arguments.into();
        Self { id: CallId::Fresh, name: name.into(), arguments: arguments.to_string(), pieces: 1 }
    }

    /// With this id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = CallId::Given(id.into());
        self
    }

    /// With this text as its arguments, JSON or not.
    pub fn raw_arguments(mut self, text: impl Into<String>) -> Self {
        self.arguments = text.into();
        self
    }

    /// In this many chunks: the first has id and name, the arguments are spread over all (cut between characters).
    pub fn pieces(mut self, pieces: usize) -> Self {
        self.pieces = pieces.max(1);
        self
    }

    /// The deltas that make up this call.
    pub(crate) fn deltas(&self, index: usize, fresh_id: &str) -> Vec<Value> {
        let id = match &self.id {
            CallId::Fresh => fresh_id,
            CallId::Given(id) => id,
        };
        let characters: Vec<char> = self.arguments.chars().collect();
        let size = characters.len().div_ceil(self.pieces).max(1);
        let mut parts = characters.chunks(size).map(|part| part.iter().collect::<String>());
        let first = parts.next().unwrap_or_default();
        let head = json!({"index": index, "id": id, "type": "function",
            "function": {"name": self.name, "arguments": first}});
        let rest = parts.map(|part| json!({"index": index, "function": {"arguments": part}}));
        std::iter::once(head).chain(rest).map(|call| json!({ "tool_calls": [call] })).collect()
    }
}
