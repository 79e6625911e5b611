//! Real commands in real cells. Where the machine makes no namespaces these tests fail.

mod common;
mod end;
mod limits;
mod locks;
mod root;
mod work;
