//! Finds the useful leaf of a union's error: the branch whose tag fits, and there the deepest complaint.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;

/// Characters of an error text that are kept.
const SHOWN: usize = 300;

/// Where and what, of the complaint that helps most.
pub(super) fn leaf(error: &ValidationError<'_>) -> (String, String) {
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            if let Some(stranger) = stranger(context) {
                return stranger;
            }
            let fitting = context.iter().min_by_key(|branch| (tag_is_wrong(branch), branch.len()));
            let deepest = fitting.into_iter().flatten().max_by_key(|error| depth(error));
            deepest.map_or_else(|| plain(error), leaf)
        }
        _ => plain(error),
    }
}

/// The word that no branch of a closed union names, with those that they do.
fn stranger(branches: &[Vec<ValidationError<'_>>]) -> Option<(String, String)> {
    let constant = |branch: &Vec<ValidationError<'_>>| {
        let (error, expected) = branch.iter().find_map(|error| match error.kind() {
            Kind::Constant { expected_value } => Some((error, expected_value.to_string())),
            _ => None,
        })?;
        Some((error.instance_path().to_string(), error.instance().to_string(), expected))
    };
    let constants: Vec<_> = branches.iter().map(constant).collect::<Option<_>>()?;
    let (place, word, _) = constants.first()?;
    let words: Vec<&str> = constants.iter().map(|(_, _, expected)| expected.as_str()).collect();
    let same_place = constants.iter().all(|(other, ..)| other == place);
    same_place.then(|| (place.clone(), format!("{word} is none of {}", words.join(", "))))
}

fn plain(error: &ValidationError<'_>) -> (String, String) {
    (error.instance_path().to_string(), error.to_string().chars().take(SHOWN).collect())
}

/// Whether a branch of a union was not meant: a constant, a type or the "none of the others" clause failed.
fn tag_is_wrong(branch: &[ValidationError<'_>]) -> bool {
    let wrong = |error: &ValidationError<'_>| {
        matches!(
            error.kind(),
            Kind::Constant { .. } | Kind::Enum { .. } | Kind::Not { .. } | Kind::Type { .. }
        ) && depth(error) <= depth_of_branch(branch)
    };
    branch.iter().any(wrong)
}

fn depth(error: &ValidationError<'_>) -> usize {
    error.instance_path().to_string().matches('/').count()
}

/// Tags sit one level below the union's value, or are the value itself.
fn depth_of_branch(branch: &[ValidationError<'_>]) -> usize {
    branch.iter().map(depth).min().unwrap_or_default() + 1
}
