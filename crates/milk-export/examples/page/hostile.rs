//! A session whose every text tries to break the page.

use milk_core::content::ContentBlock;
use milk_core::event::StopReason;
use milk_core::failure::Failure;
use milk_core::record::Logged;
use milk_core::tool::{ToolKind, ToolStatus};
use serde_json::json;

use crate::log::{Did, Log, modified, usage};

const TEXTS: [&str; 14] = [
    "<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>",
    "</code></pre></details></section></main><h1>Forged</h1><iframe src=https://example.org></iframe>",
    "[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>) [v](vbscript:x) <javascript:alert(1)>",
    "![p](https://example.org/pixel.png) ![q](data:image/svg+xml,<svg onload=alert(1)>) [![r](http://example.org/r.png)](http://example.org)",
    "[a](https://example.org/\"onmouseover=\"alert(1)) [b](<https://example.org/' x='>)",
    "]]> --> <!-- \" ' ` <style>body{display:none}</style> <base href=//example.org> <meta http-equiv=refresh content=0>",
    "\u{202e}txet desrever\u{202c} \0 \u{1b}[2J\u{9b}31m \u{2028} \u{feff}",
    "|a|b|\n|-|-|\n|<b>x</b>|![](https://example.org/t.png)|\n\n```\"><script>\n</code><script>alert(2)</script>\n```",
    "<details open ontoggle=alert(1)><summary>x</summary>\n\n# not a page heading\n\n</details>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62; &quot;",
    "Averyveryveryveryveryveryveryveryveryveryveryverylongwordthatdoesnotbreakanywhereatallandgoesonandonandonandonandonandon",
    "https://example.org/averyveryveryverylongpathwithoutanybreakpointsinit/anditgoesonandonandonandonandonandonandon?and=on&on=1",
    "1. one\n   - two\n     > three\n     > ```\n     > four four four four four four four four four four four four four four four\n     > ```",
    "# one\n## two\n### three\n#### four",
];

pub(crate) fn records() -> Vec<Logged> {
    let mut log = Log::default();
    for text in TEXTS.map(str::to_owned).into_iter().chain([
        ">".repeat(3000) + "x",
        "- ".repeat(500) + "x",
        "*a **b ".repeat(800),
    ]) {
        log.begin(vec![
            ContentBlock::text(text.as_str()),
            ContentBlock::Link { uri: text.clone(), name: text.clone(), mime: Some(text.clone()) },
            ContentBlock::EmbeddedText { uri: text.clone(), mime: None, text: text.as_str().into() },
            ContentBlock::Image { mime: "image/png".into(), data: text.as_str().into() },
            ContentBlock::Unknown { kind: text.clone() },
        ]);
        let status = ToolStatus::Failed;
        log.say(
            Some(&text),
            &text,
            usage(u64::MAX, 7, 1),
            vec![Did {
                name: "bash",
                arguments: json!({text.clone(): text}),
                title: text.clone(),
                kind: ToolKind::Other,
                status,
                output: text.clone(),
                changes: vec![modified(&text, &text, &format!("{text}\n{text}"))],
            }],
        );
        log.end(StopReason::Error, Some(Failure::new("x", text)));
    }
    log.records
}
