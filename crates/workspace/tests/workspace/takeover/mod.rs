//! Take-over of changes that git made in an overlay. Real overlays are mounted, without privileges; where
//! that is forbidden these tests fail.

mod cell;
mod concurrent;
mod forged;
mod hostile;
mod ordinary;
mod own_refs;
