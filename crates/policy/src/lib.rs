//! wip
mod error;
mod glob;
mod pointer;
mod registry;
mod shell;
mod source;
mod workspace;
pub use error::PolicyError;
pub use pointer::Pointer;
pub use registry::*;
