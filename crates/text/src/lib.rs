//! What the readers of user-written files share: positions and errors in a file, a strict YAML
//! reader, the one glob dialect, suggestions for misspelt words, and text that is safe to print.
//!
//! Takes bytes and never reads a file.

mod decode;
mod display;
mod glob;
pub mod patch;
mod position;
mod source;
pub mod yaml;

pub use decode::{DecodeError, DecodeProblem, decode};
pub use display::{is_control, is_hidden, nearest, printable, visible};
pub use glob::{Glob, GlobError, GlobKind, GlobText, GlobToken, tokenize};
pub use position::{Location, Position};
pub use source::{FileError, SourceFile};
