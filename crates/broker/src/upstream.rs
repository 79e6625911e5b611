//! From a checked name to a connection: one lookup, every address checked, no second lookup.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_kernel::{Authority, Host};

use crate::address::AddressKind;
use crate::event::{End, Refusal, Unreachable};
use crate::rules::{BrokerRules, Limits, Trust};

/// The most addresses of a name that are tried.
const ADDRESSES_TRIED: usize = 4;

/// Finds the addresses of a host.
pub trait Resolver: Send + Sync {
    /// The addresses of `host`, a name in lower case. It may block.
    ///
    /// # Errors
    /// Any error means that the name cannot be resolved.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// Why a request goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Refused { refusal: Refusal, detail: Option<String> },
    Unreachable(Unreachable),
}

impl Stop {
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::Refused { refusal, detail: None }
    }

    /// How the exchange ends that goes no further.
    pub(crate) const fn end(&self) -> End {
        match self {
            Self::Refused { refusal, .. } => End::Refused(*refusal),
            Self::Unreachable(failure) => End::Failed(*failure),
        }
    }
}

/// Which addresses a host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// Public ones, or private ones if the rules list the host so.
    AsListed,
    /// Private ones too: the user's settings name the host of this route.
    OfRoute,
}

/// Whether the host is listed.
pub(crate) fn authorize(rules: &BrokerRules, authority: &Authority) -> Result<(), Refusal> {
    if rules.hosts.iter().any(|rule| rule.matches(authority)) {
        return check_literal(rules, authority);
    }
    let other_port = rules.hosts.iter().any(|rule| rule.matches_host(&authority.host));
    Err(match &authority.host {
        Host::Address(_) => Refusal::AddressLiteral,
        Host::Name(_) if other_port => Refusal::PortNotListed,
        Host::Name(_) => Refusal::HostNotListed,
    })
}

/// An address instead of a name must be in the user's list as well.
fn check_literal(rules: &BrokerRules, authority: &Authority) -> Result<(), Refusal> {
    match &authority.host {
        Host::Address(_) if !is_private(rules, authority) => Err(Refusal::AddressLiteral),
        Host::Address(_) | Host::Name(_) => Ok(()),
    }
}

fn is_private(rules: &BrokerRules, authority: &Authority) -> bool {
    rules.private_hosts.iter().any(|rule| rule.matches(authority))
}

/// Resolves the host once, checks all its addresses and connects to one of them.
pub(crate) async fn connect(
    rules: &BrokerRules,
    resolver: &Arc<dyn Resolver>,
    authority: &Authority,
    allowed: Addresses,
) -> Result<(TcpStream, SocketAddr), Stop> {
    let addresses = match &authority.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(resolver, name, &rules.limits).await?,
    };
    // One bad address is enough: a name that has both is a trick, or a mistake in the DNS.
    let listed = match allowed {
        Addresses::AsListed => is_private(rules, authority),
        Addresses::OfRoute => true,
    };
    let bad = |kind: &AddressKind| !(listed && kind.can_be_listed());
    if let Some(kind) = addresses.iter().copied().filter_map(AddressKind::of).find(bad) {
        return Err(Stop::refused(Refusal::AddressNotPublic(kind)));
    }
    let attempts = async {
        for address in addresses.iter().take(ADDRESSES_TRIED) {
            let address = SocketAddr::new(*address, authority.port);
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok((stream, address));
            }
        }
        Err(Stop::Unreachable(Unreachable::Connect))
    };
    let connected = timeout(rules.limits.connect_timeout, attempts).await;
    let (stream, address) =
        connected.unwrap_or(Err(Stop::Unreachable(Unreachable::ConnectTimeout)))?;
    // Small pieces must not wait for larger ones. A failure costs time only.
    let _ = stream.set_nodelay(true);
    Ok((stream, address))
}

async fn resolve(
    resolver: &Arc<dyn Resolver>,
    name: &str,
    limits: &Limits,
) -> Result<Vec<IpAddr>, Stop> {
    let (resolver, name) = (Arc::clone(resolver), name.to_owned());
    let lookup = tokio::task::spawn_blocking(move || resolver.resolve(&name));
    match timeout(limits.connect_timeout, lookup).await {
        Ok(Ok(Ok(addresses))) if !addresses.is_empty() => Ok(addresses),
        Ok(Ok(Ok(_) | Err(_)) | Err(_)) => Err(Stop::Unreachable(Unreachable::Unresolved)),
        Err(_) => Err(Stop::Unreachable(Unreachable::ResolveTimeout)),
    }
}

/// Makes TLS connections to the upstreams of routes.
pub(crate) fn tls_connector(trust: &Trust) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::System => builder.with_platform_verifier()?,
        Trust::Only(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add(CertificateDer::from(authority.as_slice()))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Speaks TLS with the host of `authority`.
pub(crate) async fn secure(
    connector: &TlsConnector,
    stream: TcpStream,
    authority: &Authority,
    limits: &Limits,
) -> Result<TlsStream<TcpStream>, Stop> {
    let name = match &authority.host {
        Host::Name(name) => ServerName::try_from(name.clone()),
        Host::Address(address) => Ok(ServerName::from(*address)),
    };
    let failed = Stop::Unreachable(Unreachable::Tls);
    let Ok(name) = name else { return Err(failed) };
    match timeout(limits.connect_timeout, connector.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(_)) => Err(failed),
        Err(_) => Err(Stop::Unreachable(Unreachable::ConnectTimeout)),
    }
}
