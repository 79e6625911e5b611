//! What each person has seen of the files of a run, so that they can be shown what changed since. It is a comfort, not a
//! record: if its file is lost, everything is new again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use windlass_kernel::Timestamp;

/// The file, in the folder of those who may use the dashboard.
const FILE: &str = "looks.json";
/// The most looks that are remembered; the oldest give way.
const LOOKS_MAX: usize = 2_000;

/// What people have seen.
pub struct Looks {
    path: PathBuf,
    looks: Mutex<BTreeMap<String, Look>>,
}

/// What a person has seen of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    /// The tree that was shown last, and since when.
    newest: Seen,
    /// The one before it.
    before: Option<Seen>,
}

/// A tree that a person has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The tree.
    pub tree: String,
    /// When it was first shown.
    pub at: Timestamp,
}

impl Looks {
    /// Those that are remembered in a folder.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        Self { path, looks: Mutex::new(serde_json::from_str(&text).unwrap_or_default()) }
    }

    /// The tree that a person has seen last.
    #[must_use]
    pub fn newest(&self, person: &str, run: &str) -> Option<Seen> {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get(&key(person, run)).map(|look| look.newest.clone())
    }

    /// The tree that a person has seen last and that was another one than `now`, if there is one.
    #[must_use]
    pub fn since(&self, person: &str, run: &str, now: &str) -> Option<Seen> {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.get(&key(person, run))?;
        if look.newest.tree == now { look.before.clone() } else { Some(look.newest.clone()) }
    }

    /// Remembers that a person is shown a tree.
    pub fn remember(&self, person: &str, run: &str, tree: &str, at: Timestamp) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(person, run);
        let newest = Seen { tree: tree.to_owned(), at };
        match looks.get_mut(&key) {
            Some(look) if look.newest.tree == tree => return,
            Some(look) => look.before = Some(std::mem::replace(&mut look.newest, newest)),
            None => drop(looks.insert(key, Look { newest, before: None })),
        }
        while looks.len() > LOOKS_MAX {
            let oldest = looks.iter().min_by_key(|(_, look)| look.newest.at);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            looks.remove(&oldest);
        }
        // What cannot be written is forgotten when the server ends.
        drop(write(&self.path, &looks));
    }
}

fn key(person: &str, run: &str) -> String {
    format!("{person}\n{run}")
}

fn write(path: &Path, looks: &BTreeMap<String, Look>) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(serde_json::to_string(looks)?.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms).unwrap()
    }

    #[test]
    fn what_was_seen_before_is_remembered_for_each_person_and_run() {
        let folder = tempfile::tempdir().unwrap();
        let looks = Looks::open(folder.path());
        assert_eq!(looks.since("ann", "p/r", "one"), None);
        looks.remember("ann", "p/r", "one", at(1));
        // The same page again shows nothing new.
        assert_eq!(looks.since("ann", "p/r", "one"), None);
        assert_eq!(looks.since("bob", "p/r", "two"), None);
        let seen = |tree: &str, ms| Some(Seen { tree: tree.to_owned(), at: at(ms) });
        assert_eq!(looks.since("ann", "p/r", "two"), seen("one", 1));
        looks.remember("ann", "p/r", "two", at(2));
        looks.remember("ann", "p/r", "two", at(3));
        // Loading the page once more does not lose what was before, nor does another server.
        assert_eq!(looks.since("ann", "p/r", "two"), seen("one", 1));
        let again = Looks::open(folder.path());
        assert_eq!(again.since("ann", "p/r", "two"), seen("one", 1));
        assert_eq!(again.since("ann", "p/r", "three"), seen("two", 2));
    }

    #[test]
    fn a_damaged_file_is_as_none_and_the_oldest_give_way() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        let looks = Looks::open(folder.path());
        for number in 0..LOOKS_MAX + 1 {
            let run = format!("p/{number}");
            let ms = i64::try_from(number).unwrap();
            looks.looks.lock().unwrap().insert(
                key("ann", &run),
                Look { newest: Seen { tree: "t".into(), at: at(ms) }, before: None },
            );
        }
        looks.remember("ann", "p/new", "t", at(10_000));
        assert_eq!(looks.looks.lock().unwrap().len(), LOOKS_MAX);
        assert_eq!(looks.since("ann", "p/0", "u"), None);
        assert!(looks.since("ann", "p/new", "u").is_some());
    }
}
