//! The gateway: judges a call, records it, dispatches it and records its effect; records people's
//! decisions; recovers interrupted calls.
//!
//! No SQL, no HTTP, no terminal here. The order is always: lease, load, decide, one transaction, then
//! the effect, then its record.

mod clock;
mod decide;
mod dispatch;
mod error;
mod gateway;
mod policy;
mod recover;
mod report;
mod request;
mod secrets;
mod supervisor;
mod watch;
mod workspace;

pub use clock::{Clock, SystemClock};
pub use decide::{Answer, Voice};
pub use error::GatewayError;
pub use gateway::{Gateway, Reads, Settings};
pub use policy::PolicySupervisor;
pub use recover::{Recovered, Recovery};
pub use report::{CallReport, Hold, Question, Refused};
pub use request::{CallRequest, REQUEST_BYTES_MAX, RequestError};
pub use secrets::Secrets;
pub use supervisor::{Preparation, Refusal, Ruling, Supervisor};
pub use workspace::FileWorkspace;
