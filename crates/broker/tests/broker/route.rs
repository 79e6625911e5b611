//! Routes: forwarded over TLS with a credential that the client never sees.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rustls::{ServerConnection, StreamOwned};
use windlass_broker::{BrokerEvent, BrokerRules, Credential, Route, Trust};

use crate::certificate::Identity;
use crate::support::{Origin, World, read_all, read_head, rule, world};
use crate::tunnel::{identity, tls_origin};

const KEY: &str = "sk-live-0123456789abcdef";

type Stream = StreamOwned<ServerConnection, TcpStream>;

fn origin(identity: &Identity, serve: impl Fn(&mut Stream) + Send + Sync + 'static) -> Origin {
    tls_origin(identity, rustls::crypto::ring::default_provider(), serve)
}

fn rules(identity: &Identity, origin: &Origin, name: &str, value: &str) -> BrokerRules {
    let upstream = format!("https://{}/base", origin.at("origin.example"));
    let credential = Credential::new(&[(name, value)]).unwrap();
    BrokerRules {
        routes: vec![Route::new("/model", &upstream, Some(credential)).unwrap()],
        trust: Trust::Only(vec![identity.certificate.clone()]),
        ..BrokerRules::default()
    }
}

fn post(world: &World, path: &str, headers: &str, body: &str) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        world.address,
        body.len()
    );
    world.talk(format!("{head}{body}").as_bytes())
}

/// Neither the client nor the observer may have seen the credential.
fn assert_secret(world: &World, text: &str) {
    assert!(!text.contains(KEY), "{text}");
    assert!(!format!("{:?}", world.recorder.all()).contains(KEY));
}

#[test]
fn a_route_adds_its_credential_and_drops_the_clients() {
    let identity = identity();
    let (sender, heads) = mpsc::channel();
    let sender = Mutex::new(sender);
    let origin = origin(&identity, move |stream| {
        let head = read_head(stream);
        let mut body = [0; 4];
        stream.read_exact(&mut body).unwrap();
        sender.lock().unwrap().send(head + std::str::from_utf8(&body).unwrap()).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nX-Id: 7\r\n\r\nok");
    });
    let world = world(rules(&identity, &origin, "X-Api-Key", KEY));
    let headers = "x-api-key: mine\r\nX_API_KEY: mine\r\nAccept-Encoding: gzip\r\nAccept: */*\r\n";
    let text = post(&world, "/model/v1/messages?beta=true", headers, "body");
    let expected =
        "HTTP/1.1 200 Fine\r\nx-id: 7\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    assert_eq!(text, expected);
    let seen = heads.recv().unwrap();
    let to = origin.at("origin.example");
    assert_eq!(
        seen,
        format!(
            "POST /base/v1/messages?beta=true HTTP/1.1\r\nHost: {to}\r\naccept: */*\r\nx-api-key: {KEY}\r\n\
             accept-encoding: identity\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody"
        )
    );
    assert_secret(&world, &text);
    let route = world.recorder.wait(|event| {
        if let BrokerEvent::Allowed { passage, .. } = event {
            Some(passage.route.clone())
        } else {
            None
        }
    });
    assert_eq!(route.as_deref(), Some("/model"));
    // The route's host is reached in no other way.
    let refused = world.talk(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
    assert!(refused.contains("NETWORK_REFUSED"), "{refused}");
    for path in ["/models", "/model/../x", "/model/%2e%2E/x", "/other", "/model/a%2fb"] {
        assert!(post(&world, path, "", "").starts_with("HTTP/1.1 403 "), "{path}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_credential_that_comes_back_is_removed() {
    let identity = identity();
    let origin = origin(&identity, |stream| {
        let head = read_head(stream);
        let lines: Vec<&str> = head.lines().filter(|line| line.contains(KEY)).collect();
        let body = format!("you sent {}", lines.join("\n"));
        let answer = format!(
            "HTTP/1.1 200 {KEY}\r\nX-Echo: {KEY}\r\nX-Token: Bearer {KEY}\r\nSet-Cookie: k={KEY}; Secure\r\n\
             X-Other: 1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes());
        // In pieces, so that no piece has the whole of it.
        for part in body.as_bytes().chunks(5) {
            let _ = stream.write_all(part);
            let _ = stream.flush();
        }
    });
    let world = world(rules(&identity, &origin, "Authorization", &format!("Bearer {KEY}")));
    let text = post(&world, "/model", "Authorization: Bearer mine\r\n", "");
    assert!(text.starts_with("HTTP/1.1 200 \r\nx-other: 1\r\n"), "{text}");
    assert!(
        text.ends_with(&format!("you sent authorization: {}", "*".repeat(7 + KEY.len()))),
        "{text}"
    );
    assert_secret(&world, &text);
}

#[test]
fn a_compressed_response_of_a_route_does_not_pass() {
    let identity = identity();
    let origin = origin(&identity, |stream| {
        read_head(stream);
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx");
    });
    let world = world(rules(&identity, &origin, "X-Api-Key", KEY));
    let text = post(&world, "/model", "", "");
    assert!(text.contains("NETWORK_UNREACHABLE: the host's response is compressed"), "{text}");
}

#[test]
fn redirects_of_a_route_are_not_followed() {
    let identity = identity();
    let origin = origin(&identity, |stream| {
        read_head(stream);
        let _ = stream
            .write_all(b"HTTP/1.1 307 Elsewhere\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n");
    });
    let world = world(rules(&identity, &origin, "X-Api-Key", KEY));
    let text = post(&world, "/model", "", "");
    assert!(text.contains("location: https://evil.example/\r\n"), "{text}");
    assert_eq!(origin.count(), 1);
}

#[test]
fn events_pass_one_by_one() {
    let identity = identity();
    let (next, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let origin = origin(&identity, move |stream| {
        read_head(stream);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for number in 0..3 {
            let event = format!("data: {number}\n\n");
            write!(stream, "{:x}\r\n{event}\r\n", event.len()).unwrap();
            stream.flush().unwrap();
            // The next event is sent only after the client has seen this one.
            wait.lock().unwrap().recv().unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let world = world(rules(&identity, &origin, "X-Api-Key", KEY));
    let mut stream = world.connect();
    write!(stream, "GET /model/stream HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(read_head(&mut stream).contains("text/event-stream"));
    for number in 0..3 {
        let mut event = [0; 14];
        stream.read_exact(&mut event).unwrap();
        assert_eq!(event, *format!("9\r\ndata: {number}\n\n\r\n").as_bytes());
        next.send(()).unwrap();
    }
    assert_eq!(read_all(&mut stream), "0\r\n\r\n");
}

#[test]
fn an_upload_is_streamed_too() {
    let identity = identity();
    let (sender, parts) = mpsc::channel();
    let sender = Mutex::new(sender);
    let origin = origin(&identity, move |stream| {
        read_head(stream);
        for _ in 0..3 {
            let mut part = [0; 8];
            stream.read_exact(&mut part).unwrap();
            sender.lock().unwrap().send(part).unwrap();
        }
        let _ = stream.write_all(b"HTTP/1.1 204 Done\r\n\r\n");
    });
    let world = world(rules(&identity, &origin, "X-Api-Key", KEY));
    let mut stream = world.connect();
    stream
        .write_all(b"POST /model HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        .unwrap();
    for part in [b"3\r\nabc\r\n", b"3\r\ndef\r\n", b"3\r\nghi\r\n"] {
        stream.write_all(part).unwrap();
        assert_eq!(parts.recv().unwrap(), *part);
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 204 Done\r\n"));
}

#[test]
fn the_upstream_must_be_who_it_says_it_is() {
    let (right, wrong) = (identity(), identity());
    let origin = origin(&wrong, |stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    let world = world(rules(&right, &origin, "X-Api-Key", KEY));
    let text = post(&world, "/model", "", "");
    assert!(text.contains("NETWORK_UNREACHABLE: the TLS connection failed"), "{text}");
    assert_secret(&world, &text);
    assert!(matches!(world.recorder.all().as_slice(), [BrokerEvent::Unreachable { .. }]));
}

#[test]
fn private_addresses_are_for_the_route_alone() {
    let (origin, other) = (Origin::echoing(), Origin::echoing());
    let route = |prefix, to: &str| Route::new(prefix, &format!("http://{to}"), None).unwrap();
    let to = origin.at("origin.example");
    let rules = BrokerRules {
        hosts: vec![rule(&to), rule(&other.at("origin.example"))],
        routes: vec![route("/model", &to), route("/model/more", &other.at("127.0.0.1"))],
        ..BrokerRules::default()
    };
    let world = world(rules);
    // The longest prefix counts.
    assert!(
        post(&world, "/model/a", "", "").contains(&format!("POST /a HTTP/1.1\r\nHost: {to}\r\n"))
    );
    assert!(post(&world, "/model/more/a", "", "").contains("POST /a HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert_eq!((origin.count(), other.count()), (1, 1));
    // The same hosts, by a tunnel or as plain HTTP, are reached by the rules for all hosts.
    for to in [to, other.at("origin.example"), other.at("127.0.0.1")] {
        for request in [
            format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"),
            format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        ] {
            let text = world.talk(request.as_bytes());
            assert!(text.contains("NETWORK_REFUSED"), "{text}");
        }
    }
    assert_eq!((origin.count(), other.count()), (1, 1));
    // No address of many hosts, whoever names it.
    let world = crate::support::world(BrokerRules {
        routes: vec![route("/model", "224.0.0.1:80"), route("/any", "0.0.0.0:80")],
        ..BrokerRules::default()
    });
    for path in ["/model", "/any"] {
        assert!(post(&world, path, "", "").contains("the host's address is "), "{path}");
    }
}

#[test]
fn without_a_credential_the_clients_own_passes() {
    let origin = Origin::echoing();
    let route = Route::new("/model", &format!("http://{}", origin.at("localhost")), None).unwrap();
    let world = world(BrokerRules { routes: vec![route], ..BrokerRules::default() });
    world.resolver.set("localhost", &[&["127.0.0.1"]]);
    let headers = "authorization: Bearer own\r\nx-api-key: own\r\naccept-encoding: gzip\r\n";
    let text = post(&world, "/model/m:go?key=own", headers, "");
    assert!(text.contains("POST /m:go?key=own HTTP/1.1\r\n") && text.contains(headers), "{text}");
}

#[test]
fn broken_authorities_stop_the_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let rules = BrokerRules {
        routes: vec![Route::new("/model", "https://api.example.com", None).unwrap()],
        trust: Trust::Only(vec![b"no certificate".to_vec()]),
        ..BrokerRules::default()
    };
    let observer = Arc::new(crate::support::Recorder::default());
    let error = windlass_broker::Broker::start(listener, rules, observer).unwrap_err();
    assert_eq!(error.code().as_str(), "NETWORK_UNREACHABLE");
}
