//! Walks the files below a folder with several threads. Every folder is opened from the workspace's file descriptor, and every file from
//! its folder's, so that nothing outside is seen whatever is swapped meanwhile.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use crate::ignores::{Ignores, has_rules};
use crate::root::{Root, is_git};

/// How many files of one folder a thread takes at once.
const BATCH_FILES: usize = 64;
/// More threads than this do not pay on one disk.
const THREADS_MAX: usize = 8;

/// What to walk.
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Root,
    /// A resolved folder.
    pub(crate) start: &'a Path,
    pub(crate) depth_max: usize,
    pub(crate) include_ignored: bool,
}

/// Something in a folder.
pub(crate) struct Entry<'a> {
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// From the root.
    pub(crate) path: &'a Path,
    pub(crate) kind: FileType,
}

/// What is done with the entries.
pub(crate) trait Visitor: Sync {
    /// What each thread has for itself.
    type Worker;
    fn worker(&self) -> Self::Worker;
    /// Whether anything at this path or after it, in the order of bytes, is of interest.
    fn wants(&self, path: &[u8]) -> bool;
    fn visit(&self, worker: &mut Self::Worker, entry: &Entry<'_>);
    /// A folder could not be read.
    fn failed(&self, path: &Path, error: Errno);
}

/// A folder, or some of its files.
struct Job {
    /// The first path that it has; jobs are done in this order.
    key: Vec<u8>,
    folder: PathBuf,
    depth: usize,
    work: Work,
}

enum Work {
    /// All of the folder; with the rules above it.
    Folder(Option<Arc<Ignores>>),
    Files(Vec<(OsString, FileType)>),
}

impl Ord for Job {
    /// The greatest is done first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Job {}

/// The jobs that wait, and the number of those being done.
#[derive(Default)]
struct Queue {
    state: Mutex<(BinaryHeap<Job>, usize)>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, (BinaryHeap<Job>, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        self.lock().0.push(job);
        self.changed.notify_one();
    }

    /// The next job; `None` when all are done.
    fn take(&self) -> Option<(Job, Working<'_>)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.0.pop() {
                state.1 += 1;
                return Some((job, Working(self)));
            }
            if state.1 == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that is being done; on drop it is done, even if the thread panics.
struct Working<'a>(&'a Queue);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.1 -= 1;
        if state.1 == 0 && state.0.is_empty() {
            self.0.changed.notify_all();
        }
    }
}

/// The bytes of a path, which results are ordered by.
pub(crate) fn key_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// How many threads this machine has use for.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS_MAX)
}

impl Walk<'_> {
    /// Visits every entry that is neither hidden nor ignored, in no certain order.
    pub(crate) fn run<V: Visitor>(&self, visitor: &V, threads: usize) {
        let ignores =
            if self.include_ignored { None } else { Ignores::above(self.root, self.start) };
        let queue = Queue::default();
        queue.push(Job {
            key: Vec::new(),
            folder: self.start.to_owned(),
            depth: 1,
            work: Work::Folder(ignores),
        });
        let work = || {
            let mut worker = visitor.worker();
            while let Some((job, _working)) = queue.take() {
                if visitor.wants(&job.key) {
                    self.perform(job, &queue, visitor, &mut worker);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // With fewer threads it only takes longer.
                drop(std::thread::Builder::new().spawn_scoped(scope, work));
            }
            work();
        });
    }

    fn perform<V: Visitor>(&self, job: Job, queue: &Queue, visitor: &V, worker: &mut V::Worker) {
        let fd = match self.root.open_folder(&job.folder) {
            Ok(fd) => fd,
            // Removed or replaced meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Err(error) => return visitor.failed(&job.folder, error),
        };
        match job.work {
            Work::Files(entries) => visit_all(&fd, &job.folder, &entries, visitor, worker),
            Work::Folder(ignores) => match read_folder(&fd) {
                Ok(entries) => {
                    let files = self.expand(&fd, &job.folder, job.depth, ignores, entries, queue);
                    let mut batches = files.chunks(BATCH_FILES);
                    let first = batches.next().unwrap_or_default();
                    for batch in batches {
                        queue.push(Job {
                            key: batch
                                .first()
                                .map_or_else(Vec::new, |(name, _)| key_of(&job.folder.join(name))),
                            folder: job.folder.clone(),
                            depth: job.depth,
                            work: Work::Files(batch.to_vec()),
                        });
                    }
                    visit_all(&fd, &job.folder, first, visitor, worker);
                }
                Err(error) => visitor.failed(&job.folder, error),
            },
        }
    }

    /// Queues the folders of a folder, and returns the entries that are to be visited.
    fn expand(
        &self,
        fd: &OwnedFd,
        folder: &Path,
        depth: usize,
        ignores: Option<Arc<Ignores>>,
        entries: Vec<(OsString, FileType)>,
        queue: &Queue,
    ) -> Vec<(OsString, FileType)> {
        let rules = !self.include_ignored && entries.iter().any(|(name, _)| has_rules(name));
        let ignores = if rules { Ignores::in_folder(fd, folder, ignores) } else { ignores };
        let mut visited = Vec::with_capacity(entries.len());
        for (name, kind) in entries {
            if is_git(&name) {
                continue;
            }
            let path = folder.join(&name);
            let is_folder = kind == FileType::Directory;
            let is_ignored =
                ignores.as_ref().is_some_and(|ignores| ignores.is_ignored(&path, is_folder));
            if is_ignored || self.root.is_hidden(&path) {
                continue;
            }
            if is_folder && depth < self.depth_max {
                let mut key = key_of(&path);
                key.push(b'/');
                let work = Work::Folder(ignores.clone());
                queue.push(Job { key, folder: path, depth: depth + 1, work });
            }
            visited.push((name, kind));
        }
        visited.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        visited
    }
}

fn read_folder(fd: &OwnedFd) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let mut kind = entry.file_type();
        // Some file systems do not say.
        if kind == FileType::Unknown {
            let Ok(found) = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            kind = FileType::from_raw_mode(found.st_mode);
        }
        entries.push((name.to_owned(), kind));
    }
    Ok(entries)
}

fn visit_all<V: Visitor>(
    fd: &OwnedFd,
    folder: &Path,
    entries: &[(OsString, FileType)],
    visitor: &V,
    worker: &mut V::Worker,
) {
    for (name, kind) in entries {
        let path = folder.join(name);
        if !visitor.wants(path.as_os_str().as_bytes()) {
            return;
        }
        visitor.visit(worker, &Entry { folder: fd.as_fd(), name, path: &path, kind: *kind });
    }
}
