//! Lists the pages of the error codes, so that they are part of the program: `windlass explain` prints them.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The folder of the pages.
const FOLDER: &str = "../../docs/errors";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("there is no folder of the package")?;
    let out = std::env::var_os("OUT_DIR").ok_or("there is no folder to write to")?;
    let mut pages: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(Path::new(&here).join(FOLDER))? {
        pages.push(entry?.path());
    }
    pages.sort();
    let mut table = String::from("[\n");
    for page in &pages {
        let name = page.file_stem().and_then(|name| name.to_str()).ok_or("a page has no name")?;
        writeln!(table, "    ({name:?}, include_str!({page:?})),")?;
    }
    table.push_str("]\n");
    std::fs::write(Path::new(&out).join("error_pages.rs"), table)?;
    Ok(())
}
