//! Hooks in the files of clients: which files, how ours are added and taken out, and whether they are still there.
//!
//! Files are edited as text. Whatever is not ours stays byte for byte.

mod binary;
mod diff;
mod edit;
mod entries;
mod error;
mod folder_trust;
mod json;
mod opencode;
mod plan;
mod plugin;
mod render;
mod settings;
mod trust;

pub use binary::Binary;
pub use diff::diff;
pub use entries::SettingsClient;
pub use error::{FILE_BYTES_MAX, InstallError, Position};
pub use plan::{Content, HookFile, Root, Scope, folder_trust_file, plan, trust_file};
pub use plugin::{INSIGHTS_COMMAND, PluginFile, claude_plugin};
pub use trust::{HookTrust, Trust};

/// What becomes of a file when hooks are taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It has nothing of ours.
    Unchanged,
    /// It gets these bytes.
    Write(Vec<u8>),
    /// It is deleted: it had nothing else.
    Delete,
}

/// Whether hooks are in a file as they were installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallState {
    /// They are.
    Installed,
    /// Some are not there.
    Missing {
        /// The events without a hook; of trust, the hooks' keys.
        events: Vec<String>,
    },
    /// They are there, but not as they should be.
    Changed {
        /// In what way.
        reason: String,
    },
    /// They are switched off.
    Disabled {
        /// By what.
        reason: String,
    },
}

/// The bytes of a file with our hooks in it; of a file that does not exist, if there is none `before`.
///
/// Installing again changes nothing. Hooks of ours that run another path are replaced.
///
/// # Errors
/// The file cannot be read, is not of the form that its client expects, or switches hooks off.
pub fn install(content: &Content, before: Option<&[u8]>) -> Result<Vec<u8>, InstallError> {
    match content {
        Content::Settings { client, binary } => settings::installed(*client, binary, before),
        Content::Plugin { binary } => opencode::installed(binary, before),
        Content::Trust(trust) => trust::installed(trust, before),
        Content::FolderTrust(folder) => folder_trust::installed(folder, before),
        Content::Whole(text) => match before {
            Some(before) if before != text.as_bytes() => Err(InstallError::Foreign),
            Some(_) | None => Ok(text.clone().into_bytes()),
        },
    }
}

/// What becomes of a file without our hooks.
///
/// `before` is the file as it was when hooks were first installed, none if it did not exist, and `installed` is what
/// was written then. A file that is still as it was written gets back `before`. Of any other file only our entries
/// are taken out, and containers that they leave empty, unless these were in `before`. A `before` that has entries of
/// ours is not given back as it is.
///
/// # Errors
/// The file was changed and cannot be read.
pub fn uninstall(
    content: &Content,
    now: &[u8],
    before: Option<&[u8]>,
    installed: &[u8],
) -> Result<Removal, InstallError> {
    let had_ours = before.is_some_and(|before| match content {
        Content::Settings { client, .. } => {
            text_of(before).is_ok_and(|text| settings::has_ours(*client, text))
        }
        Content::Plugin { .. } => opencode::is_ours(before),
        Content::Trust(_) | Content::FolderTrust(_) | Content::Whole(_) => false,
    });
    if now == installed && !had_ours {
        return Ok(as_removal(now, before.map(<[u8]>::to_vec)));
    }
    let before_text = before.and_then(|before| text_of(before).ok());
    let left = match content {
        Content::Settings { client, .. } => settings::removed(*client, text_of(now)?, before_text)?,
        Content::Plugin { .. } if opencode::is_ours(now) => None,
        Content::Plugin { .. } => return Ok(Removal::Unchanged),
        Content::Trust(trust) => trust::removed(trust, text_of(now)?, before_text)?,
        Content::FolderTrust(folder) => folder_trust::removed(folder, text_of(now)?, before_text)?,
        // Somebody changed it, so it is theirs.
        Content::Whole(_) => return Ok(Removal::Unchanged),
    };
    let empty_before = before.filter(|before| before.trim_ascii().is_empty());
    let left = left.map(String::into_bytes).or(empty_before.map(<[u8]>::to_vec));
    Ok(as_removal(now, left))
}

fn as_removal(now: &[u8], left: Option<Vec<u8>>) -> Removal {
    match left {
        Some(left) if left == now => Removal::Unchanged,
        Some(left) => Removal::Write(left),
        None => Removal::Delete,
    }
}

/// Whether our hooks are in a file as they were installed. `now` is none if there is no such file.
#[must_use]
pub fn state(content: &Content, now: Option<&[u8]>) -> InstallState {
    match content {
        Content::Settings { client, binary } => settings::state(*client, binary, now),
        Content::Plugin { binary } => opencode::state(binary, now),
        Content::Trust(trust) => trust::state(trust, now),
        Content::FolderTrust(folder) => folder_trust::state(folder, now),
        Content::Whole(text) => match now {
            Some(now) if now == text.as_bytes() => InstallState::Installed,
            Some(_) => InstallState::Changed { reason: "it is not what was installed".to_owned() },
            None => InstallState::Missing { events: vec!["the file".to_owned()] },
        },
    }
}

/// The text of a file that may be edited.
fn text_of(file: &[u8]) -> Result<&str, InstallError> {
    if file.len() > FILE_BYTES_MAX {
        return Err(InstallError::TooLarge { bytes: file.len() });
    }
    if file.starts_with(b"\xef\xbb\xbf") {
        return Err(InstallError::ByteOrderMark);
    }
    str::from_utf8(file).map_err(|error| InstallError::NotUtf8 { offset: error.valid_up_to() })
}
