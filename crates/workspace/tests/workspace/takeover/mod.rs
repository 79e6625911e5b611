//! Take-over of changes that git made in an overlay. Real overlays are mounted, without privileges; where
//! that is forbidden these tests fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cell;
mod concurrent;
mod hostile;
mod ordinary;
mod own_refs;
