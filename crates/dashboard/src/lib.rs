//! The dashboard: a page and an HTTP API over the runs of projects.
//!
//! It reads journals and decides nothing. What people do from it are commands of Windlass, each in a process of its
//! own, so that stopping the server loses nothing and doubles nothing.

mod access;
mod act;
mod api;
mod backlog;
mod call_list;
mod calls;
mod dashboard;
mod entries;
mod events;
mod grants;
mod icon;
mod keys;
mod looks;
mod model;
mod once;
mod pages;
mod paging;
mod policy;
mod problem;
mod project;
mod rate;
mod read;
mod respond;
mod seats;
mod server;
mod sessions;
mod spend;
mod stall;
mod start;
mod timeline;

pub use access::{Access, AccessError, Hosts, Person, Role, Scope, Secret};
pub use api::description;
pub use dashboard::{Dashboard, Projects};
pub use events::Hub;
pub use keys::{Key, Keys};
pub use looks::Looks;
pub use once::Once;
pub use problem::Problem;
pub use project::{Command, Project, StopItem};
pub use server::Server;
pub use spend::Ledger;
pub use start::is_recorded;
