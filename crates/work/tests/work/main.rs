//! The trackers with real files, processes and programs.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bd;
mod built_in;
mod hostile;
mod processes;
mod properties;

use std::path::Path;
use std::time::Duration;

use windlass_work::{BuiltIn, Item, Prefix};

/// Long enough for everything that ends.
const PATIENT: Duration = Duration::from_secs(60);

fn tracker(path: &Path) -> BuiltIn {
    BuiltIn::open(path, Prefix::default(), PATIENT).unwrap()
}

fn ids(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.id.as_str()).collect()
}
