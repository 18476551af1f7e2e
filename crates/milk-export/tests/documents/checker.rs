//! A strict reader of milk's pages: every tag, attribute and address must be one that milk writes, and every element must
//! be closed where it was opened. What a browser would read otherwise than this does not pass.

const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "section",
    "article",
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dl",
    "dt",
    "dd",
    "div",
    "span",
    "time",
    "code",
    "pre",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "ol",
    "li",
    "blockquote",
    "em",
    "strong",
    "del",
    "ins",
    "a",
    "br",
    "hr",
    "figure",
    "img",
    "svg",
    "rect",
];
const VOID: &[&str] = &["meta", "br", "hr", "img"];
/// Elements that may stand in a paragraph. Any other would close it.
const INLINE: &[&str] = &["span", "time", "code", "em", "strong", "del", "ins", "a", "br", "img"];
const ATTRIBUTES: &[&str] = &[
    "class",
    "id",
    "dir",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
    "datetime",
    "open",
    "tabindex",
    "scope",
    "start",
    "rel",
    "href",
    "title",
    "alt",
    "src",
    "role",
    "aria-label",
    "aria-labelledby",
    "viewBox",
    "preserveAspectRatio",
    "x",
    "y",
    "width",
    "height",
];

/// Reads a page and gives what it is made of, or says where it is not well formed.
pub(crate) fn read(page: &str) -> Result<Seen, String> {
    let mut reader = Reader { rest: page, open: Vec::new(), seen: Seen::default() };
    reader.rest = page.strip_prefix("<!doctype html>\n").ok_or("no doctype")?;
    while !reader.rest.is_empty() {
        reader.step().map_err(|wrong| {
            let at = page.len() - reader.rest.len();
            format!("{wrong} at {at}: {:?}", reader.rest.chars().take(80).collect::<String>())
        })?;
    }
    if reader.open.is_empty() { Ok(reader.seen) } else { Err(format!("never closed: {:?}", reader.open)) }
}

/// What a page is made of.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// All text outside the style, with references resolved.
    pub(crate) text: String,
    /// Every element, in order, as `name` or `name.class`.
    pub(crate) elements: Vec<String>,
    /// Every address that can be followed.
    pub(crate) links: Vec<String>,
    /// Every address that is loaded.
    pub(crate) sources: Vec<String>,
    /// How deep elements are nested at most.
    pub(crate) depth: usize,
}

impl Seen {
    pub(crate) fn count(&self, element: &str) -> usize {
        self.elements.iter().filter(|seen| *seen == element).count()
    }
}

struct Reader<'a> {
    rest: &'a str,
    open: Vec<&'a str>,
    seen: Seen,
}

impl<'a> Reader<'a> {
    fn step(&mut self) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix("</") {
            let (name, rest) = rest.split_once('>').ok_or("an end tag that does not end")?;
            let open = self.open.pop();
            if open != Some(name) {
                return Err(format!("{name} ends where {open:?} is open"));
            }
            self.rest = rest;
            return Ok(());
        }
        if self.rest.starts_with('<') {
            return self.element();
        }
        let end = self.rest.find('<').unwrap_or(self.rest.len());
        let text = resolved(&self.rest[..end])?;
        self.seen.text.push_str(&text);
        self.rest = &self.rest[end..];
        Ok(())
    }

    fn element(&mut self) -> Result<(), String> {
        let rest = &self.rest[1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("a tag that does not end")?;
        let (name, mut rest) = rest.split_at(end);
        if !ELEMENTS.contains(&name) {
            return Err(format!("the element {name}"));
        }
        let mut class = String::new();
        while let Some(attribute) = rest.strip_prefix(' ') {
            rest = self.attribute(name, attribute, &mut class)?;
        }
        let closed = rest.strip_prefix("/>").filter(|_| name == "rect");
        rest = closed.or_else(|| rest.strip_prefix('>')).ok_or("a tag that does not end")?;
        if self.open.contains(&"p") && !INLINE.contains(&name) {
            return Err(format!("{name} in a paragraph"));
        }
        if name == "a" && self.open.contains(&"a") {
            return Err("a link in a link".to_owned());
        }
        self.seen.elements.push(if class.is_empty() { name.to_owned() } else { format!("{name}.{class}") });
        if name == "style" {
            let (style, after) = rest.split_once("</style>").ok_or("a style that does not end")?;
            if style.contains('<') || style.contains("url(") || style.contains("@import") {
                return Err("a style that is not milk's".to_owned());
            }
            rest = after;
        } else if closed.is_none() && !VOID.contains(&name) {
            self.open.push(name);
            self.seen.depth = self.seen.depth.max(self.open.len());
        }
        self.rest = rest;
        Ok(())
    }

    fn attribute(&mut self, element: &str, text: &'a str, class: &mut String) -> Result<&'a str, String> {
        let end = text.find(['=', '>', ' ', '/']).ok_or("an attribute that does not end")?;
        let (name, rest) = text.split_at(end);
        if !ATTRIBUTES.contains(&name) {
            return Err(format!("the attribute {name} of {element}"));
        }
        let Some(value) = rest.strip_prefix("=\"") else {
            return if name == "open" { Ok(rest) } else { Err(format!("no value of {name}")) };
        };
        let (value, rest) = value.split_once('"').ok_or("a value that does not end")?;
        if value.contains('<') {
            return Err(format!("< in {name}"));
        }
        let value = resolved(value)?;
        match name {
            "href" if ["http://", "https://", "mailto:", "#t"].iter().any(|start| starts(&value, start)) => {
                self.seen.links.push(value);
            }
            "src" if value.starts_with("data:image/") && value.contains(";base64,") => {
                self.seen.sources.push(value);
            }
            "href" | "src" => return Err(format!("the address {value:?}")),
            "class" => class.push_str(&value),
            _ => {}
        }
        Ok(rest)
    }
}

fn starts(value: &str, start: &str) -> bool {
    value.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The text with its character references resolved. None but milk's five may be in it, and no control character.
fn resolved(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let (name, after) = rest[at + 1..].split_once(';').ok_or("a bare &")?;
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => return Err(format!("the reference {:?}", other.chars().take(12).collect::<String>())),
        });
        rest = after;
    }
    out.push_str(rest);
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(control) => Err(format!("the control character {control:?}")),
        None => Ok(out),
    }
}

#[test]
fn what_is_not_milks_is_refused() {
    let page = |body: &str| format!("<!doctype html>\n<html><body>{body}</body></html>");
    assert_eq!(read(&page("<p>a &amp; b</p>")).unwrap().text, "a & b");
    for body in [
        "<script>x</script>",
        "<p onclick=\"x\">a</p>",
        "<a href=\"javascript:x\">a</a>",
        "<img src=\"https://example.org/x.png\">",
        "<p><div>a</div></p>",
        "<p>a",
        "a &nbsp; b",
        "a & b",
        "a < b",
        "<a href=\"https://a\"><a href=\"https://b\">x</a></a>",
        "\u{1b}",
        "<p class=x>a</p>",
    ] {
        assert!(read(&page(body)).is_err(), "{body}");
    }
}
