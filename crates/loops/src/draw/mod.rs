//! Draws a plan for a terminal, as Mermaid, and as SVG.
//!
//! A plan can come from a journal as well as from a checked file, so every text is escaped here.

mod canvas;
mod describe;
mod layout;
mod list;
mod mermaid;
mod route;
mod svg;
mod text;

pub use mermaid::mermaid;
pub use svg::svg;
pub use text::text;

/// Whether ANSI colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Plain text.
    None,
    /// ANSI escape sequences.
    Ansi,
}
