//! The settings of coding agents in a workspace.

use std::path::Path;

use windlass_cell::{Access, Mount};

/// The files in which coding agents have their hooks: whoever changes them switches the guard of sessions off.
pub(crate) const CLIENT_FILES: [&str; 8] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".mcp.json",
    ".opencode/plugin/windlass.js",
    "opencode.json",
];

/// Mounts that keep those that are there as they are.
pub(crate) fn client_files(workspace: &Path) -> impl Iterator<Item = Mount> {
    let paths = CLIENT_FILES.map(|name| workspace.join(name)).into_iter();
    let files = paths.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()));
    // The agents of a client are what judges others.
    let agents = workspace.join(".claude/agents");
    let agents =
        Some(agents).filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir()));
    files.chain(agents).map(|path| Mount::Bind { path, access: Access::Read })
}
