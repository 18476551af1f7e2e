//! What a person can do about common failures: small tables of known servers and known complaints.

use crate::http::BaseUrl;

/// A server that is known by its usual port on this machine.
struct Local {
    port: u16,
    name: &'static str,
    start: &'static str,
}

/// The usual ports of model servers.
const LOCALS: &[Local] = &[
    Local { port: 11434, name: "Ollama", start: "start it with `ollama serve`" },
    Local { port: 1234, name: "LM Studio", start: "start its server on the Developer page" },
    Local { port: 8080, name: "llama.cpp", start: "start it with `llama-server -m MODEL.gguf`" },
    Local { port: 8000, name: "vLLM", start: "start it with `vllm serve MODEL`" },
];

/// Parts of a server's complaint, in lower case, and what helps; `MODEL` stands for the model's name.
const COMPLAINTS: &[(&str, &str)] = &[
    ("does not support tools", "Choose a model that can call tools; `MODEL` cannot"),
    ("--jinja", "Start llama-server with `--jinja` so that the model can call tools"),
    ("requires more system memory", "Choose a smaller model or free some memory"),
    ("loading model", "The server is still loading `MODEL`; try again in a moment"),
    ("enable-auto-tool-choice", "Start vLLM with `--enable-auto-tool-choice` and a `--tool-call-parser`"),
    ("insufficient credits", "Add credit to the account, or choose another model"),
    ("insufficient_quota", "Add credit to the account, or choose another model"),
    ("exceeded your current quota", "Add credit to the account, or choose another model"),
];

fn local(base: &BaseUrl) -> Option<&'static Local> {
    LOCALS.iter().find(|local| base.is_loopback() && local.port == base.port())
}

/// For an address where nothing listens.
pub(super) fn for_silence(base: &BaseUrl, agent: &str) -> String {
    match local(base) {
        Some(Local { name, start, .. }) => format!("Is {name} running? If not, {start}"),
        None => format!("Is the server running? If it is elsewhere, change `url` of the agent `{agent}`"),
    }
}

/// For a model or a path that the server does not know.
pub(super) fn for_not_found(base: &BaseUrl, model: &str, agent: &str) -> String {
    let elsewhere = format!("Check `model` and `url` of the agent `{agent}`");
    match local(base) {
        Some(Local { name: "Ollama", .. }) => format!("{elsewhere}, or get it with `ollama pull {model}`"),
        _ => elsewhere,
    }
}

/// For a complaint that is known.
pub(super) fn for_message(message: &str, model: &str) -> Option<String> {
    let message = message.to_lowercase();
    let (_, cure) = COMPLAINTS.iter().find(|(part, _)| message.contains(part))?;
    Some(cure.replace("MODEL", model))
}
