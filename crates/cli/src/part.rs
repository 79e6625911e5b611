//! The files of a project's configuration, and the parts of it that something uses.

/// The configuration files in the `.windlass` folder, and the folders with more of them.
pub const CONFIGURATION_FILES: [&str; 2] = ["config.toml", "tools.toml"];
/// See [`CONFIGURATION_FILES`].
pub const CONFIGURATION_FOLDERS: [&str; 6] =
    ["policy", "loops", "agents", "missions", "workflows", "core"];

/// The part of a configuration that something uses. What else there is may change without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Settings, tools and policy: what calls are judged by.
    Policy,
}

impl Part {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Policy => "policy",
        }
    }

    /// The folders of its files.
    pub const fn folders(self) -> &'static [&'static str] {
        match self {
            Self::Whole => &CONFIGURATION_FOLDERS,
            Self::Policy => &["policy"],
        }
    }

    /// Whether a file, by its path in the configuration folder, belongs to it.
    pub fn has(self, path: &str) -> bool {
        match path.split_once('/') {
            Some((folder, _)) => self == Self::Whole || self.folders().contains(&folder),
            None => true,
        }
    }
}
