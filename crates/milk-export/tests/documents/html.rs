use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::id::TurnId;
use milk_core::ports::ExportFormat;
use milk_core::record::{Logged, Record};
use milk_core::tool::{FileAction, FileChange, ToolKind, ToolStatus};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::log::{BEGIN_MS, Did, Log, modified, usage};
use crate::{checker, export, sample, text};

fn page(records: Vec<Logged>) -> (String, checker::Seen) {
    let page = export(ExportFormat::Html, records);
    let seen = checker::read(&page).unwrap_or_else(|wrong| panic!("{wrong}\n{page}"));
    (page, seen)
}

/// The page of one answer.
fn answer(markdown: &str) -> (String, checker::Seen) {
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("x")]);
    log.say(None, markdown, None, vec![]);
    log.end(StopReason::EndTurn, None);
    page(log.records)
}

fn did(changes: Vec<FileChange>) -> Did {
    Did {
        name: "edit_file",
        arguments: json!({"path": "a.rs", "count": 2}),
        title: "Edit a.rs".into(),
        kind: ToolKind::Edit,
        status: ToolStatus::Completed,
        output: "fine".into(),
        changes,
    }
}

/// The page of one call.
fn call(did: Did) -> (String, checker::Seen) {
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("x")]);
    log.say(None, "", None, vec![did]);
    log.end(StopReason::EndTurn, None);
    page(log.records)
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let (page, seen) = page(sample::records());
    assert!(page.contains(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:; base-uri 'none'; form-action 'none'\">"
    ));
    assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
    assert_eq!(seen.sources.len(), 1);
    assert!(seen.sources[0].starts_with("data:image/png;base64,iVBOR"), "{}", seen.sources[0]);
    assert_eq!(seen.count("section.turn"), 9);
}

#[test]
fn the_header_says_what_it_is() {
    let (_, seen) = page(sample::records());
    for wanted in [
        "Folder/home/ada/work\n",
        "Created2026-03-04 08:00:00\n",
        "Last used2026-03-04 08:00:01\n",
        "Modelsqwen3-coder:30b ollama, as primary\n",
        "Turns9 with 6 tool calls\n",
    ] {
        assert!(seen.text.contains(wanted), "{wanted}: {}", seen.text);
    }
}

#[test]
fn tokens_are_bars_and_numbers() {
    let (page, seen) = page(sample::records());
    assert!(seen.text.contains("Input 91,570 in all, 15,900 in the tallest bar"), "{}", seen.text);
    assert!(seen.text.contains("Output 3,401 in all, 1,220 in the tallest bar"), "{}", seen.text);
    // Turn 9 is the tallest: 40 of 15,900 × 1000 would be 3, and 15,100 come from the cache.
    assert!(page.contains("<rect class=\"bar\" x=\"81\" y=\"0\" width=\"8\" height=\"51\"/>"), "{page}");
    assert!(
        page.contains("<rect class=\"bar light\" x=\"81\" y=\"51\" width=\"8\" height=\"949\"/>"),
        "{page}"
    );
    assert!(page.contains("<th scope=\"row\"><a href=\"#t2\">2</a></th><td class=\"n\">15,410</td><td class=\"n\">12,300</td><td class=\"n\">746</td><td dir=\"auto\">Do it. Keep it small.</td>"), "{page}");
    assert!(page.contains("\">4</a></th><td class=\"n\">—</td>"), "{page}");
    assert!(seen.text.contains("10 s · 5,160 tokens in (2,100 from cache) · 500 out"), "{}", seen.text);
}

#[test]
fn many_turns_share_bars() {
    let mut log = Log::default();
    for _ in 0..150 {
        log.begin(vec![ContentBlock::text("x")]);
        log.say(None, "y", usage(10, 0, 1), vec![]);
        log.end(StopReason::EndTurn, None);
    }
    let (page, seen) = page(log.records);
    assert_eq!(seen.count("rect.bar"), 120);
    assert!(seen.text.contains("Input 1,500 in all, 30 in the tallest bar"), "{}", seen.text);
    assert!(seen.text.contains("Each bar is the sum of about 2 turns."), "{}", seen.text);
    assert!(
        page.contains("<a href=\"#t1\">1–2</a>") && page.contains("<a href=\"#t148\">148–150</a>"),
        "{page}"
    );
}

#[test]
fn without_numbers_there_is_no_chart() {
    let (_, seen) = answer("x");
    assert_eq!(seen.count("svg"), 0);
    assert!(seen.text.contains("List of turns"));
}

#[test]
fn slash_commands_are_left_out() {
    let mut log = Log::default();
    text::command(&mut log);
    let (_, seen) = page(log.records);
    assert!(!seen.text.contains("command output") && seen.text.contains("Nothing was said"), "{}", seen.text);
}

#[test]
fn messages_are_laid_out() {
    let (page, seen) = answer(
        "# Title\n\n### Sub\n\na **b** *c* `d` ~~e~~\n\n1. one\n2. two\n\n- [x] done\n\n> quote\n\n| h |\n|---|\n| c |\n\n```rust\nfn f() {}\n```\n\n---\nend",
    );
    for wanted in [
        "<h4>Title</h4>",
        "<h5>Sub</h5>",
        "<p>a <strong>b</strong> <em>c</em> <code>d</code> <del>e</del></p>",
        "<ol start=\"1\">\n<li>one</li>\n<li>two</li>\n</ol>",
        "<li><span class=\"task\">☑</span> done</li>",
        "<blockquote>\n<p>quote</p>\n</blockquote>",
        "<thead><tr><th scope=\"col\">h</th></tr></thead><tbody>\n<tr><td>c</td></tr>\n</tbody>",
        "<p class=\"lang\">rust</p>\n<pre tabindex=\"0\"><code>fn f() {}\n</code></pre>",
        "<hr>",
    ] {
        assert!(page.contains(wanted), "{wanted}:\n{page}");
    }
    assert!(seen.text.contains("end"));
}

#[test]
fn html_in_a_message_is_text() {
    let (_, seen) =
        answer("<script>alert(1)</script>\n\na <b onclick='x'>b</b> &lt;i&gt; <!-- c -->\n\n</main></body>");
    assert!(seen.text.contains("<script>alert(1)</script>"), "{}", seen.text);
    assert!(seen.text.contains("a <b onclick='x'>b</b> <i> <!-- c -->"), "{}", seen.text);
    assert!(seen.text.contains("</main></body>"), "{}", seen.text);
}

#[test]
fn links_lead_to_the_web_and_mail_only() {
    let (page, seen) = answer(
        "[a](https://example.org/?a=1&b=\"2\") <mailto:a@b.org> [H](HTTP://example.org) [j](javascript:alert(1)) \
         [J](JaVaScRiPt:x) [d](data:text/html,x) [t](java&#9;script:x) [f](src/a.rs:9) [p](//example.org) \
         ![alt](https://example.org/p.png) [![in](https://a.org/b.png)](https://c.org) [](https://empty.org) \
         ![](data:image/png;base64,AAAA)",
    );
    assert_eq!(
        seen.links,
        [
            "#t1",
            "https://example.org/?a=1&b=\"2\"",
            "mailto:a@b.org",
            "HTTP://example.org",
            "https://example.org/p.png",
            "https://c.org",
            "https://empty.org",
        ]
    );
    assert_eq!(seen.count("img"), 0);
    assert!(page.contains("<span class=\"ref\" title=\"src/a.rs:9\">f</span>"), "{page}");
    assert!(page.contains("href=\"https://empty.org\">https://empty.org</a>"), "{page}");
}

#[test]
fn deep_nesting_is_cut_and_its_text_kept() {
    let markdown = format!("{}deep\n\n{}deeper", "> ".repeat(500), "- ".repeat(300));
    let (_, seen) = answer(&markdown);
    assert!(seen.depth < 40, "{}", seen.depth);
    assert!(seen.text.contains("deep") && seen.text.contains("deeper"));
}

#[test]
fn very_long_messages_are_shown_as_they_are() {
    let long = "**b** ".repeat(60_000);
    let (_, seen) = answer(&long);
    assert_eq!(seen.text.matches("**b**").count(), 60_000);
}

#[test]
fn changes_are_coloured_line_by_line() {
    let old = (1..=30).fold(String::new(), |lines, line| lines + "line " + &line.to_string() + "\n");
    let new = old.replace("line 10\n", "line ten\nand more\n").replace("line 25\n", "");
    let (page, seen) = call(did(vec![modified("/home/ada/work/src/a.rs", &old, &new)]));
    let wanted = "<pre class=\"diff\" tabindex=\"0\"><code><span class=\"gap\">⋯ line 7, now 7</span><span> line 7\n</span>\
        <span> line 8\n</span><span> line 9\n</span><del>-line 10\n</del><ins>+line ten\n</ins><ins>+and more\n</ins>\
        <span> line 11\n</span><span> line 12\n</span><span> line 13\n</span><span class=\"gap\">⋯ line 22, now 23</span>\
        <span> line 22\n</span><span> line 23\n</span><span> line 24\n</span><del>-line 25\n</del><span> line 26\n</span>\
        <span> line 27\n</span><span> line 28\n</span></code></pre>";
    assert!(page.contains(wanted), "{page}");
    assert!(page.contains("<p class=\"label\"><code>src/a.rs</code></p>"), "{page}");
    assert!(seen.text.contains("Edit a.rs edit · done · +2 −2"), "{}", seen.text);
    assert_eq!(seen.count("details.tool"), 1);
    assert!(page.contains("<details class=\"tool\" open>"));
}

#[test]
fn other_changes_say_what_they_are() {
    let change = |action, old: Option<&str>, new: Option<&str>| FileChange {
        action,
        path: "/w/b".into(),
        old_text: old.map(Into::into),
        new_text: new.map(Into::into),
    };
    let (page, seen) = call(did(vec![
        change(FileAction::Create, None, Some("a\n")),
        change(FileAction::Delete, Some("a\n"), None),
        change(FileAction::Move { from: "/w/a".into() }, Some("x"), Some("x")),
        change(FileAction::Modify, None, None),
        change(FileAction::Modify, Some("same\nx\n"), Some("same\nx")),
        change(FileAction::Modify, Some("a\nb\n"), Some("0\na\nb\n")),
    ]));
    for wanted in
        ["new /w/b", "deleted /w/b", "/w/a → /w/b", "The text is the same.", "Not a text that is shown here."]
    {
        assert!(seen.text.contains(wanted), "{wanted}: {}", seen.text);
    }
    assert!(
        page.contains("<span> same\n</span><del>-x\n</del><ins>+x [no line feed at the end]\n</ins>"),
        "{page}"
    );
    assert!(page.contains("<code><ins>+0\n</ins><span> a\n</span><span> b\n</span></code>"), "{page}");
}

#[test]
fn rows_show_arguments_and_output_within_bounds() {
    let mut row = did(vec![]);
    row.arguments = json!({"text": "a\nb", "list": [1], "none": null});
    row.output = format!("begin{}end", "x".repeat(100_000));
    let (page, seen) = call(row);
    assert!(page.contains("<div><dt>text</dt><dd>a\nb</dd></div>"), "{page}");
    assert!(page.contains("<dt>list</dt><dd>[\n  1\n]</dd>"), "{page}");
    assert!(
        seen.text.contains("begin") && seen.text.contains("end") && page.len() < 60_000,
        "{}",
        page.len()
    );
    assert!(seen.text.contains("[… 75,432 bytes are left out here …]"), "{}", seen.text);
}

#[test]
fn arguments_that_are_no_object_are_shown_as_they_came() {
    let mut row = did(vec![]);
    row.arguments = json!("{\"path\": <b>");
    row.status = ToolStatus::Failed;
    let (_, seen) = call(row);
    assert!(seen.text.contains("Not a JSON object; the call was not run.\n{\"path\": <b>"), "{}", seen.text);
    assert_eq!(seen.count("summary.bad"), 1);
}

#[test]
fn a_users_blocks_are_shown() {
    let png = include_str!("../../examples/page/picture.txt");
    let mut log = Log::default();
    log.begin(vec![
        ContentBlock::text("line one\nline two"),
        ContentBlock::Link { uri: "file:///home/ada/work/a.rs".into(), name: "a".into(), mime: None },
        ContentBlock::EmbeddedText { uri: "file:///b.txt".into(), mime: None, text: "x\ny\n".into() },
        ContentBlock::EmbeddedBlob {
            uri: "file:///c.bin".into(),
            mime: None,
            data: "AAAA".repeat(1000).into(),
        },
        ContentBlock::Image { mime: "image/png".into(), data: png.into() },
        ContentBlock::Image { mime: "image/svg+xml".into(), data: "PHN2Zz4=".repeat(4).into() },
        ContentBlock::Image { mime: "image/png".into(), data: "\" onerror=\"x".into() },
        ContentBlock::Image { mime: "image/png".into(), data: "AAAA".repeat(8).into() },
        ContentBlock::Unknown { kind: "audio".into() },
    ]);
    let (page, seen) = page(log.records);
    assert!(page.contains("<p>line one<br>\nline two</p>"), "{page}");
    assert!(page.contains("<strong>a</strong> <span class=\"quiet\">a.rs</span>"), "{page}");
    assert!(page.contains("<summary>file:///b.txt <span class=\"quiet\">2 lines</span></summary>"), "{page}");
    assert!(seen.text.contains("file:///c.bin bytes, about 2 KiB"), "{}", seen.text);
    assert_eq!(seen.sources, [format!("data:image/png;base64,{png}")]);
    assert_eq!(seen.text.matches("is not of a kind that is shown here").count(), 3);
    assert!(seen.text.contains("audio a kind of block that milk does not know"), "{}", seen.text);
}

#[test]
fn pictures_have_a_budget() {
    let png = include_str!("../../examples/page/picture.txt");
    let start = &png[..png.len() / 4 * 4 - 4];
    let data = format!("{start}{}", "AAAA".repeat((5 << 20) / 4));
    let mut log = Log::default();
    log.begin(
        (0..6)
            .map(|_| ContentBlock::Image { mime: "image/png".into(), data: data.as_str().into() })
            .collect(),
    );
    let (page, seen) = page(log.records);
    assert_eq!(seen.sources.len(), 4);
    assert_eq!(seen.text.matches("is left out").count(), 2);
    assert!(page.len() < 25 << 20);
}

#[test]
fn troubles_are_marked() {
    use milk_core::failure::Failure;
    let cases = [
        (StopReason::Error, Some(Failure::new("x", "it broke")), "This turn failed: it broke"),
        (StopReason::Cancelled, None, "This turn was cancelled: somebody stopped it"),
        (StopReason::MaxTokens, None, "This turn was stopped: the model ran into its output limit"),
        (StopReason::MaxTurnRequests, None, "This turn was stopped: the limit on model calls"),
        (StopReason::Refusal, None, "This turn was refused: the model refused to answer"),
    ];
    for (stop, failure, wanted) in cases {
        let mut log = Log::default();
        log.begin(vec![ContentBlock::text("x")]);
        log.end(stop, failure);
        let (_, seen) = page(log.records);
        assert!(seen.text.contains(wanted), "{wanted}: {}", seen.text);
    }
}

#[test]
fn notes_and_thoughts_are_there_and_agents_are_told_apart() {
    let mut log = Log::default();
    log.begin(vec![ContentBlock::text("x")]);
    log.say(Some("hmm"), "one", None, vec![]);
    log.say(None, "two", None, vec![]);
    if let Record::ModelSaid { by, .. } = &mut log.records[2].record {
        by.agent = "deep".into();
    }
    let note = |turn| Record::Noted { turn, message: "n".into(), text: format!("note of {turn:?}") };
    for turn in [Some(TurnId(1)), None] {
        log.records.push(Logged { at_ms: BEGIN_MS, entry: None, record: note(turn) });
    }
    let (page, seen) = page(log.records);
    assert_eq!(seen.count("article.agent"), 2);
    assert!(page.contains("<h3>deep <span class=\"quiet\">qwen3-coder:30b</span></h3>"), "{page}");
    assert!(seen.text.contains("Thought\nhmm"), "{}", seen.text);
    assert!(seen.text.contains("milk: note of Some(TurnId(1))") && seen.text.contains("milk: note of None"));
}
