//! The table and the JSON.

use serde_json::{Map, Value, json};

use crate::measure::Figures;

/// What a figure is held against.
enum Aim {
    /// At most so many times the floor's.
    Ratio(f64),
    /// At most this much, in the figure's unit.
    Most(f64),
    /// For information.
    None,
}

struct Row {
    name: &'static str,
    unit: &'static str,
    figure: fn(&Figures) -> f64,
    aim: Aim,
}

const fn row(name: &'static str, unit: &'static str, figure: fn(&Figures) -> f64, aim: Aim) -> Row {
    Row { name, unit, figure, aim }
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

const ROWS: &[Row] = &[
    row("start to initialize answered", "ms", |f| f.initialize_ms, Aim::Ratio(3.0)),
    row("start to session/new answered", "ms", |f| f.session_ms, Aim::Ratio(5.0)),
    row("prompt to model request, first", "us", |f| f.first_request_us, Aim::None),
    row("prompt to model request", "us", |f| f.request_us, Aim::Ratio(3.0)),
    row("delta to client", "us", |f| f.delta_us, Aim::Ratio(3.0)),
    row("delta to client, 99th percentile", "us", |f| f.delta_p99_us, Aim::None),
    row("turn of 2,000 deltas at once", "ms", |f| f.deltas_2k_ms, Aim::Ratio(2.0)),
    row("turn of 20,000 deltas at once", "ms", |f| f.deltas_20k_ms, Aim::None),
    row("50 turns at once, over ideal", "%", |f| f.many_over_ideal_percent, Aim::Most(5.0)),
    row("memory, one session (PSS)", "MiB", |f| mib(f.one_session.pss), Aim::Most(12.0)),
    row("memory, one session (RSS)", "MiB", |f| mib(f.one_session.rss), Aim::None),
    row("memory after 2,000 deltas (PSS)", "MiB", |f| mib(f.after_2k.pss), Aim::None),
    row("memory after 20,000 deltas (PSS)", "MiB", |f| mib(f.after_20k.pss), Aim::None),
    row("memory, 50 sessions at work (PSS)", "MiB", |f| mib(f.many_sessions.pss), Aim::None),
    row("memory, each further session", "KiB", |f| f.further_session_kib, Aim::Most(200.0)),
];

/// Prints the table.
pub fn print(floor: &Figures, milk: &Figures) {
    println!("{:<36} {:>5} {:>10} {:>10} {:>7}  aim", "", "", "floor", "milk", "ratio");
    for row in ROWS {
        let (base, figure) = ((row.figure)(floor), (row.figure)(milk));
        let ratio = figure / base;
        let (aim, met) = match row.aim {
            Aim::Ratio(most) => (format!("ratio {most}"), ratio <= most),
            Aim::Most(most) => (format!("{most} {}", row.unit), figure <= most),
            Aim::None => (String::new(), true),
        };
        let ratio = if base > 0.0 { format!("{ratio:.2}") } else { String::new() };
        let miss = if met { "" } else { "  missed" };
        println!("{:<36} {:>5} {base:>10.2} {figure:>10.2} {ratio:>7}  {aim}{miss}", row.name, row.unit);
    }
}

/// The same as JSON: for each row its unit and both figures.
pub fn json(floor: &Figures, milk: &Figures) -> String {
    let entry = |row: &Row| {
        let figures = json!({"unit": row.unit, "floor": (row.figure)(floor), "milk": (row.figure)(milk)});
        (row.name.to_owned(), figures)
    };
    let table: Map<String, Value> = ROWS.iter().map(entry).collect();
    format!("{:#}\n", Value::Object(table))
}
