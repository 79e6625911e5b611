//! The user's folders, by the XDG base directory specification.

use std::path::PathBuf;

/// The user's home folder, if `HOME` names one.
pub fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// The user's folder for data: `$XDG_DATA_HOME`, or `~/.local/share`.
pub fn data() -> Option<PathBuf> {
    absolute("XDG_DATA_HOME").or_else(|| Some(home()?.join(".local/share")))
}

/// The user's folder for state: `$XDG_STATE_HOME`, or `~/.local/state`.
pub fn state() -> Option<PathBuf> {
    absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")))
}

/// The user's folder for settings: `$XDG_CONFIG_HOME`, or `~/.config`.
pub fn config() -> Option<PathBuf> {
    absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
}

/// The folder of the user's own project.
pub fn project() -> Option<PathBuf> {
    Some(data()?.join("windlass"))
}

/// A folder that an environment variable names. The specification says to ignore an empty or relative one.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
