//! A request that is not one is refused before anything is recorded of it.

use std::sync::Arc;

use serde_json::json;
use windlass_kernel::artifact::Resource;
use windlass_kernel::{Code, State};
use windlass_runtime::{CallRequest, GatewayError, REQUEST_BYTES_MAX};
use windlass_testkit::gateway::{TestSupervisor, World, call};

fn resource(kind: &str, id: &str) -> Resource {
    Resource { kind: kind.to_owned(), id: id.to_owned() }
}

fn request() -> CallRequest {
    call("add", Some("key-1"), 1)
}

#[test]
fn every_field_is_checked_and_nothing_is_recorded() {
    let long = |length| "x".repeat(length);
    let bad = vec![
        ("server", CallRequest { server: String::new(), ..request() }),
        ("server", CallRequest { server: "World".to_owned(), ..request() }),
        ("server", CallRequest { server: "a/b".to_owned(), ..request() }),
        ("server", CallRequest { server: long(65), ..request() }),
        ("tool", CallRequest { tool: String::new(), ..request() }),
        ("tool", CallRequest { tool: "../add".to_owned(), ..request() }),
        ("tool", CallRequest { tool: "ädd".to_owned(), ..request() }),
        ("tool", CallRequest { tool: long(65), ..request() }),
        ("args", CallRequest { args: json!(null), ..request() }),
        ("args", CallRequest { args: json!([1]), ..request() }),
        ("intent", CallRequest { intent: long(9), ..request() }),
        ("intent", CallRequest { intent: long(1001), ..request() }),
        (
            "list of resources",
            CallRequest { resources: vec![resource("f", "x"); 257], ..request() },
        ),
        ("every resource", CallRequest { resources: vec![resource("", "x")], ..request() }),
        ("every resource", CallRequest { resources: vec![resource("f", "")], ..request() }),
        ("every resource", CallRequest { resources: vec![resource(&long(65), "x")], ..request() }),
        (
            "every resource",
            CallRequest { resources: vec![resource("f", &long(4097))], ..request() },
        ),
        ("idempotency key", CallRequest { key: Some(String::new()), ..request() }),
        ("idempotency key", CallRequest { key: Some(long(256)), ..request() }),
        ("agent", CallRequest { agent: Some(String::new()), ..request() }),
        ("agent", CallRequest { agent: Some(long(129)), ..request() }),
        ("phase", CallRequest { phase: Some(String::new()), ..request() }),
        ("phase", CallRequest { phase: Some(long(129)), ..request() }),
    ];
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    for (field, request) in bad {
        let error = gateway.call(request.clone()).unwrap_err();
        assert_eq!(error.code(), Code::RequestInvalid, "{request:?}");
        assert!(error.to_string().contains(&format!("the request's {field} ")), "{error}");
    }
    let large = json!({ "text": long(REQUEST_BYTES_MAX) });
    for (args, code) in [
        (json!({ "n": 9_007_199_254_740_993_u64 }), Code::JsonNumberUnsafe),
        (json!({ "deep": [{ "n": -9_007_199_254_740_993_i64 }] }), Code::JsonNumberUnsafe),
        (large, Code::DocSizeExceeded),
    ] {
        let error = gateway.call(CallRequest { args, ..request() }).unwrap_err();
        assert!(matches!(error, GatewayError::Request(_)), "{error:?}");
        assert_eq!(error.code(), code);
    }
    let tables = world.shared.tables();
    assert!(tables.traces.is_empty() && tables.entries.is_empty() && tables.keys.is_empty());
    assert_eq!(world.tools.lock().dispatches, []);
}

#[test]
fn what_is_just_within_the_limits_is_a_request() {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let long = |length| "x".repeat(length);
    let report = gateway
        .call(CallRequest {
            intent: "ä".repeat(1000),
            resources: vec![resource(&long(64), &long(4096)); 256],
            key: Some("ä".repeat(255)),
            agent: Some(long(128)),
            phase: Some(long(128)),
            args: json!({ "n": 9_007_199_254_740_991_u64 }),
            ..request()
        })
        .unwrap();
    assert_eq!(report.state, State::Completed);
    assert_eq!(gateway.show(report.trace_id).unwrap(), report);
}
