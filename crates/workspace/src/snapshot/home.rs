//! Where snapshots live: the private git directory, and the user's repository where there is one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SnapshotError;
use super::capture::records;
use super::objects::Format;
use super::workspace::{self, Workspace};
use crate::git::{GitCause, Invocation, Kind, path_of, split_once};

/// Nothing is converted, and no driver of the repository is used for diffs and merges. What git has
/// no "off" for is made unspecified.
const ATTRIBUTES: &str = "* -text !eol -crlf -filter -ident !working-tree-encoding !diff !merge \
                          !conflict-marker-size !delta\n";

/// No branch: nothing is ever committed here.
const HEAD: &str = "ref: refs/heads/none\n";

/// Every setting that could change a byte or a mode, or make capturing slow. Objects are only written
/// out; the sync of the ref that keeps them makes them durable, once for all of them.
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
    fs::create_dir_all(private).map_err(fail)?;
    for (name, text) in [("config", home.settings().as_str()), ("info/attributes", ATTRIBUTES)] {
        let path = private.join(name);
        if fs::read(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        // What was captured under other settings may be something else.
        forget_indexes(private).map_err(fail)?;
        write_new(&path, text.as_bytes()).map_err(fail)?;
    }
    fill(private, home).map_err(fail)?;
    private.canonicalize().map_err(fail)
}

/// Fills a folder with what makes it a git directory, as far as it is missing.
pub(super) fn fill(folder: &Path, home: &Home) -> io::Result<()> {
    for name in ["objects/info", "objects/pack", "refs/heads"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let settings = home.settings();
    for (name, text) in
        [("config", settings.as_str()), ("info/attributes", ATTRIBUTES), ("HEAD", HEAD)]
    {
        if !folder.join(name).is_file() {
            write_new(&folder.join(name), text.as_bytes())?;
        }
    }
    Ok(())
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

/// What of the user's settings counts for snapshots too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// The list of what is ignored everywhere.
    pub ignored_everywhere: Option<PathBuf>,
    /// With whom objects are shared.
    pub shared: Option<String>,
}

/// Reads the user's settings, as git would.
pub(super) fn wishes(project: &Path) -> Result<Wishes, SnapshotError> {
    let operation = "read the settings";
    let said = Invocation::new(operation, project, Kind::Read)
        .args(["config", "-z", "--type=path", "--get-regexp"])
        .arg("^core\\.(excludesfile|sharedrepository)$")
        .run()?;
    if !matches!(said.code, Some(0 | 1)) {
        return Err(said.failure(operation, project).into());
    }
    let (mut listed, mut shared) = (None, None);
    for record in records(&said.stdout) {
        let (name, value) = split_once(record, b'\n').unwrap_or((record, b"true"));
        // The last one counts.
        if name == b"core.excludesfile" {
            listed = Some(value.to_vec());
        } else {
            shared = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    let ignored_everywhere = match listed {
        Some(path) => (!path.is_empty()).then(|| project.join(path_of(&path))),
        None => {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let folder = set("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")));
            folder.map(|folder| folder.join("git/ignore"))
        }
    };
    Ok(Wishes { ignored_everywhere, shared })
}
