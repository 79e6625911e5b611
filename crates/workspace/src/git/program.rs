//! Finds the `git` program, and holds the user's settings for it.
//!
//! The search path is never used: an agent, or a repository with an `.envrc`, may have put a folder of
//! its own there. Only folders of the system are searched, and neither the program nor a folder above
//! it may be writable by others.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, PoisonError, RwLock};

/// The folders of the system in which helper programs are searched, in this order.
pub const SYSTEM_FOLDERS: [&str; 6] =
    ["/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The bits that let the group or others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The owner of files whose owner does not exist in this user namespace.
const OVERFLOW_UID: &str = "/proc/sys/kernel/overflowuid";

/// The user's settings for git. A repository has no influence on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitSettings {
    /// The absolute path of the program (`helpers.git`); searched in [`SYSTEM_FOLDERS`] when `None`.
    pub program: Option<PathBuf>,
    /// The filter drivers that may run (`git.filters`), as the user's own settings define them.
    /// `working-tree-encoding` stands for conversions of encodings.
    pub filters: BTreeSet<String>,
}

/// The program and settings of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Helper {
    pub program: PathBuf,
    pub version: (u32, u32),
    pub filters: BTreeSet<String>,
}

static HELPER: RwLock<Option<Arc<Helper>>> = RwLock::new(None);

/// Sets the settings of git for this process; without it, the defaults apply.
///
/// # Errors
/// A sentence that says why the program cannot be used.
pub fn configure_git(settings: GitSettings) -> Result<(), String> {
    let helper = Helper::find(settings)?;
    *HELPER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(helper));
    Ok(())
}

impl Helper {
    /// The helper of this process.
    pub fn current() -> Result<Arc<Self>, String> {
        if let Some(helper) = &*HELPER.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(helper));
        }
        let helper = Arc::new(Self::find(GitSettings::default())?);
        let mut held = HELPER.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(held.get_or_insert(helper)))
    }

    fn find(settings: GitSettings) -> Result<Self, String> {
        let program = find_helper("git", settings.program.as_deref())?;
        let version = version_of(&program)?;
        Ok(Self { program, version, filters: settings.filters })
    }
}

/// Finds a helper program: the one that the user's settings name, else the first one in
/// [`SYSTEM_FOLDERS`] that others cannot write.
///
/// # Errors
/// A sentence that says why no program can be used.
pub fn find_helper(name: &str, setting: Option<&Path>) -> Result<PathBuf, String> {
    match setting {
        Some(path) if !path.is_absolute() => {
            Err(format!("`helpers.{name}` is `{}`, which is no absolute path", path.display()))
        }
        Some(path) => trusted(path),
        None => find_in(name, &SYSTEM_FOLDERS.map(Path::new)),
    }
}

fn find_in(name: &str, folders: &[&Path]) -> Result<PathBuf, String> {
    let mut refused = None;
    for folder in folders {
        let path = folder.join(name);
        if fs::metadata(&path).is_err() {
            continue;
        }
        match trusted(&path) {
            Ok(path) => return Ok(path),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let folders: Vec<String> = folders.iter().map(|path| path.display().to_string()).collect();
        format!("there is no `{name}` in {}", folders.join(", "))
    }))
}

/// The path without symbolic links, if it is a program that only its owner can replace. The links
/// themselves lie in folders that are checked as well.
fn trusted(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let real = path.canonicalize().map_err(|error| format!("`{shown}` cannot be used: {error}"))?;
    let found = fs::metadata(&real).map_err(|error| format!("`{shown}`: {error}"))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(format!("`{shown}` is no program"));
    }
    for start in [path, &real] {
        for part in start.ancestors().filter(|part| !part.as_os_str().is_empty()) {
            let found = fs::metadata(part).map_err(|error| format!("`{shown}`: {error}"))?;
            if is_open(&found) {
                let part = part.display();
                return Err(format!("`{shown}` is not used: others can write `{part}`"));
            }
        }
    }
    Ok(real)
}

/// Whether somebody other than the user and the administrator can write this.
fn is_open(found: &Metadata) -> bool {
    let owner = found.uid();
    let known = owner == 0
        || owner == rustix::process::geteuid().as_raw()
        || fs::read_to_string(OVERFLOW_UID).is_ok_and(|uid| uid.trim() == owner.to_string());
    // Entries of a folder with the sticky bit can be replaced by their owners only.
    let sticky = found.is_dir() && found.mode() & STICKY != 0;
    !known || (found.mode() & WRITABLE_BY_OTHERS != 0 && !(sticky && owner == 0))
}

/// The major and minor version of git.
fn version_of(program: &Path) -> Result<(u32, u32), String> {
    let output = Command::new(program)
        .arg("version")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text).ok_or_else(|| format!("`{}` does not tell its version", program.display()))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_programs_that_others_cannot_write_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let bins: Vec<PathBuf> =
            ["none", "open", "file", "plain", "good"].map(|name| root.join(name)).to_vec();
        program(&bins[1].join("git"), 0o755);
        fs::set_permissions(&bins[1], fs::Permissions::from_mode(0o775)).unwrap();
        program(&bins[2].join("git"), 0o757);
        program(&bins[3].join("git"), 0o644);
        program(&bins[4].join("git"), 0o755);
        let find = |bins: &[PathBuf]| {
            find_in("git", &bins.iter().map(PathBuf::as_path).collect::<Vec<_>>())
        };
        assert_eq!(find(&bins), Ok(bins[4].join("git")));
        let missing = find(&bins[..1]).unwrap_err();
        assert!(missing.starts_with("there is no `git` in "), "{missing}");
        for (bad, why) in [(1, "others can write"), (2, "others can write"), (3, "no program")] {
            let error = find(&bins[..=bad]).unwrap_err();
            assert!(bad == 3 || error.contains(why), "{error}");
            let error = find_helper("git", Some(&bins[bad].join("git"))).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        // A link in a folder that others can write is as bad.
        std::os::unix::fs::symlink(bins[4].join("git"), bins[1].join("link")).unwrap();
        assert!(find_helper("git", Some(&bins[1].join("link"))).is_err());
        assert!(find_helper("git", Some(Path::new("git"))).is_err());
        assert_eq!(find_helper("git", Some(&bins[4].join("git"))), Ok(bins[4].join("git")));
    }

    #[test]
    fn versions_are_parsed() {
        assert_eq!(parse_version("git version 2.39.5\n"), Some((2, 39)));
        assert_eq!(parse_version("git version 2.50.1 (vendor-155)\n"), Some((2, 50)));
        assert_eq!(parse_version("hello"), None);
    }
}
