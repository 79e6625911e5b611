//! Files of a workspace that commands do not see: untracked secrets, and sockets of programs outside.

use std::path::{Path, PathBuf};

use std::os::unix::fs::FileTypeExt as _;
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

/// Finds the hidden files of a workspace. Tracked files are not hidden: what may be done with them is
/// policy's to say.
pub(crate) fn find(workspace: &Path) -> Result<Vec<PathBuf>, String> {
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
