//! What is sent instead of a handshake.

use std::sync::Arc;

use rustls::ClientConfig;

use super::tls_client::hello;

/// A record of TLS.
fn record(kind: u8, version: [u8; 2], body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind][..], &version, &length, body].concat()
}

/// A hello of an old version: the random bytes, no session, some ciphers, no compression, and extensions.
fn old_hello(version: [u8; 2], ciphers: &[u8], extensions: &[u8]) -> Vec<u8> {
    let ciphers_length = u16::try_from(ciphers.len()).unwrap().to_be_bytes();
    let mut body = [&version[..], &[7; 32], &[0], &ciphers_length, ciphers, &[1, 0]].concat();
    if !extensions.is_empty() {
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
    }
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    record(22, [3, 1], &[&[1], &length[1..], &body].concat())
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&kind.to_be_bytes()[..], &length, body].concat()
}

/// What is sent instead of a handshake, by its name.
pub fn instead(config: &Arc<ClientConfig>) -> Vec<(String, Vec<u8>)> {
    let good = hello(config);
    let ciphers: &[u8] = &[0x13, 0x01, 0xc0, 0x2b, 0xc0, 0x2f];
    let old = |version, extensions: &[u8]| old_hello(version, ciphers, extensions);
    let sni = |name: &[u8]| {
        let length = u16::try_from(name.len()).unwrap().to_be_bytes();
        let entry = [&[0][..], &length, name].concat();
        let all = u16::try_from(entry.len()).unwrap().to_be_bytes();
        extension(0, &[&all[..], &entry].concat())
    };
    let mut rows: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        (
            "HTTP that would be upgraded",
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: TLS/1.2\r\nConnection: upgrade\r\n\r\n"
                .to_vec(),
        ),
        ("HTTP with a body", b"POST /api/v1/runs HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ("CONNECT", b"CONNECT localhost:22 HTTP/1.1\r\n\r\n".to_vec()),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("HTTP/0.9", b"GET /\r\n".to_vec()),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        ("SMTP", b"EHLO x\r\nSTARTTLS\r\n".to_vec()),
        ("a proxy's line", [b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(), good.clone()].concat()),
        (
            "a proxy's header",
            [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec(), vec![1; 12], good.clone()].concat(),
        ),
        ("nothing", vec![]),
        ("zeros", vec![0; 70_000]),
        ("ones", vec![255; 70_000]),
        ("SSL 2", [&[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10][..], &[7; 37]].concat()),
        ("SSL 3", old([3, 0], &[])),
        ("TLS 1.0", old([3, 1], &[])),
        ("TLS 1.1", old([3, 2], &[])),
        ("TLS 1.2 without extensions", old([3, 3], &[])),
        ("TLS 9.9", old([9, 9], &[])),
        ("DTLS", old([0xfe, 0xfd], &[])),
        ("no cipher", old_hello([3, 3], &[], &[])),
        ("ciphers that encrypt nothing", old_hello([3, 3], &[0, 0, 0, 1, 0, 2, 0, 0x3b], &[])),
        ("export ciphers", old_hello([3, 1], &[0, 3, 0, 6, 0, 8, 0, 0x0b], &[])),
        ("a fallback", old_hello([3, 2], &[0xc0, 0x2b, 0x56, 0], &[])),
        ("an empty name", old([3, 3], &sni(b""))),
        ("a name with a zero", old([3, 3], &sni(b"localhost\0.evil"))),
        ("an address as the name", old([3, 3], &sni(b"127.0.0.1"))),
        ("another name", old([3, 3], &sni(b"evil.example"))),
        ("a path as the name", old([3, 3], &sni(b"../../etc/passwd"))),
        ("a long name", old([3, 3], &sni(&[b'a'; 10_000]))),
        ("two names", old([3, 3], &[sni(b"localhost"), sni(b"evil.example")].concat())),
        ("a name that is cut", old([3, 3], &extension(0, &[0, 200, 0, 0, 100, b'a']))),
        ("protocols that are cut", old([3, 3], &extension(16, &[0, 9, 200, b'h']))),
        ("no protocols", old([3, 3], &extension(16, &[0, 0]))),
        ("versions that are cut", old([3, 3], &extension(43, &[9, 3]))),
        ("only SSL 3 among the versions", old([3, 3], &extension(43, &[2, 3, 0]))),
        ("a share of no group", old([3, 3], &extension(51, &[0, 4, 0xff, 0xff, 0, 0]))),
        ("a ticket of nobody", old([3, 3], &extension(35, &[7; 200]))),
        (
            "early data",
            [old([3, 3], &extension(42, &[])), record(23, [3, 3], b"GET / HTTP/1.1\r\n\r\n")]
                .concat(),
        ),
        ("padding", old([3, 3], &extension(21, &[0; 16_000]))),
        ("a heartbeat", record(24, [3, 3], &[1, 0xff, 0xff, 7])),
        ("an alert", record(21, [3, 3], &[2, 40])),
        ("a change of ciphers", record(20, [3, 3], &[1])),
        ("changes of ciphers", record(20, [3, 3], &[1]).repeat(5000)),
        ("data before anything", record(23, [3, 3], b"GET / HTTP/1.1\r\n\r\n")),
        ("an empty record", record(22, [3, 3], &[])),
        ("empty records", record(22, [3, 3], &[]).repeat(20_000)),
        ("a record of no kind", record(99, [3, 3], &[1; 100])),
        ("a record that is too long", [&[22, 3, 3, 0xff, 0xff][..], &[1; 65_535]].concat()),
        (
            "a message that is too long",
            record(22, [3, 3], &[&[1, 0xff, 0xff, 0xff][..], &[3; 16_000]].concat()).repeat(8),
        ),
        ("no message", record(22, [3, 3], &[0; 100])),
        (
            "an end before a beginning",
            record(22, [3, 3], &[20, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ),
        ("two beginnings", good.repeat(2)),
        ("a hundred beginnings", good.repeat(100)),
        ("a beginning, then HTTP", [good.clone(), b"GET / HTTP/1.1\r\n\r\n".to_vec()].concat()),
        (
            "a beginning, then data",
            [good.clone(), record(23, [3, 3], b"GET / HTTP/1.1\r\n\r\n")].concat(),
        ),
        (
            "one byte a record",
            good[5..].iter().flat_map(|byte| record(22, [3, 1], &[*byte])).collect(),
        ),
    ];
    for cut in [1, 4, 5, 6, 9, 40, 43, 44, 80, good.len() - 1] {
        rows.push(("a beginning that is cut", good[..cut].to_vec()));
    }
    for at in (0..good.len()).step_by(5) {
        let mut changed = good.clone();
        changed[at] ^= 0x81;
        rows.push(("a beginning with a wrong byte", changed));
    }
    let named = rows.into_iter().enumerate();
    named.map(|(number, (name, bytes))| (format!("{number}: {name}"), bytes)).collect()
}
