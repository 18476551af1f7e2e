//! The rows. Names, types and defaults are those of earlier versions of milk where those had the key, so that people can
//! move over.

use super::Default::{
    Bool as is, Int as int, List as list, None as none, SameAs as same_as, Share as share, Text as text,
};
use super::Key;
use super::Kind::{
    Bool, Choice, Entries, Int, Object, ObjectList, Secret, SecretMap, Section, Share, Text, TextList, Word,
};
use super::Project::{Added, AtMost, Harmless, Inside, Narrowed, NeedsTrust, OnlyBool, OnlyText, PlainAgent};

/// The largest number that any key takes: exact in every JSON reader.
const MOST: i64 = 1 << 53;
/// A day in seconds.
const DAY: i64 = 86_400;

macro_rules! keys {
    ($($path:literal: $kind:expr, $default:expr, $project:expr, $help:literal;)*) => {
        /// Every key that milk knows, containers before what they hold.
        pub const KEYS: &[Key] = &[
            $(Key { path: $path, kind: $kind, default: $default, project: $project, help: $help },)*
        ];
    };
}

keys! {
    // Agents
    "agent": Text, none, PlainAgent, "the primary agent's name; without it, the first agent that is not an external program";
    "escalation_agent": Text, text("claude"), PlainAgent, "the agent for hard work";
    "agents": Entries, none, Inside, "the models and programs that answer";
    "agents[].name": Text, none, Inside, "unique, in any case; how other keys and commands name the agent";
    "agents[].provider": Word, none, NeedsTrust, "who serves the model: a known name gives `url` and `chat_path`; `bedrock`, `claude-cli`, `aider-cli` and `subprocess` are talked to in their own way";
    "agents[].url": Text, none, NeedsTrust, "base URL of the model server; `${NAME}` stands for an environment variable";
    "agents[].model": Word, none, Harmless, "the model's name at the server; without it, the first that the server lists";
    "agents[].api_key": Secret, none, NeedsTrust, "sent as a bearer token; `${NAME}` stands for an environment variable; without it, a known provider's own variable";
    "agents[].token_cmd": Text, none, NeedsTrust, "shell command that prints the bearer token; run again when the server refuses the token";
    "agents[].headers": SecretMap, none, NeedsTrust, "added to every request; `${NAME}` stands for an environment variable";
    "agents[].chat_path": Text, none, NeedsTrust, "path of chat completions under `url`; `/v1/chat/completions` unless the provider has another";
    "agents[].api_format": Choice(&["", "chat_completions", "responses"]), none, NeedsTrust, "dialect of the server";
    "agents[].tls_skip_verify": Bool, is(false), OnlyBool(false), "accept any certificate: whoever is on the way can read and change everything";
    "agents[].tls_ca_cert": Text, none, NeedsTrust, "PEM file with the authority of the server's certificate";
    "agents[].request_overrides": Object, none, NeedsTrust, "merged into the body of every request, field by field; null removes a field";
    "agents[].vision": Bool, is(false), Harmless, "the model can see images";
    "agents[].context_window_tokens": Int(1, MOST), none, Harmless, "size of the model's context";
    "agents[].system_prompt_tier": Choice(&["minimal", "standard", "full"]), text("full"), Harmless, "length of the system prompt; small models do better with less";
    "agents[].prompt": Text, none, NeedsTrust, "the agent's own system prompt";
    "agents[].prompt_file": Text, none, NeedsTrust, "file with the agent's own system prompt; wins over `prompt`";
    "agents[].disable_project_instructions": Bool, is(false), OnlyBool(true), "do not read AGENTS.md and CLAUDE.md";
    "agents[].disable_compaction": Bool, is(false), Harmless, "never summarise old turns";
    "agents[].bash_allowed_patterns": TextList, none, NeedsTrust, "shell commands that run without a question, beside the root's";
    "agents[].dangerously_skip_permissions": Bool, is(false), OnlyBool(false), "never ask";
    "agents[].connect_timeout_secs": Int(-1, DAY), same_as("connect_timeout_secs"), Harmless, "seconds to reach the server";
    "agents[].first_byte_timeout_secs": Int(-1, DAY), same_as("first_byte_timeout_secs"), Harmless, "seconds to the first byte of an answer";
    "agents[].idle_timeout_secs": Int(-1, DAY), same_as("idle_timeout_secs"), Harmless, "seconds between bytes of an answer";
    "agents[].retry_limit": Int(0, 100), same_as("retry_limit"), AtMost, "how often a request that failed before anything was shown is sent again; 0 never";
    "agents[].mcp_servers": TextList, none, NeedsTrust, "names of the MCP servers that this agent may use";
    "agents[].tools": ObjectList, none, NeedsTrust, "agents that this agent may use as tools";
    "agents[].run_cmd": Text, none, NeedsTrust, "shell command that starts the model server";
    "agents[].bin": Text, none, NeedsTrust, "the external program";
    "agents[].extra_args": TextList, none, NeedsTrust, "added to the external program's command line";
    "agents[].allowed_tools": TextList, none, NeedsTrust, "claude-cli: tools that it uses without a question";
    "agents[].add_dirs": TextList, none, NeedsTrust, "claude-cli: further folders";
    "agents[].settings": Object, none, NeedsTrust, "claude-cli: its settings";
    "agents[].action_type": Text, none, NeedsTrust, "subprocess: kind of actions";
    "agents[].model_type": Text, none, NeedsTrust, "subprocess: class of the model";
    "agents[].smolagent_tools": TextList, none, NeedsTrust, "subprocess: its tools";
    "agents[].max_steps": Int(0, 10_000), none, AtMost, "subprocess: most steps";
    "agents[].authorized_imports": TextList, none, NeedsTrust, "subprocess: modules that its code may import";
    "agents[].aws_region": Text, none, NeedsTrust, "bedrock: region";
    "agents[].aws_key_id": Secret, none, NeedsTrust, "bedrock: key id";
    "agents[].aws_secret": Secret, none, NeedsTrust, "bedrock: secret key";
    "agents[].aws_token": Secret, none, NeedsTrust, "bedrock: session token";
    "agents[].aws_service": Text, text("bedrock"), NeedsTrust, "bedrock: service that is signed for";
    "agents[].aws_refresh_cmd": Text, none, NeedsTrust, "bedrock: command that prints fresh credentials";
    "agents[].prompt_caching": Bool, is(false), Harmless, "bedrock: mark what may be cached";
    "agents[].limits": Section, none, Inside, "limits of this agent";
    "agents[].limits.max_tool_iterations": Int(-1, 1_000_000), same_as("local_max_tool_iterations"), AtMost, "model calls in one turn; -1 no limit, 0 the default";
    "agents[].limits.turn_timeout_secs": Int(-1, DAY), int(-1), AtMost, "seconds for one turn; -1 no limit";
    "agents[].limits.tool_timeout_secs": Int(-1, DAY), int(120), AtMost, "seconds for one tool call; -1 no limit, 0 the default";
    "agents[].limits.tool_result_max_bytes": Int(0, 1 << 24), same_as("local_tool_result_max_bytes"), Harmless, "bytes of a tool's result that the model sees; 0 the default";
    "agents[].limits.included_tools": TextList, none, Narrowed, "the only tools that the model is offered; an empty list is all";
    "agents[].limits.excluded_tools": TextList, none, Added, "tools that the model is not offered";
    "agents[].limits.context_budget_chars": Int(-1, MOST), same_as("context_budget_chars"), Harmless, "characters handed over between agents";
    "agents[].limits.message_budget_chars": Int(-1, MOST), same_as("local_context_budget_chars"), Harmless, "characters of history in a request";
    "agents[].limits.memory_reinjection_turns": Int(-1, MOST), same_as("local_memory_reinjection_turns"), Harmless, "turns until memory is told again";
    "agents[].limits.memory_reinjection_bytes": Int(-1, MOST), same_as("local_memory_reinjection_bytes"), Harmless, "bytes of output until memory is told again";
    "agents[].limits.memory_result_max_bytes": Int(0, 1 << 24), same_as("local_memory_result_max_bytes"), Harmless, "bytes of a memory tool's result";
    "agents[].limits.percept_inject_max": Int(-1, MOST), same_as("percept_inject_max"), Harmless, "memories told in a turn";
    "agents[].limits.percept_inject_max_bytes": Int(-1, MOST), same_as("percept_inject_max_bytes"), Harmless, "bytes of memories told in a turn";
    "agents[].limits.percept_relevance_gate": Bool, same_as("percept_relevance_gate"), Harmless, "tell only memories that share a word with the prompt";
    "agents[].limits.returning_fresh_start_local_turns": Int(-1, MOST), same_as("returning_fresh_start_local_turns"), Harmless, "turns away after which an agent starts afresh";
    "agents[].limits.max_payload_bytes": Int(-1, MOST), none, Harmless, "bytes of one request";
    "agents[].limits.compaction_trigger_tokens": Int(-1, MOST), none, Harmless, "tokens at which old turns are summarised";
    "agents[].limits.payload_trim_compaction_threshold": Int(-1, MOST), int(3), Harmless, "trims of a request after which old turns are summarised";
    "agents[].limits.escalate_after_recoveries": Int(-1, MOST), int(4), Harmless, "repaired tool calls after which the escalation agent takes over";
    "agent_tools": ObjectList, none, NeedsTrust, "agents that every agent may use as tools";

    // Permissions
    "dangerously_skip_permissions": Bool, none, OnlyBool(false), "never ask before a tool runs; without it, what the claude-cli agent says";
    "bash_allowed_patterns": TextList, none, NeedsTrust, "shell commands that run without a question, for all agents";
    "sandbox": Choice(&["auto", "on", "off"]), text("auto"), OnlyText("on"), "whether shell commands that nobody was asked about run locked into the workspace; `on` and `off` are for all commands";
    "claude_permissions": Choice(&["ask", "deny"]), text("ask"), OnlyText("deny"), "what happens when claude-cli wants a permission";
    "permissions": Section, none, Inside, "answers to questions that nobody answers";
    "permissions.background_timeout_secs": Int(0, DAY), int(360), NeedsTrust, "seconds until a background job's question is answered by itself";
    "permissions.background_default": Choice(&["allow", "deny"]), text("deny"), OnlyText("deny"), "that answer";
    "permissions.safety_timeout_secs": Int(0, DAY), int(360), NeedsTrust, "the same for questions of the loop guard";
    "permissions.safety_default": Choice(&["allow", "deny"]), text("deny"), OnlyText("deny"), "that answer";
    "experimental_permission_management": Bool, is(false), NeedsTrust, "claude-cli: keep its grants in milk";

    // Model calls
    "connect_timeout_secs": Int(-1, DAY), int(10), Harmless, "seconds to reach a model server; -1 no limit, 0 the default";
    "first_byte_timeout_secs": Int(-1, DAY), int(600), Harmless, "seconds to the first byte of an answer; a slow local model needs minutes; -1 no limit, 0 the default";
    "idle_timeout_secs": Int(-1, DAY), int(120), Harmless, "seconds between bytes of an answer; -1 no limit, 0 the default";
    "retry_limit": Int(0, 100), int(4), AtMost, "how often a request that failed before anything was shown is sent again; 0 never";
    "local_max_tool_iterations": Int(-1, 1_000_000), int(50), AtMost, "model calls in one turn; -1 no limit, 0 the default";
    "local_tool_result_max_bytes": Int(0, 1 << 24), none, Harmless, "bytes of a tool's result that the model sees; without it or 0, from the size of the context, else 20000";
    "local_context_budget_chars": Int(-1, MOST), int(24_000), Harmless, "characters of history in a request";
    "discovery": Bool, is(true), OnlyBool(false), "without an agent, look for a key in the environment, a local model server, a `claude` program";
    "disable_models_dev_lookup": Bool, is(false), OnlyBool(true), "never ask models.dev for the size of a context";
    "aws_auth_refresh": Bool, is(false), NeedsTrust, "reuse the refresh command of the claude program's settings";

    // Editors (ACP)
    "show_reasoning": Bool, is(true), Harmless, "show the model's reasoning";
    "acp_resume": Bool, is(true), Harmless, "a new session continues the directory's last one";
    "acp_streaming": Bool, is(true), Harmless, "send text as the model produces it; false sends each segment whole";
    "acp_prompt_response": Choice(&["held", "accepted"]), text("held"), Harmless, "answer a prompt when its turn has ended, or at once";
    "acp_replay_ids": Choice(&["hist", "live"]), text("hist"), Harmless, "ids of replayed messages: by place in the history, or those they had live";
    "acp_session_load": Bool, none, Harmless, "offer session/load to v1 clients; without it, to those known to need it";
    "acp_clients": Object, none, NeedsTrust, "changes to the table of known clients, by client name";

    // Routing and memory
    "sticky_escalation": Bool, is(true), Harmless, "stay with the escalation agent once the router chose it";
    "rules": Section, none, Inside, "which agent a prompt goes to";
    "rules.escalate_above_tokens": Int(0, MOST), int(2000), Harmless, "longer prompts escalate";
    "rules.local_below_tokens": Int(0, MOST), int(30), Harmless, "shorter prompts stay";
    "rules.escalate_keywords": TextList, list(&["refactor entire", "context brick", "memory panel", "panel memory"]), Harmless, "prompts with one of these escalate";
    "rules.escalate_threshold": Int(-1000, 1000), int(6), Harmless, "score from which a prompt escalates";
    "rules.local_threshold": Int(-1000, 1000), int(-4), Harmless, "score up to which a prompt stays";
    "rules.local_verb_weight": Int(-1000, 1000), int(-3), Harmless, "score of a verb of `local_verbs`";
    "rules.escalate_verb_weight": Int(-1000, 1000), int(4), Harmless, "score of a verb of `escalate_verbs`";
    "rules.path_ref_weight": Int(-1000, 1000), int(-2), Harmless, "score of a path in the prompt";
    "rules.code_block_weight": Int(-1000, 1000), int(-2), Harmless, "score of a code block in the prompt";
    "rules.open_question_weight": Int(-1000, 1000), int(3), Harmless, "score of an open question";
    "rules.classifier_fallback": Choice(&["local", "claude", "escalation"]), text("local"), Harmless, "who answers when the classifier cannot tell";
    "rules.local_verbs": TextList, none, Harmless, "verbs of simple work";
    "rules.escalate_verbs": TextList, none, Harmless, "verbs of hard work";
    "rules.open_question_prefixes": TextList, none, Harmless, "words that begin an open question";
    "context_budget_chars": Int(-1, MOST), int(12_000), Harmless, "characters handed over between agents";
    "memory_reinjection_turns": Int(-1, MOST), int(20), Harmless, "turns until an external agent is told its memory again; -1 never";
    "memory_reinjection_bytes": Int(-1, MOST), int(40_000), Harmless, "the same, by bytes of output";
    "local_memory_reinjection_turns": Int(-1, MOST), int(20), Harmless, "turns until an agent is told its memory again; -1 never";
    "local_memory_reinjection_bytes": Int(-1, MOST), int(40_000), Harmless, "the same, by bytes of output";
    "local_memory_result_max_bytes": Int(0, 1 << 24), int(2048), Harmless, "bytes of a memory tool's result";
    "percept_inject_max": Int(-1, MOST), int(25), Harmless, "memories told in a turn; -1 all";
    "percept_inject_max_bytes": Int(-1, MOST), int(2048), Harmless, "bytes of memories told in a turn; -1 all";
    "percept_store_max": Int(0, MOST), int(0), NeedsTrust, "memories kept; 0 all";
    "percept_relevance_gate": Bool, is(true), Harmless, "tell only memories that share a word with the prompt";
    "returning_fresh_start_local_turns": Int(-1, MOST), int(8), Harmless, "turns away after which an agent starts afresh; 0 never";
    "need_expiry_hours": Int(-1, MOST), int(24), Harmless, "hours until a resumed session forgets what was needed; -1 never";
    "experimental_lazy_history_management": Bool, is(false), Harmless, "placeholders for another agent's turns";

    // Work in the background
    "max_background_agents": Int(0, 1000), int(3), AtMost, "jobs of one session that run at once";
    "background_agent_timeout_minutes": Int(0, 10_080), int(20), AtMost, "minutes for one job";
    "loop_detection": Section, none, Inside, "the guard against loops";
    "loop_detection.enabled": Bool, is(true), OnlyBool(true), "watch for loops";
    "loop_detection.auto_interrupt": Bool, is(false), OnlyBool(true), "end a turn that surely loops";
    "loop_detection.chunk_repetition_threshold": Int(1, MOST), int(5), NeedsTrust, "the same piece of text in a row";
    "loop_detection.chunk_window_size": Int(1, 100_000), int(50), NeedsTrust, "pieces that are looked back on";
    "loop_detection.chunk_repetition_min_scattered_length": Int(1, MOST), int(40), NeedsTrust, "length from which pieces may lie apart";
    "loop_detection.reasoning_chunk_flood_threshold": Int(1, MOST), int(5000), NeedsTrust, "pieces of reasoning without an answer";
    "loop_detection.token_velocity_window_seconds": Int(1, DAY), int(60), NeedsTrust, "window of the token rate";
    "loop_detection.token_velocity_threshold": Int(1, MOST), int(300_000), NeedsTrust, "tokens in that window";
    "loop_detection.max_silent_burn_tokens": Int(1, MOST), int(20_000), NeedsTrust, "tokens read for nearly no answer";
    "loop_detection.max_consecutive_turns_without_user": Int(1, MOST), int(10), NeedsTrust, "turns in a row that nobody asked for";
    "loop_detection.max_consecutive_similar_responses": Int(1, MOST), int(3), NeedsTrust, "similar answers in a row";
    "loop_detection.response_similarity_threshold": Share, share(0.85), NeedsTrust, "how alike those are";
    "loop_detection.tool_echo_threshold": Int(1, MOST), int(3), NeedsTrust, "the same tools turn after turn";
    "loop_detection.reasoning_max_consecutive_similar_responses": Int(1, MOST), int(6), NeedsTrust, "similar pieces of reasoning in a row";

    // MCP
    "mcp_servers": Entries, none, Inside, "servers of further tools";
    "mcp_servers[].name": Text, none, Inside, "unique, in any case; part of its tools' names";
    "mcp_servers[].enabled": Bool, is(true), OnlyBool(false), "connect to it";
    "mcp_servers[].transport": Choice(&["http", "stdio"]), text("http"), NeedsTrust, "how it is talked to";
    "mcp_servers[].url": Text, none, NeedsTrust, "http: its URL";
    "mcp_servers[].command": Text, none, NeedsTrust, "stdio: the program";
    "mcp_servers[].args": TextList, none, NeedsTrust, "stdio: its arguments";
    "mcp_servers[].env": SecretMap, none, NeedsTrust, "stdio: variables added to its environment";
    "mcp_servers[].cwd": Text, none, NeedsTrust, "stdio: its working directory";
    "mcp_servers[].headers": SecretMap, none, NeedsTrust, "http: added to every request";
    "mcp_servers[].auth": Choice(&["", "none", "bearer", "token_cmd", "oauth"]), none, NeedsTrust, "how milk shows who it is";
    "mcp_servers[].api_key": Secret, none, NeedsTrust, "bearer token";
    "mcp_servers[].token_cmd": Text, none, NeedsTrust, "shell command that prints the bearer token";
    "mcp_servers[].oauth_client_id": Text, none, NeedsTrust, "registered client";
    "mcp_servers[].oauth_client_secret": Secret, none, NeedsTrust, "its secret";
    "mcp_servers[].oauth_scopes": TextList, none, NeedsTrust, "what is asked for";
    "mcp_servers[].oauth_auth_timeout": Text, text("5m"), NeedsTrust, "time for the person to sign in";
    "mcp_servers[].timeout": Text, text("30s"), NeedsTrust, "time for one request";
    "mcp_servers[].connect_timeout": Text, text("5s"), NeedsTrust, "time to connect";
    "mcp_servers[].tls_skip_verify": Bool, is(false), OnlyBool(false), "accept any certificate";

    // Oversight from afar
    "remote_oversight": Section, none, Inside, "questions and turns on a phone";
    "remote_oversight.backend": Choice(&["", "telegram"]), none, NeedsTrust, "by which service";
    "remote_oversight.telegram": Section, none, Inside, "the bot";
    "remote_oversight.telegram.token": Secret, none, NeedsTrust, "the bot's token";
    "remote_oversight.telegram.chat_id": Int(-MOST, MOST), none, NeedsTrust, "the only chat that is listened to";
    "remote_oversight.perm_timeout_secs": Int(0, DAY), int(120), NeedsTrust, "seconds for an answer";
    "remote_oversight.timeout_action": Choice(&["allow", "deny"]), text("deny"), NeedsTrust, "what counts after them";
    "remote_oversight.notify_tools": Bool, is(true), NeedsTrust, "tell of tool calls";

    // Records
    "otel": Section, none, Inside, "logs and metrics";
    "otel.enabled": Bool, is(true), NeedsTrust, "keep them";
    "otel.log_level": Choice(&["DEBUG", "INFO", "WARN", "ERROR"]), text("INFO"), NeedsTrust, "how much is logged";
    "otel.log_format": Choice(&["text", "json", "off"]), text("text"), NeedsTrust, "how it is written";
    "otel.log_context": Bool, is(false), NeedsTrust, "log what the model is sent";
    "otel.traces": Bool, is(true), NeedsTrust, "keep traces";
    "otel.metrics": Bool, is(true), NeedsTrust, "keep metrics";
    "otel.warn_mb": Int(0, MOST), int(50), NeedsTrust, "size from which a warning is given";
    "otel.max_mb": Int(0, MOST), int(0), NeedsTrust, "size that is not passed; 0 none";
    "otel.metrics_flush_minutes": Int(0, MOST), int(5), NeedsTrust, "minutes between writes";
    "otel.pre_debug_log_level": Text, none, NeedsTrust, "level to go back to after debugging";
    "otel.debug_log_max_bytes": Int(0, MOST), int(104_857_600), NeedsTrust, "bytes of one raw log";
    "otel.debug_log_max_files": Int(0, 1000), int(5), NeedsTrust, "raw logs kept";
    "debug_claude_code": Bool, is(false), NeedsTrust, "keep a raw log of claude-cli";
    "debug_local": Bool, is(false), NeedsTrust, "keep a raw log of model servers";
    "debug_subprocess": Bool, is(false), NeedsTrust, "keep a raw log of subprocess agents";

    // Terminal and updates
    "colorization": Choice(&["off", "fenced", "balanced", "full"]), text("balanced"), Harmless, "colours in the terminal";
    "config_editors": TextList, list(&["$EDITOR", "$VISUAL", "nano", "vim", "vi"]), NeedsTrust, "editors, the first that is there";
    "direct_bash": Bool, is(false), NeedsTrust, "run prompts that look like shell commands";
    "direct_bash_allow": TextList, none, NeedsTrust, "beginnings of those that need no question";
    "shell_binaries": TextList, none, NeedsTrust, "further programs to know a shell command by";
    "update_check": Bool, is(true), NeedsTrust, "look for updates at the start";
    "update_channel": Choice(&["", "pre", "stable"]), none, NeedsTrust, "which releases count";
    "update_last_check": Text, none, NeedsTrust, "when updates were last looked for";
    "update_skipped_version": Text, none, NeedsTrust, "the release that is not to be offered";
}
