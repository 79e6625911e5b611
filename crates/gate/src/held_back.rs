//! What was held back, until a person takes it over or drops it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_beneath::{Folder, Kind};

use crate::hold::Held;
use crate::record::{self, Record};
use crate::scan::KEPT_BYTES_MAX;

/// What was held back at one end of a command.
#[derive(Clone, Debug)]
pub struct HeldBack {
    /// Its name.
    pub name: String,
    /// The workspace.
    pub workspace: PathBuf,
    /// When it was held back.
    pub at: SystemTime,
    /// What it is. Nothing if Windlass was killed before it had written that down; the folder has it all the same.
    pub items: Vec<Held>,
    /// Where it is.
    pub folder: PathBuf,
}

impl HeldBack {
    /// All that is kept below a place, oldest first.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn all(place: &Path) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for base in record::folders(place)? {
            let Some((workspace, _)) = Record::of_base(&base)?.iter().find_map(Record::subject)
            else {
                continue;
            };
            for folder in record::folders(&base.join("held"))? {
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let at = folder.symlink_metadata()?.modified()?;
                let bytes = fs::read(folder.with_extension("json")).unwrap_or_default();
                let items = serde_json::from_slice(&bytes).unwrap_or_default();
                all.push(Self { name, workspace: workspace.clone(), at, items, folder });
            }
        }
        all.sort_by(|one, two| (one.at, &one.name).cmp(&(two.at, &two.name)));
        Ok(all)
    }

    /// The contents of something that was held back, and of what is there now.
    ///
    /// # Errors
    /// Those of the operating system, also if it is no file, or too long.
    pub fn contents(&self, item: &Held) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
        let kept = item.kept.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let (parent, name) = (kept.parent().unwrap_or(kept), kept.file_name().unwrap_or_default());
        let kept = Folder::open(parent)?.read(Path::new(name), KEPT_BYTES_MAX)?;
        let workspace = Folder::open(&self.workspace)?;
        let path = item.path.as_path();
        let now = match workspace.look(path)?.map(|found| found.kind) {
            Some(Kind::File) => Some(workspace.read(path, KEPT_BYTES_MAX)?),
            _ => None,
        };
        Ok((kept, now))
    }

    /// Whether all of it is in the workspace as it is here: a person has taken it over.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let is_same =
            |item: &Held| self.contents(item).is_ok_and(|(kept, now)| now.as_ref() == Some(&kept));
        let mut kept = self.items.iter().filter(|item| item.kept.is_some()).peekable();
        kept.peek().is_some() && kept.all(is_same)
    }

    /// Whether it was held back so long ago.
    #[must_use]
    pub fn is_older_than(&self, age: Duration) -> bool {
        self.at.elapsed().is_ok_and(|elapsed| elapsed > age)
    }

    /// Removes it.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove(&self) -> io::Result<()> {
        // A folder that even its owner may not change.
        open_up(&self.folder);
        fs::remove_dir_all(&self.folder)?;
        match fs::remove_file(self.folder.with_extension("json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Lets the owner into all folders, so that they can be removed; what cannot be opened is told by the removal.
fn open_up(place: &Path) {
    let Ok(folder) = Folder::open(place) else { return };
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        if !path.as_os_str().is_empty() {
            let _ = folder.open_up(&path);
        }
        let entries = folder.folder(&path).and_then(|folder| folder.entries());
        for (name, kind) in entries.unwrap_or_default() {
            if kind == Kind::Folder {
                waiting.push(path.join(name));
            }
        }
    }
}
