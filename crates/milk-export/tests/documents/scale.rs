//! Long sessions and costly texts take time in proportion to their size. The limits are wide for a busy machine and an
//! unoptimised build; what they catch is growth, which would take minutes.

use std::time::{Duration, Instant};

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::ports::ExportFormat;
use milk_core::tool::{ToolKind, ToolStatus};
use serde_json::json;

use crate::log::{Did, Log, modified, usage};
use crate::{checker, export};

const LIMIT: Duration = Duration::from_mins(1);
const FORMATS: [ExportFormat; 3] = [ExportFormat::Text, ExportFormat::Json, ExportFormat::Html];

fn edit(output: &str, old: &str, new: &str) -> Did {
    Did {
        name: "edit_file",
        arguments: json!({"path": "src/main.rs"}),
        title: "Edit src/main.rs".into(),
        kind: ToolKind::Edit,
        status: ToolStatus::Completed,
        output: output.to_owned(),
        changes: vec![modified("/w/src/main.rs", old, new)],
    }
}

#[test]
fn ten_thousand_turns_take_seconds() {
    let mut log = Log::default();
    let file = "fn main() {\n    run();\n}\n".repeat(4);
    for turn in 0..10_000 {
        log.begin(vec![ContentBlock::text(format!(
            "Please look at part {turn} of the code, and say what is wrong with it."
        ))]);
        log.say(
            None,
            "I'll *look*.",
            usage(1000 + turn, 500, 20),
            vec![edit("done", &file, &format!("{file}// {turn}\n"))],
        );
        log.say(
            None,
            "The `loop` was wrong:\n\n- one\n- two\n\nIt is right **now**.",
            usage(1100 + turn, 900, 40),
            vec![],
        );
        log.end(StopReason::EndTurn, None);
    }
    for format in FORMATS {
        let started = Instant::now();
        let document = export(format, log.records.clone());
        let took = started.elapsed();
        assert!(took < LIMIT, "{format:?} took {took:?}");
        assert!(document.contains("look at part 9999 of the code"));
        if format == ExportFormat::Html {
            let seen = checker::read(&document).unwrap();
            assert_eq!(seen.count("section.turn"), 10_000);
            assert_eq!(seen.links.len(), 60, "one row of the table for each bar");
            assert!(document.len() < 40 << 20, "{} bytes", document.len());
        }
    }
}

#[test]
fn costly_texts_are_bounded() {
    let mib = |piece: &str| piece.repeat((1 << 20) / piece.len());
    let quarter = |piece: &str| piece.repeat((250 << 10) / piece.len());
    let wide_table = format!("{}|\n{}|\n{}", "|a".repeat(10_000), "|-".repeat(10_000), "|b\n".repeat(20_000));
    let texts = [
        mib("x"),
        mib("x y "),
        mib("\n"),
        mib(">"),
        mib("<"),
        quarter(">"),
        quarter("> > \n"),
        quarter("- "),
        quarter("["),
        quarter("![["),
        quarter("*a **b "),
        quarter("`"),
        quarter("a](b"),
        quarter("<a "),
        quarter("&#"),
        quarter("|-"),
        quarter("[a]: b\n[a]"),
        quarter("1. "),
        quarter("~~a~"),
        quarter("<!--"),
        quarter("\\"),
        quarter("_a"),
        wide_table,
    ];
    for text in texts {
        let mut log = Log::default();
        log.begin(vec![ContentBlock::text(text.as_str())]);
        let other: String = text.chars().rev().collect();
        log.say(Some(&text), &text, None, vec![edit(&text, &text, &other)]);
        for format in FORMATS {
            let started = Instant::now();
            let document = export(format, log.records.clone());
            let took = started.elapsed();
            let start: String = text.chars().take(12).collect();
            assert!(took < LIMIT, "{start:?} as {format:?} took {took:?}");
            assert!(document.len() < 32 << 20, "{start:?} as {format:?} is {} bytes", document.len());
        }
    }
}

/// Lines that begin with a word and are all different.
fn lines(word: &str) -> String {
    (0..1900).fold(String::new(), |lines, line| lines + word + " " + &line.to_string() + "\n")
}

#[test]
fn diffs_have_a_budget() {
    // No two lines are alike, so that comparing them costs the square of their number.
    let old = lines("old");
    let new = lines("new");
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("x")]);
    log.say(None, "", None, (0..200).map(|_| edit("", &old, &new)).collect());
    let started = Instant::now();
    let seen = checker::read(&export(ExportFormat::Html, log.records)).unwrap();
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    assert_eq!(seen.text.matches("+1,900").count(), 200);
    assert_eq!(seen.text.matches("3,400 more lines are left out here").count(), 200);
}
