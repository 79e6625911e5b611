//! The network of a cell: loopback, and the port on which the broker listens.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The loopback port of the broker in every cell; the namespace is the cell's own, so it is free.
pub const BROKER_PORT: u16 = 3128;

/// `RTM_NEWLINK` with `NLM_F_REQUEST | NLM_F_ACK`: sets `IFF_UP` on the first interface.
fn set_up_message() -> Vec<u8> {
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(16_u16.to_ne_bytes());
    message.extend(5_u16.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend([0, 0, 0, 0]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message
}

/// Brings the loopback interface up.
pub(crate) fn bring_up_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // `NETLINK_ROUTE`.
        None,
    )?;
    rustix::net::send(&socket, &set_up_message(), SendFlags::empty())?;
    let mut answer = [0; 64];
    let (_, count) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let error =
        answer.get(16..20).and_then(|bytes| bytes.first_chunk::<4>()).filter(|_| count >= 20);
    match error.map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Listens for the broker.
pub(crate) fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, BROKER_PORT))
}
