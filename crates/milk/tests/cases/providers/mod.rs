//! Model servers as they are: framing, cut streams, errors, retries, time-outs, proxies (R11, R17).
//!
//! Cases that need more than stands:
//!
//! | case | needs |
//! |---|---|
//! | 086, its part on replay after a restart | stored sessions |
//! | 087, its part on `/usage` | the command |

mod context;
mod cut;
mod errors;
mod framing;
mod network;
mod replies;
mod waiting;

use crate::support::{Plan, answered};
use milk_testkit::Reply;
use serde_json::{Value, json};

/// Plays each reply in a turn of its own, in one session; each must give this text.
async fn all_answer(text: &str, replies: impl IntoIterator<Item = Reply>) {
    let rig = Plan::replies(replies).no_retries().start().await;
    while rig.server.left() > 0 {
        let number = rig.server.count();
        let turn = rig.turn("go").await;
        assert_eq!(turn.text, text, "reply {number}: {turn:#?}");
        answered(&turn, text);
    }
}

fn chunk(choice: Value) -> Value {
    let mut chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"});
    chunk["choices"] = Value::Array(vec![choice]);
    chunk
}

/// Three text deltas and no end.
fn three() -> Reply {
    Reply::stream().role().say("one ").say("two ").say("three")
}

/// Continues a reply with text deltas and its ordinary end.
trait Deltas {
    fn deltas_then<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Reply;
}

impl Deltas for Reply {
    fn deltas_then<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Reply {
        texts.into_iter().fold(self, Reply::say).end()
    }
}
