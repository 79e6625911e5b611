//! The broker with real sockets on loopback.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod certificate;
mod hostile;
mod limits;
mod plain;
mod route;
mod support;
mod tunnel;
