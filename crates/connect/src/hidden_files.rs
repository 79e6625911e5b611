//! Files of a workspace that commands do not see: untracked secrets, and sockets of programs outside.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use windlass_workspace::{Git, GitCause, GitError, WalkError, walk_files};

/// Endings of files that hold keys.
const KEY_ENDINGS: [&str; 9] =
    [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc"];
/// Names of files that hold keys or passwords.
const SECRET_NAMES: [&str; 12] = [
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "credentials.json",
    "terraform.tfvars",
];
/// Endings of `.env` files that are examples.
const EXAMPLES: [&str; 6] = [".example", ".sample", ".template", ".dist", ".defaults", ".schema"];

/// What a file is, wherever it is moved: device, inode and the time of its last change.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// The hidden files of a workspace.
#[derive(Debug, Default)]
pub(crate) struct HiddenFiles(Vec<(PathBuf, Option<Identity>)>);

impl HiddenFiles {
    /// Finds them. Tracked files are not hidden: what may be done with them is policy's to say. What commands
    /// create later is theirs.
    pub fn find(workspace: &Path) -> Result<Self, String> {
        let with_identity = |path: PathBuf| {
            let identity = identity(&path);
            (path, identity)
        };
        Ok(Self(find(workspace)?.into_iter().map(with_identity).collect()))
    }

    /// Where they are now: a command can move the folder of a file that it does not see.
    pub fn paths(&mut self, workspace: &Path) -> Result<Vec<PathBuf>, String> {
        let is_lost = |(path, known): &&(PathBuf, Option<Identity>)| identity(path) != *known;
        let lost: BTreeSet<Identity> =
            self.0.iter().filter(is_lost).filter_map(|(_, known)| *known).collect();
        if !lost.is_empty() {
            // Before anything is forgotten: what cannot be searched now is lost in the next call too.
            let found = search(workspace, &lost)?;
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
    workspace: &Path,
    lost: &BTreeSet<Identity>,
) -> Result<Vec<(PathBuf, Option<Identity>)>, String> {
    let (mut found, mut unseen) = (Vec::new(), false);
    let walked: Result<(), WalkError> = walk_files(workspace, &mut |file| {
        let path = workspace.join(file.path);
        // The hidden file itself cannot be renamed, only a folder above it.
        unseen |= !file.is_utf8 && file.kind.is_dir();
        if let Some(known) = identity(&path).filter(|known| file.is_utf8 && lost.contains(known)) {
            found.push((path, Some(known)));
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    if found.len() < lost.len() && unseen {
        let why =
            "a hidden file was moved or removed, and names that are not UTF-8 cannot be searched";
        return Err(why.to_owned());
    }
    Ok(found)
}

fn find(workspace: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut sockets, mut secrets) = (Vec::new(), Vec::new());
    let walked: Result<(), WalkError> = walk_files(workspace, &mut |file| {
        if file.is_utf8 && file.kind.is_socket() {
            sockets.push(file.path.to_owned());
        } else if file.is_utf8 && file.kind.is_file() && is_secret(file.path) {
            secrets.push(file.path.to_owned());
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    if !secrets.is_empty() {
        let tracked = match Git::new(workspace).tracked(&secrets) {
            Ok(tracked) => tracked,
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        secrets.retain(|path| !tracked.contains(path));
    }
    Ok(sockets.into_iter().chain(secrets).map(|path| workspace.join(path)).collect())
}

/// Whether a file of this name usually holds a secret.
fn is_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if name == ".env" || name == ".envrc" || name.starts_with(".env.") {
        return !EXAMPLES.iter().any(|ending| name.ends_with(ending));
    }
    SECRET_NAMES.contains(&name.as_str()) || KEY_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_file_is_followed_when_its_folder_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["sub/server.key", ".env"] {
            std::fs::write(at(name), "s3cret").unwrap();
        }
        let mut hidden = HiddenFiles::find(folder.path()).unwrap();
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
        let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff");
        std::fs::rename(at("again"), folder.path().join(odd)).unwrap();
        for _ in 0..2 {
            assert!(paths(folder.path()).is_err(), "as long as it may be there");
        }
        std::fs::rename(folder.path().join(odd), at("even")).unwrap();
        assert_eq!(paths(folder.path()), Ok(vec![at("even/server.key"), at("moved/server.key")]));
    }

    #[test]
    fn secrets_are_known_by_name() {
        for name in [".env", "a/.env.local", ".ENV", "deploy/id_rsa", "tls/server.key", ".npmrc"] {
            assert!(is_secret(name), "{name}");
        }
        for name in [".env.example", "env", "src/key.rs", "keyboard.txt", "a.pem.md", "id_rsa.pub"]
        {
            assert!(!is_secret(name), "{name}");
        }
    }
}
