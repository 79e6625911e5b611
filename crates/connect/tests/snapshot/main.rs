//! Snapshots of workspaces, on real folders and repositories.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]









mod roundtrip;

mod world;
