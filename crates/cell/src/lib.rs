//! Runs a command in a cell: namespaces of its own whose root holds only what the command needs.
//!
//! [`Cell`] describes a cell and [`CellChild`] is a command in one; [`launch`] is what the binary does when
//! it is started as the launcher. The control socket between both is in `control.rs`, the root in
//! `mounts.rs`, the other locks (capabilities, Landlock, system calls, limits) in `locks.rs`.
//!
//! INVARIANT: a command whose cell cannot be made in full does not start.

#![cfg(target_os = "linux")]

mod child;
mod control;
mod filter;
mod launcher;
mod locks;
mod mounts;
mod network;
mod spec;
mod watch;

pub use child::{CellChild, CellEvent};
pub use launcher::launch;
pub use network::BROKER_PORT;
pub use spec::{Access, Cell, CellLimits, Level, LimitKind, Mount, Network, Program};
