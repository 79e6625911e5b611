//! The plugin through which OpenCode starts us. The file is ours as a whole.

use super::binary::Binary;
use super::error::InstallError;
use super::render::quoted;
use super::{InstallState, text_of};

/// The plugin, with a mark where the program's path goes.
const TEMPLATE: &str = include_str!("opencode.js");

/// Stands for the program's path, as a JSON string.
const BINARY_MARK: &str = "\"@BINARY@\"";

/// How a file of ours begins, in every version.
const FIRST_LINE: &str = "// Windlass bridge plugin for OpenCode.";

/// The plugin that starts this program.
pub(crate) fn plugin(binary: &Binary) -> String {
    TEMPLATE.replacen(BINARY_MARK, &quoted(binary.as_str()), 1)
}

/// Whether a file is one of ours, of whatever version.
pub(crate) fn is_ours(file: &[u8]) -> bool {
    file.starts_with(FIRST_LINE.as_bytes())
}

/// The plugin, unless a file of others has its name.
pub(crate) fn installed(binary: &Binary, before: Option<&[u8]>) -> Result<Vec<u8>, InstallError> {
    let before = before.unwrap_or_default();
    text_of(before)?;
    if !is_ours(before) && !before.trim_ascii().is_empty() {
        return Err(InstallError::Foreign);
    }
    Ok(plugin(binary).into_bytes())
}

/// Whether the plugin is there as we wrote it.
pub(crate) fn state(binary: &Binary, now: Option<&[u8]>) -> InstallState {
    let expected = plugin(binary);
    match now {
        Some(now) if now == expected.as_bytes() => InstallState::Installed,
        Some(now) if is_ours(now) => {
            let line = format!("const BINARY = {}\n", quoted(binary.as_str()));
            let same = String::from_utf8_lossy(now).contains(&line);
            let what = if same { "its code is not ours" } else { "it starts another program" };
            InstallState::Changed { reason: format!("the plugin was changed: {what}") }
        }
        Some(now) if !now.trim_ascii().is_empty() => {
            InstallState::Changed { reason: "the plugin is not ours".to_owned() }
        }
        Some(_) | None => InstallState::Missing { events: EVENTS.map(str::to_owned).to_vec() },
    }
}

/// The events that the plugin passes on.
const EVENTS: [&str; 5] = [
    "tool.execute.before",
    "tool.execute.after",
    "session.created",
    "session.deleted",
    "chat.message",
];
