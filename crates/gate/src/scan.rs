//! Looks at a workspace.
//!
//! A folder whose time of change is the one that was seen before has the same names in it, so only its files that are
//! remembered are looked at again: a workspace in which nothing happened costs one look at each folder.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_beneath::{Entry, Folder, Kind};
use windlass_kernel::Digest;

use crate::git_folder::{is_git_folder, is_plain_config, matters};
use crate::mark::{Mark, SpecialKind, Stamp};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::seen::{FolderSeen, Seen};
use crate::targets::Targets;

/// The most files and folders that are looked at.
const ENTRIES_MAX: usize = 2_000_000;
/// The longest file whose contents are kept, to be put back.
pub const KEPT_BYTES_MAX: u64 = 16 << 20;
/// What `..` and links may lead to besides: it is no file.
const NOTHING: &str = "/dev/null";
/// How often it is looked at once since links lead to more of which rules are about.
const PASSES_MAX: usize = 8;
/// The permissions without which nobody but the administrator looks into a folder.
const ENTERED: u32 = 0o500;

/// What of a workspace is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Folders at the top of the workspace that commands cannot change: of them only whether they are there counts.
    pub closed: Vec<&'static str>,
    /// Paths that Windlass itself writes, of which nothing counts.
    pub passed: Vec<&'static str>,
    /// Places outside to which links may lead: every cell has them.
    pub shown: Vec<PathBuf>,
}

/// Looks at a workspace.
pub struct Scan<'a> {
    pub root: &'a Folder,
    /// Its path, for links with absolute targets.
    pub workspace: &'a Path,
    pub rules: &'a Rules,
    pub scope: &'a Scope,
    /// What was seen before.
    pub before: Option<&'a Seen>,
    /// Whether remembered files are read although nothing shows a change: what is written through memory may change no time.
    pub reads_all: bool,
    /// Takes the contents of files that are remembered and were not read before.
    pub keep: &'a mut dyn FnMut(Digest, &[u8]) -> io::Result<()>,
}

/// A folder to look at.
struct Place {
    path: RelPath,
    /// Whether a name on the way may be one that a rule is about.
    may_match: bool,
    /// The git directory that it lies in.
    git: Option<RelPath>,
}

impl Scan<'_> {
    /// Looks at all of it.
    ///
    /// # Errors
    /// Those of the operating system, and [`io::ErrorKind::QuotaExceeded`] if there is too much.
    pub fn run(mut self) -> io::Result<Seen> {
        let before = self.before.filter(|before| before.rules == self.rules.digest());
        let mut targets = before.map_or_else(Targets::default, |before| Targets::of(&before.marks));
        let mut pass = 0;
        loop {
            pass += 1;
            // Under other targets other files are remembered.
            let known = before.filter(|before| before.targets == targets);
            let seen = self.once(known, &targets)?;
            match targets.and(Targets::of(&seen.marks)).filter(|_| pass < PASSES_MAX) {
                Some(more) => targets = more,
                None => return Ok(seen),
            }
        }
    }

    fn once(&mut self, before: Option<&Seen>, targets: &Targets) -> io::Result<Seen> {
        let mut seen = Seen { targets: targets.clone(), ..Seen::nothing(self.rules) };
        let now = now();
        let mut places = vec![Place { path: RelPath::default(), may_match: false, git: None }];
        while let Some(place) = places.pop() {
            if seen.folders.len() + seen.marks.len() > ENTRIES_MAX {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            let known = before.and_then(|before| before.folders.get(&place.path));
            let Some(folder) = self.folder(&place, known, now, &mut seen)? else { continue };
            let git = match folder.is_git {
                true => Some(place.path.clone()),
                false => place.git.clone(),
            };
            for name in &folder.marked {
                let path = place.path.join(name.as_path().as_os_str());
                let known = before.and_then(|before| before.marks.get(&path));
                if let Some(mark) = self.mark(&path, known, targets, now)? {
                    seen.marks.insert(path, mark);
                }
            }
            for name in &folder.folders {
                let path = place.path.join(name.as_path().as_os_str());
                let may_match = place.may_match || self.rules.may_match(&name.text());
                places.push(Place { path, may_match, git: git.clone() });
            }
            seen.folders.insert(place.path, folder);
        }
        Ok(seen)
    }

    /// What is remembered of one file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn one(&mut self, path: &RelPath) -> io::Result<Option<Mark>> {
        self.mark(path, None, &Targets::default(), now())
    }

    /// Gives a folder that could be entered before the permissions that it had.
    fn let_in(&self, path: &RelPath, found: &Entry) -> io::Result<()> {
        let known =
            self.before.and_then(|before| before.folders.get(path)).map(|known| known.stamp);
        match known.filter(|known| known.inode() == found.inode && found.kind == Kind::Folder) {
            Some(known) if found.mode & ENTERED != ENTERED && known.mode() & ENTERED == ENTERED => {
                self.root.set_mode(path.as_path(), known.mode())
            }
            _ => Ok(()),
        }
    }

    /// What stands for something that cannot be read.
    fn shut(&self, path: &RelPath) -> Mark {
        let found = self.root.glance(path.as_path()).ok().flatten();
        match found.is_some_and(|found| found.owner != rustix::process::geteuid().as_raw()) {
            true => Mark::Foreign,
            false => Mark::Unreadable,
        }
    }

    /// The folder as it was seen, or as it is. `None` if it is gone.
    fn folder(
        &self,
        place: &Place,
        known: Option<&FolderSeen>,
        now: i128,
        seen: &mut Seen,
    ) -> io::Result<Option<FolderSeen>> {
        let found = match place.path.as_path().as_os_str().is_empty() {
            true => Some(self.root.itself()?),
            // What cannot be looked at cannot be opened either.
            false => self.root.glance(place.path.as_path()).ok().flatten(),
        };
        if let Some(known) = known
            && known.within == place.git
            && let Some(entry) = found.filter(|found| found.kind == Kind::Folder)
        {
            let stamp = Stamp::of(&entry, now);
            if known.stamp.proves_unchanged(&stamp) {
                return Ok(Some(FolderSeen { stamp, ..known.clone() }));
            }
        }
        if let Some(found) = found {
            self.let_in(&place.path, &found)?;
        }
        let unreadable = |seen: &mut Seen| {
            seen.marks.insert(place.path.clone(), self.shut(&place.path));
            Ok(None)
        };
        let opened = self.root.folder(place.path.as_path());
        let folder = match opened {
            Ok(folder) => folder,
            Err(error) if is_gone(&error) && place.path != RelPath::default() => return Ok(None),
            Err(error) if is_shut(&error) => return unreadable(seen),
            Err(error) => return Err(error),
        };
        // Before the names are read: a change meanwhile gives a later time.
        let stamp = Stamp::of(&folder.itself()?, now);
        let entries = match folder.entries() {
            Ok(entries) => entries,
            Err(error) if is_shut(&error) => return unreadable(seen),
            Err(error) => return Err(error),
        };
        Ok(Some(self.listed(place, &seen.targets, stamp, entries)))
    }

    fn listed(
        &self,
        place: &Place,
        targets: &Targets,
        stamp: Stamp,
        entries: Vec<(OsString, Kind)>,
    ) -> FolderSeen {
        let is_top = place.path == RelPath::default();
        let has = |wanted: &str| entries.iter().any(|(name, _)| name == wanted);
        // At the top, git takes a `.git` first.
        let is_git = !(is_top && has(".git")) && is_git_folder(place.path.name(), &has);
        let git = match is_git {
            true => Some(&place.path),
            false => place.git.as_ref(),
        };
        let within = place.git.clone();
        let (folders, marked) = (Vec::new(), Vec::new());
        let mut folder = FolderSeen { stamp, folders, marked, is_git, within };
        for (name, kind) in entries {
            let text = name.to_string_lossy().into_owned();
            let own = RelPath::default().join(&name);
            if !self.scope.passed.is_empty()
                && self.scope.passed.contains(&place.path.join(&name).text().as_str())
            {
                continue;
            }
            if is_top && self.scope.closed.contains(&text.as_str()) {
                folder.marked.push(own);
                continue;
            }
            match kind {
                Kind::Folder => folder.folders.push(own),
                Kind::Link | Kind::Pipe | Kind::Socket | Kind::Device => folder.marked.push(own),
                Kind::File => {
                    let path = place.path.join(&name);
                    let matters = name == ".git"
                        || match git {
                            Some(git) => {
                                let inside = path.as_path().strip_prefix(git.as_path());
                                inside.is_ok_and(|inside| matters(git.as_path(), inside))
                            }
                            None => {
                                let may_match = place.may_match
                                    || !targets.is_empty()
                                    || self.rules.may_match(&text);
                                may_match && targets.rule(self.rules, &path).is_some()
                            }
                        };
                    if matters {
                        folder.marked.push(own);
                    }
                }
            }
        }
        folder
    }

    /// What is remembered of an entry; `None` if it is gone.
    fn mark(
        &mut self,
        path: &RelPath,
        known: Option<&Mark>,
        targets: &Targets,
        now: i128,
    ) -> io::Result<Option<Mark>> {
        let entry = match self.root.look(path.as_path()) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(None),
            Err(error) if is_shut(&error) => return Ok(Some(self.shut(path))),
            Err(error) => return Err(error),
        };
        let stamp = Stamp::of(&entry, now);
        Ok(Some(match entry.kind {
            Kind::Folder => Mark::Folder { stamp },
            Kind::Link => {
                let target = self.root.link_target(path.as_path())?;
                let stays = self.stays(path, &target);
                let leads = if stays { self.leads(path, &target, targets) } else { Vec::new() };
                Mark::Link { target: target.to_string_lossy().into_owned(), stays, leads }
            }
            Kind::File => match known {
                Some(Mark::File { digest, mode, plain, stamp: earlier, .. })
                    if earlier.proves_unchanged(&stamp)
                        && !(self.reads_all && entry.size <= KEPT_BYTES_MAX) =>
                {
                    let links = entry.links;
                    Mark::File { digest: *digest, mode: *mode, links, plain: *plain, stamp }
                }
                _ => match self.read(path, entry.size) {
                    Ok((digest, plain)) => {
                        let (mode, links) = (entry.mode, entry.links);
                        Mark::File { digest, mode, links, plain, stamp }
                    }
                    Err(error) if is_gone(&error) => return Ok(None),
                    Err(error) if is_shut(&error) => self.shut(path),
                    Err(error) => return Err(error),
                },
            },
            Kind::Pipe | Kind::Socket | Kind::Device => {
                SpecialKind::of(entry.kind).map_or(Mark::Unreadable, Mark::Special)
            }
        }))
    }

    /// The digest of a file, and whether it is a plain configuration. Its contents are kept unless it is very long.
    fn read(&mut self, path: &RelPath, size: u64) -> io::Result<(Digest, bool)> {
        if size <= KEPT_BYTES_MAX {
            let bytes = self.root.read(path.as_path(), KEPT_BYTES_MAX)?;
            let digest = Digest::of(&bytes);
            (self.keep)(digest, &bytes)?;
            return Ok((digest, self.is_plain(path, &bytes)));
        }
        // A chain of digests is one as good as another for what is only compared with itself.
        let (mut file, mut digest) = (self.root.file(path.as_path())?, Digest::of(b""));
        let mut chunk = vec![0; 1 << 20];
        loop {
            let count = match file.read(&mut chunk) {
                Ok(0) => return Ok((digest, false)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let part = Digest::of(chunk.get(..count).unwrap_or_default());
            digest = Digest::of(&[digest.as_bytes().as_slice(), part.as_bytes()].concat());
        }
    }

    /// Whether a file of a git directory, or one that names a git directory, leads git to nothing but what is looked at here.
    fn is_plain(&self, path: &RelPath, bytes: &[u8]) -> bool {
        match path.name().to_str() {
            Some("config") => is_plain_config(bytes),
            // That of a linked work tree, whose repository is called `.git` and so is looked at.
            Some("commondir") => {
                let mut above = path.as_path().ancestors().skip(2);
                let named = |path: Option<&Path>, name: &str| {
                    path.and_then(Path::file_name).is_some_and(|found| found == name)
                };
                bytes.trim_ascii_end() == b"../.."
                    && named(above.next(), "worktrees")
                    && named(above.next(), ".git")
            }
            Some(".git") => self.names_git_folder(path, bytes).unwrap_or(false),
            _ => false,
        }
    }

    /// Whether a `.git` file names a git directory in the workspace, which is looked at itself.
    fn names_git_folder(&self, path: &RelPath, bytes: &[u8]) -> Option<bool> {
        let named = std::str::from_utf8(bytes).ok()?.trim_end().strip_prefix("gitdir: ")?;
        let folder = path.as_path().parent()?;
        let full = plain(&self.workspace.join(folder).join(named));
        let inside = full.strip_prefix(self.workspace).ok()?;
        let opened = self.root.folder(inside).ok()?;
        let has = |name: &str| opened.look(Path::new(name)).is_ok_and(|found| found.is_some());
        Some(has("HEAD") && is_git_folder(OsStr::new(""), &has))
    }

    /// What of the workspace a link leads to that rules are about.
    fn leads(&self, path: &RelPath, target: &Path, targets: &Targets) -> Vec<RelPath> {
        let may_match = !targets.is_empty() || self.rules.may_match_by(path);
        if !may_match || targets.rule_of_link(self.rules, path).is_none() {
            return Vec::new();
        }
        let folder = path.as_path().parent().unwrap_or_else(|| Path::new(""));
        // What is not there may be made, and what is on the way may be a link.
        let named = plain(&self.workspace.join(folder).join(target));
        let named = named.strip_prefix(self.workspace).ok().map(Path::to_owned);
        let found =
            self.root.resolved(&folder.join(target)).filter(|found| Some(found) != named.as_ref());
        let leads = named.into_iter().chain(found);
        leads.filter(|to| !to.as_os_str().is_empty()).map(|to| RelPath::from(&*to)).collect()
    }

    /// Whether a link stays in the workspace, or leads to what every cell has.
    fn stays(&self, path: &RelPath, target: &Path) -> bool {
        let folder = path.as_path().parent().unwrap_or_else(|| Path::new(""));
        let mut named = false;
        // Behind a name, `..` leads out of what that name leads to, which may be a link.
        let is_tricky = target.components().any(|part| match part {
            Component::Normal(_) => {
                named = true;
                false
            }
            Component::ParentDir => named,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => false,
        });
        let full = plain(&self.workspace.join(folder).join(target));
        match full.strip_prefix(self.workspace) {
            Ok(_) if !is_tricky => true,
            Ok(_) if target.is_absolute() => false,
            Ok(_) => self.root.leads_beneath(&folder.join(target)),
            Err(_) => {
                let shown = self.scope.shown.iter().any(|place| full.starts_with(place));
                !is_tricky && (shown || full == Path::new(NOTHING))
            }
        }
    }
}

/// The time in nanoseconds since 1970.
fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or_default()
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// Whether an error says that something went away, or became something else, since it was listed.
fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::NOENT, rustix::io::Errno::NOTDIR, rustix::io::Errno::LOOP]
        .iter()
        .any(|gone| code == Some(gone.raw_os_error()))
}

/// Whether an error says that nobody but its owner or the administrator can look into it.
fn is_shut(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::ACCESS, rustix::io::Errno::PERM, rustix::io::Errno::NAMETOOLONG]
        .iter()
        .any(|shut| code == Some(shut.raw_os_error()))
}
