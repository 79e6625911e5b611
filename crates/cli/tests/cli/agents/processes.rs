//! The processes of a running client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// A process below another one.
pub struct Process {
    pub id: i32,
    program: PathBuf,
    words: Vec<String>,
}

impl Process {
    /// Whether its program is in a folder.
    pub fn is_of(&self, folder: &Path) -> bool {
        self.program.starts_with(folder)
    }

    /// Whether it connects a client with our tools.
    pub fn is_relay(&self) -> bool {
        self.words.get(1..3) == Some(&["mcp".to_owned(), "relay".to_owned()])
    }

    /// Kills it; it may have ended by itself.
    pub fn kill(&self) {
        let _ = kill_process(Pid::from_raw(self.id).expect("an id"), Signal::KILL);
    }
}

/// All processes below one, children before parents.
pub fn below(ancestor: u32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name of the program may contain anything; what follows it does not.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![i32::try_from(ancestor).expect("an id")];
    while let Some(id) = open.pop() {
        for child in children.remove(&id).unwrap_or_default() {
            open.push(child);
            let folder = PathBuf::from(format!("/proc/{child}"));
            let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
            found.push(Process {
                id: child,
                program: std::fs::read_link(folder.join("exe")).unwrap_or_default(),
                words: String::from_utf8_lossy(&words).split('\0').map(str::to_owned).collect(),
            });
        }
    }
    found.reverse();
    found
}
