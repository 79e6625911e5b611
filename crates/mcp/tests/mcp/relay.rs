//! Unix sockets and the relay, in two processes.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use windlass_mcp::{connect, listen, relay};

use super::support::{Host, server};

const SOCKET: &str = "WINDLASS_TEST_RELAY_SOCKET";

/// A path that is longer than the address of a socket may be.
fn long_path(folder: &Path) -> PathBuf {
    let folder = folder.join("f".repeat(100)).join("g".repeat(100));
    fs::create_dir_all(&folder).unwrap();
    folder.join("mcp.sock")
}

/// Not a test: the other process of the test below.
#[test]
fn relay_process() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        relay(Path::new(&socket)).unwrap();
        std::process::exit(0);
    }
}

#[test]
fn a_client_reaches_the_server_through_a_relay() {
    let folder = tempfile::tempdir().unwrap();
    let socket = long_path(folder.path());
    let host = Host::echo();
    let listener = listen(&socket).unwrap();
    let serving = server(&host);
    let served = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serving.serve_stream("cell", stream.try_clone().unwrap(), stream)
    });
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "relay::relay_process", "--nocapture"])
        .env(SOCKET, &socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut ask = |message: Value| -> Value {
        writeln!(input, "{message}").unwrap();
        // The test harness of the other process writes lines of its own.
        let mut answers = output.by_ref().map(Result::unwrap).filter(|line| line.starts_with('{'));
        serde_json::from_str(&answers.next().unwrap()).unwrap()
    };
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "caged", "version": "1" } });
    ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    let long = "é".repeat(500_000);
    let params = json!({ "name": "read", "arguments": { "text": long } });
    let answer =
        ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, json!({ "text": long }).to_string());
    drop(input);
    // The end of the input ends the server, and that ends the relay.
    served.join().unwrap().unwrap();
    assert!(process.wait().unwrap().success());
    assert_eq!(host.begun.lock().unwrap()[0].session, "cell");
}

#[test]
fn a_socket_is_private_and_replaced_only_if_stale() {
    let folder = tempfile::tempdir().unwrap();
    for socket in [folder.path().join("short.sock"), long_path(folder.path())] {
        assert_eq!(connect(&socket).unwrap_err().kind(), ErrorKind::NotFound);
        let listener = listen(&socket).unwrap();
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen(&socket).unwrap_err().kind(), ErrorKind::AddrInUse);
        connect(&socket).unwrap();
        drop(listener);
        assert_eq!(connect(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let listener = listen(&socket).unwrap();
        connect(&socket).unwrap();
        drop(listener);
        // Nothing else is left in the folder.
        let left = fs::read_dir(socket.parent().unwrap()).unwrap();
        let sockets = left.filter(|entry| !entry.as_ref().unwrap().path().is_dir()).count();
        assert_eq!(sockets, 1);
    }
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    assert_eq!(listen(&file).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    assert!(UnixListener::bind(long_path(folder.path())).is_err(), "the path is long enough");
}
