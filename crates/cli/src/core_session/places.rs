//! Where the core loop finds and leaves its files.

use std::path::{Path, PathBuf};

use crate::user_folders;

/// The variable that names the home of the core loop.
pub const HOME_VARIABLE: &str = "AOPS";
/// The variable that names the folder of knowledge and of what lasts.
pub const DATA_VARIABLE: &str = "ACA_DATA";

/// The variable that names the run of a session for its shells.
pub const SESSION_VARIABLE: &str = "WINDLASS_SESSION";

/// The home of the core loop: its axioms and templates.
pub fn home(folder: &Path, setting: Option<&Path>) -> PathBuf {
    setting.map_or_else(|| folder.join("core"), |path| folder.join(path))
}

/// The folder of knowledge and of what lasts beyond a session; `None` without a home folder of the user.
pub fn data() -> Option<PathBuf> {
    let named =
        std::env::var_os(DATA_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(user_folders::data()?.join("windlass")))
}

/// A value of a variable as a shell reads it back.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}
