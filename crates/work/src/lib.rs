//! The work tracker: items of work behind one interface, [`Tracker`], kept in the `bd` program ([`Bd`])
//! or in a file of our own ([`BuiltIn`]).
//!
//! It may not decide what is tracked, and it knows neither journal nor policy. Every failure says whether
//! the same request may be made again ([`WorkError::may_retry`]).

mod bd;
mod bd_json;
mod bd_program;
mod built_in;
mod error;
mod id;
mod item;
mod limits;
mod rows;
mod tracker;

pub use bd::Bd;
pub use built_in::BuiltIn;
pub use error::WorkError;
pub use id::{DEFAULT_PREFIX, Prefix};
pub use item::{Change, Item, Kind, LinkKind, NewItem, Status};
pub use limits::{
    DESCRIPTION_BYTES_MAX, ID_BYTES_MAX, LABELS_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX,
    TITLE_BYTES_MAX,
};
pub use tracker::Tracker;
