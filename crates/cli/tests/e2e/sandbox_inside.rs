//! What a confined process may ask of the kernel: this test's own binary is run in the sandbox.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells the helper below where it is.
const INSIDE: &str = "WINDLASS_TEST_INSIDE";

fn run_inside(folder: &Path, network: bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["confined", "--write"]).arg(folder);
    if network {
        command.arg("--network");
    }
    let output = command
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox_inside::helper", "--nocapture", "--test-threads=1"])
        .env(INSIDE, if network { "open" } else { "closed" })
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(text.contains("all was tried inside"), "{text}");
}

#[test]
fn sockets_and_signals_stop_at_the_wall() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("daemon")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let letters = UnixDatagram::bind(folder.path().join("letters")).unwrap();
    letters.set_nonblocking(true).unwrap();
    run_inside(folder.path(), false);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(letters.recv(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    run_inside(folder.path(), true);
    listener.accept().unwrap();
    assert_eq!(letters.recv(&mut [0; 1]).unwrap(), 1);
}

/// Does nothing unless [`run_inside`] started it.
#[test]
fn helper() {
    let Ok(network) = std::env::var(INSIDE) else { return };
    let denied = |result: Result<(), std::io::Error>| match result {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            true
        }
    };
    let closed = network == "closed";
    assert_eq!(denied(TcpListener::bind("127.0.0.1:0").map(drop)), closed);
    assert_eq!(denied(TcpListener::bind("[::1]:0").map(drop)), closed);
    assert_eq!(denied(UdpSocket::bind("127.0.0.1:0").map(drop)), closed);
    if closed {
        assert!(denied(TcpStream::connect("127.0.0.1:9").map(drop)));
    }
    assert_eq!(denied(UnixStream::connect("daemon").map(drop)), closed);
    let letter = UnixDatagram::unbound().unwrap().send_to(b"x", "letters");
    assert_eq!(denied(letter.map(drop)), closed);
    // What one process does with itself and its children stays possible.
    let (mut one, mut other) = UnixStream::pair().unwrap();
    one.write_all(b"x").unwrap();
    other.read_exact(&mut [0; 1]).unwrap();
    UnixListener::bind(format!("own-{network}")).unwrap();
    assert!(Command::new("true").status().unwrap().success());
    // Who started us is outside.
    let parent = rustix::process::getppid().unwrap();
    let landlock = windlass_connect::SandboxSupport::detect().landlock;
    let signalled = rustix::process::test_kill_process(parent);
    assert_eq!(signalled.is_err(), landlock >= 6, "{signalled:?}");
    println!("all was tried inside");
}
