//! Files of a work tree that commands do not see: untracked secrets, and sockets of programs outside.
//!
//! What commands do not see is no part of the work either: no tree and no snapshot has it, whatever the ignore files say. A command
//! may change these, and could otherwise have git copied what it may not read.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, SECRET_FILE_EXAMPLES, SECRET_FILES};
use windlass_text::{Glob, GlobKind, GlobText};

use crate::walk::{is_private, walk_all};
use crate::{Git, GitCause, GitError};

/// Reads path globs of the kernel's list.
fn globs(patterns: &[&str]) -> Vec<Glob> {
    patterns.iter().filter_map(|pattern| Glob::new(pattern, GlobKind::Path).ok()).collect()
}

static SECRETS: LazyLock<Vec<Glob>> = LazyLock::new(|| globs(&SECRET_FILES));
static EXAMPLES: LazyLock<Vec<Glob>> = LazyLock::new(|| globs(&SECRET_FILE_EXAMPLES));
/// Where this process remembers what is hidden.
static RECORDS: OnceLock<PathBuf> = OnceLock::new();

/// What a file is, wherever it is moved: device, inode and the time of its last change.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Says in which folder it is remembered what is hidden, so that trees and snapshots leave out what commands do not see although
/// git tracks it. The first folder that is named counts.
pub fn remember_hidden_in(folder: &Path) {
    // Another one is as good.
    drop(RECORDS.set(folder.to_owned()));
}

/// The files of a work tree that commands do not see although git may track them, relative to its top.
pub(crate) fn hidden_now(top: &Path) -> Result<BTreeSet<Vec<u8>>, String> {
    let Some(folder) = RECORDS.get() else { return Ok(BTreeSet::new()) };
    let found = find(top, &record_of(folder, top))?;
    let below = |path: PathBuf| Some(path.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec());
    Ok(found.into_iter().filter_map(below).collect())
}

/// The file in which it is remembered what is hidden in a work tree.
fn record_of(folder: &Path, top: &Path) -> PathBuf {
    let top = top.canonicalize().unwrap_or_else(|_| top.to_owned());
    let name = Digest::of(top.as_os_str().as_encoded_bytes()).hex();
    folder.join(format!("{}.json", name.as_str()))
}

/// The hidden files of a work tree.
#[derive(Debug, Default)]
pub struct HiddenFiles(Vec<(PathBuf, Option<Identity>)>);

impl HiddenFiles {
    /// Finds them. Tracked files are not hidden: what may be done with them is policy's to say. What commands
    /// create later is theirs. What is found is remembered in a folder, which no command sees.
    ///
    /// # Errors
    /// A text, if the work tree cannot be searched, or the record not be written.
    pub fn find(top: &Path, records: &Path) -> Result<Self, String> {
        let with_identity = |path: PathBuf| {
            let identity = identity(&path);
            (path, identity)
        };
        Ok(Self(find(top, &record_of(records, top))?.into_iter().map(with_identity).collect()))
    }

    /// Where they are now: a command can move the folder of a file that it does not see.
    ///
    /// # Errors
    /// A text, if the work tree cannot be searched.
    pub fn paths(&mut self, top: &Path) -> Result<Vec<PathBuf>, String> {
        let is_lost = |(path, known): &&(PathBuf, Option<Identity>)| identity(path) != *known;
        let lost: BTreeSet<Identity> =
            self.0.iter().filter(is_lost).filter_map(|(_, known)| *known).collect();
        if !lost.is_empty() {
            // Before anything is forgotten: what cannot be searched now is lost in the next call too.
            let found = search(top, &lost)?;
            self.0.retain_mut(|(path, known)| {
                *known = identity(path);
                known.is_some()
            });
            self.0.extend(found);
        }
        Ok(self.0.iter().map(|(path, _)| path.clone()).collect())
    }
}

/// Finds files by what they are.
fn search(
    top: &Path,
    lost: &BTreeSet<Identity>,
) -> Result<Vec<(PathBuf, Option<Identity>)>, String> {
    let mut found = Vec::new();
    walk_all(top, &mut |path, _, _| {
        // The hidden file itself cannot be renamed, only a folder above it.
        let path = top.join(path);
        if let Some(known) = identity(&path).filter(|known| lost.contains(known)) {
            found.push((path, Some(known)));
        }
    })?;
    Ok(found)
}

/// What is remembered of a work tree from one process to the next: a command could otherwise show itself a
/// hidden file by an entry in git's index, or by a move of its folder.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    /// Tracked files whose names are those of secrets: git had their content when they were first seen.
    shown: BTreeSet<String>,
    /// Device and inode of hidden files.
    hidden: BTreeSet<(u64, u64)>,
    /// The same with the time of their last change, by which they are known under any name.
    identities: BTreeSet<Identity>,
}

impl Record {
    /// Without one, or with one that is not valid, nothing is shown that git does not have.
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let cannot =
            |error: &dyn std::fmt::Display| format!("cannot write `{}`: {error}", path.display());
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder).map_err(|error| cannot(&error))?;
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| cannot(&error))?;
        serde_json::to_writer(&file, self).map_err(|error| cannot(&error))?;
        file.persist(path).map(drop).map_err(|error| cannot(&error))
    }
}

fn find(top: &Path, record: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut sockets, mut secrets) = (Vec::new(), Vec::new());
    let known = Record::read(record);
    let inode = |path: &Path| identity(&top.join(path)).map(|(device, inode, ..)| (device, inode));
    let inodes: BTreeSet<u64> = known.hidden.iter().map(|(_, inode)| *inode).collect();
    walk_all(top, &mut |path, kind, number| {
        if kind.is_socket() {
            sockets.push(path.to_owned());
        } else if kind.is_file() && !is_in_private_folder(path) {
            let is_named = is_secret_file(path.as_os_str().as_bytes());
            // A command can move the folder of a file that was hidden.
            let was_hidden = || {
                let may_be = is_named || inodes.contains(&number);
                let found = may_be.then(|| identity(&top.join(path))).flatten();
                found.is_some_and(|found| {
                    known.identities.contains(&found)
                        || (is_named && known.hidden.contains(&(found.0, found.1)))
                })
            };
            if is_named && !is_of_package(path) || was_hidden() {
                secrets.push(path.to_owned());
            }
        }
    })?;
    // Git is asked about text; what is no text is not shown.
    let texts = secrets.iter().filter_map(|path| Some(path.to_str()?.to_owned()));
    let shown = shown(top, &texts.collect::<Vec<_>>(), &known, &inode)?;
    secrets.retain(|path| path.to_str().is_none_or(|path| !shown.contains(path)));
    let identities = secrets.iter().filter_map(|path| identity(&top.join(path)));
    let identities: BTreeSet<Identity> = identities.collect();
    let hidden = identities.iter().map(|(device, inode, ..)| (*device, *inode)).collect();
    let now = Record { shown, hidden, identities };
    if now != known {
        now.write(record)?;
    }
    Ok(sockets.into_iter().chain(secrets).map(|path| top.join(path)).collect())
}

/// The files with names of secrets that are shown, since git tracks them: those that were shown before, and those
/// whose content git has. An entry of the index alone says nothing: a command can write it.
fn shown(
    top: &Path,
    secrets: &[String],
    known: &Record,
    inode: &dyn Fn(&Path) -> Option<(u64, u64)>,
) -> Result<BTreeSet<String>, String> {
    if secrets.is_empty() {
        return Ok(BTreeSet::new());
    }
    let git = Git::new(top);
    let tracked = match git.tracked(secrets) {
        Ok(tracked) => tracked,
        Err(GitError { cause: GitCause::NotARepository(_), .. }) => Vec::new(),
        Err(error) => return Err(error.to_string()),
    };
    let was_shown = |path: &String| {
        let was_hidden = inode(Path::new(path)).is_none_or(|inode| known.hidden.contains(&inode));
        known.shown.contains(path) && !was_hidden
    };
    let (mut shown, unknown): (BTreeSet<String>, BTreeSet<String>) =
        tracked.into_iter().partition(was_shown);
    let unknown: Vec<String> = unknown.into_iter().collect();
    shown.extend(git.tracked_as_they_are(&unknown).map_err(|error| error.to_string())?);
    Ok(shown)
}

/// Whether a path is below git's own files or the configuration. Of those only sockets are hidden.
fn is_in_private_folder(path: &Path) -> bool {
    path.iter().next().and_then(|name| name.to_str()).is_some_and(is_private)
}

/// Whether a file was brought by a package: certificates of authorities, keys of tests, settings. Programs need these.
fn is_of_package(path: &Path) -> bool {
    path.iter().any(|name| name == "node_modules" || name == "site-packages")
}

/// Whether a file at this path usually holds a secret. Bytes that are no text count as other characters.
#[must_use]
pub fn is_secret_file(path: &[u8]) -> bool {
    let path = GlobText::new(&String::from_utf8_lossy(path).to_ascii_lowercase());
    let is_any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&path));
    is_any(&SECRETS) && !is_any(&EXAMPLES)
}

/// The folder whose name makes a file one that usually holds a secret, such as `.ssh`; `None` if the file's own name does. As long
/// as it keeps its name, so does the file.
#[must_use]
pub fn telling_folder(file: &Path) -> Option<&Path> {
    let tells = |folder: &&Path| {
        let above = folder.parent().unwrap_or(Path::new(""));
        file.strip_prefix(above).is_ok_and(|rest| is_secret_file(rest.as_os_str().as_bytes()))
    };
    if tells(&file) { None } else { file.ancestors().skip(1).find(tells) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_hidden_file_is_followed_when_its_folder_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["sub/server.key", ".env"] {
            std::fs::write(at(name), "s3cret").unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let mut hidden = HiddenFiles::find(folder.path(), &state.path().join("record")).unwrap();
        let mut paths = |folder: &Path| {
            let paths = hidden.paths(folder);
            paths.map(|mut paths| {
                paths.sort();
                paths
            })
        };
        assert_eq!(paths(folder.path()), Ok(vec![at(".env"), at("sub/server.key")]));
        std::fs::rename(at("sub"), at("moved")).unwrap();
        assert_eq!(paths(folder.path()), Ok(vec![at(".env"), at("moved/server.key")]));
        // Another file at the old place is covered too: somebody may have saved it anew.
        std::fs::rename(at("moved"), at("again")).unwrap();
        std::fs::create_dir(at("moved")).unwrap();
        std::fs::write(at("moved/server.key"), "").unwrap();
        let all = vec![at(".env"), at("again/server.key"), at("moved/server.key")];
        assert_eq!(paths(folder.path()), Ok(all));
        std::fs::remove_file(at(".env")).unwrap();
        let both = Ok(vec![at("again/server.key"), at("moved/server.key")]);
        assert_eq!(paths(folder.path()), both);
        // What commands create is theirs.
        std::fs::write(at(".env"), "own").unwrap();
        assert_eq!(paths(folder.path()), both);
        let odd = folder.path().join(OsStr::from_bytes(b"odd\xff"));
        std::fs::rename(at("again"), &odd).unwrap();
        assert_eq!(paths(folder.path()), Ok(vec![at("moved/server.key"), odd.join("server.key")]));
    }

    /// What the next process hides.
    fn hides(folder: &Path, state: &Path) -> Result<Vec<String>, String> {
        let found = find(folder, &state.join("hidden/record"))?;
        let name =
            |path: PathBuf| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = found.into_iter().map(name).collect();
        names.sort();
        Ok(names)
    }

    fn git(folder: &Path, arguments: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b.example"]);
        assert!(git.args(arguments).status().unwrap().success(), "{arguments:?}");
    }

    #[test]
    fn an_entry_in_the_index_shows_no_secret_to_the_next_process() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, state) = (folder.path(), state.path());
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        git(root, &["init", "-q"]);
        write("test.key", "a fixture");
        git(root, &["add", "test.key"]);
        git(root, &["commit", "-qm", "x"]);
        write(".env", "s3cret");
        assert_eq!(hides(root, state).unwrap(), [".env"]);
        // As a command that does not see the content can do, before or after the file is there.
        write("stub", "");
        let blob = "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        git(root, &["hash-object", "-w", "stub"]);
        for name in [".env", ".env.local"] {
            git(root, &["update-index", "--add", "--cacheinfo", &format!("{blob},{name}")]);
            git(root, &["update-index", "--skip-worktree", name]);
        }
        write(".env.local", "s3cret");
        assert_eq!(hides(root, state).unwrap(), [".env", ".env.local"]);
        git(root, &["commit", "-qm", "a command"]);
        assert_eq!(hides(root, state).unwrap(), [".env", ".env.local"]);
        // A tracked file may change, and stays what it was.
        write("test.key", "another fixture");
        assert_eq!(hides(root, state).unwrap(), [".env", ".env.local"]);
        // Who has the content can track it.
        git(root, &["update-index", "--no-skip-worktree", ".env"]);
        git(root, &["add", ".env"]);
        assert_eq!(hides(root, state).unwrap(), [".env.local"]);
    }

    #[test]
    fn a_tracked_file_that_commands_do_not_see_stays_as_it_was_in_trees() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = folder.path().canonicalize().unwrap();
        git(&root, &["init", "-q"]);
        for name in [".env", "test.key"] {
            std::fs::write(root.join(name), "committed").unwrap();
        }
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-qm", "x"]);
        std::fs::write(root.join(".env"), "s3cret").unwrap();
        remember_hidden_in(state.path());
        let known = HiddenFiles::find(&root, state.path()).unwrap().paths(&root).unwrap();
        assert_eq!(known, [root.join(".env")]);
        let ours = Git::new(&root);
        let head = ours.tree_of(&ours.head().unwrap().unwrap()).unwrap();
        assert_eq!(ours.tree_of_worktree().unwrap(), head);
        // A fixture that commands see is work.
        std::fs::write(root.join("test.key"), "changed").unwrap();
        assert_ne!(ours.tree_of_worktree().unwrap(), head);
    }

    #[test]
    fn a_moved_folder_shows_no_secret_to_the_next_process() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, state) = (folder.path(), state.path());
        git(root, &["init", "-q"]);
        for name in ["shown", "secret"] {
            std::fs::create_dir(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("a.key"), name).unwrap();
        }
        git(root, &["add", "shown"]);
        assert_eq!(hides(root, state).unwrap(), ["secret/a.key"]);
        std::fs::rename(root.join("shown"), root.join("away")).unwrap();
        std::fs::rename(root.join("secret"), root.join("shown")).unwrap();
        assert_eq!(hides(root, state).unwrap(), ["away/a.key", "shown/a.key"]);
        std::fs::rename(root.join("shown"), root.join(OsStr::from_bytes(b"odd\xff"))).unwrap();
        assert_eq!(hides(root, state).unwrap(), ["away/a.key", "odd\u{fffd}/a.key"]);
    }

    #[test]
    fn a_secret_that_was_hidden_stays_so_under_any_name() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, state) = (folder.path(), state.path());
        for name in ["conf/.env", "dir/.docker/config.json", "node_modules/own/test.pem"] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), name).unwrap();
        }
        // What packages bring is shown.
        assert_eq!(hides(root, state).unwrap(), ["conf/.env", "dir/.docker/config.json"]);
        std::fs::rename(root.join("conf"), root.join("node_modules/conf")).unwrap();
        std::fs::rename(root.join("dir/.docker"), root.join("dir/docker")).unwrap();
        let hidden = ["dir/docker/config.json", "node_modules/conf/.env"];
        assert_eq!(hides(root, state).unwrap(), hidden);
        // In each process.
        assert_eq!(hides(root, state).unwrap(), hidden);
        std::fs::write(root.join("node_modules/conf/.env"), "saved anew").unwrap();
        assert_eq!(hides(root, state).unwrap(), hidden);
    }

    #[test]
    fn any_number_of_secrets_is_hidden() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, state) = (folder.path(), state.path());
        git(root, &["init", "-q"]);
        let name = "x".repeat(200);
        for number in 0..12_000 {
            std::fs::write(root.join(format!("{name}{number}.pem")), "").unwrap();
        }
        git(root, &["add", &format!("{name}7.pem"), &format!("{name}11999.pem")]);
        assert_eq!(hides(root, state).unwrap().len(), 11_998);
    }

    #[test]
    fn the_folder_that_makes_a_file_a_secret_is_found() {
        for (file, folder) in [
            ("a/.docker/config.json", Some("a/.docker")),
            (".ssh/keys/work", Some(".ssh")),
            (".ssh/id_rsa", None),
            ("a/.env", None),
        ] {
            assert_eq!(telling_folder(Path::new(file)), folder.map(Path::new), "{file}");
        }
    }

    #[test]
    fn secrets_are_known_by_name() {
        assert_eq!(
            (SECRETS.len(), EXAMPLES.len()),
            (SECRET_FILES.len(), SECRET_FILE_EXAMPLES.len())
        );
        for name in [
            ".env",
            "a/.env.local",
            ".ENV",
            "deploy/id_rsa",
            "tls/server.key",
            ".npmrc",
            ".aws/credentials",
            "x/.kube/config",
            "credentials.toml",
            ".docker/config.json",
            "conf/secrets.json",
            "infra/main.tfstate",
            "terraform.tfstate.backup",
            ".envrc",
            "id_rsa.pub",
        ] {
            assert!(is_secret_file(name.as_bytes()), "{name}");
        }
        for name in [
            ".env.example",
            "env",
            "src/key.rs",
            "keyboard.txt",
            "a.pem.md",
            "config.json",
            "docker/config.json",
            "src/credentials/mod.rs",
            "secrets.rs",
            "main.tf",
        ] {
            assert!(!is_secret_file(name.as_bytes()), "{name}");
        }
    }
}
