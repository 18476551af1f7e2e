//! What a user sent: text, mentions, files and pictures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use milk_core::content::ContentBlock;

use super::markdown::{self, Breaks};
use super::sheet::Sheet;

/// Longest text of a file that was sent along, in bytes.
const EMBEDDED_LIMIT: usize = 32 << 10;
/// Largest picture that is shown, in bytes of base64.
const PICTURE_LIMIT: usize = 6 << 20;

/// Writes a block.
pub(super) fn write(sheet: &mut Sheet, block: &ContentBlock) {
    match block {
        ContentBlock::Text { text } => markdown::write(sheet, text, Breaks::Keep),
        ContentBlock::Link { uri, name, .. } => chip(sheet, name, uri),
        ContentBlock::EmbeddedText { uri, text, .. } => embedded(sheet, uri, text),
        ContentBlock::EmbeddedBlob { uri, mime, data } => {
            let what = mime.as_deref().unwrap_or("bytes");
            chip(sheet, uri, &format!("{what}, about {}", size(data)));
        }
        ContentBlock::Image { mime, data } => picture(sheet, mime, data),
        ContentBlock::Unknown { kind } => chip(sheet, kind, "a kind of block that milk does not know"),
    }
}

fn chip(sheet: &mut Sheet, name: &str, about: &str) {
    let (name, about) = (sheet.one_line(name, 300), sheet.one_line(about, 600));
    let about = sheet.near(&about).to_owned();
    sheet.raw("<p class=\"chip\"><strong>");
    sheet.clean_text(&name);
    sheet.raw("</strong> <span class=\"quiet\">");
    sheet.clean_text(&about);
    sheet.raw("</span></p>\n");
}

fn embedded(sheet: &mut Sheet, uri: &str, text: &str) {
    let uri = sheet.one_line(uri, 600);
    let name = sheet.near(&uri).to_owned();
    sheet.raw("<details class=\"file\"><summary>");
    sheet.clean_text(&name);
    sheet.raw(" <span class=\"quiet\">");
    sheet.number(text.lines().count() as u64);
    sheet.raw(" lines</span></summary>\n<pre tabindex=\"0\"><code>");
    sheet.bounded(text, EMBEDDED_LIMIT);
    sheet.raw("</code></pre></details>\n");
}

fn picture(sheet: &mut Sheet, mime: &str, data: &str) {
    let Some(opening) = opening_of(mime, data) else {
        return chip(
            sheet,
            "Picture",
            &format!("{mime}, about {}, is not of a kind that is shown here", size(data)),
        );
    };
    if data.len() > PICTURE_LIMIT || !sheet.redact().passes(data) || !sheet.take_picture(data.len()) {
        return chip(sheet, "Picture", &format!("{mime}, about {}, is left out", size(data)));
    }
    sheet.raw("<figure>");
    sheet.raw(opening);
    sheet.clean_text(data);
    sheet.raw("\"></figure>\n");
}

/// The beginning of the element for a picture whose bytes are what its type says, in base64 and nothing else.
fn opening_of(mime: &str, data: &str) -> Option<&'static str> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let body = data.trim_end_matches('=');
    if data.len() - body.len() > 2 || !data.len().is_multiple_of(4) || !body.bytes().all(is_base64) {
        return None;
    }
    let magic = STANDARD.decode(data.get(..16)?).ok()?;
    let kinds: [(&str, &[u8], &str); 4] = [
        ("image/png", b"\x89PNG", "<img alt=\"Picture that the user sent\" src=\"data:image/png;base64,"),
        (
            "image/jpeg",
            b"\xff\xd8\xff",
            "<img alt=\"Picture that the user sent\" src=\"data:image/jpeg;base64,",
        ),
        ("image/gif", b"GIF8", "<img alt=\"Picture that the user sent\" src=\"data:image/gif;base64,"),
        ("image/webp", b"RIFF", "<img alt=\"Picture that the user sent\" src=\"data:image/webp;base64,"),
    ];
    let kind =
        kinds.iter().find(|(name, start, _)| mime.eq_ignore_ascii_case(name) && magic.starts_with(start))?;
    Some(kind.2)
}

/// How much a base64 text stands for.
fn size(data: &str) -> String {
    match data.len() / 4 * 3 {
        bytes @ ..1024 => format!("{bytes} bytes"),
        bytes @ 1024..1_048_576 => format!("{} KiB", bytes / 1024),
        bytes => format!("{} MiB", bytes >> 20),
    }
}
