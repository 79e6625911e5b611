//! Guards the sessions of coding agents. A session is a run; each use of a tool is a call of it, judged and recorded
//! before the client may go on, and settled by what the client reports.
//!
//! Nothing is started here: the client makes the calls. Whatever goes wrong is an error, and the caller refuses then.

mod before;
pub mod core;
mod error;
mod guard;
mod history;
mod note;
mod progress;
mod reconcile;
mod recording;
mod sessions;
mod tool_use;

pub use error::SessionError;
pub use guard::{Guard, HoldAnswer, OnUnguarded, Surroundings};
pub use history::{SessionHistory, requested_at};
pub use note::{DatedNote, SessionNote, Unguarded, notes};
pub use progress::Progress;
pub use reconcile::Reconciler;
pub use sessions::{NewSession, Session, SessionHold, SessionName, Sessions, named_run};
pub use tool_use::CLIENT_SERVER;
