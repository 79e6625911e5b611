//! Snapshots of workspaces, on real folders and repositories.

mod borrowed;
mod capture;
mod check;
mod compare;
mod earlier;
mod hostile;
mod kill;
mod leftovers;
mod merge;
mod pack;
mod permissions;
mod restore;
mod roundtrip;
mod space;
mod user;
mod world;
