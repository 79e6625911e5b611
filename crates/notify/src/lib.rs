//! Tells receivers outside what happened in a journal: webhooks and commands.
//!
//! What there is to tell is found in the journal ([`Lookout`]), a notification is recorded before it is sent, and so is
//! each attempt ([`Outbox`]). Nothing here changes a run, and no run waits for it.

mod body;
mod look;
mod outbox;
mod receiver;
mod seen;
mod send;
mod subject;

pub use body::{Body, ProjectName};
pub use look::Lookout;
pub use outbox::{Links, Listed, NotifyError, Outbox, Pass, is_due, list, next_due, read};
pub use receiver::{Receiver, Target};
pub use send::signature;
pub use subject::Subject;
