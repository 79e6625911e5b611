//! Runs sent to a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use std::time::Duration;

use serde_json::Value;

use crate::e2e::observe::{SECRET, approve, held, newest, place, start};
use crate::harness::{Place, finish};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A collector that answers each request in the same way.
struct Collector {
    url: String,
    received: Receiver<(String, Value)>,
}

impl Collector {
    fn new(status: &'static str, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&mut stream);
                let length = answer.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        Self { url, received }
    }

    fn next(&self) -> (String, Vec<Value>) {
        let (head, body) = self.received.recv_timeout(Duration::from_secs(20)).expect("a request");
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        check_shape(&body, &spans);
        (head, spans)
    }

    fn is_done(&self) -> bool {
        self.received.try_recv().is_err()
    }
}

/// Reads one request: its head, and its body as JSON.
fn read(stream: &mut TcpStream) -> (String, Value) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "a request is cut");
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        if bytes.len() == end + 4 + length {
            return (head, serde_json::from_slice(&bytes[end + 4..]).unwrap());
        }
    }
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn is_hex(value: &Value, length: usize) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let text = value.as_str().unwrap();
    text.len() == length && text.bytes().all(hex) && text.bytes().any(|byte| byte != b'0')
}

fn nanos(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn check_attributes(value: &Value) {
    let mut names = BTreeSet::new();
    for one in value.as_array().unwrap() {
        assert_eq!(keys(one), BTreeSet::from(["key", "value"]));
        assert!(names.insert(one["key"].as_str().unwrap()), "{value}");
        let [(kind, value)] = one["value"].as_object().unwrap().iter().collect::<Vec<_>>()[..]
        else {
            panic!("{one}")
        };
        match kind.as_str() {
            "stringValue" => assert!(value.is_string()),
            "intValue" => assert!(value.as_str().unwrap().parse::<i64>().is_ok()),
            "boolValue" => assert!(value.is_boolean()),
            other => panic!("{other}"),
        }
    }
}

/// The shape of an OTLP/JSON request for traces, and that its spans are one tree.
fn check_shape(body: &Value, spans: &[Value]) {
    assert_eq!(keys(body), BTreeSet::from(["resourceSpans"]));
    assert_eq!(body["resourceSpans"].as_array().unwrap().len(), 1);
    check_attributes(&body["resourceSpans"][0]["resource"]["attributes"]);
    assert_eq!(body["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"], "windlass");
    let ids: BTreeMap<&str, &Value> =
        spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    assert_eq!(ids.len(), spans.len(), "ids are unique");
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert!(matches!(span["kind"].as_u64(), Some(1 | 3)), "{span}");
        assert!(matches!(span["status"]["code"].as_u64(), Some(0..=2)), "{span}");
        assert!(nanos(&span["startTimeUnixNano"]) <= nanos(&span["endTimeUnixNano"]), "{span}");
        check_attributes(&span["attributes"]);
        for event in span["events"].as_array().unwrap() {
            assert!(nanos(&event["timeUnixNano"]) >= nanos(&span["startTimeUnixNano"]));
            assert!(event["name"].is_string());
            check_attributes(&event["attributes"]);
        }
        // Up to the root, in fewer steps than there are spans.
        let mut above = span;
        for _ in 0..spans.len() {
            if let Some(parent) = above.get("parentSpanId") {
                above = ids[parent.as_str().unwrap()];
            }
        }
        assert_eq!(above["spanId"], spans[0]["spanId"]);
    }
    assert!(!body.to_string().contains(SECRET), "{body}");
}

fn fact<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let all = span["attributes"].as_array().unwrap();
    let one = all.iter().find(|one| one["key"] == name)?;
    one["value"].as_object().unwrap().values().next()
}

fn names(spans: &[Value]) -> Vec<&str> {
    spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
}

fn run_with(place: &Place, url: &str) -> crate::harness::Outcome {
    let mut command = start(place);
    command.env(ENDPOINT, url).env("OTEL_SERVICE_NAME", "night-shift");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b, x-key = 1");
    finish(command, &[])
}

#[test]
fn a_run_is_sent_when_it_waits_and_when_it_ends() {
    let (place, collector) = (place(), Collector::new("200 OK", "{}"));
    run_with(&place, &format!("{}/", collector.url)).exit(4);
    let (head, held) = collector.next();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    assert!(head.contains("x-tenant: a b") && head.contains("x-key: 1"), "{head}");
    let expected = [
        "run small",
        "phase build",
        "invoke builder",
        "phase review",
        "invoke reviewer",
        "phase build",
        "invoke builder",
        "phase review",
        "invoke reviewer",
        "phase ask",
        "call shell/read",
    ];
    assert_eq!(names(&held), expected);
    let run = newest(&place);
    assert_eq!(fact(&held[0], "windlass.run_id"), Some(&run.as_str().into()));
    assert_eq!(fact(&held[0], "windlass.tokens"), Some(&"132".into()));
    assert_eq!(fact(&held[3], "windlass.verdict"), Some(&"needs_revision".into()));
    assert_eq!(held[3]["status"]["code"], 2);
    assert_eq!(held[3]["events"][0]["name"], "redo");
    assert_eq!(fact(&held[5], "windlass.attempt"), Some(&"2".into()));
    assert_eq!(held[10]["parentSpanId"], held[1]["spanId"]);
    assert_eq!(held[2]["parentSpanId"], held[1]["spanId"]);
    assert_eq!(fact(&held[10], "windlass.state"), Some(&"COMPLETED".into()));

    let mut command = place.command(&["resume", &run]);
    command.env(ENDPOINT, &collector.url);
    finish(command, &[]).fails_with(4, "RUN_ON_HOLD");
    assert!(collector.is_done(), "nothing has changed");

    let words = ["queue", "approve", &run, "--by", "ann", "--reason", "good", "--resume"];
    place.run_with(ENDPOINT, &collector.url, &words).exit(0);
    let (_, ended) = collector.next();
    let ids = |spans: &[Value]| -> Vec<Value> {
        spans.iter().map(|span| span["spanId"].clone()).collect()
    };
    assert_eq!(ids(&ended), ids(&held), "the same spans, further on");
    assert_eq!(ended[0]["status"]["code"], 1);
    let events: Vec<_> =
        ended[0]["events"].as_array().unwrap().iter().map(|event| &event["name"]).collect();
    assert_eq!(events, ["hold", "vote", "resume"]);
    assert!(collector.is_done());

    // From the journal, the same to the last byte, as often as one likes.
    for words in [&["telemetry", "push"][..], &["telemetry", "push", &run]] {
        place.run_with(ENDPOINT, &collector.url, words).exit(0).says("11 spans");
        assert_eq!(collector.next().1, ended);
    }
}

#[test]
fn a_failed_run_is_an_error() {
    let (place, collector) = (place(), Collector::new("200 OK", ""));
    let run = held(&place);
    let words = ["queue", "reject", &run, "--by", "ann", "--reason", "no"];
    place.run_with(ENDPOINT, &collector.url, &words);
    let words = ["resume", &run];
    place.run_with(ENDPOINT, &collector.url, &words);
    let mut last = collector.next().1;
    while let Ok((_, body)) = collector.received.try_recv() {
        last = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    }
    assert_eq!(last[0]["status"]["code"], 2, "{last:?}");
    assert_eq!(fact(&last[0], "windlass.outcome"), Some(&"BLOCKED".into()));
}

#[test]
fn no_collector_can_fail_a_run() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = (format!("http://{}", silent.local_addr().unwrap()), silent);
    let refusing = Collector::new("500 Oh", "");
    let partial = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#;
    let partial = Collector::new("200 OK", partial);
    for (url, why) in [
        ("http://127.0.0.1:1", "cannot be reached"),
        (silent.0.as_str(), "no answer within"),
        (refusing.url.as_str(), "HTTP 500"),
        (partial.url.as_str(), "rejected 3 spans"),
        ("ftp://127.0.0.1", "nothing is sent over `ftp`"),
    ] {
        let place = place();
        let outcome = run_with(&place, url).exit(4);
        let warnings = outcome.stderr.matches("warning: ").count();
        assert_eq!(warnings, 1, "{outcome}");
        let outcome = outcome.warns(why).warns("[TELEMETRY_UNAVAILABLE]");
        outcome.warns("windlass telemetry push").says("waits for a person");
        approve(&place, &newest(&place)).exit(0);
        if url != silent.0 {
            place
                .run_with(ENDPOINT, url, &["telemetry", "push"])
                .fails_with(1, "TELEMETRY_UNAVAILABLE");
        }
    }
    let place = place();
    let mut command = start(&place);
    command.env(ENDPOINT, "http://127.0.0.1:1").env("OTEL_EXPORTER_OTLP_HEADERS", "no");
    finish(command, &[]).exit(4).warns("OTEL_EXPORTER_OTLP_HEADERS").warns("warning: ");
}

#[test]
fn a_project_can_name_its_collector() {
    let (place, collector) = (place(), Collector::new("200 OK", "{}"));
    place.run(&["telemetry", "push"]).fails_with(2, "CONFIG_INVALID").warns("endpoint");
    place.append(
        ".windlass/config.toml",
        &format!("[telemetry]\nendpoint = \"{}\"\n", collector.url),
    );
    held(&place);
    assert_eq!(collector.next().1.len(), 11);
    // The headers of the environment can hold a key.
    place
        .run_with("OTEL_EXPORTER_OTLP_HEADERS", "x-key=1", &["telemetry", "push"])
        .fails_with(2, "CONFIG_INVALID")
        .warns("set OTEL_EXPORTER_OTLP_ENDPOINT");
    place.run_with("OTEL_SDK_DISABLED", "true", &["telemetry", "push"]).exit(2);
    place.replace(".windlass/config.toml", "http://", "gopher://");
    place.run(&["status"]).fails_with(2, "CONFIG_INVALID").warns("telemetry.endpoint");
}
