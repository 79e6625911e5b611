//! The Claude Code plugin that the repository's root is.

use std::path::PathBuf;

use windlass_hooks::claude_plugin;

use crate::output::File;

/// The files of the plugin, with the version of the workspace.
pub fn files() -> Vec<File> {
    let files = claude_plugin(env!("CARGO_PKG_VERSION")).into_iter();
    files.map(|file| File { path: PathBuf::from(file.path), text: file.text }).collect()
}
