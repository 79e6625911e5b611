//! A temporary project, and a walk over the files that it really has.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use windlass_workspace::{OnConflict, Snapshots, TreeId, WorkspaceChange};

/// The kind of folder that a workspace is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Repository,
    Sha256,
    Worktree,
    Folder,
    /// A folder inside a repository.
    Inside,
}

pub const KINDS: [Kind; 5] =
    [Kind::Repository, Kind::Sha256, Kind::Worktree, Kind::Folder, Kind::Inside];

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

pub type Things = BTreeMap<PathBuf, Thing>;

pub struct World {
    folder: TempDir,
    pub kind: Kind,
}

impl World {
    pub fn new(kind: Kind) -> Self {
        let world = Self { folder: TempDir::new().unwrap(), kind };
        fs::create_dir(world.project()).unwrap();
        let format = if kind == Kind::Sha256 { "sha256" } else { "sha1" };
        if kind != Kind::Folder {
            world.git(&["init", "-q", "-b", "main", "--object-format", format]);
            world.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        }
        if kind == Kind::Worktree {
            let path = world.path();
            world.git(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
        }
        fs::create_dir_all(world.path()).unwrap();
        fs::create_dir(world.project().join(".windlass")).unwrap();
        fs::write(world.project().join(".windlass/.gitignore"), "*\n").unwrap();
        world
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    /// The workspace.
    pub fn path(&self) -> PathBuf {
        match self.kind {
            Kind::Repository | Kind::Sha256 | Kind::Folder => self.project(),
            Kind::Worktree => self.root().join("beside"),
            Kind::Inside => self.project().join("in ner"),
        }
    }

    pub fn private(&self) -> PathBuf {
        self.project().join(".windlass/snap[shots].git")
    }

    pub fn open(&self) -> Snapshots {
        Snapshots::open(&self.private(), &self.project()).unwrap()
    }

    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.path().join(name)).unwrap();
    }

    pub fn remove(&self, name: impl AsRef<Path>) {
        let path = self.path().join(name);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    pub fn mode(&self, name: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.project(), arguments)
    }

    /// Git in the project, which also sees the objects of the snapshots, as the documents tell people to call it.
    #[track_caller]
    pub fn git_with_snapshots(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.private().join("objects"));
        let output = git.args(arguments).current_dir(self.project()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes the next capture start from the current commit: what is known of the last one is removed.
    pub fn forget_last_capture(&self) {
        for entry in fs::read_dir(self.private()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().as_bytes().starts_with(b"state-") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    /// Runs a script in the workspace.
    #[track_caller]
    pub fn script(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(self.path());
        for role in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{role}_NAME"), "t").env(format!("GIT_{role}_EMAIL"), "t@t");
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// All files and links of the workspace, without repositories and `.windlass`.
    pub fn things(&self) -> Things {
        Self::things_at(&self.path())
    }

    /// All files and links of a folder.
    pub fn things_at(folder: &Path) -> Things {
        let mut things = Things::new();
        walk(folder, Path::new(""), &mut things);
        things
    }

    /// As [`World::things`], without what the tests ignore.
    pub fn captured(&self) -> Things {
        let mut things = self.things();
        things.retain(|path, _| !is_ignored(path));
        things
    }

    /// Captures under a name and checks that the present state is what was captured.
    #[track_caller]
    pub fn capture(&self, name: &str) -> TreeId {
        self.open().capture(&self.path(), name).unwrap().tree
    }

    /// Restores and expects it to work.
    #[track_caller]
    pub fn restore(&self, from: &TreeId, to: &TreeId) {
        let change = changing(from, to);
        self.open().change(&self.path(), &change).unwrap();
        let references = ["before", "after"].map(|side| format!("{}/{side}", change.keep));
        self.open().delete_references(&references).unwrap();
    }
}

/// A change under references of its own.
pub fn changing<'a>(expected: &'a TreeId, wanted: &'a TreeId) -> WorkspaceChange<'a> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let keep = Box::leak(format!("change-{number}").into_boxed_str());
    WorkspaceChange { expected, wanted, keep, on_conflict: OnConflict::Refuse }
}

/// Names that the tests' ignore files cover.
pub fn is_ignored(path: &Path) -> bool {
    path.iter().any(|name| name.as_bytes().starts_with(b"ignored"))
}

fn walk(folder: &Path, name: &Path, things: &mut Things) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let inner = name.join(entry.file_name());
        if name.as_os_str().is_empty() && entry.file_name() == ".windlass"
            || entry.file_name() == ".git"
        {
            continue;
        }
        let found = fs::symlink_metadata(entry.path()).unwrap();
        if found.is_dir() {
            // A nested repository is not part of the workspace.
            if fs::symlink_metadata(entry.path().join(".git")).is_err() {
                walk(&entry.path(), &inner, things);
            }
        } else if found.is_symlink() {
            things.insert(inner, Thing::Link(fs::read_link(entry.path()).unwrap()));
        } else {
            let executable = found.permissions().mode() & 0o100 != 0;
            things
                .insert(inner, Thing::File { bytes: fs::read(entry.path()).unwrap(), executable });
        }
    }
}

/// All empty folders of a workspace.
pub fn empty_folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).peekable();
    if entries.peek().is_none() {
        found.push(folder.to_owned());
    }
    for path in entries {
        let skipped = path.file_name().is_some_and(|name| name == ".git" || name == ".windlass");
        if path.is_dir() && !path.is_symlink() && !skipped {
            found.extend(empty_folders(&path));
        }
    }
    found
}

#[track_caller]
pub fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
