//! A session as one page: no script, nothing loaded, tool rows that fold.

mod blocks;
mod change;
mod chart;
mod markdown;
mod sheet;
mod tool;
mod turn;

use milk_core::ports::Transcript;
use milk_core::record::{Logged, Speaker};
use milk_core::session::SessionSummary;

use crate::fold::{Fold, Part};
use crate::html::chart::Row;
use crate::html::sheet::Sheet;
use crate::moment;
use crate::redact::Redactor;

/// What stands before the title. The policy forbids scripts, frames, forms and everything that would be loaded, should a
/// text ever get past the escaping.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
base-uri 'none'; form-action 'none'\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
<meta name=\"robots\" content=\"noindex\">\n<meta name=\"generator\" content=\"milk\">\n";

/// How many models the header names.
const MODELS_LIMIT: usize = 12;

/// The page in the making: its turns so far, and what its header will need.
pub(crate) struct Page {
    session: SessionSummary,
    fold: Fold,
    body: Sheet,
    rows: Vec<Row>,
    models: Vec<Speaker>,
    calls: u64,
}

impl Page {
    pub(crate) fn new(redact: Redactor, session: &SessionSummary) -> Self {
        Self {
            session: session.clone(),
            fold: Fold::default(),
            body: Sheet::new(redact, &session.cwd),
            rows: Vec::new(),
            models: Vec::new(),
            calls: 0,
        }
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Turn(turn) if turn.is_command() => {}
            Part::Turn(turn) => {
                let row = Row::of(turn, self.rows.len() + 1, &self.body);
                turn::write(&mut self.body, turn, row.place);
                self.rows.push(row);
                for step in &turn.steps {
                    self.calls += step.calls.len() as u64;
                    if self.models.len() < MODELS_LIMIT && !self.models.contains(&step.by) {
                        self.models.push(step.by.clone());
                    }
                }
            }
            Part::Note(note) => turn::write_note(&mut self.body, note),
        }
    }

    fn header(&self, sheet: &mut Sheet) {
        let session = &self.session;
        let title = sheet.one_line(session.title().unwrap_or("A session without a name"), 200);
        sheet.raw("<title>");
        sheet.clean_text(&title);
        sheet.raw("</title>\n<style>\n");
        sheet.raw(include_str!("html/style.css"));
        sheet.raw("</style>\n</head>\n<body>\n<header class=\"top\">\n<p class=\"brand\">milk session</p>\n<h1 dir=\"auto\">");
        sheet.clean_text(&title);
        sheet.raw("</h1>\n<dl class=\"facts\">\n");
        let cwd = session.cwd.to_string_lossy();
        fact(sheet, "Folder", |sheet| sheet.wrapped("<code>", &cwd, "</code>"));
        fact(sheet, "Created", |sheet| time(sheet, session.created_ms));
        fact(sheet, "Last used", |sheet| time(sheet, session.last_used_ms));
        if !self.models.is_empty() {
            fact(sheet, "Models", |sheet| self.models(sheet));
        }
        fact(sheet, "Turns", |sheet| {
            sheet.number(self.rows.len() as u64);
            sheet.raw(" <span class=\"quiet\">with ");
            sheet.number(self.calls);
            sheet.raw(if self.calls == 1 { " tool call</span>" } else { " tool calls</span>" });
        });
        fact(sheet, "Session", |sheet| sheet.wrapped("<code>", session.id.as_str(), "</code>"));
        sheet.raw("</dl>\n</header>\n");
    }

    fn models(&self, sheet: &mut Sheet) {
        for (place, by) in self.models.iter().enumerate() {
            sheet.raw(if place == 0 { "" } else { "<br>" });
            sheet.text(&by.model);
            sheet.raw(" <span class=\"quiet\">");
            sheet.text(&format!("{}, as {}", by.provider, by.agent));
            sheet.raw("</span>");
        }
    }
}

impl Transcript for Page {
    fn push(&mut self, logged: Logged) {
        for part in self.fold.push(logged) {
            self.part(&part);
        }
    }

    fn finish(mut self: Box<Self>) -> String {
        for part in std::mem::take(&mut self.fold).finish() {
            self.part(&part);
        }
        let mut head = self.body.blank();
        head.raw(HEAD);
        self.header(&mut head);
        chart::write(&mut head, &self.rows);
        head.raw("<main>\n");
        if self.rows.is_empty() {
            head.raw("<p class=\"note\">Nothing was said in this session.</p>\n");
        }
        let mut page = self.body;
        page.begin_with(&head);
        page.raw("</main>\n<footer class=\"end\"><p>Exported by milk. Times are UTC.</p></footer>\n</body>\n</html>\n");
        page.into_page()
    }
}

fn fact(sheet: &mut Sheet, name: &'static str, value: impl FnOnce(&mut Sheet)) {
    sheet.raw("<div><dt>");
    sheet.raw(name);
    sheet.raw("</dt><dd>");
    value(sheet);
    sheet.raw("</dd></div>\n");
}

/// A point in time, readable by people and programs.
fn time(sheet: &mut Sheet, ms: u64) {
    if let Some(machine) = moment::rfc3339(ms) {
        sheet.raw("<time datetime=\"");
        sheet.clean_text(&machine);
        sheet.raw("\">");
        sheet.clean_text(&moment::plain(ms));
        sheet.raw("</time>");
    } else {
        sheet.clean_text(&moment::plain(ms));
    }
}
