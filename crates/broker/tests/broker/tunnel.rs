//! Tunnels: TLS end to end, and greetings that name another host.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use windlass_broker::{BrokerEvent, BrokerRules, End, Limits, Refusal};

use crate::certificate::{self, Identity};
use crate::support::{Origin, World, private, read_all, read_head, world};

/// The identity of both names that are this machine.
pub fn identity() -> Identity {
    certificate::identity(&["origin.example", "other.example"])
}

/// A host that speaks TLS; `serve` gets each connection.
pub fn tls_origin(
    identity: &Identity,
    provider: rustls::crypto::CryptoProvider,
    serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
) -> Origin {
    let certificate = CertificateDer::from(identity.certificate.clone());
    let key = PrivateKeyDer::try_from(identity.key.clone()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    Origin::start(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        serve(&mut stream);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

fn answer_hello(stream: &mut StreamOwned<ServerConnection, TcpStream>) {
    read_head(stream);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

/// Speaks TLS through a tunnel to `to`, with `name` as the server's name.
fn ask(world: &World, to: &str, name: &str, identity: &Identity) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(identity.certificate.clone())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, world.tunnel(to));
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Rules under which a tunnel to this host must be TLS.
fn tls_only(origin: &Origin, name: &str) -> BrokerRules {
    BrokerRules { tls_ports: vec![origin.port], ..private(&[&origin.at(name)]) }
}

#[test]
fn tls_passes_end_to_end() {
    let identity = identity();
    let origin = tls_origin(&identity, rustls::crypto::ring::default_provider(), answer_hello);
    let world = world(tls_only(&origin, "origin.example"));
    let to = origin.at("origin.example");
    let text = ask(&world, &to, "origin.example", &identity).unwrap();
    assert!(text.ends_with("hello"), "{text}");
    assert_eq!(world.recorder.end(), End::Done);
    assert!(!format!("{:?}", world.recorder.all()).contains("Refused"));
}

#[test]
fn a_second_greeting_passes_if_it_names_the_same_host() {
    let identity = identity();
    let mut provider = rustls::crypto::ring::default_provider();
    // No client guesses this group first, so that the host asks again.
    provider.kx_groups = vec![rustls::crypto::ring::kx_group::SECP384R1];
    let origin = tls_origin(&identity, provider, answer_hello);
    let world = world(tls_only(&origin, "origin.example"));
    let to = origin.at("origin.example");
    assert!(ask(&world, &to, "origin.example", &identity).unwrap().ends_with("hello"));
}

#[test]
fn a_greeting_that_names_another_host_is_refused() {
    let identity = identity();
    for strict in [true, false] {
        let origin = tls_origin(&identity, rustls::crypto::ring::default_provider(), |stream| {
            let _ = stream.read(&mut [0; 1]);
        });
        let mut rules = tls_only(&origin, "origin.example");
        if !strict {
            rules.tls_ports.clear();
        }
        let world = world(rules);
        let to = origin.at("origin.example");
        let error = ask(&world, &to, "other.example", &identity).unwrap_err();
        assert!(error.to_string().contains("AccessDenied"), "{error}");
        let closed = world.recorder.wait(|event| {
            if let BrokerEvent::Closed { bytes_up, end, .. } = event {
                Some((*bytes_up, *end))
            } else {
                None
            }
        });
        assert_eq!(closed, (0, End::Refused(Refusal::ServerNameDiffers)));
        assert_eq!(world.recorder.refusal(), (format!("CONNECT {to}"), Refusal::ServerNameDiffers));
    }
}

fn vector(width: usize, bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_be_bytes();
    [&length[8 - width..], bytes].concat()
}

/// The records of a greeting, `size` bytes in each.
fn greeting(name: Option<&str>, encrypted: bool, size: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let entry = [&[0][..], &vector(2, name.as_bytes())].concat();
        extensions.extend([&[0, 0][..], &vector(2, &vector(2, &entry))].concat());
    }
    if encrypted {
        extensions.extend([&[0xfe, 0x0d][..], &vector(2, &[1; 40])].concat());
    }
    let mut body = [&[3, 3][..], &[7; 32], &[0], &vector(2, &[19, 1]), &[1, 0]].concat();
    body.extend(vector(2, &extensions));
    let message = [&[1][..], &vector(3, &body)].concat();
    message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &vector(2, part)].concat()).collect()
}

/// A host that reads everything and tells nothing.
fn silent() -> Origin {
    Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

fn refusal_of(rules: BrokerRules, to: &str, bytes: &[u8]) -> Refusal {
    let world = world(rules);
    let mut stream = world.tunnel(to);
    let _ = stream.write_all(bytes);
    read_all(&mut stream);
    let refusal = world.recorder.refusal().1;
    assert_eq!(world.recorder.end(), End::Refused(refusal));
    refusal
}

#[test]
fn beginnings_that_are_not_a_plain_greeting_are_refused() {
    let origin = silent();
    let to = origin.at("origin.example");
    let large = [&[22, 3, 1, 0, 4, 1, 0xff, 0, 0][..]].concat();
    let scattered = greeting(Some("origin.example"), false, 1);
    let mut trailing = greeting(Some("origin.example"), false, 4096);
    trailing[4] += 1;
    trailing.push(0);
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Refusal::NotTls),
        (b"SSH-2.0-x\r\n".to_vec(), Refusal::NotTls),
        (vec![0x80, 0x2e, 1, 3, 1], Refusal::NotTls),
        (vec![22, 2, 0, 0, 5, 1, 2, 3, 4, 5], Refusal::HelloInvalid),
        (vec![22, 3, 1, 0, 0], Refusal::HelloInvalid),
        (vec![22, 3, 1, 0, 4, 2, 0, 0, 0], Refusal::HelloInvalid),
        (vec![22, 3, 1, 0, 4, 1, 0, 0, 0], Refusal::HelloInvalid),
        (trailing, Refusal::HelloInvalid),
        (large, Refusal::HelloTooLarge),
        (scattered, Refusal::HelloTooLarge),
        (greeting(None, false, 4096), Refusal::ServerNameMissing),
        (greeting(Some("other.example"), false, 4096), Refusal::ServerNameDiffers),
        (greeting(Some("origin.example."), false, 4096), Refusal::ServerNameDiffers),
        (greeting(Some("127.0.0.1"), false, 4096), Refusal::ServerNameDiffers),
        // The outer name of an encrypted greeting counts.
        (greeting(Some("cover.example"), true, 4096), Refusal::ServerNameDiffers),
        (greeting(None, true, 4096), Refusal::ServerNameMissing),
    ] {
        assert_eq!(
            refusal_of(tls_only(&origin, "origin.example"), &to, &bytes),
            expected,
            "{bytes:?}"
        );
    }
    let mut rules = tls_only(&origin, "origin.example");
    rules.limits =
        Limits { head_timeout: std::time::Duration::from_millis(100), ..Limits::default() };
    assert_eq!(refusal_of(rules.clone(), &to, &[22, 3]), Refusal::HelloTimeout);
    assert_eq!(refusal_of(rules, &to, &[]), Refusal::HelloTimeout);
}

#[test]
fn a_greeting_in_pieces_passes() {
    for (size, encrypted) in [(4096, false), (10, false), (30, true)] {
        let bytes = greeting(Some("Origin.EXAMPLE"), encrypted, size);
        let count = bytes.len();
        let origin = Origin::start(move |mut stream| {
            let mut got = vec![0; count];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).unwrap();
        });
        let world = world(tls_only(&origin, "origin.example"));
        let mut stream = world.tunnel(&origin.at("origin.example"));
        stream.set_nodelay(true).unwrap();
        for part in bytes.chunks(7) {
            stream.write_all(part).unwrap();
        }
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 40]);
    }
}

#[test]
fn a_second_greeting_that_names_another_host_is_refused() {
    let random = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8,
        0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8,
        0x33, 0x9c,
    ];
    let body = [&[3, 3][..], &random, &[0, 19, 1, 0, 0, 0]].concat();
    let message = [&[2][..], &vector(3, &body)].concat();
    let retry = [&[22, 3, 3][..], &vector(2, &message)].concat();
    let first = greeting(Some("origin.example"), false, 4096);
    let (count, answer) = (first.len(), retry.clone());
    let origin = Origin::start(move |mut stream| {
        stream.read_exact(&mut vec![0; count]).unwrap();
        stream.write_all(&answer).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let world = world(tls_only(&origin, "origin.example"));
    let mut stream = world.tunnel(&origin.at("origin.example"));
    stream.write_all(&first).unwrap();
    stream.read_exact(&mut vec![0; retry.len()]).unwrap();
    stream.write_all(&[20, 3, 3, 0, 1, 1]).unwrap();
    stream.write_all(&[23, 3, 3, 0, 2, 9, 9]).unwrap();
    stream.write_all(&greeting(Some("other.example"), false, 4096)).unwrap();
    read_all(&mut stream);
    let closed = world.recorder.wait(|event| {
        if let BrokerEvent::Closed { bytes_up, end, .. } = event {
            Some((*bytes_up, *end))
        } else {
            None
        }
    });
    let before = (first.len() + 6 + 7) as u64;
    assert_eq!(closed, (before, End::Refused(Refusal::ServerNameDiffers)));
}

#[test]
fn a_host_may_speak_first_on_other_ports() {
    let origin = Origin::start(|mut stream| {
        stream.write_all(b"220 ready\r\n").unwrap();
        let mut line = [0; 4];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(&line).unwrap();
    });
    let world = world(private(&[&origin.at("origin.example")]));
    let mut stream = world.tunnel(&origin.at("origin.example"));
    let mut banner = [0; 11];
    stream.read_exact(&mut banner).unwrap();
    stream.write_all(b"quit").unwrap();
    assert_eq!((&banner, read_all(&mut stream).as_str()), (b"220 ready\r\n", "quit"));
}

#[test]
fn old_clients_may_ask_for_tunnels() {
    let origin = silent();
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let mut stream = world.connect();
    write!(stream, "CONNECT {to} HTTP/1.0\r\n\r\n").unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 "));
}
