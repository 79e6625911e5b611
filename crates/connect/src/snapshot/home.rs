//! Where snapshots live: the private git directory, and the user's repository where there is one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::SnapshotError;
use super::objects::Format;
use super::workspace::{self, Workspace};
use crate::git::{GitCause, Invocation, Kind, path_of};

/// Nothing is converted, and no driver of the repository is used for diffs and merges. What git has
/// no "off" for is made unspecified.
const ATTRIBUTES: &str = "* -text !eol -crlf -filter -ident !working-tree-encoding !diff !merge \
                          !conflict-marker-size !delta\n";

/// Every setting that could change a byte or a mode, or make capturing slow.
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
\tfsyncMethod = batch
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

/// Where the objects and refs of the snapshots are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// How objects are named.
    pub format: Format,
    /// The common directory of the user's repository; nothing when snapshots live by themselves.
    pub repository: Option<PathBuf>,
}

impl Home {
    /// The folder of the objects.
    pub fn objects(&self, private: &Path) -> PathBuf {
        self.refs(private).join("objects")
    }

    /// The git directory whose refs keep the snapshots.
    pub fn refs<'a>(&'a self, private: &'a Path) -> &'a Path {
        self.repository.as_deref().unwrap_or(private)
    }

    /// The private git directory's settings.
    fn settings(&self) -> String {
        let (version, extensions) = match self.format {
            Format::Sha1 => ("0", ""),
            Format::Sha256 => ("1", "[extensions]\n\tobjectFormat = sha256\n"),
        };
        let own = self.repository.is_none();
        format!(
            "[core]\n\trepositoryformatversion = {version}\n{extensions}{SETTINGS}\tobjects = {}\n",
            if own { "own" } else { "repository" }
        )
    }
}

/// Finds out where the snapshots of a project are, and what there is to know about it as a workspace.
pub(super) fn find(private: &Path, project: &Path) -> Result<(Home, Workspace), SnapshotError> {
    let alone = Home { format: Format::Sha1, repository: None };
    let kept = fs::read_to_string(private.join("config"));
    if kept.is_ok_and(|kept| kept == alone.settings()) {
        return Ok((alone, Workspace::alone(project)?));
    }
    match workspace::in_repository(project) {
        Ok((workspace, common, format)) => {
            Ok((Home { format, repository: Some(common) }, workspace))
        }
        Err(SnapshotError::Git(error)) if matches!(error.cause, GitCause::NotARepository(_)) => {
            Ok((alone, Workspace::alone(project)?))
        }
        Err(error) => Err(error),
    }
}

/// Makes the private git directory, or brings its settings back to what they must be; tells its path
/// without symbolic links.
pub(super) fn prepare(private: &Path, home: &Home) -> Result<PathBuf, SnapshotError> {
    let fail =
        |error: io::Error| SnapshotError::file("make the private git directory", private, &error);
    if !private.join("HEAD").is_file() {
        let parent = private.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(parent).map_err(fail)?;
        let fresh = TempDir::with_prefix_in(".snapshots-", parent).map_err(fail)?;
        fill(fresh.path(), home).map_err(fail)?;
        // Where another process was quicker, its directory is as good.
        if fs::rename(fresh.path(), private).is_ok() {
            let _ = fresh.keep();
        }
    }
    for (name, text) in [("config", home.settings().as_str()), ("info/attributes", ATTRIBUTES)] {
        let path = private.join(name);
        if fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        // What was captured under other settings may be something else.
        forget_indexes(private).map_err(fail)?;
        write_new(&path, text.as_bytes()).map_err(fail)?;
    }
    private.canonicalize().map_err(fail)
}

/// Fills a folder with what makes it a git directory.
pub(super) fn fill(folder: &Path, home: &Home) -> io::Result<()> {
    for name in ["objects/info", "objects/pack", "refs/heads", "info"] {
        fs::create_dir_all(folder.join(name))?;
    }
    fs::write(folder.join("config"), home.settings())?;
    fs::write(folder.join("info/attributes"), ATTRIBUTES)?;
    fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")
}

fn forget_indexes(private: &Path) -> io::Result<()> {
    for entry in fs::read_dir(private)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"index-") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file so that it is either as it was or complete.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut fresh, bytes)?;
    fresh.persist(path)?;
    Ok(())
}

/// Finds the user's list of what is ignored everywhere, as git would.
pub(super) fn ignored_everywhere(project: &Path) -> Result<Option<PathBuf>, SnapshotError> {
    let operation = "find the list of ignored files";
    let said = Invocation::new(operation, project, Kind::Read)
        .args(["config", "-z", "--type=path", "--get", "core.excludesFile"])
        .run()?;
    match said.code {
        Some(0) => {
            let path = said.stdout.strip_suffix(b"\0").unwrap_or(&said.stdout);
            Ok((!path.is_empty()).then(|| project.join(path_of(path))))
        }
        Some(1) => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let folder = set("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")));
            Ok(folder.map(|folder| folder.join("git/ignore")))
        }
        Some(_) | None => Err(said.failure(operation, project).into()),
    }
}
