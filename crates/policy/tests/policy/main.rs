//! The tests of the crate, one program.

mod common;
mod exceptions;
mod grants;
mod load;
mod own_tools;
mod shipped;
mod wrapped;
