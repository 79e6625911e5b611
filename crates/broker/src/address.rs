//! Which addresses are public.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// It stands for no host, or for this one.
    Unspecified,
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// The network of a provider, behind its address translation.
    SharedByProvider,
    /// The local link; instances in a cloud find their credentials there.
    LinkLocal,
    /// Many hosts.
    Multicast,
    /// Reserved for documentation.
    Documentation,
    /// Reserved for benchmarks.
    Benchmarking,
    /// Reserved for other purposes.
    Reserved,
}

impl fmt::Display for AddressKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "this machine",
            Self::Private => "in a private network",
            Self::SharedByProvider => "in a provider's network",
            Self::LinkLocal => "on the local link",
            Self::Multicast => "a multicast address",
            Self::Documentation => "reserved for documentation",
            Self::Benchmarking => "reserved for benchmarks",
            Self::Reserved => "reserved",
        })
    }
}

impl AddressKind {
    /// Why the address is not public; `None` if it is.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Whether it can be reached at all, if the user lists the host as private.
    pub(crate) const fn can_be_listed(self) -> bool {
        match self {
            Self::Unspecified | Self::Multicast => false,
            Self::Loopback
            | Self::Private
            | Self::SharedByProvider
            | Self::LinkLocal
            | Self::Documentation
            | Self::Benchmarking
            | Self::Reserved => true,
        }
    }
}

const fn of_v4(address: Ipv4Addr) -> Option<AddressKind> {
    Some(match address.octets() {
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressKind::Private,
        [100, 64..=127, ..] => AddressKind::SharedByProvider,
        [169, 254, ..] => AddressKind::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Documentation,
        [198, 18..=19, ..] => AddressKind::Benchmarking,
        [224..=239, ..] => AddressKind::Multicast,
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => AddressKind::Reserved,
        _ => return None,
    })
}

/// The IPv4 address in two groups of an IPv6 address.
const fn embedded(high: u16, low: u16) -> Ipv4Addr {
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

fn of_v6(address: Ipv6Addr) -> Option<AddressKind> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressKind::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressKind::Loopback),
        // IPv4-mapped, translated and NAT64: what counts is the address inside.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => of_v4(embedded(high, low)),
        [0x64, 0xff9b, 1, ..] | [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => {
            Some(AddressKind::Private)
        }
        [0xfe80..=0xfebf, ..] => Some(AddressKind::LinkLocal),
        [0xff00..=0xffff, ..] => Some(AddressKind::Multicast),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(AddressKind::Documentation),
        [0x2001, 2, 0, ..] => Some(AddressKind::Benchmarking),
        // Teredo: the server's address, and the client's with all bits turned.
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            of_v4(embedded(high, low)).or_else(|| of_v4(embedded(!client_high, !client_low)))
        }
        [0x2001, 1..=0x01ff, ..] => Some(AddressKind::Reserved),
        // 6to4.
        [0x2002, high, low, ..] => of_v4(embedded(high, low)),
        // ISATAP.
        [0x2000..=0x3fff, _, _, _, 0 | 0x0200, 0x5efe, high, low] => of_v4(embedded(high, low)),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressKind::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        use AddressKind as K;
        for (text, expected) in [
            ("0.0.0.0", K::Unspecified),
            ("0.1.2.3", K::Unspecified),
            ("127.0.0.1", K::Loopback),
            ("127.255.255.254", K::Loopback),
            ("10.0.0.1", K::Private),
            ("172.16.0.1", K::Private),
            ("172.31.255.255", K::Private),
            ("192.168.1.1", K::Private),
            ("100.64.0.1", K::SharedByProvider),
            ("100.127.255.255", K::SharedByProvider),
            ("169.254.169.254", K::LinkLocal),
            ("192.0.0.8", K::Reserved),
            ("192.0.2.1", K::Documentation),
            ("198.51.100.1", K::Documentation),
            ("203.0.113.1", K::Documentation),
            ("198.18.0.1", K::Benchmarking),
            ("198.19.255.255", K::Benchmarking),
            ("192.88.99.1", K::Reserved),
            ("224.0.0.1", K::Multicast),
            ("239.255.255.255", K::Multicast),
            ("240.0.0.1", K::Reserved),
            ("255.255.255.255", K::Reserved),
            ("::", K::Unspecified),
            ("::1", K::Loopback),
            ("::7f00:1", K::Reserved),
            ("::ffff:127.0.0.1", K::Loopback),
            ("::ffff:169.254.169.254", K::LinkLocal),
            ("::ffff:0:10.0.0.1", K::Private),
            ("64:ff9b::10.0.0.1", K::Private),
            ("64:ff9b:1::8.8.8.8", K::Private),
            ("2002:7f00:1::", K::Loopback),
            ("2002:a00:1::1", K::Private),
            ("2001:0:a00:1::", K::Private),
            ("2001:0:808:808:0:0:80ff:fffe", K::Loopback),
            ("2001:2::1", K::Benchmarking),
            ("2001:10::1", K::Reserved),
            ("2001:db8::1", K::Documentation),
            ("3fff::1", K::Documentation),
            ("2600::5efe:10.0.0.1", K::Private),
            ("fc00::1", K::Private),
            ("fd12:3456::1", K::Private),
            ("fe80::1", K::LinkLocal),
            ("febf::1", K::LinkLocal),
            ("fec0::1", K::Private),
            ("ff02::1", K::Multicast),
            ("100::1", K::Reserved),
            ("5f00::1", K::Reserved),
            ("4000::1", K::Reserved),
        ] {
            assert_eq!(AddressKind::of(text.parse().unwrap()), Some(expected), "{text}");
        }
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(AddressKind::of(text.parse().unwrap()), None, "{text}");
        }
    }
}
