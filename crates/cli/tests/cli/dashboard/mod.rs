//! The dashboard from outside: the real server, real requests, a real browser.

mod api;
mod backlog;
mod calls;
mod damage;
mod decisions;
mod described;
mod events;
mod grants;
mod kills;
mod notify;
mod notify_pages;
mod once;
mod pages;
mod policy;
pub mod receiver;
mod security;
mod sessions;
mod spend;
mod states;
