//! Known model servers, as tables: providers reached with a key, and servers that people run on their own machine.

use milk_files::Env;

use crate::secret::Secret;

/// How an agent is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderKind {
    /// Chat completions over HTTP: `local`, no provider at all, or any name that is not listed here.
    ChatCompletions,
    /// AWS Bedrock.
    Bedrock,
    /// The `claude` program.
    ClaudeCli,
    /// The `aider` program.
    AiderCli,
    /// Any program that speaks milk's line protocol.
    Subprocess,
}

impl ProviderKind {
    /// The kind that a config's `provider` means.
    pub fn of(provider: &str) -> Self {
        match provider {
            "bedrock" => Self::Bedrock,
            "claude-cli" => Self::ClaudeCli,
            "aider-cli" => Self::AiderCli,
            "subprocess" => Self::Subprocess,
            _ => Self::ChatCompletions,
        }
    }

    /// Whether the agent is a program with its own tools and permissions.
    pub fn is_external(self) -> bool {
        matches!(self, Self::ClaudeCli | Self::AiderCli | Self::Subprocess)
    }
}

/// The path of chat completions unless a provider or an agent says otherwise.
pub const CHAT_PATH: &str = "/v1/chat/completions";

/// A provider that is reached over the internet with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name in an agent's `provider`.
    pub name: &'static str,
    /// Environment variables that may hold its key, in order. None of them is passed to child processes.
    pub key_env: &'static [&'static str],
    /// Base URL.
    pub url: &'static str,
    /// Path of chat completions under it.
    pub chat_path: &'static str,
    /// A model to begin with: an alias that the provider keeps current, where it has one.
    pub model: Option<&'static str>,
}

impl Preset {
    /// The key that the environment holds, with the variable's name.
    pub fn key_in(&self, env: &Env) -> Option<(&'static str, Secret)> {
        self.key_env.iter().find_map(|name| {
            let value = env.get(name)?.trim();
            (!value.is_empty()).then(|| (*name, Secret::new(value)))
        })
    }
}

const fn preset(
    name: &'static str,
    key_env: &'static [&'static str],
    url: &'static str,
    chat_path: &'static str,
    model: Option<&'static str>,
) -> Preset {
    Preset { name, key_env, url, chat_path, model }
}

const BARE: &str = "/chat/completions";

/// Every known provider, in the order in which discovery tries them.
#[rustfmt::skip]
pub const PRESETS: &[Preset] = &[
    preset("openrouter", &["OPENROUTER_API_KEY"], "https://openrouter.ai/api", CHAT_PATH, Some("openrouter/auto")),
    preset("anthropic", &["ANTHROPIC_API_KEY"], "https://api.anthropic.com", CHAT_PATH, Some("claude-sonnet-4-5")),
    preset("openai", &["OPENAI_API_KEY"], "https://api.openai.com", CHAT_PATH, Some("gpt-5")),
    preset("gemini", &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        "https://generativelanguage.googleapis.com/v1beta/openai", BARE, Some("gemini-flash-latest")),
    preset("mistral", &["MISTRAL_API_KEY"], "https://api.mistral.ai", CHAT_PATH, Some("mistral-medium-latest")),
    preset("deepseek", &["DEEPSEEK_API_KEY"], "https://api.deepseek.com", CHAT_PATH, Some("deepseek-chat")),
    preset("xai", &["XAI_API_KEY"], "https://api.x.ai", CHAT_PATH, Some("grok-4")),
    preset("groq", &["GROQ_API_KEY"], "https://api.groq.com/openai", CHAT_PATH, Some("openai/gpt-oss-120b")),
    preset("cerebras", &["CEREBRAS_API_KEY"], "https://api.cerebras.ai", CHAT_PATH, Some("gpt-oss-120b")),
    preset("moonshot", &["MOONSHOT_API_KEY"], "https://api.moonshot.ai", CHAT_PATH, Some("kimi-latest")),
    preset("zai", &["ZAI_API_KEY", "ZHIPU_API_KEY"], "https://api.z.ai/api/paas/v4", BARE, None),
    preset("together", &["TOGETHER_API_KEY"], "https://api.together.xyz", CHAT_PATH, None),
    preset("fireworks", &["FIREWORKS_API_KEY"], "https://api.fireworks.ai/inference", CHAT_PATH, None),
    preset("nvidia", &["NVIDIA_API_KEY"], "https://integrate.api.nvidia.com", CHAT_PATH, None),
];

/// A model server that people run on their own machine, on the port that it takes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopbackServer {
    /// The name in an agent's `provider`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// Its usual port.
    pub port: u16,
}

impl LoopbackServer {
    /// Base URL. Chat completions are at [`CHAT_PATH`] under it, the list of models at `/v1/models`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Every well-known server on this machine, in the order in which discovery prefers them.
pub const LOOPBACK_SERVERS: &[LoopbackServer] = &[
    LoopbackServer { name: "ollama", title: "Ollama", port: 11434 },
    LoopbackServer { name: "llama.cpp", title: "llama.cpp", port: 8080 },
    LoopbackServer { name: "lmstudio", title: "LM Studio", port: 1234 },
    LoopbackServer { name: "vllm", title: "vLLM", port: 8000 },
    LoopbackServer { name: "sglang", title: "SGLang", port: 30000 },
    LoopbackServer { name: "jan", title: "Jan", port: 1337 },
    LoopbackServer { name: "koboldcpp", title: "KoboldCpp", port: 5001 },
];

/// The preset of a provider, by name in any case.
pub fn find(provider: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(provider))
}

/// The well-known server on this machine, by name in any case.
pub fn find_loopback(provider: &str) -> Option<&'static LoopbackServer> {
    LOOPBACK_SERVERS.iter().find(|server| server.name.eq_ignore_ascii_case(provider))
}

/// Variables that hold secrets of milk whatever the config says: every provider's key and the bot's token.
pub fn key_variables() -> impl Iterator<Item = &'static str> + use<> {
    let bot = ["TELEGRAM_BOT_TOKEN", "MILK_TELEGRAM_TOKEN"];
    PRESETS.iter().flat_map(|preset| preset.key_env).copied().chain(bot)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::server_url::ServerUrl;

    #[test]
    fn every_row_is_usable() {
        let mut names = BTreeSet::new();
        for preset in PRESETS {
            assert!(names.insert(preset.name), "{} twice", preset.name);
            assert!(!preset.key_env.is_empty(), "{}", preset.name);
            let url = ServerUrl::parse(preset.url).unwrap();
            assert!(preset.url.starts_with("https://") && !url.is_loopback(), "{}", preset.name);
            assert!(url.join(preset.chat_path).expose().ends_with("/chat/completions"), "{}", preset.name);
            assert_eq!(ProviderKind::of(preset.name), ProviderKind::ChatCompletions);
        }
        for server in LOOPBACK_SERVERS {
            assert!(names.insert(server.name), "{} twice", server.name);
            assert!(ServerUrl::parse(&server.url()).unwrap().is_loopback());
        }
    }

    #[test]
    fn rows_are_found_in_any_case() {
        assert_eq!(find("OpenRouter").map(|p| p.name), Some("openrouter"));
        assert_eq!(find_loopback("Ollama").map(|s| s.port), Some(11434));
        assert!(find("ollama").is_none() && find("").is_none());
    }

    #[test]
    fn a_key_comes_from_the_first_variable_that_holds_one() {
        let gemini = find("gemini").unwrap();
        for (vars, expected) in [
            (vec![("GEMINI_API_KEY", "a"), ("GOOGLE_API_KEY", "b")], Some(("GEMINI_API_KEY", "a"))),
            (vec![("GEMINI_API_KEY", " "), ("GOOGLE_API_KEY", "b\n")], Some(("GOOGLE_API_KEY", "b"))),
            (vec![("OPENAI_API_KEY", "c")], None),
        ] {
            let found = gemini.key_in(&Env::of(vars));
            assert_eq!(found.as_ref().map(|(name, key)| (*name, key.expose())), expected);
        }
    }

    #[test]
    fn external_programs_are_known() {
        for (provider, kind, external) in [
            ("", ProviderKind::ChatCompletions, false),
            ("local", ProviderKind::ChatCompletions, false),
            ("anything", ProviderKind::ChatCompletions, false),
            ("bedrock", ProviderKind::Bedrock, false),
            ("claude-cli", ProviderKind::ClaudeCli, true),
            ("aider-cli", ProviderKind::AiderCli, true),
            ("subprocess", ProviderKind::Subprocess, true),
        ] {
            assert_eq!((ProviderKind::of(provider), kind.is_external()), (kind, external), "{provider}");
        }
    }
}
