//! The memories with real files, processes and servers.
#![expect(clippy::unwrap_used, reason = "tests")]

mod built_in;
mod hostile;
mod knowledge;
mod mcp;

use std::path::Path;
use std::time::Duration;

use windlass_memory::{BuiltIn, Hit, Settings};

/// Long enough for everything that ends.
const PATIENT: Duration = Duration::from_secs(60);

fn memory(path: &Path, knowledge: Option<&Path>) -> BuiltIn {
    let settings = Settings { knowledge: knowledge.map(Path::to_owned), deadline: PATIENT };
    BuiltIn::open(path, settings).unwrap()
}

fn texts(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.text.as_str()).collect()
}
