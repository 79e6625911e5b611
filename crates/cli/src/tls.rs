//! The certificate of a server.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use windlass_kernel::Code;

use crate::failure::Failure;
use crate::input;

/// The largest file of a certificate or key.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a certificate chain and its private key.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let invalid = |path: &Path, reason: String| {
        let message = format!("`{}` cannot be used: {reason}", path.display());
        Failure::new(Code::RequestInvalid, message)
    };
    let bytes = input::read(certificate, BYTES_MAX)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| invalid(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(invalid(certificate, "it has no certificate in PEM".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_slice(&input::read(key, BYTES_MAX)?)
        .map_err(|error| invalid(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::of(Code::Internal, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| invalid(key, error.to_string()))?;
    Ok(Arc::new(config))
}
