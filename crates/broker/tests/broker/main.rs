//! The broker with real sockets on loopback.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod certificate;
mod hostile;
mod inspect;
mod limits;
mod model;
mod notes;
mod plain;
mod route;
mod support;
mod switch;
mod tunnel;
