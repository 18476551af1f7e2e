//! `initialize` (R1 to R5).

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::rig::Rig;

#[test]
fn exactly_1_is_v1_and_everything_else_is_v2() {
    for (params, version) in [
        (json!({"protocolVersion": 1}), 1),
        (json!({"protocolVersion": 2}), 2),
        (json!({"protocolVersion": 0}), 2),
        (json!({"protocolVersion": 99}), 2),
        (json!({"protocolVersion": "1"}), 2),
        (json!({"protocolVersion": null}), 2),
        (json!({"protocolVersion": 1.5}), 2),
        (json!({}), 2),
        (Value::Null, 2),
        (json!([1]), 2),
        (json!({"protocolVersion": 1, "clientInfo": 5, "capabilities": "x", "_meta": []}), 1),
    ] {
        let mut rig = Rig::new();
        assert_eq!(rig.initialize(&params)["protocolVersion"], version, "{params}");
    }
}

#[test]
fn the_replies_have_each_versions_shape() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.initialize(&json!({"protocolVersion": 2, "info": {"name": "my-editor"}})),
        json!({
            "protocolVersion": 2,
            "info": {"name": "milk", "title": "milk", "version": "1.2.3"},
            "capabilities": {
                "session": {"delete": {}, "prompt": {"embeddedContext": {}}},
                "_meta": {"milk": {"notifications": ["_milk/route"]}},
            },
        })
    );
    let v1 = rig.initialize(&json!({"protocolVersion": 1}));
    assert_eq!(v1["agentInfo"], json!({"name": "milk", "title": "milk", "version": "1.2.3"}));
    assert_eq!(v1["authMethods"], json!([]));
    let capabilities = &v1["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], false);
    assert_eq!(
        capabilities["promptCapabilities"],
        json!({"image": false, "audio": false, "embeddedContext": true})
    );
    assert_eq!(
        capabilities["sessionCapabilities"],
        json!({"list": {}, "resume": {}, "close": {}, "delete": {}})
    );
    assert_eq!(capabilities["_meta"], json!({"milk": {"notifications": ["_milk/route"]}}));
}

#[test]
fn calls_before_initialize_work_as_v2_and_a_second_one_counts_for_later_sessions() {
    let mut rig = Rig::new();
    let early = rig.session();
    rig.v1();
    let late = rig.session();
    let (_, answer) = rig.turn(&late, "hi");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    // The early one still speaks v2, which the schema of v1 does not know: from here on v2 checks again.
    rig.v2();
    let (updates, answer) = rig.turn(&early, "hi");
    assert_eq!(answer["result"].get("stopReason"), None);
    assert!(updates.iter().any(|update| update["params"]["update"]["sessionUpdate"] == "state_update"));
}

#[test]
fn a_pipelined_start_is_answered_in_order() {
    let mut rig = Rig::new();
    rig.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":2}}\n\
          {\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\"}}\n",
    );
    assert_eq!(rig.next().unwrap()["id"], "a");
    assert_eq!(rig.next().unwrap()["id"], "b");
}
