//! The clients, one file each.

mod claude;
mod codex;
mod gemini;
mod opencode;

use crate::client::Client;

pub use claude::Claude;
pub use codex::Codex;
pub use gemini::Gemini;
pub use opencode::OpenCode;

/// All clients.
#[must_use]
pub fn all() -> [&'static dyn Client; 4] {
    [&Claude, &Codex, &Gemini, &OpenCode]
}
