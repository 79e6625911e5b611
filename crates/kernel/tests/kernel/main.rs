//! The tests of the crate, one program.

mod grant;
mod links;
mod notification;
mod properties;
mod run;
mod vectors;
