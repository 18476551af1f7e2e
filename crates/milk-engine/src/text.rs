//! Small forms of ids, texts and times, for people.

use milk_core::id::SessionId;

/// The first characters of a session's id, enough to know it by.
pub fn short_id(id: &SessionId) -> &str {
    let text = id.as_str();
    &text[..text.floor_char_boundary(8)]
}

/// The beginning of a text on one line, in characters, with an ellipsis where it is cut.
pub fn one_line(text: &str, limit: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= limit {
        return flat;
    }
    flat.chars().take(limit).chain(['…']).collect()
}

/// How long ago a time was, both in milliseconds since the Unix epoch.
pub fn age(then_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1_000;
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        86_400..5_184_000 => (seconds / 86_400, "day"),
        _ => (seconds / 2_592_000, "month"),
    };
    plural(count, unit) + " ago"
}

/// `1 turn`, `2 turns`.
pub fn plural(count: u64, unit: &str) -> String {
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_one_unit() {
        let minute = 60_000;
        for (passed, told) in [
            (0, "just now"),
            (minute, "1 minute ago"),
            (59 * minute, "59 minutes ago"),
            (60 * minute, "1 hour ago"),
            (50 * 60 * minute, "2 days ago"),
            (100 * 24 * 60 * minute, "3 months ago"),
        ] {
            assert_eq!(age(1_000, 1_000 + passed), told);
        }
        assert_eq!(age(5_000, 1_000), "just now", "clocks may go back");
    }

    #[test]
    fn ids_are_cut_between_characters() {
        assert_eq!(short_id(&"a1b2c3d4-e5".into()), "a1b2c3d4");
        assert_eq!(short_id(&"ééééé".into()), "éééé");
        assert_eq!(short_id(&"".into()), "");
    }
}
