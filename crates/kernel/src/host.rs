//! Hosts on the network: their names, and the rules that list them.
//!
//! One strict spelling for each host. Whatever a resolver, a URL parser or a server might read in
//! another way (an address in octal, a trailing dot, a percent sign) is refused, not interpreted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Why a text is not a host, or not a rule.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostProblem {
    /// There is nothing where a host must be.
    #[error("there is no host name")]
    Empty,
    /// The name is longer than a name can be.
    #[error("a host name has at most 253 characters")]
    NameTooLong,
    /// A label is longer than a label can be.
    #[error("a part of a host name has at most 63 characters")]
    LabelTooLong,
    /// Two dots in a row, or a dot at the beginning.
    #[error("a part of the host name is empty")]
    LabelEmpty,
    /// A dot at the end.
    #[error("a host name does not end with a dot")]
    TrailingDot,
    /// A label begins or ends with a hyphen, or has two in the third place without being an A-label.
    #[error("a hyphen is not allowed here")]
    Hyphen,
    /// A control character or a blank.
    #[error("control characters and blanks are not allowed")]
    Control,
    /// A character outside ASCII.
    #[error("an international name is written in its ASCII form (`xn--…`)")]
    NotAscii,
    /// A percent sign.
    #[error("percent-encoding is not allowed")]
    PercentEncoded,
    /// A scheme before the host.
    #[error("write the host without a scheme such as `https://`")]
    Scheme,
    /// A path, query or fragment after the host.
    #[error("write the host without a path")]
    Path,
    /// A user name before the host.
    #[error("a user name is not allowed")]
    UserInfo,
    /// Another character that host names do not have.
    #[error("host names have only letters, digits, hyphens and dots")]
    Character,
    /// A wildcard where none is allowed.
    #[error("a `*` may only be the whole first part, before at least two others")]
    Wildcard,
    /// An address instead of a name, in any spelling.
    #[error("an IP address is not a host name")]
    Address,
    /// There is no port.
    #[error("the port is missing, as in `host:443`")]
    PortMissing,
    /// The port is not a number from 1 to 65535 in plain digits.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

/// A text that is not a host, or not a rule.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("character {}: {problem}", at + 1)]
pub struct HostError {
    /// Where the problem is, in bytes from the beginning of the text.
    pub at: usize,
    /// What the problem is.
    pub problem: HostProblem,
}

fn error<T>(at: usize, problem: HostProblem) -> Result<T, HostError> {
    Err(HostError { at, problem })
}

/// A host: a name in lower case, or an address in its only accepted spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Authority {
    /// Reads `host:port`. Without a port it is `port_default`, if there is one.
    ///
    /// # Errors
    /// [`HostError`] for every text that is not plainly a host and a port.
    pub fn parse(text: &str, port_default: Option<u16>) -> Result<Self, HostError> {
        let (name, port) = split(text, port_default)?;
        Ok(Self { host: host(name)?, port })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// Hosts that may be reached, on one port: `crates.example:443`, or `*.example.org:443` for all
/// names below `example.org`, at any depth and without itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    pattern: Pattern,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pattern {
    Exactly(Host),
    Below(String),
}

impl HostRule {
    /// Reads a rule that names hosts. Upper case is lowered.
    ///
    /// # Errors
    /// [`HostError`] with the place and the reason; an IP address is an error.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let rule = Self::parse_with_addresses(text)?;
        match rule.pattern {
            Pattern::Exactly(Host::Address(_)) => error(0, HostProblem::Address),
            Pattern::Exactly(Host::Name(_)) | Pattern::Below(_) => Ok(rule),
        }
    }

    /// Reads a rule that may name an IP address instead: for settings of the user.
    ///
    /// # Errors
    /// [`HostError`] with the place and the reason.
    pub fn parse_with_addresses(text: &str) -> Result<Self, HostError> {
        let (name, port) = split(text, None)?;
        let Some(parent) = name.strip_prefix("*.") else {
            return Ok(Self { pattern: Pattern::Exactly(host(name)?), port });
        };
        let moved = |error: HostError| HostError { at: error.at + 2, ..error };
        match host(parent).map_err(moved)? {
            Host::Name(parent) if parent.contains('.') => {
                Ok(Self { pattern: Pattern::Below(parent), port })
            }
            Host::Name(_) => error(0, HostProblem::Wildcard),
            Host::Address(_) => error(2, HostProblem::Address),
        }
    }

    /// Whether the rule lists this host, on whatever port.
    #[must_use]
    pub fn matches_host(&self, host: &Host) -> bool {
        match (&self.pattern, host) {
            (Pattern::Exactly(listed), host) => listed == host,
            (Pattern::Below(parent), Host::Name(name)) => name
                .strip_suffix(parent.as_str())
                .is_some_and(|first| first.len() > 1 && first.ends_with('.')),
            (Pattern::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether the rule lists this host on this port.
    #[must_use]
    pub fn matches(&self, authority: &Authority) -> bool {
        self.port == authority.port && self.matches_host(&authority.host)
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl TryFrom<String> for HostRule {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse_with_addresses(&text)
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

impl FromStr for HostRule {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Exactly(host) => write!(formatter, "{host}:{}", self.port),
            Pattern::Below(parent) => write!(formatter, "*.{parent}:{}", self.port),
        }
    }
}

/// Refuses what can be part of no host, then separates the port.
fn split(text: &str, port_default: Option<u16>) -> Result<(&str, u16), HostError> {
    for (at, character) in text.char_indices() {
        let problem = match character {
            character if character.is_control() || character.is_whitespace() => {
                HostProblem::Control
            }
            character if !character.is_ascii() => HostProblem::NotAscii,
            '/' if text.get(..at).is_some_and(|before| before.ends_with(':')) => {
                HostProblem::Scheme
            }
            '/' | '?' | '#' | '\\' => HostProblem::Path,
            '@' => HostProblem::UserInfo,
            '%' => HostProblem::PercentEncoded,
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '*' | ':' | '[' | ']' => continue,
            _ => HostProblem::Character,
        };
        return error(at, problem);
    }
    let (name, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if name.is_empty() {
        return error(0, HostProblem::Empty);
    }
    let Some(digits) = port.strip_prefix(':') else {
        let missing =
            if port.is_empty() { HostProblem::PortMissing } else { HostProblem::Character };
        let default = port_default.filter(|_| port.is_empty());
        return default.map_or_else(|| error(name.len(), missing), |port| Ok((name, port)));
    };
    if digits.contains(':') {
        // An IPv6 address without its brackets.
        return error(0, HostProblem::Address);
    }
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse::<u16>() {
        Ok(port) if plain => Ok((name, port)),
        Ok(_) | Err(_) => error(name.len() + 1, HostProblem::Port),
    }
}

fn host(text: &str) -> Result<Host, HostError> {
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let lower = inner.to_ascii_lowercase();
        return match lower.parse::<Ipv6Addr>() {
            Ok(address) if address.to_string() == lower && address.to_ipv4().is_none() => {
                Ok(Host::Address(IpAddr::V6(address)))
            }
            Ok(address) if address == Ipv6Addr::LOCALHOST && lower == "::1" => {
                Ok(Host::Address(IpAddr::V6(address)))
            }
            Ok(_) | Err(_) => error(0, HostProblem::Address),
        };
    }
    // Rust's parser accepts four decimal numbers without leading zeros, and nothing else.
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    name(text).map(Host::Name)
}

fn name(text: &str) -> Result<String, HostError> {
    if let Some(at) = text.find('*') {
        return error(at, HostProblem::Wildcard);
    }
    if let Some(at) = text.find(['[', ']', ':']) {
        return error(at, HostProblem::Character);
    }
    if text.is_empty() {
        return error(0, HostProblem::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return error(NAME_BYTES_MAX, HostProblem::NameTooLong);
    }
    let name = text.to_ascii_lowercase();
    let mut at = 0;
    let mut last = "";
    for label in name.split('.') {
        let end = at + label.len();
        if label.is_empty() {
            let trailing = end == name.len() && at > 0;
            let problem = if trailing { HostProblem::TrailingDot } else { HostProblem::LabelEmpty };
            return error(if trailing { at - 1 } else { at }, problem);
        }
        if label.len() > LABEL_BYTES_MAX {
            return error(at, HostProblem::LabelTooLong);
        }
        if label.starts_with('-') {
            return error(at, HostProblem::Hyphen);
        }
        let tagged =
            label.get(2..4) == Some("--") && (!label.starts_with("xn") || label.len() == 4);
        if label.ends_with('-') || tagged {
            return error(end - 1, HostProblem::Hyphen);
        }
        last = label;
        at = end + 1;
    }
    // Resolvers and URL parsers take a name for an address if its last part is a number.
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits(last) || last.strip_prefix("0x").is_some_and(hex) {
        return error(0, HostProblem::Address);
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
