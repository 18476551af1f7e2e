//! Tokens per turn, as bars and as numbers, and with them the way to each turn.

use milk_core::content::plain_text;
use milk_core::model::Usage;
use milk_core::session::title_from;

use super::sheet::Sheet;
use crate::fold::Turn;

/// Most bars; a longer session has several turns in each.
const BARS_LIMIT: usize = 60;
/// Few bars are no wider than if there were so many.
const BARS_LEAST: usize = 12;
/// Height of the tallest bar, in the chart's own units.
const HEIGHT: u64 = 1000;
/// Width of a bar with the gap behind it, in the chart's own units.
const STEP: u64 = 10;

/// What the chart keeps of a turn.
pub(super) struct Row {
    /// Its place in the page, from 1.
    pub(super) place: usize,
    number: u64,
    /// The beginning of the prompt, redacted.
    prompt: Option<String>,
    usage: Option<Usage>,
}

impl Row {
    pub(super) fn of(turn: &Turn, place: usize, sheet: &Sheet) -> Self {
        let prompt = turn.start.as_ref().map(|start| sheet.redact().clean(&plain_text(&start.content)));
        Self {
            place,
            number: turn.id.0,
            prompt: prompt.and_then(|text| title_from(&text)),
            usage: turn.usage(),
        }
    }
}

/// Turns that share a bar.
struct Bar<'a> {
    first: &'a Row,
    last: &'a Row,
    /// Their sum; nothing where no server gave any numbers.
    usage: Usage,
    is_known: bool,
}

/// Writes the chart and its table.
pub(super) fn write(sheet: &mut Sheet, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let bars = bars(rows);
    let known = rows.iter().any(|row| row.usage.is_some());
    sheet.raw("<section class=\"overview\" aria-labelledby=\"overview\">\n<h2 id=\"overview\">");
    sheet.raw(if known { "Tokens per turn" } else { "Turns" });
    sheet.raw("</h2>\n");
    if known {
        panel(sheet, &bars, "Input", |usage| (usage.input, usage.cached.min(usage.input)));
        panel(sheet, &bars, "Output", |usage| (usage.output, 0));
        legend(sheet, rows, &bars);
    }
    table(sheet, &bars, known);
    sheet.raw("</section>\n");
}

fn bars(rows: &[Row]) -> Vec<Bar<'_>> {
    let count = rows.len().min(BARS_LIMIT);
    (0..count)
        .filter_map(|bar| {
            // Shares that differ by one turn at most.
            let turns = &rows[bar * rows.len() / count..(bar + 1) * rows.len() / count];
            let usage = turns.iter().filter_map(|row| row.usage).fold(Usage::default(), |sum, next| Usage {
                input: sum.input.saturating_add(next.input),
                cached: sum.cached.saturating_add(next.cached),
                output: sum.output.saturating_add(next.output),
            });
            Some(Bar {
                first: turns.first()?,
                last: turns.last()?,
                usage,
                is_known: turns.iter().any(|row| row.usage.is_some()),
            })
        })
        .collect()
}

/// One row of bars. `measure` gives the height, and how much of it is the lighter part.
fn panel(sheet: &mut Sheet, bars: &[Bar<'_>], name: &'static str, measure: impl Fn(&Usage) -> (u64, u64)) {
    let most = bars.iter().map(|bar| measure(&bar.usage).0).max().unwrap_or_default();
    let total = bars.iter().fold(0_u64, |sum, bar| sum.saturating_add(measure(&bar.usage).0));
    sheet.raw("<div class=\"panel\"><p><strong>");
    sheet.raw(name);
    sheet.raw("</strong> <span class=\"quiet\">");
    sheet.number(total);
    sheet.raw(" in all, ");
    sheet.number(most);
    sheet.raw(" in the tallest bar</span></p>\n<svg role=\"img\" preserveAspectRatio=\"none\" aria-label=\"");
    sheet.raw(name);
    sheet.raw(" tokens per turn; the numbers are in the table below\" viewBox=\"0 0 ");
    sheet.bare_number(bars.len().max(BARS_LEAST) as u64 * STEP);
    sheet.raw(" ");
    sheet.bare_number(HEIGHT);
    sheet.raw("\">\n");
    for (place, bar) in bars.iter().enumerate() {
        let (whole, light) = measure(&bar.usage);
        let (whole, light) = (scaled(whole, most), scaled(light, most));
        rect(sheet, "<rect class=\"bar\" x=\"", place, whole, whole - light.min(whole));
        rect(sheet, "<rect class=\"bar light\" x=\"", place, light, light);
    }
    sheet.raw("</svg></div>\n");
}

/// A piece of a bar whose top is `top` above the ground. What is not nothing can be seen.
fn rect(sheet: &mut Sheet, opening: &'static str, place: usize, top: u64, height: u64) {
    if height == 0 {
        return;
    }
    sheet.raw(opening);
    sheet.bare_number(place as u64 * STEP + 1);
    sheet.raw("\" y=\"");
    sheet.bare_number(HEIGHT - top);
    sheet.raw("\" width=\"");
    sheet.bare_number(STEP - 2);
    sheet.raw("\" height=\"");
    sheet.bare_number(height);
    sheet.raw("\"/>\n");
}

fn scaled(value: u64, most: u64) -> u64 {
    if value == 0 || most == 0 {
        return 0;
    }
    // Not above the height, as the value is not above the most.
    let height = u128::from(value) * u128::from(HEIGHT) / u128::from(most);
    u64::try_from(height).unwrap_or(HEIGHT).clamp(15, HEIGHT)
}

fn legend(sheet: &mut Sheet, rows: &[Row], bars: &[Bar<'_>]) {
    sheet.raw("<p class=\"legend quiet\">");
    if bars.iter().any(|bar| bar.usage.cached > 0) {
        sheet.raw("<span class=\"swatch light\"></span>read from cache <span class=\"swatch\"></span>new ");
    }
    if bars.len() < rows.len() {
        sheet.raw("Each bar is the sum of about ");
        sheet.number((rows.len() / bars.len()) as u64);
        sheet.raw(" turns.");
    }
    sheet.raw("</p>\n");
}

fn table(sheet: &mut Sheet, bars: &[Bar<'_>], known: bool) {
    sheet.raw("<details class=\"numbers\"><summary>");
    sheet.raw(if known { "Turns and their numbers" } else { "List of turns" });
    sheet.raw(
        "</summary>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Turn</th>",
    );
    if known {
        sheet.raw("<th scope=\"col\" class=\"n\">In</th><th scope=\"col\" class=\"n\">Cached</th><th scope=\"col\" class=\"n\">Out</th>");
    }
    sheet.raw("<th scope=\"col\">Prompt</th></tr></thead>\n<tbody>\n");
    for bar in bars {
        sheet.raw("<tr><th scope=\"row\"><a href=\"#t");
        sheet.bare_number(bar.first.place as u64);
        sheet.raw("\">");
        sheet.bare_number(bar.first.number);
        if bar.first.place != bar.last.place {
            sheet.raw("–");
            sheet.bare_number(bar.last.number);
        }
        sheet.raw("</a></th>");
        if known {
            for number in [bar.usage.input, bar.usage.cached, bar.usage.output] {
                sheet.raw("<td class=\"n\">");
                if bar.is_known {
                    sheet.number(number);
                } else {
                    sheet.raw("—");
                }
                sheet.raw("</td>");
            }
        }
        sheet.raw("<td dir=\"auto\">");
        sheet.clean_text(bar.first.prompt.as_deref().unwrap_or("—"));
        sheet.raw("</td></tr>\n");
    }
    sheet.raw("</tbody></table></div></details>\n");
}
