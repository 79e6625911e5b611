//! Windlass as an MCP server of its own: its tools, and those of servers that it stands in front of.

mod closing;
mod host;
mod offer;
mod pins;
mod serving;
mod wrapped;

pub use closing::Closing;
pub use host::{Host, Offered};
pub use offer::{DESCRIBE_LIMITS, registered};
pub use pins::{Pin, Pins, is_name, servers};
pub use serving::serve;
pub use wrapped::{WrapRequest, request};
