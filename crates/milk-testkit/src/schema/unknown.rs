//! Words that an open union does not name: legal for the schema, lost on every client.
//!
//! v2 leaves its unions open, so `{"sessionUpdate": "agent_mesage_chunk"}` is valid. This walk goes through the value
//! along the schema and reports tags and enum values that only the catch-all branch takes, unless they begin with `_`.

use serde_json::Value;

use super::{Violation, violation};

/// Reports unknown words in a valid value.
pub(super) fn find(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<Violation>) {
    if let Some(target) =
        schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?))
    {
        find(root, target, value, at, found);
    }
    match value {
        Value::Object(members) => {
            let extra = &schema["additionalProperties"];
            for (name, member) in members {
                let declared = schema["properties"].get(name).or(extra.is_object().then_some(extra));
                if let Some(declared) = declared {
                    find(root, declared, member, &format!("{at}/{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(root, &schema["items"], item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
    for union in [&schema["anyOf"], &schema["oneOf"]] {
        if let Some(branches) = union.as_array() {
            find_in_union(root, branches, value, at, found);
        }
    }
}

fn find_in_union(root: &Value, branches: &[Value], value: &Value, at: &str, found: &mut Vec<Violation>) {
    if let Some(tag) = tag_of(branches) {
        let word = &value[tag];
        let named = branches.iter().find(|branch| branch["properties"][tag].get("const") == Some(word));
        if let Some(branch) = named {
            return find(root, branch, value, at, found);
        }
        let catch_all =
            |branch: &&Value| branch["properties"].get(tag).is_some_and(|tag| tag.get("const").is_none());
        if let (Some(word), true) = (word.as_str(), branches.iter().any(|branch| catch_all(&branch)))
            && !word.starts_with('_')
        {
            found.push(violation(
                format!("{at}/{tag}"),
                format!("{word:?} is no variant that the schema names"),
            ));
        }
        let untagged = branches.iter().filter(|branch| branch["properties"][tag].get("const").is_none());
        return untagged.for_each(|branch| find(root, branch, value, at, found));
    }
    if let Some(word) = value.as_str()
        && branches.iter().any(|branch| branch["const"].is_string())
    {
        let named = branches.iter().any(|branch| branch["const"] == word);
        if !named && !word.starts_with('_') {
            found.push(violation(at, format!("{word:?} is no value that the schema names")));
        }
        return;
    }
    // A union without a tag: the branches whose required members are there.
    for branch in branches.iter().filter(|branch| fits(root, branch, value)) {
        find(root, branch, value, at, found);
    }
}

/// The member that tells the branches of a union apart.
fn tag_of(branches: &[Value]) -> Option<&str> {
    let mut members = branches.iter().filter_map(|branch| branch["properties"].as_object()).flatten();
    members.find(|(_, schema)| schema["const"].is_string()).map(|(name, _)| name.as_str())
}

fn fits(root: &Value, branch: &Value, value: &Value) -> bool {
    let target = branch["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let has_all = |schema: &Value| {
        let required = schema["required"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        required.iter().filter_map(Value::as_str).all(|name| value.get(name).is_some())
    };
    has_all(branch) && target.is_none_or(has_all)
}
