//! Files and folders as a commit has them, for programs that must not get what has been made of them since.
//!
//! Contents are read as objects, without the repository's settings and attributes: no filter runs, and line
//! endings are those of the commit.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;

use super::error::GitCause;
use super::private::PrivateDir;
use super::{Access, CommitId, Git, GitError, os, path_of, split_once};

/// How many symbolic links are followed, as the kernel does.
const LINKS_MAX: usize = 40;
/// The longest target of a symbolic link.
const TARGET_BYTES_MAX: u64 = 4096;
/// How many files a pinned folder may hold, and how many bytes.
const FILES_MAX: usize = 100_000;
const BYTES_MAX: u64 = 1 << 30;
/// How much one process reads, so that its output stays below the limit.
const BATCH_BYTES_MAX: u64 = 32 << 20;
const OPERATION: &str = "read the pinned files";

/// What a commit has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPath {
    /// The path, relative to the workspace; it leads through folders only.
    pub path: PathBuf,
    /// What it is.
    pub kind: PinnedKind,
    /// The id of its object.
    object: String,
}

/// The kind of a pinned path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinnedKind {
    /// A file.
    File {
        /// Whether it is executable.
        executable: bool,
    },
    /// A folder.
    Folder,
    /// A symbolic link, which cannot be replaced by a mount: it must be as it was.
    Link,
}

impl PinnedKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::File { .. } => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
        }
    }
}

/// An entry of a tree.
struct TreeEntry {
    mode: Vec<u8>,
    object: String,
    bytes: u64,
    path: Vec<u8>,
}

impl Git {
    /// Returns the paths that exist in a commit, also behind symbolic links in it. Paths are relative to this
    /// folder.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn paths_in(&self, commit: &CommitId, paths: &[String]) -> Result<Vec<String>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = self.prefix()?;
        let question = |path: &String| {
            let tree = format!("{}:", commit.as_str());
            [tree.as_bytes(), &prefix, path.as_bytes(), b"\n"].concat()
        };
        let objects = self.objects_of(commit)?;
        let bytes = objects
            .git(OPERATION, Access::Read)
            .args(["cat-file", "--batch-check=%(objecttype)", "--follow-symlinks"])
            .stdin(paths.iter().flat_map(question).collect::<Vec<u8>>())
            .output()?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let mut found = Vec::new();
        for path in paths {
            let line = lines.next().ok_or_else(|| GitError::unexpected(OPERATION, &bytes))?;
            if line == b"blob" || line == b"tree" {
                found.push(path.clone());
            } else if [&b"symlink "[..], b"dangling ", b"loop ", b"notdir "]
                .iter()
                .any(|start| line.starts_with(start))
            {
                // The path follows in a line of its own; it is a link that leads nowhere or outside.
                lines.next();
            }
        }
        Ok(found)
    }

    /// Looks up a path, relative to this folder, in a commit. A path that leads through symbolic links gives
    /// these links as well as what they lead to, unless that is not in this folder.
    ///
    /// # Errors
    /// [`GitError`]; with [`GitCause::Refused`] if there is no such file or folder, or it is a submodule.
    pub fn pinned(&self, commit: &CommitId, path: &str) -> Result<Vec<PinnedPath>, GitError> {
        let refused = |why: &str| GitError::refused(OPERATION, format!("`{path}` {why}"));
        let missing = "is not in the commit from which the run started";
        let objects = self.objects_of(commit)?;
        let prefix = path_of(&self.prefix()?);
        let mut left: Vec<PathBuf> = parts_of(Path::new(path));
        let (mut at, mut links, mut found) = (prefix.clone(), 0_usize, Vec::new());
        while let Some(part) = left.pop() {
            if part == Path::new("..") {
                if !at.pop() {
                    return Ok(found);
                }
                continue;
            }
            let here = at.join(&part);
            // Outside of this folder nothing is pinned: commands cannot change it.
            let Ok(inside) = here.strip_prefix(&prefix) else { return Ok(found) };
            let Some(entry) = entry_at(&objects, commit, &here)? else {
                return Err(refused(missing));
            };
            let mut add = |kind| {
                let object = entry.object.clone();
                found.push(PinnedPath { path: inside.to_owned(), kind, object });
            };
            match entry.mode.as_slice() {
                b"120000" => {
                    add(PinnedKind::Link);
                    links += 1;
                    if links > LINKS_MAX || entry.bytes > TARGET_BYTES_MAX {
                        return Err(refused("leads through too many symbolic links"));
                    }
                    let target = path_of(&blob(&objects, &entry.object)?);
                    if target.is_absolute() {
                        return Ok(found);
                    }
                    left.extend(parts_of(&target));
                }
                b"040000" if left.is_empty() => add(PinnedKind::Folder),
                b"040000" => at = here,
                b"100644" | b"100755" | b"100664" if left.is_empty() => {
                    add(PinnedKind::File { executable: entry.mode == b"100755" });
                }
                b"160000" => return Err(refused("is a submodule, which cannot be pinned")),
                _ => return Err(refused(missing)),
            }
        }
        Ok(found)
    }

    /// Writes what a commit has to a new path, outside of the repository.
    ///
    /// # Errors
    /// [`GitError`], also when it is too large or holds a submodule.
    pub fn write_pinned(&self, pinned: &PinnedPath, to: &Path) -> Result<(), GitError> {
        let objects = self.common_dir()?.join("objects");
        let objects = PrivateDir::new(OPERATION, objects, pinned.object.len())?;
        match pinned.kind {
            PinnedKind::File { executable } => {
                write_file(to, &blob(&objects, &pinned.object)?, executable).map_err(file_error)
            }
            PinnedKind::Link => {
                symlink(path_of(&blob(&objects, &pinned.object)?), to).map_err(file_error)
            }
            PinnedKind::Folder => write_folder(&objects, &pinned.object, to),
        }
    }

    /// The path of this folder in the work tree; empty at the top, else with a slash at its end.
    fn prefix(&self) -> Result<Vec<u8>, GitError> {
        let bytes = self.read(OPERATION).args(["rev-parse", "--show-prefix"]).output()?;
        match bytes.strip_suffix(b"\n") {
            Some(prefix) => Ok(prefix.to_vec()),
            None => Err(GitError::unexpected(OPERATION, &bytes)),
        }
    }

    fn objects_of(&self, commit: &CommitId) -> Result<PrivateDir, GitError> {
        PrivateDir::new(OPERATION, self.common_dir()?.join("objects"), commit.as_str().len())
    }
}

/// The parts of a path that lead further, last first.
fn parts_of(path: &Path) -> Vec<PathBuf> {
    let further =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(further).map(|part| PathBuf::from(part.as_os_str())).rev().collect()
}

fn file_error(error: io::Error) -> GitError {
    GitError::new(OPERATION, GitCause::File(error.to_string()))
}

fn blob(objects: &PrivateDir, id: &str) -> Result<Vec<u8>, GitError> {
    objects.git(OPERATION, Access::Read).args(["cat-file", "blob", id]).output()
}

fn entry_at(
    objects: &PrivateDir,
    commit: &CommitId,
    path: &Path,
) -> Result<Option<TreeEntry>, GitError> {
    let listed = objects
        .git(OPERATION, Access::Read)
        .args(["ls-tree", "-l", "-z", "--full-tree", commit.as_str(), "--"])
        .arg(path)
        .output()?;
    let mut entries = read_entries(&listed)?;
    entries.retain(|entry| Path::new(os(&entry.path)) == path);
    Ok(entries.pop())
}

/// Reads `mode SP type SP id SP size TAB path NUL` records; the size is padded, and `-` for a tree.
fn read_entries(bytes: &[u8]) -> Result<Vec<TreeEntry>, GitError> {
    let read = |record: &[u8]| {
        let (facts, path) = split_once(record, b'\t')?;
        let mut facts = facts.split(|byte| *byte == b' ').filter(|fact| !fact.is_empty());
        let (mode, _, object, size) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let bytes = if size == b"-" { 0 } else { text(size)?.parse().ok()? };
        Some(TreeEntry { mode: mode.to_vec(), object: text(object)?, bytes, path: path.to_vec() })
    };
    let records = bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    let entries: Option<Vec<TreeEntry>> = records.map(read).collect();
    entries.ok_or_else(|| GitError::unexpected(OPERATION, bytes))
}

fn write_file(path: &Path, bytes: &[u8], executable: bool) -> io::Result<()> {
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    // Whatever the mask of this process is.
    file.set_permissions(Permissions::from_mode(mode))
}

/// Writes a tree: folders and files first, symbolic links last, so that nothing is written through one.
fn write_folder(objects: &PrivateDir, tree: &str, to: &Path) -> Result<(), GitError> {
    let refused = |why: &str| GitError::refused(OPERATION, format!("a pinned folder {why}"));
    let listed = objects
        .git(OPERATION, Access::Read)
        .args(["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", tree])
        .output()?;
    let entries = read_entries(&listed)?;
    if entries.len() > FILES_MAX {
        return Err(refused("holds too many files"));
    }
    if entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes)) > BYTES_MAX {
        return Err(refused("is too large"));
    }
    fs::create_dir(to).map_err(file_error)?;
    let (mut files, mut links) = (Vec::new(), Vec::new());
    for entry in &entries {
        let path = Path::new(os(&entry.path));
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(refused("has a name that leads out of it"));
        }
        match entry.mode.as_slice() {
            b"040000" => fs::create_dir(to.join(path)).map_err(file_error)?,
            b"100644" | b"100755" | b"100664" => files.push(entry),
            b"120000" => links.push(entry),
            _ => return Err(refused("holds a submodule")),
        }
    }
    let mut rest = files.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0_u64;
        let fits = |entry: &&&TreeEntry| {
            bytes = bytes.saturating_add(entry.bytes);
            bytes <= BATCH_BYTES_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (some, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        write_files(objects, some, to)?;
        rest = others;
    }
    for entry in links {
        let target = path_of(&blob(objects, &entry.object)?);
        symlink(target, to.join(os(&entry.path))).map_err(file_error)?;
    }
    Ok(())
}

fn write_files(objects: &PrivateDir, files: &[&TreeEntry], to: &Path) -> Result<(), GitError> {
    let ids: String = files.iter().map(|entry| format!("{}\n", entry.object)).collect();
    let git = objects.git(OPERATION, Access::Read).args(["cat-file", "--batch=%(objectsize)"]);
    let bytes = git.stdin(ids).output()?;
    let unexpected = || GitError::unexpected(OPERATION, b"an object of another size");
    let mut rest = bytes.as_slice();
    for entry in files {
        let (size, after) = split_once(rest, b'\n').ok_or_else(unexpected)?;
        if size != entry.bytes.to_string().as_bytes() {
            return Err(unexpected());
        }
        let length = usize::try_from(entry.bytes).map_err(|_| unexpected())?;
        let content = after.get(..length).ok_or_else(unexpected)?;
        rest = after.get(length + 1..).ok_or_else(unexpected)?;
        let path = to.join(os(&entry.path));
        write_file(&path, content, entry.mode == b"100755").map_err(file_error)?;
    }
    Ok(())
}

/// Checks that a workspace still has a place for a pinned path: something of the same kind, reached through
/// folders only; a symbolic link must be what it was (`copy` has it).
///
/// # Errors
/// A sentence that names the path.
pub fn check_pinned_place(
    workspace: &Path,
    pinned: &PinnedPath,
    copy: &Path,
) -> Result<(), String> {
    let shown = pinned.path.display();
    let kind = pinned.kind.as_str();
    let root = openat2(
        CWD,
        workspace,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::empty(),
    )
    .map_err(|error| format!("the workspace cannot be opened: {error}"))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The last part may be a symbolic link itself, which these flags open.
    let (parent, name) = match (pinned.path.parent(), pinned.path.file_name()) {
        (Some(parent), Some(name)) => (parent, name),
        (_, _) => return Err(format!("`{shown}` cannot be pinned")),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let folder = openat2(&root, parent, flags | OFlags::DIRECTORY, Mode::empty(), resolve);
    let found = folder.and_then(|folder| {
        let place = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        let found = FileType::from_raw_mode(fstat(&place)?.st_mode);
        let target = match found {
            FileType::Symlink => Some(readlinkat(&folder, name, Vec::new())?),
            FileType::RegularFile
            | FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => None,
        };
        Ok((found, target))
    });
    let (found, target) = match found {
        Ok(found) => found,
        Err(Errno::NOENT) => return Err(format!("`{shown}` was {kind} and was removed")),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let why = "is no longer a plain folder";
            return Err(format!("`{shown}` was {kind}, and a folder on the way to it {why}"));
        }
        Err(error) => return Err(format!("`{shown}` cannot be opened: {error}")),
    };
    let same = match pinned.kind {
        PinnedKind::File { .. } => found == FileType::RegularFile,
        PinnedKind::Folder => found == FileType::Directory,
        PinnedKind::Link => {
            let was = fs::read_link(copy).map_err(|error| format!("`{shown}`: {error}"))?;
            target.is_some_and(|target| os(target.as_bytes()) == was.as_os_str())
        }
    };
    if same { Ok(()) } else { Err(format!("`{shown}` was {kind} and was replaced")) }
}

/// Checks that pinned paths are what they were, for programs to which nothing else can be shown in their
/// place. `parent` is a folder for temporary copies.
///
/// # Errors
/// A sentence that names the first path that is not.
pub fn require_pinned_unchanged(
    workspace: &Path,
    pinned: &[PinnedPath],
    parent: &Path,
) -> Result<(), String> {
    let git = Git::new(workspace);
    for pinned in pinned {
        let folder = tempfile::TempDir::with_prefix_in("pinned-", parent).map_err(|error| {
            format!("cannot create a folder in `{}`: {error}", parent.display())
        })?;
        let copy = folder.path().join("copy");
        git.write_pinned(pinned, &copy).map_err(|error| error.to_string())?;
        if let Some(path) = pinned_difference(workspace, pinned, &copy)? {
            return Err(format!("`{}` is not what it was when the run started", path.display()));
        }
    }
    Ok(())
}

/// Finds a file that differs between a workspace and the copy of a pinned path; ignored files count.
fn pinned_difference(
    workspace: &Path,
    pinned: &PinnedPath,
    copy: &Path,
) -> Result<Option<PathBuf>, String> {
    check_pinned_place(workspace, pinned, copy)?;
    let differing = difference(&workspace.join(&pinned.path), copy)
        .map_err(|error| format!("`{}` cannot be compared: {error}", pinned.path.display()))?;
    Ok(differing.map(|below| {
        if below.as_os_str().is_empty() { pinned.path.clone() } else { pinned.path.join(below) }
    }))
}

fn difference(one: &Path, other: &Path) -> io::Result<Option<PathBuf>> {
    let here = || Ok(Some(PathBuf::new()));
    let (Ok(left), Ok(right)) = (one.symlink_metadata(), other.symlink_metadata()) else {
        return here();
    };
    if left.file_type() != right.file_type() {
        return here();
    }
    if left.is_symlink() {
        return if fs::read_link(one)? == fs::read_link(other)? { Ok(None) } else { here() };
    }
    if left.is_file() {
        let executable = |found: &fs::Metadata| found.permissions().mode() & 0o100 != 0;
        let same = left.len() == right.len()
            && executable(&left) == executable(&right)
            && same_content(one, other)?;
        return if same { Ok(None) } else { here() };
    }
    if !left.is_dir() {
        return here();
    }
    let mut names = std::collections::BTreeSet::new();
    for folder in [one, other] {
        for entry in fs::read_dir(folder)? {
            names.insert(entry?.file_name());
        }
    }
    for name in names {
        if let Some(below) = difference(&one.join(&name), &other.join(&name))? {
            let name = PathBuf::from(name);
            let differs = if below.as_os_str().is_empty() { name } else { name.join(below) };
            return Ok(Some(differs));
        }
    }
    Ok(None)
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let count = one.read(&mut left)?;
        let Some(expected) = right.get_mut(..count) else { return Ok(false) };
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(expected).is_err() || left.get(..count) != right.get(..count) {
            return Ok(false);
        }
    }
}
