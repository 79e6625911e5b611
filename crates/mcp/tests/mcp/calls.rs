//! Calls that take their time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_mcp::{Limits, ToolAnswer};

use super::support::{Client, HANG, Host, inline_meta, server, server_with, text};

/// A host whose calls begin and then wait; the test ends each by its ordinal.
struct Held {
    host: Arc<Host>,
    begun: Receiver<u64>,
    release: Vec<Sender<()>>,
}

impl Held {
    fn new(calls: usize) -> Self {
        let (begin, begun) = channel();
        let (release, waits): (Vec<_>, Vec<_>) =
            (0..calls).map(|_| channel()).map(|(tell, wait)| (tell, Mutex::new(wait))).unzip();
        let begin = Mutex::new(begin);
        let host = Host::new(move |tool_use, _| {
            begin.lock().unwrap().send(tool_use.ordinal).unwrap();
            let index = usize::try_from(tool_use.ordinal).unwrap() - 1;
            waits[index].lock().unwrap().recv().unwrap();
            text(&tool_use.ordinal.to_string())
        });
        Self { host, begun, release }
    }

    fn next_begun(&self) -> u64 {
        self.begun.recv_timeout(HANG).unwrap()
    }

    fn release(&self, ordinal: u64) {
        self.release[usize::try_from(ordinal).unwrap() - 1].send(()).unwrap();
    }
}

fn answered(message: &Value) -> String {
    format!("{} {}", message["id"], message["result"]["content"][0]["text"].as_str().unwrap())
}

#[test]
fn sixty_four_calls_run_at_once_and_are_answered_in_any_order() {
    let held = Held::new(66);
    let mut client = Client::ready(&server(&held.host));
    for id in 1..=66 {
        client.call(id, "read", &json!({ "id": id }));
    }
    // All requests were read before this is answered.
    assert_eq!(client.ask(99, "ping", &json!({}))["result"], json!({}));
    let mut begun: Vec<u64> = (0..64).map(|_| held.next_begun()).collect();
    begun.sort_unstable();
    assert_eq!(begun, (1..=64).collect::<Vec<_>>());
    assert!(held.begun.try_recv().is_err());
    // The last of them is answered first, and only then the next one begins.
    held.release(64);
    assert_eq!(answered(&client.receive()), "64 64");
    assert_eq!(held.next_begun(), 65);
    held.release(63);
    assert_eq!(answered(&client.receive()), "63 63");
    assert_eq!(held.next_begun(), 66);
    for ordinal in (1..=62).rev().chain([66, 65]) {
        held.release(ordinal);
        assert_eq!(answered(&client.receive()), format!("{ordinal} {ordinal}"));
    }
    client.close().unwrap();
    let begun = held.host.begun.lock().unwrap();
    assert!(begun.iter().all(|call| call.args["id"] == call.ordinal), "the order of arrival");
}

#[test]
fn too_many_waiting_calls_are_refused() {
    let held = Held::new(2);
    let limits = Limits { calls_max: 1, calls_waiting_max: 1, ..Limits::default() };
    let mut client = Client::ready(&server_with(&held.host, limits));
    for id in 1..=3 {
        client.call(id, "read", &json!({}));
    }
    let refused = client.receive();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32603)));
    for ordinal in [1, 2] {
        held.release(ordinal);
        assert_eq!(answered(&client.receive()), format!("{ordinal} {ordinal}"));
    }
    client.close().unwrap();

    let held = Held::new(1);
    let limits = Limits { calls_bytes_max: 500, ..Limits::default() };
    let mut client = Client::ready(&server_with(&held.host, limits));
    client.call(1, "read", &json!({ "text": "x".repeat(300) }));
    held.next_begun();
    client.call(2, "read", &json!({ "text": "x".repeat(300) }));
    assert_eq!(client.receive()["error"]["code"], -32603);
    held.release(1);
    assert_eq!(answered(&client.receive()), "1 1");
    client.close().unwrap();
    assert_eq!(*held.host.finished.lock().unwrap(), [1]);
}

#[test]
fn an_answered_call_makes_room_for_another_one() {
    let limits = Limits { calls_bytes_max: 500, ..Limits::default() };
    let mut client = Client::ready(&server_with(&Host::echo(), limits));
    let args = json!({ "text": "x".repeat(300) });
    client.call(0, "read", &args);
    assert_eq!(client.receive().get("error"), None);
    // Its bytes are given back just after its answer, so that the next call may come too soon.
    let accepted = (1..1000).find(|id| {
        client.call(*id, "read", &args);
        client.receive().get("error").is_none()
    });
    assert!(accepted.is_some());
    client.close().unwrap();
}

#[test]
fn a_client_that_dies_does_not_interrupt_its_call() {
    let held = Held::new(1);
    let mut client = Client::ready(&server(&held.host));
    client.call(1, "write", &json!({}));
    assert_eq!(held.next_begun(), 1);
    let served = client.die();
    held.release(1);
    served.join().unwrap().unwrap();
    // The call was finished before the serving ended.
    assert_eq!(*held.host.finished.lock().unwrap(), [1]);
}

#[test]
fn a_client_that_only_closes_its_side_gets_its_answer() {
    let held = Held::new(1);
    let mut client = Client::ready(&server(&held.host));
    client.call(1, "read", &json!({}));
    held.next_begun();
    held.release(1);
    let rest: Vec<_> = client.rest().iter().map(answered).collect();
    assert_eq!(rest, ["1 1"]);
}

#[test]
fn a_call_just_before_the_end_is_made_and_answered() {
    for _ in 0..50 {
        let host = Host::echo();
        let mut client = Client::ready(&server(&host));
        client.call(1, "read", &json!({}));
        let rest: Vec<_> = client.rest().iter().map(answered).collect();
        assert_eq!(rest, ["1 {}"]);
        assert_eq!(host.finished.lock().unwrap().len(), 1);
    }
}

#[test]
fn a_call_that_waits_when_its_client_closes_is_refused_with_an_answer() {
    let held = Held::new(1);
    let limits = Limits { calls_max: 1, ..Limits::default() };
    let mut client = Client::ready(&server_with(&held.host, limits));
    client.call(1, "read", &json!({}));
    held.next_begun();
    client.call(2, "read", &json!({}));
    client.writer.shutdown(std::net::Shutdown::Write).unwrap();
    let refused = client.receive();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(2), &json!(-32603)),
        "{refused}"
    );
    held.release(1);
    let rest: Vec<_> = client.rest().iter().map(answered).collect();
    assert_eq!(rest, ["1 1"]);
    assert_eq!(held.host.begun.lock().unwrap().len(), 1);
}

#[test]
fn a_cancelled_call_goes_on_without_an_answer() {
    let held = Held::new(4);
    let limits = Limits { calls_max: 1, ..Limits::default() };
    let mut client = Client::ready(&server_with(&held.host, limits));
    let cancel = |id: i64| {
        let params = json!({ "requestId": id, "reason": "time-out" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    client.call(1, "write", &json!({}));
    client.call(2, "write", &json!({}));
    assert_eq!(held.next_begun(), 1);
    client.send(&cancel(1));
    client.send(&cancel(2));
    client.call(3, "write", &json!({}));
    assert_eq!(client.ask(9, "ping", &json!({}))["result"], json!({}));
    held.release(1);
    // The second had not begun, and does not begin any more.
    assert_eq!(held.next_begun(), 3);
    held.release(3);
    assert_eq!(answered(&client.receive()), "3 3");
    client.send(&cancel(3));
    client.call(1, "write", &json!({}));
    held.release(4);
    assert_eq!(answered(&client.receive()), "1 4");
    client.close().unwrap();
    assert_eq!(*held.host.finished.lock().unwrap(), [1, 3, 4]);
}

#[test]
fn an_id_in_use_is_refused() {
    let held = Held::new(2);
    let mut client = Client::ready(&server(&held.host));
    client.call(1, "read", &json!({}));
    held.next_begun();
    client.call(1, "read", &json!({}));
    assert_eq!(client.receive()["error"]["code"], -32600);
    held.release(1);
    assert_eq!(answered(&client.receive()), "1 1");
    client.close().unwrap();
}

#[test]
fn progress_is_said_and_repeated_until_the_answer() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let host = Host::new(move |_, progress| {
        progress.say("waits for a person");
        released.lock().unwrap().recv().unwrap();
        text("done")
    });
    let limits = Limits { beat: Duration::from_millis(1), ..Limits::default() };
    let mut client = Client::ready(&server_with(&host, limits));
    let params = json!({ "name": "read", "_meta": { "progressToken": "p" } });
    client.request(1, "tools/call", &params);
    let mut last = 0;
    let mut repeated = 0;
    while repeated < 3 {
        let message = client.receive();
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "p");
        let progress = message["params"]["progress"].as_i64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
        repeated += usize::from(message["params"]["message"] == "waits for a person");
    }
    release.send(()).unwrap();
    let answer = loop {
        let message = client.receive();
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!(answered(&answer), "1 done");
    // Nothing follows the answer, and a call without a token has none.
    client.call(2, "read", &json!({}));
    release.send(()).unwrap();
    assert_eq!(answered(&client.receive()), "2 done");
    assert_eq!(client.rest(), Vec::<Value>::new());
}

#[test]
fn the_result_of_the_host_is_passed_on_as_it_is() {
    let result = json!({
        "content": [
            { "type": "text", "text": "é\u{1f600}\n\u{0}", "annotations": { "audience": ["user"] } },
            { "type": "hologram", "frames": [1, 2.5, -0.0, 1e300, 18_446_744_073_709_551_615_u64] },
            { "type": "resource_link", "uri": "file:///a", "later": null },
        ],
        "structuredContent": { "deep": [[[{ "z": 1, "a": [] }]]] },
        "isError": false,
        "_meta": { "some.one/else": { "x": true } },
        "inventedField": [null, "kept"],
    });
    let sent = result.clone();
    let host = Host::new(move |_, _| ToolAnswer::Result(sent.clone()));
    let mut client = Client::ready(&server(&host));
    client.call(1, "read", &json!({}));
    assert_eq!(client.receive(), json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
    let params = json!({ "name": "read", "_meta": inline_meta() });
    // The newer protocol wants its kind, too.
    let mut typed = result;
    typed["resultType"] = json!("complete");
    assert_eq!(client.ask(2, "tools/call", &params)["result"], typed);
    client.close().unwrap();
}

#[test]
fn clients_hear_that_the_tools_have_changed() {
    let host = Host::echo();
    let server = server(&host);
    let mut old = Client::ready(&server);
    let mut new = Client::connect(&server);
    let meta = inline_meta();
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    new.request(5, "subscriptions/listen", &params);
    let acknowledged = new.receive();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));

    host.tools.lock().unwrap().truncate(1);
    server.tools_changed();
    assert_eq!(old.receive()["method"], "notifications/tools/list_changed");
    let listed = old.ask(1, "tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);
    let heard = new.receive();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(heard["params"]["_meta"], json!({ "io.modelcontextprotocol/subscriptionId": 5 }));

    let params = json!({ "requestId": 5 });
    new.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    new.ask(7, "ping", &json!({}));
    server.tools_changed();
    assert_eq!(new.rest(), Vec::<Value>::new());
    old.close().unwrap();
    server.tools_changed();
}

#[test]
fn many_calls_of_many_clients_are_all_answered() {
    let running = Arc::new(AtomicUsize::new(0));
    let peak = Arc::new(AtomicUsize::new(0));
    let (now, most) = (Arc::clone(&running), Arc::clone(&peak));
    let host = Host::new(move |tool_use, progress| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        progress.say("x");
        now.fetch_sub(1, Ordering::SeqCst);
        text(&tool_use.args["id"].to_string())
    });
    let limits = Limits { calls_max: 8, beat: Duration::from_millis(1), ..Limits::default() };
    let server = server_with(&host, limits);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::ready(&server);
                for id in 0..100 {
                    let args = json!({ "id": id });
                    let meta = json!({ "progressToken": id });
                    let params = json!({ "name": "read", "arguments": args, "_meta": meta });
                    client.request(id, "tools/call", &params);
                }
                let mut answers = 0;
                while answers < 100 {
                    let message = client.receive();
                    if message.get("method").is_none() {
                        let id = message["id"].as_i64().unwrap();
                        assert_eq!(answered(&message), format!("{id} {id}"));
                        answers += 1;
                    }
                }
                client.close().unwrap();
            });
        }
    });
    assert!(peak.load(Ordering::SeqCst) <= 8);
    assert_eq!(host.finished.lock().unwrap().len(), 400);
}
