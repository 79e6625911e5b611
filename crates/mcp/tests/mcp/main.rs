//! The server against raw clients, against the official client library, and against hostile ones.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod calls;
mod clients;
mod hostile;
mod http;
mod http_checks;
mod library;
mod relay;
mod support;
