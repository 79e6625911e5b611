//! Requests that start a run once: a second one with the same word, such as by a double click or after a restart of the
//! server, starts nothing.
//!
//! The word and the id of its run are on the disk before the run is started. A run of an earlier server that is not recorded
//! is started again with the same id, which no two runs can have.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use windlass_kernel::{Code, Digest, TraceId};

use crate::problem::Problem;

/// The files, in the folder of those who may use the dashboard.
const FILE: &str = "once.json";
const LOCK: &str = "once.lock";
/// The most words that are remembered; the oldest give way.
const WORDS_MAX: usize = 2_000;
/// The largest file that is read.
const BYTES_MAX: u64 = 4 << 20;

/// The words of requests, and the runs that they started.
pub struct Once {
    folder: PathBuf,
    /// The words for which this server has started a run, or does so now.
    begun: Mutex<BTreeMap<Digest, TraceId>>,
    /// Who starts a task of a backlog.
    backlog: Mutex<()>,
}

/// A word, and its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    /// The digest of the word.
    word: Digest,
    run: TraceId,
}

/// What a word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// A run that is to be started with this id.
    New(TraceId),
    /// A run that this server has started, or does so now.
    Here(TraceId),
    /// A run that another server was to start: it may have been killed before it did.
    Elsewhere(TraceId),
}

impl Once {
    /// Those that are remembered in a folder.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), begun: Mutex::default(), backlog: Mutex::default() }
    }

    /// Notes a word for this run, unless it has one already.
    ///
    /// # Errors
    /// [`Problem`] if it cannot be noted.
    pub fn begin(&self, word: &str, run: TraceId) -> Result<Begun, Problem> {
        let digest = Digest::of(word.as_bytes());
        let mut begun = self.begun();
        if let Some(run) = begun.get(&digest) {
            return Ok(Begun::Here(*run));
        }
        let mut known = None;
        self.change(|words| {
            known = words.iter().find(|known| known.word == digest).map(|known| known.run);
            if known.is_none() {
                let over = (words.len() + 1).saturating_sub(WORDS_MAX);
                words.drain(..over);
                words.push(Word { word: digest, run });
            }
            known.is_none()
        })?;
        begun.insert(digest, known.unwrap_or(run));
        Ok(known.map_or(Begun::New(run), Begun::Elsewhere))
    }

    /// Forgets a word whose run was not started, so that it can be tried again.
    ///
    /// # Errors
    /// [`Problem`] if the file cannot be written.
    pub fn forget(&self, word: &str) -> Result<(), Problem> {
        let digest = Digest::of(word.as_bytes());
        let mut begun = self.begun();
        begun.remove(&digest);
        self.change(|words| {
            let before = words.len();
            words.retain(|known| known.word != digest);
            words.len() < before
        })
    }

    /// Waits for the turn to start a task of a backlog: which tasks are under way is known from the runs that are recorded.
    pub fn backlog_turn(&self) -> MutexGuard<'_, ()> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the run of a word be tried again with the same id.
    pub fn try_again(&self, word: &str) {
        self.begun().remove(&Digest::of(word.as_bytes()));
    }

    fn begun(&self) -> MutexGuard<'_, BTreeMap<Digest, TraceId>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the words under the lock of their file; `change` says whether they are to be written.
    fn change(&self, change: impl FnOnce(&mut Vec<Word>) -> bool) -> Result<(), Problem> {
        let path = self.folder.join(FILE);
        let changed = || {
            let mut options = OpenOptions::new();
            let lock =
                options.create(true).append(true).mode(0o600).open(self.folder.join(LOCK))?;
            lock.lock()?;
            let mut words = read(&path)?;
            if !change(&mut words) {
                return Ok(());
            }
            let mut file = tempfile::Builder::new().prefix(".once-").tempfile_in(&self.folder)?;
            file.write_all(serde_json::to_string(&words)?.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(&self.folder)?.sync_all()
        };
        changed().map_err(|error: std::io::Error| {
            let message =
                format!("nothing was started: cannot write `{}`: {error}", path.display());
            Problem::new(Code::FileUnwritable, message)
        })
    }
}

/// The words of a file. One that cannot be understood says so: to forget its words could start a run twice.
fn read(path: &Path) -> std::io::Result<Vec<Word>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => drop(file.take(BYTES_MAX).read_to_string(&mut text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Uuid7;

    use super::*;

    fn run(number: u64) -> TraceId {
        TraceId(Uuid7::from_parts(number, [0; 10]))
    }

    #[test]
    fn a_word_has_one_run_also_for_another_server() {
        let folder = tempfile::tempdir().unwrap();
        let once = Once::open(folder.path());
        assert_eq!(once.begin("a", run(1)).unwrap(), Begun::New(run(1)));
        assert_eq!(once.begin("a", run(2)).unwrap(), Begun::Here(run(1)));
        let later = Once::open(folder.path());
        assert_eq!(later.begin("a", run(3)).unwrap(), Begun::Elsewhere(run(1)));
        assert_eq!(later.begin("a", run(4)).unwrap(), Begun::Here(run(1)));
        later.try_again("a");
        assert_eq!(later.begin("a", run(5)).unwrap(), Begun::Elsewhere(run(1)));
        assert_eq!(later.begin("b", run(6)).unwrap(), Begun::New(run(6)));
        later.forget("b").unwrap();
        assert_eq!(once.begin("b", run(7)).unwrap(), Begun::New(run(7)));
    }

    #[test]
    fn the_oldest_give_way_and_a_damaged_file_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let once = Once::open(folder.path());
        let word = |number: usize| Word { word: Digest::of(&number.to_be_bytes()), run: run(1) };
        let all: Vec<Word> = (0..WORDS_MAX).map(word).collect();
        std::fs::write(folder.path().join(FILE), serde_json::to_string(&all).unwrap()).unwrap();
        assert_eq!(once.begin("new", run(2)).unwrap(), Begun::New(run(2)));
        let kept = read(&folder.path().join(FILE)).unwrap();
        assert_eq!((kept.len(), kept.first()), (WORDS_MAX, Some(&word(1))));
        std::fs::write(folder.path().join(FILE), "[").unwrap();
        assert_eq!(once.begin("other", run(3)).unwrap_err().code, "FILE_UNWRITABLE");
    }
}
