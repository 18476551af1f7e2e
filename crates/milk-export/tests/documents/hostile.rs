//! Whatever a log says, documents are whole and hold no markup but milk's own.

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::ports::ExportFormat;
use milk_core::record::Logged;
use milk_core::tool::{ToolKind, ToolStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::log::{Did, Log, modified};
use crate::{checker, export};

#[path = "../../examples/page/hostile.rs"]
mod page;

/// A log with these texts wherever a text can be.
fn log_of(one: &str, two: &str) -> Vec<Logged> {
    let mut log = Log::default();
    log.begin(vec![
        ContentBlock::text(one),
        ContentBlock::Link { uri: two.to_owned(), name: one.to_owned(), mime: None },
        ContentBlock::EmbeddedText { uri: one.to_owned(), mime: None, text: two.into() },
        ContentBlock::Image { mime: two.to_owned(), data: one.into() },
        ContentBlock::Image { mime: "image/png".to_owned(), data: one.into() },
        ContentBlock::Unknown { kind: one.to_owned() },
    ]);
    let did = |arguments: Value| Did {
        name: "tool",
        arguments,
        title: two.to_owned(),
        kind: ToolKind::Other,
        status: ToolStatus::Failed,
        output: one.to_owned(),
        changes: vec![modified(one, one, two)],
    };
    log.say(Some(one), two, None, vec![did(json!({one: two})), did(json!(one))]);
    log.say(None, one, None, vec![]);
    log.end(StopReason::Error, Some(Failure::new(one, two)));
    log.records
}

fn check(one: &str, two: &str) -> Result<(), TestCaseError> {
    let records = log_of(one, two);
    let page = export(ExportFormat::Html, records.clone());
    if let Err(wrong) = checker::read(&page) {
        return Err(TestCaseError::fail(wrong));
    }
    let text = export(ExportFormat::Text, records.clone());
    prop_assert!(text.chars().all(|c| matches!(c, '\n' | '\t') || !c.is_control()));
    prop_assert_eq!(text.lines().filter(|line| line.starts_with('━')).count(), 3);
    let document = export(ExportFormat::Json, records);
    let document: Value =
        serde_json::from_str(&document).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&document["turns"][0]["content"][0]["text"], one);
    prop_assert_eq!(&document["turns"][0]["steps"][0]["text"], two);
    prop_assert_eq!(
        &document["turns"][0]["steps"][0]["tool_calls"][0]["result"]["changes"][0]["old_text"],
        one
    );
    Ok(())
}

#[test]
fn the_hostile_page_is_whole() {
    let seen = checker::read(&export(ExportFormat::Html, page::records())).unwrap();
    assert!(seen.text.contains("<script>alert(1)</script>"));
    assert!(
        seen.links.iter().all(|link| link.starts_with("#t") || link.starts_with("http")),
        "{:?}",
        seen.links
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_text_becomes_markup(one in any_markup(), two in any_markup()) {
        check(&one, &two)?;
    }

    #[test]
    fn no_text_at_all_does_harm(one in any::<String>(), two in "[\\x00-\\x7f]{0,80}") {
        check(&one, &two)?;
    }
}

/// Texts made of pieces of Markdown, of HTML, and of what ends things.
fn any_markup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<script>",
        "</script>",
        "<",
        ">",
        "\"",
        "'",
        "&",
        "&lt;",
        "&#60;",
        "<!--",
        "-->",
        "]]>",
        "</code>",
        "</pre>",
        "</details>",
        "<a href=",
        "](javascript:x)",
        "](https://a.b)",
        "](",
        "[",
        "]",
        "![",
        ")",
        "`",
        "```\n",
        "~~~",
        "*",
        "**",
        "_",
        "~~",
        "# ",
        "> ",
        "- ",
        "1. ",
        "| ",
        "|-|\n",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "\\",
        "---\n",
        "===\n",
        "[a]: b\n",
        "<b>",
        "<div>\n",
        "https://x.y",
        "<https://x.y>",
        "a",
        "b c",
        "é",
        "日",
        "👨‍👩‍👧",
        "\0",
        "\u{1b}[2J",
        "\r",
        "\r\n",
        "\u{202e}",
        "\u{2028}",
        "\u{feff}",
        "\u{9b}",
        "━━━",
        "data:",
        "src=x onerror=x",
        "- [x] ",
        "\u{85}",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}
