//! The two forms of a script, and scripts that are refused.

use std::error::Error;

use serde_json::{Value, json};
use windlass_loopback_model::{LoopbackModel, Order, Script, Step};

fn refusal(script: &Value) -> String {
    let error = Script::from_json(&script.to_string()).unwrap_err();
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[test]
fn a_list_is_in_the_order_of_requests_and_an_object_in_that_of_turns() {
    let list = Script::from_json(r#"[{ "text": "a" }]"#).unwrap();
    assert_eq!(list, Script::in_order_of_requests(vec![Step::say("a")]));
    let object = Script::from_json(r#"{ "otherwise": [{ "text": "a" }] }"#).unwrap();
    assert_eq!((object.order, object.otherwise.as_slice()), (Order::Turns, &[Step::say("a")][..]));
    let written = serde_json::to_string(&list).unwrap();
    assert_eq!(Script::from_json(&written).unwrap(), list);
}

#[test]
fn unknown_fields_are_refused_where_they_stand() {
    for (script, field) in [
        (json!([{ "txt": "a" }]), "`txt`"),
        (json!([{ "calls": [{ "name": "a", "arguments": {} }] }]), "`arguments`"),
        (json!([{ "error": { "status": 500, "header": {} } }]), "`header`"),
        (json!({ "rules": [] }), "`rules`"),
        (json!([{ "drop": "later" }]), "`later`"),
        (json!("text"), "a list of steps or an object"),
    ] {
        let message = refusal(&script);
        assert!(message.contains(field) && message.contains("line 1"), "{message}");
    }
}

#[test]
fn steps_that_contradict_themselves_are_refused() {
    for (step, problem) in [
        (json!({}), "neither an answer nor a failure"),
        (json!({ "hang": 1, "endless": 1 }), "more than one failure"),
        (json!({ "error": { "status": 500 }, "text": "a" }), "never sent"),
        (json!({ "drop": "start", "text": "a" }), "never sent"),
        (json!({ "hang": -1 }), "not between 0 and 86400"),
        (json!({ "text": "a", "delay": 1e300 }), "not between 0 and 86400"),
        (json!({ "text": "a", "repeat": 0 }), "neither positive nor -1"),
        (json!({ "endless": 1_u64 << 40 }), "more than 268435456"),
        (json!({ "text": "a", "usage": { "cached": 101 } }), "more tokens from the cache"),
        (json!({ "calls": [{ "name": "=" }] }), "call without a name"),
        (json!({ "error": { "status": 200 } }), "not between 300 and 599"),
        (json!({ "error": { "status": 500, "headers": { "a b": "" } } }), "header name"),
        (json!({ "error": { "status": 500, "headers": { "a": "\r\n" } } }), "printable"),
        (json!({ "error": { "status": 500, "headers": { "Content-Length": "1" } } }), "belongs"),
    ] {
        let message = refusal(&json!([{ "text": "fine" }, step]));
        assert!(
            message.starts_with("step 1 of `otherwise`") && message.contains(problem),
            "{message}"
        );
    }
    let unnamed = json!({ "conversations": [{ "when": "", "steps": [] }] });
    assert_eq!(refusal(&unnamed), "conversation 0: `when` is empty");
    let built = Script { otherwise: vec![Step::default()], ..Script::default() };
    assert!(LoopbackModel::start(built).is_err());
}
