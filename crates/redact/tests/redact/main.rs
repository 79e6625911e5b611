//! The tests of the crate, one program.

mod shapes;
mod values;
