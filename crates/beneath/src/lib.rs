//! Files beneath an open folder, reached without following links.
//!
//! A workspace belongs to an agent as much as to a person: any name in it may become a link at any moment. So whatever
//! Windlass itself reads, writes, moves or removes there goes through a [`Folder`].
//!
//! INVARIANT: every path is looked up by the kernel from the open folder, with no step out of it and through no link, new
//! files are made exclusively, and what is written takes its place by a rename from a name that nobody can foresee.

mod draft;
mod entry;
mod folder;

pub use draft::{Access, Draft};
pub use entry::{Entry, Kind};
pub use folder::Folder;
