//! State folders of projects, copied and trusted without a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).expect("a copy");
        }
    }
}

/// Closes a folder to everybody else.
pub fn private(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(folder, mode).expect("a mode");
}

/// The state folder of a project, by its id.
pub fn state_of(root: &Path, states: &Path) -> Option<PathBuf> {
    let id = std::fs::read_to_string(root.join(".windlass/id")).ok()?;
    let folders = std::fs::read_dir(states).ok()?.flatten().map(|entry| entry.path());
    folders.into_iter().find(|folder| {
        let record = std::fs::read_to_string(folder.join("project.json")).unwrap_or_default();
        record.contains(id.trim())
    })
}

/// Binds a state folder to a project that was copied together with it.
pub fn bind(root: &Path, state: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let path = state.join("project.json");
    let root = root.canonicalize().expect("a folder");
    let found = root.metadata().expect("a folder");
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a record")).expect("JSON");
    record["path"] = root.to_str().expect("text").into();
    record["device"] = found.dev().into();
    record["inode"] = found.ino().into();
    std::fs::write(path, record.to_string()).expect("a record");
}

/// The configuration of a project.
pub fn configuration(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let folder = root.join(".windlass");
    let mut files = BTreeMap::new();
    let files_and_folders =
        ["config.toml", "tools.toml", "policy", "loops", "agents", "missions", "workflows", "core"];
    let mut paths: Vec<PathBuf> = files_and_folders.map(|name| folder.join(name)).into();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths
                .extend(std::fs::read_dir(path).expect("a folder").flatten().map(|one| one.path()));
        } else if let (Ok(bytes), Ok(name)) = (std::fs::read(&path), path.strip_prefix(&folder)) {
            files.insert(name.to_string_lossy().into_owned(), bytes);
        }
    }
    files
}

/// Records trust in the configuration of a project, without a process.
pub fn trust(root: &Path, state: &Path) {
    let files = configuration(root);
    let Ok(digest) = windlass_policy::policy_hash(&files) else { return };
    let digests: BTreeMap<&String, windlass_kernel::Digest> =
        files.iter().map(|(path, bytes)| (path, windlass_kernel::Digest::of(bytes))).collect();
    let when = "2026-01-01T00:00:00.000Z";
    let record = serde_json::json!({ "digest": digest, "when": when, "files": digests });
    std::fs::write(state.join("trust.json"), record.to_string()).expect("a record");
}
