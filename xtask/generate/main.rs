//! Writes the JSON Schemas and the test vectors, which are generated from the kernel's types, and the Claude
//! Code plugin, or checks that the committed files are up to date: `generate schemas|vectors|plugin
//! [--check]`, in the repository's root. `cargo xtask` builds and runs it.
#![expect(clippy::print_stdout, reason = "a tool talks to the terminal")]

mod output;
mod plugin;
mod schemas;
mod vectors;

use std::path::Path;

use anyhow::{Result, bail};
use output::Mode;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (kind, mode) = match arguments.as_slice() {
        [kind] => (*kind, Mode::Write),
        [kind, "--check"] => (*kind, Mode::Check),
        _ => bail!("usage: generate schemas|vectors|plugin [--check]"),
    };
    let files = match kind {
        "schemas" => schemas::files()?,
        "vectors" => vectors::files()?,
        "plugin" => plugin::files(),
        _ => bail!("`{kind}` is neither `schemas`, `vectors` nor `plugin`"),
    };
    output::write_or_check(Path::new("."), &files, mode, kind)
}
