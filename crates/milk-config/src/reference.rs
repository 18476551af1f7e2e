//! References to environment variables in values: `${NAME}`. So a config file need not hold the secret itself.

use std::collections::BTreeSet;

use milk_files::Env;

/// A value after its references were resolved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The text with every reference replaced.
    Text(String),
    /// This variable is not set or empty; the value must not be used.
    Missing(String),
}

/// Replaces every `${NAME}`; anything else with a dollar is left as written. Names met are added to `names`.
pub(crate) fn resolve(text: &str, env: &Env, names: &mut BTreeSet<String>) -> Resolved {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        if let Some(name) = name_of(from) {
            names.insert(name.to_owned());
            match env.get(name).filter(|value| !value.is_empty()) {
                Some(value) => out.push_str(value),
                None => return Resolved::Missing(name.to_owned()),
            }
            rest = &from[name.len() + 3..];
        } else {
            out.push_str("${");
            rest = &from[2..];
        }
    }
    out.push_str(rest);
    Resolved::Text(out)
}

/// Whether the text is nothing but one reference, and so safe to show.
pub(crate) fn is_reference(text: &str) -> bool {
    name_of(text).is_some_and(|name| name.len() + 3 == text.len())
}

/// The name at the start of `${NAME}…`.
fn name_of(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("${")?.split_once('}')?;
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced() {
        let env = Env::of([("KEY", "k1"), ("_B2", "${KEY}"), ("EMPTY", "")]);
        let text = |s: &str| Resolved::Text(s.to_owned());
        for (value, expected) in [
            ("plain", text("plain")),
            ("${KEY}", text("k1")),
            ("Bearer ${KEY}!", text("Bearer k1!")),
            ("${KEY}${KEY}", text("k1k1")),
            ("${_B2}", text("${KEY}")), // what a variable holds is never read again
            ("${NONE}", Resolved::Missing("NONE".into())),
            ("x${EMPTY}", Resolved::Missing("EMPTY".into())),
            ("$KEY $ {KEY} ${} ${1A} ${A-B} ${KEY", text("$KEY $ {KEY} ${} ${1A} ${A-B} ${KEY")),
            ("é${KEY}é", text("ék1é")),
        ] {
            assert_eq!(resolve(value, &env, &mut BTreeSet::new()), expected, "{value}");
        }
    }

    #[test]
    fn names_are_collected() {
        let mut names = BTreeSet::new();
        resolve("${A}${B}", &Env::of([("A", "1"), ("B", "2")]), &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn a_lone_reference_is_no_secret() {
        for (text, expected) in
            [("${A}", true), ("${A}x", false), ("x${A}", false), ("A", false), ("", false)]
        {
            assert_eq!(is_reference(text), expected, "{text}");
        }
    }
}
