//! The project's own tools: `cargo xtask check`, and what it is made of.
#![expect(clippy::print_stdout, reason = "a tool talks to the terminal")]

mod generated;
mod vectors;

use generated::Mode;

fn main() -> anyhow::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(std::path::Path::new("."));
    generated::settle(root, &vectors::files()?, Mode::Write, "vectors")
}
