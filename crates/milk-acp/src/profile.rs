//! What real clients cannot bear: a table with one row a client, and a source for each row (R39).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::wire::Version;

/// How milk behaves towards one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Whether the user's message is echoed when its turn starts.
    pub echo: Echo,
    /// One-line notices while no turn runs.
    pub notices: OutsideTurn,
    /// Rows of background jobs while no turn runs.
    pub job_rows: OutsideTurn,
    /// Turns that milk starts by itself when background work has ended.
    pub follow_ups: FollowUps,
    /// Whether v1's `session/load` is offered (R40).
    pub session_load: SessionLoad,
}

/// Whether the user's message is echoed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// It is (contract: accept-echo).
    Sent,
    /// It is not: the client would show the message twice.
    Omitted,
}

/// What becomes of an update that falls outside a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideTurn {
    /// It is sent at once.
    Live,
    /// It waits for the next turn.
    Held,
}

/// Whether milk starts turns by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUps {
    /// It does.
    Run,
    /// The results wait for the next prompt.
    Wait,
}

/// Whether `session/load` is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLoad {
    /// The client restores sessions in no other way.
    Offered,
    /// `-32601`, as the contract says.
    Refused,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct KnownClient {
    /// The name that it gives in `initialize`.
    pub name: &'static str,
    /// How milk behaves towards it, when it speaks v1.
    pub profile: Profile,
    /// Where that comes from.
    pub source: &'static str,
}

/// An unknown v2 client: everything, as v2 allows it.
const ANY_V2: Profile = Profile {
    echo: Echo::Sent,
    notices: OutsideTurn::Live,
    job_rows: OutsideTurn::Live,
    follow_ups: FollowUps::Run,
    session_load: SessionLoad::Refused,
};

/// An unknown v1 client: notices wait, because v1 has no notion of them (R39).
const ANY_V1: Profile = Profile { notices: OutsideTurn::Held, ..ANY_V2 };

/// The known clients. All of them speak v1; one that comes back speaking v2 is treated as v2 says.
pub const KNOWN: &[KnownClient] = &[
    KnownClient {
        name: "toad",
        profile: Profile { echo: Echo::Omitted, session_load: SessionLoad::Offered, ..ANY_V1 },
        source: "github.com/mistralai/mistral-vibe/issues/414 (its name; a user_message_chunk makes another entry); \
                 restores with session/load only (tried)",
    },
    KnownClient {
        name: "obsidian-agent-client",
        profile: Profile { echo: Echo::Omitted, ..ANY_V1 },
        source: "github.com/anomalyco/opencode/issues/21708 (shows the user's message twice)",
    },
    KnownClient {
        name: "vscode-acp-client",
        profile: Profile { echo: Echo::Omitted, ..ANY_V1 },
        source: "github.com/formulahendry/vscode-acp/pull/56 (an echo is appended to the message that is already there)",
    },
    KnownClient {
        name: "zed",
        profile: Profile {
            echo: Echo::Omitted,
            notices: OutsideTurn::Live,
            session_load: SessionLoad::Offered,
            ..ANY_V1
        },
        source: "github.com/zed-industries/zed/pull/41265 (its name), pull/53216 (drops the echo, showed it twice before), \
                 issues/64126 (its users want what happens between turns); prefers session/load, which shows the history",
    },
    KnownClient {
        name: "codecompanion.nvim",
        profile: Profile { session_load: SessionLoad::Offered, ..ANY_V1 },
        source: "github.com/olimorris/codecompanion.nvim/pull/2910 (session/list and session/load, no session/resume)",
    },
    KnownClient {
        name: "agent-shell",
        profile: Profile { job_rows: OutsideTurn::Held, follow_ups: FollowUps::Wait, ..ANY_V1 },
        source: "github.com/xenodium/agent-shell/pull/181 (its name), issues/678 (calls an update outside a turn a bug)",
    },
];

/// What the user has set for a client, over the table (`acp_clients` in the config). What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProfileOverride {
    /// Send the echo, or do not.
    pub echo: Option<bool>,
    /// `"live"` or `"held"`.
    pub notices: Option<OutsideTurn>,
    /// `"live"` or `"held"`.
    pub job_rows: Option<OutsideTurn>,
    /// Start turns for finished background work, or do not.
    pub follow_ups: Option<bool>,
    /// Offer `session/load`, or do not.
    pub session_load: Option<bool>,
}

/// Overrides by client name, without regard to case. A name that ends in `*` stands for all that begin so; the longest
/// name that fits wins.
pub type ProfileOverrides = BTreeMap<String, ProfileOverride>;

/// The profile for a client that gave this name (empty for none).
pub(crate) fn choose(version: Version, name: &str, overrides: &ProfileOverrides) -> Profile {
    let known = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name.trim()));
    let base = match (version, known) {
        (Version::V2, _) => ANY_V2,
        (Version::V1, Some(known)) => known.profile,
        (Version::V1, None) => ANY_V1,
    };
    let set =
        overrides.iter().filter(|(pattern, _)| fits(pattern, name)).max_by_key(|(pattern, _)| pattern.len());
    set.map_or(base, |(_, set)| set.over(base))
}

fn fits(pattern: &str, name: &str) -> bool {
    let name = name.trim().to_lowercase();
    let pattern = pattern.to_lowercase();
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

impl ProfileOverride {
    fn over(&self, base: Profile) -> Profile {
        Profile {
            echo: pick(self.echo, [Echo::Sent, Echo::Omitted], base.echo),
            notices: self.notices.unwrap_or(base.notices),
            job_rows: self.job_rows.unwrap_or(base.job_rows),
            follow_ups: pick(self.follow_ups, [FollowUps::Run, FollowUps::Wait], base.follow_ups),
            session_load: pick(
                self.session_load,
                [SessionLoad::Offered, SessionLoad::Refused],
                base.session_load,
            ),
        }
    }
}

fn pick<T>(set: Option<bool>, [yes, no]: [T; 2], otherwise: T) -> T {
    match set {
        Some(true) => yes,
        Some(false) => no,
        None => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(json: &str) -> ProfileOverrides {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_name_chooses_the_row_and_the_version_the_default() {
        let none = ProfileOverrides::new();
        assert_eq!(choose(Version::V2, "anything", &none), ANY_V2);
        assert_eq!(choose(Version::V1, "anything", &none), ANY_V1);
        assert_eq!(choose(Version::V1, "", &none), ANY_V1);
        assert_eq!(choose(Version::V1, "Toad", &none).echo, Echo::Omitted);
        assert_eq!(choose(Version::V1, "CodeCompanion.nvim", &none).session_load, SessionLoad::Offered);
        assert_eq!(choose(Version::V1, "agent-shell", &none).follow_ups, FollowUps::Wait);
        assert_eq!(choose(Version::V2, "agent-shell", &none), ANY_V2);
        assert_eq!(choose(Version::V1, "toadstool", &none), ANY_V1);
    }

    #[test]
    fn the_user_has_the_last_word() {
        let set = overrides(
            r#"{"TOAD": {"echo": true}, "my-*": {"notices": "live", "session_load": true}, "*": {"follow_ups": false},
                "my-own": {"job_rows": "held", "unknown": 1}}"#,
        );
        assert_eq!(choose(Version::V1, "toad", &set), Profile { echo: Echo::Sent, ..KNOWN[0].profile });
        let wild = Profile { notices: OutsideTurn::Live, session_load: SessionLoad::Offered, ..ANY_V1 };
        assert_eq!(choose(Version::V1, "My-Editor", &set), wild);
        assert_eq!(choose(Version::V1, "my-own", &set), Profile { job_rows: OutsideTurn::Held, ..ANY_V1 });
        assert_eq!(choose(Version::V2, "other", &set), Profile { follow_ups: FollowUps::Wait, ..ANY_V2 });
    }

    #[test]
    fn every_row_has_its_own_name_and_a_source() {
        for (at, row) in KNOWN.iter().enumerate() {
            assert!(row.source.contains("github.com/"), "{}", row.name);
            assert!(
                KNOWN[at + 1..].iter().all(|other| !other.name.eq_ignore_ascii_case(row.name)),
                "{}",
                row.name
            );
        }
    }
}
