//! The gateway: judges a call, records it, hands it over, records what came of it; a person's
//! decisions; recovery; verification of a whole store.
//!
//! No SQL, no HTTP, no terminal here. Order, always: lease, load, decide, one transaction, then the
//! effect, then its record.

mod decide;
mod dispatch;
mod error;
mod gateway;
mod ledger;
mod policy;
mod recover;
mod replay;
mod report;
mod request;
mod secrets;
mod source;
mod supervisor;
mod verify;
mod watch;
mod workspace;

pub use decide::{Answer, Voice};
pub use error::GatewayError;
pub use gateway::{Gateway, Reads, Settings};
pub use policy::PolicySupervisor;
pub use recover::{Recovered, Recovery};
pub use replay::{Replayed, replay};
pub use report::{CallReport, Hold, Question, Refused};
pub use request::{CallRequest, REQUEST_BYTES_MAX, RequestError};
pub use secrets::Secrets;
pub use source::{Source, System};
pub use supervisor::{Preparation, Refusal, Ruling, Supervisor};
pub use verify::{Problem, Verification, verify, verify_key};
pub use workspace::FileWorkspace;
