//! The dashboard in a real browser.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod driver;
mod looks;
mod looks_observed;
mod story;
