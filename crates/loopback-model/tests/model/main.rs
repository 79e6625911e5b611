//! The model over HTTP: requests as the real clients send them, failures, and limits.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail in any way")]

mod clients;
mod failures;
mod http;
mod script;
mod support;
