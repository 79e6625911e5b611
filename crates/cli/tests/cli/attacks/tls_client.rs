//! A server with a certificate, and a client that speaks TLS, or something else.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ProtocolVersion, SignatureScheme,
    StreamOwned,
};

use crate::harness::Place;
use crate::served::Served;

/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Trusts whatever certificate there is: what is tested is the server.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client that can do one version of TLS, or all.
pub fn client(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth()
}

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A certificate for this machine and its key, made by `openssl`; `None` if that is not there.
pub fn certificate(place: &Place) -> Option<[PathBuf; 2]> {
    let [certificate, key] = ["tls.pem", "tls.key"].map(|name| place.base().join(name));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-nodes", "-days", "9", "-subj", "/CN=localhost"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let made = openssl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        windlass_testkit::skipped("there is no OpenSSL, which makes a certificate");
        return None;
    }
    Some([certificate, key])
}

/// Serves with a certificate.
pub fn serve(place: &Place, [certificate, key]: &[PathBuf; 2]) -> Served {
    let [certificate, key] = [certificate, key].map(|path| path.to_str().unwrap());
    Served::start(place, &["--certificate", certificate, "--private-key", key])
}

/// Connects without a handshake.
pub fn dial(served: &Served) -> TcpStream {
    let stream = served.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Connects and shakes hands.
pub fn shake(served: &Served, config: &Arc<ClientConfig>) -> Result<Stream, std::io::Error> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = dial(served);
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// The first bytes of a handshake.
pub fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

/// Everything up to the end of the connection, however it ends; fails when it does not.
pub fn rest(stream: &mut impl std::io::Read, name: &str) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) => {
                let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                assert!(!waits.contains(&error.kind()), "{name}: the connection does not end");
                break;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends bytes without TLS, says that no more come, and returns what comes back.
pub fn raw(served: &Served, bytes: &[u8], name: &str) -> String {
    let mut stream = dial(served);
    // The server may have closed before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    rest(&mut stream, name)
}

/// Sends bytes within TLS, and returns what comes back.
pub fn within(served: &Served, config: &Arc<ClientConfig>, bytes: &[u8], name: &str) -> String {
    let mut stream = shake(served, config).unwrap();
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    rest(&mut stream, name)
}

/// The version that was agreed on.
pub fn version(stream: &Stream) -> Option<ProtocolVersion> {
    stream.conn.protocol_version()
}
