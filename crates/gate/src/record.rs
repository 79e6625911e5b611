//! What is written down about a workspace in a folder of ours, which no cell shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};
use windlass_kernel::Digest;

use crate::history::Tips;
use crate::hold::Held;
use crate::judge::Allowed;
use crate::mark::Mark;
use crate::rel_path::RelPath;
use crate::rules::{Rule, Rules};
use crate::seen::Seen;

/// How many contents that nothing needs any more are left before they are removed.
const SPARE: usize = 64;

/// How long what was seen under rules that nobody uses any more is left.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// The folder of one workspace under one set of rules: what was seen under others cannot be compared.
///
/// `rules.json` and `workspace.json` say which, `seen.json` is the state that was accepted last, `kept` the contents of its files by digest, `calls` has a file for each
/// command that is running, locked by its process. Above it `held` has what was held back, whatever the rules.
#[derive(Clone, Debug)]
pub struct Record {
    /// The folder of the workspace.
    base: PathBuf,
    folder: PathBuf,
}

/// A command that is running. The kernel lets go of its lock when the process ends, however it ends.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    _lock: File,
    /// Whether what it has done was judged. One that was not is judged before the next command.
    is_judged: AtomicBool,
}

impl Running {
    /// Says whether what it has done until now was judged.
    pub fn judged(&self, is_judged: bool) {
        self.is_judged.store(is_judged, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_judged.load(Ordering::Relaxed) {
            // One that stays is found by the next command, and judged.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What other commands are about.
#[derive(Debug, Default)]
pub struct Others {
    /// What those that run may change.
    pub running: Vec<Allowed>,
    /// What those might change whose process has died.
    pub died: Vec<(PathBuf, Allowed)>,
    /// The commits that were there before each of them, whatever its rules.
    pub tips: BTreeSet<Tips>,
}

impl Record {
    pub fn open(place: &Path, workspace: &Path, rules: &Rules) -> io::Result<Self> {
        let base = base_of(place, workspace);
        let folder = base.join(short(rules.digest()));
        let record = Self { base, folder };
        if record.folder.join("workspace.json").symlink_metadata().is_err() {
            for path in
                [record.base.join("held"), record.folder.join("kept"), record.folder.join("calls")]
            {
                fs::create_dir_all(path)?;
            }
            record.write("rules.json", &rules.all())?;
            record.write("workspace.json", &RelPath::from(workspace))?;
        }
        Ok(record)
    }

    /// Those of a workspace, under all rules.
    pub fn of(place: &Path, workspace: &Path) -> io::Result<Vec<Self>> {
        Self::of_base(&base_of(place, workspace))
    }

    /// Those in the folder of a workspace, under all rules.
    pub fn of_base(base: &Path) -> io::Result<Vec<Self>> {
        let all = folders(base)?.into_iter().filter(|folder| folder.join("calls").is_dir());
        Ok(all.map(|folder| Self { base: base.to_owned(), folder }).collect())
    }

    /// Those below a place whose commands may have died.
    pub fn all(place: &Path) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for base in folders(place)? {
            all.extend(Self::of_base(&base)?);
        }
        Ok(all)
    }

    /// The same workspace under other rules.
    pub fn siblings(&self) -> io::Result<Vec<Self>> {
        let others = folders(&self.base)?.into_iter();
        let others =
            others.filter(|folder| *folder != self.folder && folder.join("calls").is_dir());
        Ok(others.map(|folder| Self { base: self.base.clone(), folder }).collect())
    }

    /// Its workspace and rules; `None` if they cannot be understood.
    pub fn subject(&self) -> Option<(PathBuf, Rules)> {
        let read = |name: &str| fs::read(self.folder.join(name)).ok();
        let workspace: RelPath = serde_json::from_slice(&read("workspace.json")?).ok()?;
        let rules: Vec<Rule> = serde_json::from_slice(&read("rules.json")?).ok()?;
        Some((workspace.as_path().to_owned(), Rules::new(rules)))
    }

    /// Removes what was seen under rules that nobody uses any more.
    pub fn sweep(&self) -> io::Result<()> {
        for sibling in self.siblings()? {
            let used = sibling.folder.join("seen.json").symlink_metadata();
            let age =
                used.and_then(|used| used.modified()).ok().and_then(|time| time.elapsed().ok());
            let is_idle = fs::read_dir(sibling.folder.join("calls"))?.next().is_none();
            if is_idle && age.is_some_and(|age| age > OLD) {
                fs::remove_dir_all(&sibling.folder)?;
            }
        }
        Ok(())
    }

    /// Waits until no other process works on it. It is let go when the file is dropped.
    pub fn lock(&self) -> io::Result<File> {
        let lock = File::options().create(true).append(true).open(self.base.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The state that was accepted last; `None` if there is none, or none that can be understood.
    pub fn seen(&self) -> Option<Seen> {
        let bytes = fs::read(self.folder.join("seen.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes the state that is accepted, and removes contents that nothing needs any more.
    pub fn accept(&self, seen: &Seen) -> io::Result<()> {
        let file = NamedTempFile::new_in(&self.folder)?;
        serde_json::to_writer(io::BufWriter::new(&file), seen)?;
        file.persist(self.folder.join("seen.json"))?;
        let needed: BTreeSet<String> =
            seen.digests().iter().map(|digest| digest.hex().as_str().to_owned()).collect();
        let mut spare = Vec::new();
        for entry in fs::read_dir(self.folder.join("kept"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let is_needed = name.is_some_and(|name| needed.contains(name));
            if !is_needed {
                spare.push(path);
            }
        }
        if spare.len() > SPARE {
            for path in spare {
                // The next time tries again.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// Where the contents of this digest are kept.
    pub fn kept(&self, digest: &Digest) -> PathBuf {
        self.folder.join("kept").join(digest.hex().as_str())
    }

    /// Keeps the contents of a file.
    pub fn keep(&self, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let path = self.kept(digest);
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let mut file = NamedTempFile::new_in(&self.folder)?;
        io::Write::write_all(&mut file, bytes)?;
        file.persist(path)?;
        Ok(())
    }

    /// Lines about what was held back when nobody was there to be told.
    pub fn to_tell(&self) -> Vec<String> {
        let bytes = fs::read(self.folder.join("untold.json")).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub fn tell_later(&self, held: &[Held]) -> io::Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> =
            self.to_tell().into_iter().chain(held.iter().map(Held::to_string)).collect();
        self.write("untold.json", &lines)
    }

    pub fn told(&self) -> io::Result<()> {
        match fs::remove_file(self.folder.join("untold.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What commits of commands have brought.
    pub fn doubted(&self) -> io::Result<BTreeSet<String>> {
        let path = self.base.join("doubted.json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let path = path.display();
                io::Error::other(format!("`{path}` cannot be understood: {error}"))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes what commits of commands have brought, durably.
    pub fn doubt(&self, doubted: &BTreeSet<String>) -> io::Result<()> {
        let file = NamedTempFile::new_in(&self.base)?;
        serde_json::to_writer(io::BufWriter::new(&file), doubted)?;
        file.as_file().sync_all()?;
        file.persist(self.base.join("doubted.json"))?;
        File::open(&self.base)?.sync_all()
    }

    /// What is being moved away and then put back as it was.
    pub fn to_put_back(&self) -> BTreeMap<RelPath, Mark> {
        let bytes = fs::read(self.folder.join("moving.json")).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Says what will be moved away and then put back, or that nothing is left to do.
    pub fn will_put_back(&self, marks: &BTreeMap<RelPath, Mark>) -> io::Result<()> {
        if !marks.is_empty() {
            return self.write("moving.json", marks);
        }
        match fs::remove_file(self.folder.join("moving.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, value: &impl serde::Serialize) -> io::Result<()> {
        write(&self.folder, name, value)
    }

    /// A new folder for what is held back.
    pub fn new_place(&self) -> io::Result<PathBuf> {
        Ok(TempDir::with_prefix_in("held-", self.base.join("held"))?.keep())
    }

    /// Writes down what was held back in a folder, beside it. One that has nothing is removed.
    pub fn note_held(&self, place: &Path, held: &[Held]) -> io::Result<()> {
        let kept: Vec<&Held> = held.iter().filter(|one| one.kept.is_some()).collect();
        if kept.is_empty() {
            // A folder for what could not be moved may be in it.
            let _ = fs::remove_dir(place);
            return Ok(());
        }
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        write(&self.base.join("held"), &format!("{name}.json"), &kept)
    }

    /// Says that a command is running.
    pub fn start(&self, allowed: &Allowed) -> io::Result<Running> {
        let file = NamedTempFile::new_in(self.folder.join("calls"))?;
        file.as_file().lock()?;
        serde_json::to_writer(io::BufWriter::new(file.as_file()), allowed)?;
        let (lock, path) = file.keep()?;
        Ok(Running { path, _lock: lock, is_judged: AtomicBool::new(false) })
    }

    /// What other commands are about, without this one. Those that run under other rules count, too.
    pub fn others(&self, own: Option<&Running>) -> io::Result<Others> {
        let mut others = Others::default();
        for sibling in self.siblings()? {
            let calls = sibling.calls(own)?;
            others.running.extend(calls.running);
            others.tips.extend(calls.tips);
        }
        let calls = self.calls(own)?;
        others.running.extend(calls.running);
        others.tips.extend(calls.tips);
        Ok(Others { died: calls.died, ..others })
    }

    fn calls(&self, own: Option<&Running>) -> io::Result<Others> {
        let mut others = Others::default();
        for entry in fs::read_dir(self.folder.join("calls"))? {
            let path = entry?.path();
            if own.is_some_and(|own| own.path == path) {
                continue;
            }
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // One that died before it had written this was not started yet.
            let allowed: Allowed =
                serde_json::from_reader(io::BufReader::new(&file)).unwrap_or_default();
            others.tips.extend(allowed.tips.clone());
            match file.try_lock_shared() {
                Err(TryLockError::WouldBlock) => others.running.push(allowed),
                Ok(()) => others.died.push((path, allowed)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(others)
    }
}

fn write(folder: &Path, name: &str, value: &impl serde::Serialize) -> io::Result<()> {
    let file = NamedTempFile::new_in(folder)?;
    serde_json::to_writer(file.as_file(), value)?;
    file.persist(folder.join(name))?;
    Ok(())
}

fn short(digest: Digest) -> String {
    digest.hex().as_str().get(..16).unwrap_or_default().to_owned()
}

fn base_of(place: &Path, workspace: &Path) -> PathBuf {
    place.join(short(Digest::of(workspace.as_os_str().as_encoded_bytes())))
}

pub fn folders(place: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
