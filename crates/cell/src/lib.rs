//! Runs programs: to their end or beside us, confined in a cell or not.
//!
//! A **cell** is a set of namespaces whose root holds only what the command needs. [`Cell`] describes one,
//! [`Layout`] says what every cell has of the machine, [`run()`] and [`spawn`] start a program in it, and
//! [`launch`] is what our binary does when it is started as the launcher. The control socket between both
//! sides is in `control.rs`, the root in `mounts.rs`, the other locks (capabilities, Landlock, system calls,
//! limits) in `locks.rs`.
//!
//! INVARIANT: a command whose cell cannot be made in full does not start.

mod bound;
mod bwrap;
mod child;
mod control;
mod core_dumps;
mod filter;
mod git_paths;
mod interrupt;
mod launcher;
mod layout;
mod locks;
mod maker;
mod marked;
mod mounts;
mod network;
mod one_line;
mod path_bytes;
mod process;
mod run;
mod secret_text;
mod sources;
mod spec;
mod toolchains;
mod verify;
mod watch;
mod workspace;

pub use bound::{bound, run_bound};
pub use child::CellChild;
pub use core_dumps::leave_no_core_dump;
pub use git_paths::{GitPaths, find_git};
pub use interrupt::{
    ReceivedSignal, handle_signals, received_signal, signal_pipe, survive_file_limit,
};
pub use launcher::launch;
pub use layout::Layout;
pub use maker::{choose_maker, inside_a_cell};
pub use marked::kill_marked;
pub use network::BROKER_PORT;
pub use one_line::{MESSAGE_BYTES_MAX, one_line, shortened};
pub use process::{
    ChildInput, ChildStreams, Confined, InputPipe, ProcessError, ProcessGroup, TOOLCHAIN_VARIABLES,
    describe_exit, spawn,
};
pub use run::{
    Ending, Excess, Finished, Limits, OnSignal, Program, run, run_holding, run_with_broker,
};
pub use secret_text::has_secret;
pub use spec::{Access, Cell, CellCommand, CellLimits, Level, LimitKind, Maker, Mount, Network};
pub use workspace::WorkspaceView;
