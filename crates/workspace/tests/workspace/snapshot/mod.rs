//! Snapshots of workspaces, on real folders and repositories.

mod borrowed;
mod capture;
mod change;
mod change_cut;
mod change_table;
mod check;
mod compare;
mod earlier;
mod hostile;
mod kill;
mod leftovers;
mod merge;
mod pack;
mod permissions;
mod roundtrip;
mod space;
mod user;
pub mod world;
