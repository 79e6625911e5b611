//! The repository of the snapshots: the private git directory, and the user's repository that it borrows objects from,
//! if there is one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SnapshotError;
use super::capture::records;
use super::earlier;
use super::object_reader::ObjectFormat;
use super::workspace::{self, Workspace};
use crate::git::{Access, GitCause, Invocation, path_of};

/// Attributes that disable every conversion and every driver for diffs and merges. An attribute that
/// cannot be unset is made unspecified.
const ATTRIBUTES: &str = "* -text !eol -crlf -filter -ident !working-tree-encoding !diff !merge \
                          !conflict-marker-size !delta\n";

/// A branch that does not exist: nothing is ever committed to it.
const HEAD: &str = "ref: refs/heads/none\n";

/// Every setting that could change a byte or a mode, or make a capture slow. Objects are written out
/// without a sync each; the sync of the ref makes all of them durable at once.
const SETTINGS: &str = "\
[core]
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotectHFS = false
\tprotectNTFS = false
\tautocrlf = false
\teol = lf
\tsafecrlf = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tlogAllRefUpdates = false
\tfsync = objects,reference
\tfsyncMethod = writeout-only
[index]
\tversion = 4
\tskipHash = true
[gc]
\tauto = 0
[merge]
\trenormalize = false
\tconflictStyle = merge
[rerere]
\tenabled = false
\tautoUpdate = false
[advice]
\taddEmbeddedRepo = false
[windlass]
";

/// The lines that say where the objects are: in the private git directory alone; or there and in the user's repository;
/// or, by an earlier version, all in the user's repository.
const OWN: &str = "\tobjects = own";
const BORROWED: &str = "\tobjects = borrowed";
const EARLIER: &str = "\tobjects = repository";
/// The settings of object ids by SHA-256.
const SHA256_EXTENSION: &str = "[extensions]\n\tobjectFormat = sha256\n";

/// Where the snapshots get objects from that they do not store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The hash function of object ids.
    pub format: ObjectFormat,
    /// The common directory of the user's repository; `None` outside of one, and when it is gone.
    pub common_dir: Option<PathBuf>,
    /// Whether all objects are in the private git directory.
    pub is_own: bool,
}

impl Repository {
    /// The directory of the objects that are borrowed.
    pub fn borrowed(&self) -> Option<PathBuf> {
        self.common_dir.as_ref().map(|common| common.join("objects"))
    }

    /// The private git directory's settings.
    fn settings(&self) -> String {
        let (version, extensions) = match self.format {
            ObjectFormat::Sha1 => ("0", ""),
            ObjectFormat::Sha256 => ("1", SHA256_EXTENSION),
        };
        let objects = if self.is_own { OWN } else { BORROWED };
        format!("[core]\n\trepositoryformatversion = {version}\n{extensions}{SETTINGS}{objects}\n")
    }
}

/// Finds the repository of a project's snapshots, and describes the project as a workspace.
pub(super) fn locate(
    private: &Path,
    project: &Path,
) -> Result<(Repository, Workspace), SnapshotError> {
    let config = fs::read_to_string(private.join("config")).unwrap_or_default();
    let has = |line: &str| config.lines().any(|one| one == line);
    let own = Repository { format: ObjectFormat::Sha1, common_dir: None, is_own: true };
    if has(OWN) {
        return Ok((own, Workspace::outside_repository(project)?));
    }
    let is_used = has(BORROWED) || has(EARLIER);
    let is_sha256 = config.contains(SHA256_EXTENSION);
    let known = if is_sha256 { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 };
    match workspace::in_repository(project) {
        Ok((_, _, format)) if is_used && format != known => {
            let cause = "the snapshots are of a repository with object ids of another kind, in whose place is a new one";
            Err(SnapshotError::file("use", private, &io::Error::other(cause)))
        }
        Ok((workspace, common, format)) => {
            Ok((Repository { format, common_dir: Some(common), is_own: false }, workspace))
        }
        Err(SnapshotError::Git(error)) if matches!(error.cause, GitCause::NotARepository(_)) => {
            let gone = Repository { format: known, common_dir: None, is_own: false };
            let repository = if is_used { gone } else { own };
            Ok((repository, Workspace::outside_repository(project)?))
        }
        Err(error) => Err(error),
    }
}

/// Creates the private git directory, or resets its settings if they were changed; returns its path
/// without symbolic links.
pub(super) fn prepare(private: &Path, repository: &Repository) -> Result<PathBuf, SnapshotError> {
    let fail =
        |error: io::Error| SnapshotError::file("create the private git directory", private, &error);
    fs::create_dir_all(private).map_err(fail)?;
    let config = fs::read_to_string(private.join("config")).unwrap_or_default();
    if config.lines().any(|line| line == EARLIER) {
        earlier::note(private).map_err(fail)?;
    }
    for (name, text) in
        [("config", repository.settings().as_str()), ("info/attributes", ATTRIBUTES)]
    {
        let path = private.join(name);
        if fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        // An index that was written under other settings may be wrong.
        remove_indexes(private).map_err(fail)?;
        write_atomically(&path, text.as_bytes()).map_err(fail)?;
    }
    init_git_dir(private, repository).map_err(fail)?;
    private.canonicalize().map_err(fail)
}

/// Creates the files of a git directory that are missing.
pub(super) fn init_git_dir(folder: &Path, repository: &Repository) -> io::Result<()> {
    for name in ["objects/info", "objects/pack", "refs/heads"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let settings = repository.settings();
    for (name, text) in
        [("config", settings.as_str()), ("info/attributes", ATTRIBUTES), ("HEAD", HEAD)]
    {
        if !folder.join(name).is_file() {
            write_atomically(&folder.join(name), text.as_bytes())?;
        }
    }
    Ok(())
}

fn remove_indexes(private: &Path) -> io::Result<()> {
    for entry in fs::read_dir(private)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"index-") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Replaces a file atomically.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut temporary, bytes)?;
    temporary.persist(path)?;
    Ok(())
}

/// Reads the path of the user's global list of ignored files, as git would.
pub(super) fn global_excludes(project: &Path) -> Result<Option<PathBuf>, SnapshotError> {
    let operation = "read the settings";
    let output = Invocation::new(operation, project, Access::Read)
        .args(["config", "-z", "--type=path", "--get", "core.excludesFile"])
        .run()?;
    if !matches!(output.code, Some(0 | 1)) {
        return Err(output.failure(operation, project).into());
    }
    Ok(match records(&output.stdout).next() {
        Some(path) => Some(project.join(path_of(path))),
        // It is set to nothing.
        None if output.code == Some(0) => None,
        None => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let folder = set("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")));
            folder.map(|folder| folder.join("git/ignore"))
        }
    })
}
