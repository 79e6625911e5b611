//! What a broker lets through.

use std::time::Duration;

use windlass_kernel::HostRule;

use crate::route::Route;

/// What a broker lets through. Everything else is refused.
#[derive(Clone, Debug)]
pub struct BrokerRules {
    /// The hosts that may be reached, with CONNECT or as plain HTTP.
    pub hosts: Vec<HostRule>,
    /// The hosts whose addresses may be private, from the user's settings. This alone lets no
    /// host through: it must be one of `hosts`.
    pub private_hosts: Vec<HostRule>,
    /// The paths that are forwarded to hosts of the user's choice. The longest prefix counts.
    pub routes: Vec<Route>,
    /// The ports on which a tunnel must begin as TLS.
    pub tls_ports: Vec<u16>,
    /// The certificate authorities that the upstream of a route is checked against.
    pub trust: Trust,
    /// The limits.
    pub limits: Limits,
}

impl Default for BrokerRules {
    /// Lets nothing through.
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            private_hosts: Vec::new(),
            routes: Vec::new(),
            tls_ports: vec![443],
            trust: Trust::default(),
            limits: Limits::default(),
        }
    }
}

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of the system.
    #[default]
    System,
    /// These, each a certificate in DER.
    Only(Vec<Vec<u8>>),
}

/// The limits of a broker. `None` stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest head of a request or response.
    pub head_bytes_max: usize,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most requests.
    pub requests_max: Option<u64>,
    /// The most bytes of one connection in one direction.
    pub connection_bytes_max: Option<u64>,
    /// The most bytes of all connections together.
    pub broker_bytes_max: Option<u64>,
    /// The largest body of a request that an inspector sees. Four of them may be held in memory at
    /// once.
    pub inspected_bytes_max: u64,
    /// The longest time from the first byte of a head or a TLS greeting to its last.
    pub head_timeout: Duration,
    /// The longest time for resolving a name, and again for connecting.
    pub connect_timeout: Duration,
    /// The longest time in which nothing is sent.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * 1024,
            connections_max: 256,
            requests_max: None,
            connection_bytes_max: None,
            broker_bytes_max: None,
            inspected_bytes_max: 64 * 1024 * 1024,
            head_timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(20),
            // A model may think for minutes before it sends its first word.
            idle_timeout: Duration::from_secs(600),
        }
    }
}
