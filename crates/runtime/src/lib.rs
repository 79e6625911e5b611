//! The gateway: judges a call, records it, dispatches it and records its effect; records people's
//! answers; recovers interrupted calls.
//!
//! This crate contains no SQL, HTTP server or terminal code. The order is always: lease, load, decide,
//! one transaction, then the effect, then its record.

mod call_log;
mod clock;
mod decide;
mod dispatch;
mod error;
mod gateway;
mod grant;
mod grant_list;
mod hand_over;
mod keys;
mod named_files;
mod objection;
mod people;
mod policy;
mod recover;
mod report;
mod request;
mod run_variables;
mod secrets;
mod several;
mod streak;
mod supervisor;
mod unknown_effect;
mod workspace;

pub use clock::{Clock, SteadyClock, SystemClock};
pub use decide::{Answer, first_difference};
pub use error::GatewayError;
pub use gateway::{Gateway, ReadDurability, Settings};
pub use grant_list::{GrantList, grants_of_everything};
pub use hand_over::{Asking, ClientReport, NoConnector, TOOL_USE};
pub use people::{Attribution, People, PersonError, Who};
pub use policy::{PolicySupervisor, file_rules_of, redactor_of};
pub use recover::{RecoveredCall, Recovery};
pub use report::{CallHold, CallReport, CallView, HoldQuestion};
pub use request::{CallRequest, REQUEST_BYTES_MAX, RequestError};
pub use secrets::{FilledArgs, NamedSecrets};
pub use several::{HandedOver, parts};
pub use streak::{CallLimits, CallStreak};
pub use supervisor::{Examination, Preparation, Refusal, Ruling, Supervisor};
pub use workspace::FileWorkspace;
