//! Parameters, read leniently: what is missing or null is absent, what is unknown is ignored, and only a wrong type in a
//! field that milk needs is refused (R4).

use std::fmt;

use milk_core::content::ContentBlock;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::rpc_error::{RpcError, bad_param};

/// The members of a parameters object, each raw until it is asked for.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    method: &'static str,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Missing and null parameters are an empty object; anything but an object is refused.
    pub(crate) fn read(method: &'static str, params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let members = match params {
            None => Vec::new(),
            Some(raw) if raw.get() == "null" => Vec::new(),
            Some(raw) => match members(raw) {
                Some(members) => members,
                None => return Err(bad_param(method, "params", "an object")),
            },
        };
        Ok(Self { method, members })
    }

    /// As [`Fields::read`], but whatever cannot be read is empty: for requests that must not fail.
    pub(crate) fn read_any(method: &'static str, params: Option<&'a RawValue>) -> Self {
        Self { method, members: params.and_then(members).unwrap_or_default() }
    }

    /// The member, unless it is missing or null. Of a repeated one the last counts.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let (_, raw) = self.members.iter().rev().find(|(key, _)| key == name)?;
        (raw.get() != "null").then_some(*raw)
    }

    /// A text, if it is there.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, RpcError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| bad_param(self.method, name, "a text"))
    }

    /// A text that must be there and must not be empty.
    pub(crate) fn required_text(&self, name: &str) -> Result<String, RpcError> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| RpcError::InvalidParams(format!("{}: {name} is required", self.method)))
    }

    /// An object, if it is there and is one: for members that only tell something.
    pub(crate) fn object(&self, name: &str) -> Fields<'a> {
        Fields { method: self.method, members: self.raw(name).and_then(members).unwrap_or_default() }
    }

    /// A value, if it is there and can be read: for members that only tell something.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// milk's own member under `_meta.milk`.
    pub(crate) fn milk_meta(&self, name: &str) -> Option<Value> {
        self.object("_meta").object("milk").value(name)
    }

    /// The content of a prompt (R13).
    pub(crate) fn content(&self, name: &str) -> Result<Vec<ContentBlock>, RpcError> {
        let wrong = || bad_param(self.method, name, "an array of content blocks");
        let raw = self.raw(name).ok_or_else(wrong)?;
        let blocks: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| wrong())?;
        let read = |block: &'a RawValue| {
            let members = members(block).ok_or_else(wrong)?;
            Fields { method: self.method, members }.read_block()
        };
        blocks.into_iter().map(read).collect()
    }

    fn read_block(&self) -> Result<ContentBlock, RpcError> {
        let kind = self.text("type")?.unwrap_or_default();
        Ok(match kind.as_str() {
            "text" => ContentBlock::text(self.text("text")?.unwrap_or_default()),
            "resource_link" => {
                let uri = self.text("uri")?.unwrap_or_default();
                let name = self.text("name")?.filter(|name| !name.is_empty());
                ContentBlock::Link {
                    name: name.unwrap_or_else(|| last_part(&uri)),
                    uri,
                    mime: self.text("mimeType")?,
                }
            }
            "resource" => {
                let resource = self.object("resource");
                let uri = resource.text("uri")?.unwrap_or_default();
                let mime = resource.text("mimeType")?;
                match (resource.text("text")?, resource.text("blob")?) {
                    (Some(text), _) => ContentBlock::EmbeddedText { uri, mime, text: text.into() },
                    (None, blob) => {
                        ContentBlock::EmbeddedBlob { uri, mime, data: blob.unwrap_or_default().into() }
                    }
                }
            }
            "image" => ContentBlock::Image {
                mime: self.text("mimeType")?.unwrap_or_default(),
                data: self.text("data")?.unwrap_or_default().into(),
            },
            _ => ContentBlock::Unknown { kind },
        })
    }
}

fn last_part(uri: &str) -> String {
    uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri).to_owned()
}

fn members(raw: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    let Members(members) = serde_json::from_str(raw.get()).ok()?;
    Some(members)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(All).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn absent_null_and_unknown_are_fine_and_a_wrong_type_is_not() {
        let params = raw(r#"{"a":"x","b":null,"c":5,"d":"","a2":{"_":1},"a":"last","_meta":null}"#);
        let fields = Fields::read("m", Some(&params)).unwrap();
        assert_eq!(fields.text("a").unwrap().as_deref(), Some("last"));
        assert_eq!(fields.text("b"), Ok(None));
        assert_eq!(fields.text("zzz"), Ok(None));
        assert_eq!(fields.text("c").unwrap_err().to_string(), "m: c must be a text");
        assert_eq!(fields.required_text("d").unwrap_err().to_string(), "m: d is required");
        assert_eq!(fields.required_text("b").unwrap_err().to_string(), "m: b is required");
        assert_eq!(fields.milk_meta("fresh"), None);
        assert_eq!(fields.object("c").value("x"), None);

        assert!(Fields::read("m", None).is_ok());
        assert!(Fields::read("m", Some(RawValue::NULL)).is_ok());
        for wrong in ["[]", "5", "\"x\"", "true"] {
            assert!(Fields::read("m", Some(&raw(wrong))).is_err(), "{wrong}");
            assert!(Fields::read_any("m", Some(&raw(wrong))).raw("a").is_none());
        }
    }

    #[test]
    fn milks_own_members_are_found_where_they_belong() {
        let params = raw(r#"{"_meta":{"milk":{"fresh":true},"other":1}}"#);
        let fields = Fields::read("m", Some(&params)).unwrap();
        assert_eq!(fields.milk_meta("fresh"), Some(Value::Bool(true)));
        let params = raw(r#"{"_meta":{"milk":7}}"#);
        assert_eq!(Fields::read("m", Some(&params)).unwrap().milk_meta("fresh"), None);
    }

    #[test]
    fn blocks_of_every_kind() {
        let params = raw(r#"{"prompt":[
                {"type":"text","text":"hi","annotations":null},
                {"type":"text"},
                {"type":"resource_link","uri":"file:///w/dir%20x/a.txt#L2:3"},
                {"type":"resource_link","uri":"file:///w/b","name":"b.rs","size":3,"mimeType":"a/b"},
                {"type":"resource","resource":{"uri":"file:///c","text":"body","mimeType":"text/plain"}},
                {"type":"resource","resource":{"uri":"file:///d","blob":"AAAA"}},
                {"type":"image","mimeType":"image/png","data":"AA=="},
                {"type":"audio","data":"AA=="},
                {"type":"_foo","x":1},
                {}
            ]}"#);
        let fields = Fields::read("session/prompt", Some(&params)).unwrap();
        assert_eq!(
            fields.content("prompt").unwrap(),
            [
                ContentBlock::text("hi"),
                ContentBlock::text(""),
                ContentBlock::Link {
                    uri: "file:///w/dir%20x/a.txt#L2:3".into(),
                    name: "a.txt#L2:3".into(),
                    mime: None,
                },
                ContentBlock::Link {
                    uri: "file:///w/b".into(),
                    name: "b.rs".into(),
                    mime: Some("a/b".into())
                },
                ContentBlock::EmbeddedText {
                    uri: "file:///c".into(),
                    mime: Some("text/plain".into()),
                    text: "body".into(),
                },
                ContentBlock::EmbeddedBlob { uri: "file:///d".into(), mime: None, data: "AAAA".into() },
                ContentBlock::Image { mime: "image/png".into(), data: "AA==".into() },
                ContentBlock::Unknown { kind: "audio".into() },
                ContentBlock::Unknown { kind: "_foo".into() },
                ContentBlock::Unknown { kind: String::new() },
            ]
        );
    }

    #[test]
    fn content_that_is_no_content_is_refused() {
        for prompt in ["5", "\"hi\"", "{}", "null", "[5]", r#"[{"type":5}]"#, r#"[{"type":"text","text":5}]"#]
        {
            let params = raw(&format!(r#"{{"prompt":{prompt}}}"#));
            let fields = Fields::read("session/prompt", Some(&params)).unwrap();
            assert!(matches!(fields.content("prompt"), Err(RpcError::InvalidParams(_))), "{prompt}");
        }
        let params = raw(&format!(r#"{{"prompt":[{}1{}]}}"#, "[".repeat(5000), "]".repeat(5000)));
        assert!(Fields::read("m", Some(&params)).unwrap().content("prompt").is_err());
    }
}
