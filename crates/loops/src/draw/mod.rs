//! A plan as a picture: for a terminal, for Mermaid, and as SVG.
//!
//! A plan can come from a journal as well as from a file, so nothing in it is taken on trust here:
//! every text is made harmless for where it is shown.

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

/// Whether a terminal's colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Plain text.
    None,
    /// ANSI escape sequences.
    Ansi,
}
