//! Requests that must be refused, and that no host may ever see.

use windlass_broker::{BrokerEvent, BrokerRules};

use crate::support::{Origin, private, rule, world};

/// Requests with the name of the reason. `P` stands for the port of the listed host.
const REFUSED: &[(&str, &str)] = &[
    // Hosts that are not listed.
    ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "host-not-listed"),
    (
        "CONNECT origin.example.evil.example:P HTTP/1.1\r\nHost: origin.example.evil.example:P\r\n\r\n",
        "host-not-listed",
    ),
    (
        "CONNECT evil-origin.example:P HTTP/1.1\r\nHost: evil-origin.example:P\r\n\r\n",
        "host-not-listed",
    ),
    ("CONNECT example:P HTTP/1.1\r\nHost: example:P\r\n\r\n", "host-not-listed"),
    ("CONNECT wild.example:80 HTTP/1.1\r\nHost: wild.example:80\r\n\r\n", "host-not-listed"),
    ("CONNECT awild.example:80 HTTP/1.1\r\nHost: awild.example:80\r\n\r\n", "host-not-listed"),
    ("CONNECT localhost:P HTTP/1.1\r\nHost: localhost:P\r\n\r\n", "host-not-listed"),
    ("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "host-not-listed"),
    ("GET http://EVIL.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "host-not-listed"),
    ("CONNECT origin.example:22 HTTP/1.1\r\nHost: origin.example:22\r\n\r\n", "port-not-listed"),
    ("CONNECT ORIGIN.example:22 HTTP/1.1\r\nHost: origin.example:22\r\n\r\n", "port-not-listed"),
    ("GET http://origin.example/ HTTP/1.1\r\nHost: origin.example\r\n\r\n", "port-not-listed"),
    (
        "GET http://a.wild.example:81/ HTTP/1.1\r\nHost: a.wild.example:81\r\n\r\n",
        "port-not-listed",
    ),
    // Addresses in every spelling.
    ("CONNECT 127.0.0.1:P HTTP/1.1\r\nHost: 127.0.0.1:P\r\n\r\n", "address-literal"),
    ("CONNECT 8.8.8.8:443 HTTP/1.1\r\nHost: 8.8.8.8:443\r\n\r\n", "address-literal"),
    ("CONNECT 127.1:P HTTP/1.1\r\nHost: 127.1:P\r\n\r\n", "address-literal"),
    ("CONNECT 0177.0.0.1:P HTTP/1.1\r\nHost: 0177.0.0.1:P\r\n\r\n", "address-literal"),
    ("CONNECT 0x7f.0.0.1:P HTTP/1.1\r\nHost: 0x7f.0.0.1:P\r\n\r\n", "address-literal"),
    ("CONNECT 0x7f000001:P HTTP/1.1\r\nHost: 0x7f000001:P\r\n\r\n", "address-literal"),
    ("CONNECT 0X7F000001:P HTTP/1.1\r\nHost: 0X7F000001:P\r\n\r\n", "address-literal"),
    ("CONNECT 2130706433:P HTTP/1.1\r\nHost: 2130706433:P\r\n\r\n", "address-literal"),
    ("CONNECT 017700000001:P HTTP/1.1\r\nHost: 017700000001:P\r\n\r\n", "address-literal"),
    ("CONNECT 127.0.0.1.:P HTTP/1.1\r\nHost: 127.0.0.1.:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example.1:P HTTP/1.1\r\nHost: origin.example.1:P\r\n\r\n", "address-literal"),
    ("CONNECT [::1]:P HTTP/1.1\r\nHost: [::1]:P\r\n\r\n", "address-literal"),
    (
        "CONNECT [::ffff:127.0.0.1]:P HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:P\r\n\r\n",
        "address-literal",
    ),
    ("CONNECT [::ffff:7f00:1]:P HTTP/1.1\r\nHost: [::ffff:7f00:1]:P\r\n\r\n", "address-literal"),
    (
        "CONNECT [0:0:0:0:0:0:0:1]:P HTTP/1.1\r\nHost: [0:0:0:0:0:0:0:1]:P\r\n\r\n",
        "address-literal",
    ),
    ("CONNECT ::1:P HTTP/1.1\r\nHost: ::1:P\r\n\r\n", "name-invalid"),
    ("CONNECT fe80::1:P HTTP/1.1\r\nHost: fe80::1:P\r\n\r\n", "address-literal"),
    ("CONNECT [fe80::1%25eth0]:P HTTP/1.1\r\nHost: [fe80::1%25eth0]:P\r\n\r\n", "name-invalid"),
    ("GET http://127.0.0.1:P/ HTTP/1.1\r\nHost: 127.0.0.1:P\r\n\r\n", "address-literal"),
    ("GET http://2130706433:P/ HTTP/1.1\r\nHost: 2130706433:P\r\n\r\n", "address-literal"),
    ("GET http://0x7f.1:P/ HTTP/1.1\r\nHost: 0x7f.1:P\r\n\r\n", "address-literal"),
    ("GET http://[::1]:P/ HTTP/1.1\r\nHost: [::1]:P\r\n\r\n", "address-literal"),
    // Names that programs could read in two ways.
    ("CONNECT origin.example.:P HTTP/1.1\r\nHost: origin.example.:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin..example:P HTTP/1.1\r\nHost: origin..example:P\r\n\r\n", "name-invalid"),
    ("CONNECT .origin.example:P HTTP/1.1\r\nHost: .origin.example:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin%2eexample:P HTTP/1.1\r\nHost: origin%2eexample:P\r\n\r\n", "name-invalid"),
    (
        "CONNECT origin.example%00.evil.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    ("CONNECT user@origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    (
        "CONNECT origin.example:P@evil.example:443 HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    (
        "GET http://origin.example:P@evil.example/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    (
        "GET http://user:word@origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    (
        "GET http://evil.example\\@origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    (
        "GET http://origin.example:P\\.evil.example/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "name-invalid",
    ),
    ("GET http://origin_.example:P/ HTTP/1.1\r\nHost: origin_.example:P\r\n\r\n", "name-invalid"),
    ("GET http:///origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    ("GET http://:P/ HTTP/1.1\r\nHost: :P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example HTTP/1.1\r\nHost: origin.example\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example: HTTP/1.1\r\nHost: origin.example:\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example:0P HTTP/1.1\r\nHost: origin.example:0P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example:+P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example:99999 HTTP/1.1\r\nHost: origin.example:99999\r\n\r\n", "name-invalid"),
    ("CONNECT *.wild.example:80 HTTP/1.1\r\nHost: *.wild.example:80\r\n\r\n", "name-invalid"),
    ("CONNECT http://origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    ("CONNECT /origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "name-invalid"),
    ("CONNECT origin.ex\u{430}mple:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "path-invalid"),
    ("CONNECT origin.example\u{0}:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "path-invalid"),
    ("CONNECT origin.example\t:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "path-invalid"),
    // Targets that a proxy does not serve.
    ("GET https://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "scheme"),
    ("GET ftp://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "scheme"),
    ("GET file:///etc/passwd HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "scheme"),
    ("GET / HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "host-differs"),
    ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "route-unknown"),
    ("GET //origin.example:P/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "route-unknown"),
    ("GET /../etc HTTP/1.1\r\nHost: localhost\r\n\r\n", "path-invalid"),
    ("GET /a/%2E%2e/b HTTP/1.1\r\nHost: localhost\r\n\r\n", "path-invalid"),
    ("OPTIONS * HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "target-form"),
    ("GET origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "target-form"),
    ("GET http:/origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "target-form"),
    ("GET http://origin.example:P/#a HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "path-invalid"),
    // The `Host` header.
    ("GET http://origin.example:P/ HTTP/1.1\r\n\r\n", "host-missing"),
    ("GET http://origin.example:P/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "host-differs"),
    ("GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example\r\n\r\n", "host-differs"),
    ("GET http://origin.example:P/ HTTP/1.1\r\nHost:\r\n\r\n", "host-differs"),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P, evil.example\r\n\r\n",
        "host-differs",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nHost: origin.example:P\r\n\r\n",
        "host-repeated",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nhOST: evil.example\r\n\r\n",
        "host-repeated",
    ),
    ("CONNECT origin.example:P HTTP/1.1\r\nHost: evil.example:P\r\n\r\n", "host-differs"),
    ("CONNECT origin.example:P HTTP/1.1\r\n\r\n", "host-missing"),
    // Where the body ends.
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "length",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 1, 1\r\n\r\na",
        "length",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: -1\r\n\r\na",
        "length",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: +1\r\n\r\na",
        "length",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 0x1\r\n\r\na",
        "length",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "transfer-encoding",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
        "transfer-encoding",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "transfer-encoding",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "transfer-encoding",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.0\r\nHost: origin.example:P\r\nTransfer-Encoding: chunked\r\n\r\n",
        "transfer-encoding",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nTransfer_Encoding: chunked\r\n\r\n",
        "header-invalid",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nTransfer-Encoding : chunked\r\n\r\n",
        "header-invalid",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 1\r\nConnection: content-length\r\n\r\na",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nConnection: host\r\n\r\n",
        "header-invalid",
    ),
    (
        "CONNECT origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 3\r\n\r\nabc",
        "connect-body",
    ),
    (
        "CONNECT origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "connect-body",
    ),
    (
        "POST http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nContent-Length: 1\r\nExpect: 200-ok\r\n\r\n",
        "expectation",
    ),
    // Heads that programs could read in two ways, or not at all.
    ("GET http://origin.example:P/\r\n", "not-http"),
    ("GET http://origin.example:P/ HTTP/0.9\r\n\r\n", "not-http"),
    ("GET http://origin.example:P/ HTTP/2.0\r\n\r\n", "not-http"),
    (
        "GET http://origin.example:P/ HTTP/1.1 HTTP/1.1\r\nHost: origin.example:P\r\n\r\n",
        "not-http",
    ),
    ("GET  http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "not-http"),
    ("GET http://origin.example:P/ http/1.1\r\nHost: origin.example:P\r\n\r\n", "not-http"),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not-http"),
    ("\r\nGET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "not-http"),
    ("get http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "not-http"),
    ("GeT http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "method"),
    ("CONNECT\u{7f} origin.example:P HTTP/1.1\r\nHost: origin.example:P\r\n\r\n", "method"),
    ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}", "not-http"),
    ("SSH-2.0-client\r\n", "not-http"),
    ("GET http://origin.example:P/ HTTP/1.1\nHost: origin.example:P\n\n", "header-invalid"),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\nX: y\r\n\r\n",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nX: a\rb\r\n\r\n",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n folded\r\n\r\n",
        "header-invalid",
    ),
    ("GET http://origin.example:P/ HTTP/1.1\r\n Host: origin.example:P\r\n\r\n", "header-invalid"),
    ("GET http://origin.example:P/ HTTP/1.1\r\nHost : origin.example:P\r\n\r\n", "header-invalid"),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nno colon\r\n\r\n",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\n: empty\r\n\r\n",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nX: a\u{0}b\r\n\r\n",
        "header-invalid",
    ),
    (
        "GET http://origin.example:P/ HTTP/1.1\r\nHost: origin.example:P\r\nX: a\u{1b}[2J\r\n\r\n",
        "header-invalid",
    ),
];

#[test]
fn every_hostile_request_is_refused_with_its_reason() {
    let origin = Origin::echoing();
    let mut rules = private(&[&origin.at("origin.example")]);
    rules.hosts.push(rule("*.wild.example:80"));
    assert!(REFUSED.len() >= 110);
    for (request, name) in REFUSED {
        let world = world(rules.clone());
        let port = origin.port.to_string();
        let request =
            request.replace(":P", &format!(":{port}")).replace(":0P", &format!(":0{port}"));
        let request = request.replace(":+P", &format!(":+{port}"));
        let answer = world.talk(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403 "), "{request:?}: {answer}");
        let (asked, refusal) = world.recorder.refusal();
        assert_eq!(refusal.name(), *name, "{request:?}: {answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(body, format!("NETWORK_REFUSED: {refusal}\n"), "{request:?}");
        assert!(asked.len() < 300 && !asked.contains(|char: char| char.is_control()), "{asked:?}");
        assert_eq!(world.recorder.all().len(), 1, "{request:?}");
        assert_eq!(world.resolver.lookups.load(std::sync::atomic::Ordering::SeqCst), 0);
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn names_that_lead_to_addresses_that_are_not_public_are_refused() {
    let world =
        world(BrokerRules { hosts: vec![rule("*.evil.example:80")], ..BrokerRules::default() });
    let addresses: &[&[&str]] = &[
        &["127.0.0.1"],
        &["10.0.0.1"],
        &["172.20.1.1"],
        &["192.168.0.1"],
        &["169.254.169.254"],
        &["100.64.0.1"],
        &["224.0.0.1"],
        &["0.0.0.0"],
        &["192.0.2.1"],
        &["198.18.0.1"],
        &["255.255.255.255"],
        &["::1"],
        &["::"],
        &["fe80::1"],
        &["fd00::1"],
        &["::ffff:127.0.0.1"],
        &["2002:7f00:1::"],
        &["64:ff9b::a00:1"],
        &["2001:0:a00:1::"],
        &["8.8.8.8", "127.0.0.1"],
        &["2606:4700::1", "::ffff:10.0.0.1"],
    ];
    for (number, answer) in addresses.iter().enumerate() {
        let name = format!("n{number}.evil.example");
        world.resolver.set(&name, &[answer]);
        for request in [
            format!("GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n"),
            format!("CONNECT {name}:80 HTTP/1.1\r\nHost: {name}:80\r\n\r\n"),
        ] {
            let text = world.talk(request.as_bytes());
            assert!(text.contains("NETWORK_REFUSED: the host's address is "), "{answer:?}: {text}");
        }
    }
    let refused = world.recorder.all();
    assert_eq!(refused.len(), 2 * addresses.len());
    assert!(refused.iter().all(|event| matches!(
        event,
        BrokerEvent::Refused { refusal, .. } if refusal.name() == "address-not-public"
    )));
}

#[test]
fn a_name_is_looked_up_once_for_each_request() {
    // Rebinding: the second answer is another machine. The host listens on the first only.
    let origin = Origin::echoing();
    let to = origin.at("rebind.example");
    let world = world(private(&[&to]));
    world.resolver.set("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let lookups = || world.resolver.lookups.load(std::sync::atomic::Ordering::SeqCst);
    let request = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    assert!(world.talk(request.as_bytes()).starts_with("HTTP/1.1 200 "));
    assert_eq!(lookups(), 1);
    assert!(world.talk(request.as_bytes()).starts_with("HTTP/1.1 502 "));
    assert_eq!((lookups(), origin.count()), (2, 1));
}

#[test]
fn an_address_is_reached_only_if_the_user_lists_it_too() {
    let origin = Origin::echoing();
    let to = origin.at("127.0.0.1");
    let request = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    let only_hosts = BrokerRules { hosts: vec![rule(&to)], ..BrokerRules::default() };
    let only_private = BrokerRules { private_hosts: vec![rule(&to)], ..BrokerRules::default() };
    for rules in [only_hosts, only_private] {
        let world = world(rules);
        assert!(world.talk(request.as_bytes()).starts_with("HTTP/1.1 403 "));
        assert_eq!(world.recorder.refusal().1.name(), "address-literal");
    }
    assert!(world(private(&[&to])).talk(request.as_bytes()).starts_with("HTTP/1.1 200 "));
}
