//! Allowed patterns: they allow what they say, and nothing that hides behind it (R29).

use milk_testkit::Policy;
use serde_json::{Value, json};

use crate::support::Plan;

// ---- 060, 061, 063: patterns allow what they say and nothing that hides behind it (R29)

/// Each command must ask; it is denied, and its marker must not come into being.
async fn all_ask(patterns: Value, commands: &[&str]) {
    let rig = Plan::obedient().root("bash_allowed_patterns", patterns).policy(Policy::Deny).start().await;
    rig.home.write("a", "2\n1\n");
    for command in commands {
        let called = rig.call("bash", json!({"command": command})).await;
        assert_eq!(called.questions.len(), 1, "this must ask: {command:?}");
        assert!(!rig.home.exists("PWN"), "this ran without a yes: {command:?}");
    }
}

/// None of these commands asks.
async fn none_asks(patterns: Value, commands: &[&str]) {
    let rig = Plan::obedient().root("bash_allowed_patterns", patterns).policy(Policy::Deny).start().await;
    for command in commands {
        let called = rig.call("bash", json!({"command": command})).await;
        assert_eq!(called.questions.len(), 0, "this must not ask: {command:?}");
    }
}

fn git_status_and_ls() -> Value {
    json!(["git status", "ls", "ls *"])
}

#[tokio::test]
async fn case_060_patterns_and_command_chains() {
    let commands = [
        "git status && touch PWN",
        "git status; touch PWN",
        "ls | tee PWN",
        "ls & touch PWN",
        "ls || touch PWN",
        "ls\ntouch PWN",
        "ls\r\ntouch PWN",
        "(touch PWN)",
        "{ touch PWN; }",
        "git statusx",
        "ls;touch PWN",
        "ls -la;touch PWN",
        "ls -la&&touch PWN",
        "ls -la |& tee PWN",
        "! touch PWN",
        "if true; then touch PWN; fi",
        "ls() { touch PWN; }; ls",
        "alias ls='touch PWN'",
        "lsof",
        "ls\\\ntouch PWN",
    ];
    all_ask(git_status_and_ls(), &commands).await;
    none_asks(git_status_and_ls(), &["git status", "ls -la", "ls"]).await;
}

#[tokio::test]
async fn case_061_patterns_and_substitution() {
    let commands = [
        "git status $(touch PWN)",
        "ls `touch PWN`",
        "ls <(touch PWN)",
        "ls > >(touch PWN)",
        "ls \"$(touch PWN)\"",
        "ls \"`touch PWN`\"",
        "ls ${x:-$(touch PWN)}",
        "ls $((`touch PWN` 1))",
        "ls <<E\n$(touch PWN)\nE",
    ];
    all_ask(git_status_and_ls(), &commands).await;
}

/// R29: what a pattern cannot answer for needs a question, though its first word is allowed.
#[tokio::test]
async fn case_062_shells_and_environment_prefixes_ask() {
    let patterns =
        json!(["ls", "ls *", "sh *", "env *", "xargs *", "find *", "eval *", "exec *", "command *"]);
    let commands = [
        "PATH=.:$PATH ls",
        "LD_PRELOAD=./evil.so ls",
        "sh -c 'touch PWN'",
        "env sh -c 'touch PWN'",
        "xargs touch PWN",
        "find . -exec touch PWN +",
        "find . -execdir touch PWN ;",
        "find . -ok touch PWN \\;",
        "eval 'touch PWN'",
        "ls 'unfinished",
        "ls \"unfinished",
        "ls $(unfinished",
        "ls \\",
    ];
    all_ask(patterns, &commands).await;
}

/// A pattern's beginning answers for no redirection and for no option that runs code or writes.
#[tokio::test]
async fn case_063_arguments_that_run_code_or_write() {
    let patterns = json!(["find *", "git log*", "sort *", "ls", "ls *"]);
    let commands = [
        "find . -exec touch PWN +",
        "find . -delete",
        "git log --output=PWN",
        "git -c core.pager='touch PWN' log",
        "sort -o PWN a",
        "ls > PWN",
        "ls >> PWN",
        "ls >| PWN",
        "ls 2> PWN",
        "ls &> PWN",
        "ls <> PWN",
    ];
    all_ask(patterns, &commands).await;
}

/// Whoever writes the complete command into the config means it.
#[tokio::test]
async fn case_063_the_complete_text_of_a_command_is_the_users_own_choice() {
    let commands = ["sort -o sorted a", "git log --output=log.txt"];
    none_asks(json!(commands), &commands).await;
}
