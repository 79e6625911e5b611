//! The dashboard in a real browser.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod driver;
#[path = "../dashboard/guarded.rs"]
mod guarded;
#[path = "../e2e/harness.rs"]
#[expect(dead_code, reason = "it is shared, and not all of it is needed here")]
mod harness;
mod looks;
mod looks_observed;
#[path = "../dashboard/served.rs"]
#[expect(dead_code, reason = "it is shared, and not all of it is needed here")]
mod served;
mod story;
#[path = "../runs/world.rs"]
#[expect(dead_code, reason = "it is shared, and not all of it is needed here")]
mod world;
