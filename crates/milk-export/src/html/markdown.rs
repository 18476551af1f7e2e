//! Messages, from Markdown. The parser's events become tags from a short list; HTML in the source is shown as text.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream};

use super::sheet::Sheet;

/// Longer messages are shown as they are, in bytes: laying them out would cost more than it tells.
const LAID_OUT_LIMIT: usize = 256 << 10;
/// Elements within elements. What is nested deeper is written without tags of its own.
const DEPTH_LIMIT: usize = 24;
/// Lists and quotes within each other: each takes some width, and a phone has little.
const INDENT_LIMIT: usize = 6;
/// Cells of tables in one message: short rows of a wide table are filled up with empty ones.
const CELLS_LIMIT: usize = 10_000;

/// How a single line break is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    /// As a space: the text was written as Markdown.
    Flow,
    /// As a line break: a person typed it.
    Keep,
}

/// Writes a message.
pub(super) fn write(sheet: &mut Sheet, source: &str, breaks: Breaks) {
    // Once before the parser, which splits a secret with `*` in it, and once behind it, where escapes are resolved.
    let clean = sheet.redact().clean(source);
    if clean.len() > LAID_OUT_LIMIT {
        sheet.raw("<div class=\"md\" dir=\"auto\"><p class=\"verbatim\">");
        sheet.clean_text(&clean);
        sheet.raw("</p></div>\n");
        return;
    }
    sheet.raw("<div class=\"md\" dir=\"auto\">\n");
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        sheet,
        breaks,
        closing: Vec::new(),
        indents: 0,
        links: Vec::new(),
        headings: Vec::new(),
        in_head: false,
        cells: 0,
    };
    for event in TextMergeStream::new(Parser::new_ext(&clean, options)) {
        writer.event(event);
    }
    sheet.raw("</div>\n");
}

struct Writer<'a> {
    sheet: &'a mut Sheet,
    breaks: Breaks,
    /// What closes each open element, outermost first; empty for those without a tag.
    closing: Vec<&'static str>,
    /// Lists and quotes that are open.
    indents: usize,
    /// Links and pictures that are open, with where their texts begin: a link cannot hold another.
    links: Vec<(usize, String)>,
    /// Levels of the headings above, which each stand one below the other whatever the message calls them.
    headings: Vec<HeadingLevel>,
    in_head: bool,
    cells: usize,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.sheet.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.sheet.wrapped("<code>", &text, "</code>");
            }
            Event::FootnoteReference(name) => self.sheet.wrapped("[", &name, "]"),
            Event::SoftBreak if self.breaks == Breaks::Flow => self.sheet.raw("\n"),
            Event::SoftBreak | Event::HardBreak => self.sheet.raw("<br>\n"),
            Event::Rule => self.sheet.raw("<hr>\n"),
            Event::TaskListMarker(true) => self.sheet.raw("<span class=\"task\">☑</span> "),
            Event::TaskListMarker(false) => self.sheet.raw("<span class=\"task\">☐</span> "),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if let Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } = &tag {
            let target = self.sheet.redact().clean(dest_url);
            self.links.push((0, target));
        }
        if matches!(tag, Tag::List(_) | Tag::BlockQuote(_)) {
            self.indents += 1;
        }
        if matches!(tag, Tag::TableHead) {
            self.in_head = true;
        }
        if matches!(tag, Tag::TableCell) {
            self.cells += 1;
        }
        let is_inside = matches!(tag, Tag::List(_) | Tag::BlockQuote(_) | Tag::Item);
        let is_too_deep = self.closing.len() >= DEPTH_LIMIT || is_inside && self.indents > INDENT_LIMIT;
        if is_too_deep || self.cells > CELLS_LIMIT {
            self.sheet.raw(" ");
            self.opened("");
            return;
        }
        let (opening, closing) = match tag {
            Tag::Paragraph => ("<p>", "</p>\n"),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => ("<blockquote>\n", "</blockquote>\n"),
            Tag::CodeBlock(kind) => {
                self.language(&kind);
                ("<pre tabindex=\"0\"><code>", "</code></pre>\n")
            }
            Tag::HtmlBlock => ("<p class=\"verbatim\">", "</p>\n"),
            Tag::List(None) => ("<ul>\n", "</ul>\n"),
            Tag::List(Some(first)) => {
                self.sheet.raw("<ol start=\"");
                self.sheet.bare_number(first);
                ("\">\n", "</ol>\n")
            }
            Tag::Item => ("<li>", "</li>\n"),
            Tag::Table(_) => ("<div class=\"scroll\" tabindex=\"0\"><table>\n", "</tbody></table></div>\n"),
            Tag::TableHead => ("<thead><tr>", "</tr></thead><tbody>\n"),
            Tag::TableRow => ("<tr>", "</tr>\n"),
            Tag::TableCell if self.in_head => ("<th scope=\"col\">", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link { .. } if self.links.len() == 1 => self.link(),
            Tag::Image { .. } => self.picture(),
            _ => ("", ""),
        };
        self.sheet.raw(opening);
        self.opened(closing);
    }

    /// Remembers what closes the element that was opened just now.
    fn opened(&mut self, closing: &'static str) {
        self.closing.push(closing);
        if let Some((start, _)) = self.links.last_mut().filter(|(start, _)| *start == 0) {
            *start = self.sheet.length();
        }
    }

    fn end(&mut self, end: TagEnd) {
        match end {
            TagEnd::Link | TagEnd::Image => {
                // Who listens to the page has to hear something.
                if let Some((start, target)) = self.links.pop()
                    && self.sheet.is_blank_since(start)
                {
                    self.sheet.clean_text(&target);
                }
            }
            TagEnd::List(_) | TagEnd::BlockQuote(_) => self.indents -= 1,
            TagEnd::TableHead => self.in_head = false,
            _ => {}
        }
        self.sheet.raw(self.closing.pop().unwrap_or_default());
    }

    fn language(&mut self, kind: &CodeBlockKind<'_>) {
        if let CodeBlockKind::Fenced(info) = kind
            && let Some(language) = info.split([' ', ',']).next().filter(|language| !language.is_empty())
        {
            let language = self.sheet.one_line(language, 30);
            self.sheet.raw("<p class=\"lang\">");
            self.sheet.clean_text(&language);
            self.sheet.raw("</p>\n");
        }
    }

    /// The innermost link: one that can be followed, or else its text with the target beside it.
    fn link(&mut self) -> (&'static str, &'static str) {
        let target = self.links.last().map_or("", |(_, target)| target);
        if !is_followed(target) {
            self.sheet.raw("<span class=\"ref\" title=\"");
            self.sheet.clean_text(target);
            return ("\">", "</span>");
        }
        self.sheet.raw("<a rel=\"noopener noreferrer nofollow\" href=\"");
        self.sheet.clean_text(target);
        ("\">", "</a>")
    }

    /// A picture from elsewhere is never loaded: it becomes a link with its text.
    fn picture(&mut self) -> (&'static str, &'static str) {
        self.sheet.raw("🖼 ");
        if self.links.len() == 1 { self.link() } else { ("<span class=\"ref\">", "</span>") }
    }

    /// Headings of a message stand below the page's own three levels, and never skip one.
    fn heading(&mut self, level: HeadingLevel) -> (&'static str, &'static str) {
        while self.headings.last().is_some_and(|above| *above >= level) {
            self.headings.pop();
        }
        self.headings.push(level);
        match self.headings.len() {
            1 => ("<h4>", "</h4>\n"),
            2 => ("<h5>", "</h5>\n"),
            _ => ("<h6>", "</h6>\n"),
        }
    }
}

/// Whether an address may be a link: `http`, `https` and `mailto` and nothing else, however it is written.
fn is_followed(address: &str) -> bool {
    const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];
    let starts =
        |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    SCHEMES.into_iter().any(starts)
}
