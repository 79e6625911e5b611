//! The record of executions: one line of JSON each, synced before the execution is answered.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One execution.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Line {
    pub tool: String,
    pub key: Option<String>,
    pub call_id: Option<String>,
    pub args: Value,
}

/// All executions, in a file shared with other servers, or in memory.
pub(super) struct Log {
    file: Option<PathBuf>,
    memory: Mutex<Vec<Line>>,
    honour_keys: bool,
}

/// What the log says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is now recorded; this is the how-manieth of its tool.
    Recorded { count: usize },
    /// Its key was there already; it was the how-manieth of its tool.
    Repeated { count: usize },
}

impl Log {
    pub fn new(file: Option<PathBuf>, honour_keys: bool) -> Self {
        Self { file, memory: Mutex::default(), honour_keys }
    }

    /// Records an execution, unless its key is honoured and known. No other server can come between.
    pub fn record(&self, line: Line) -> io::Result<Entry> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.file else {
            let entry = self.judge(&memory, &line);
            if matches!(entry, Entry::Recorded { .. }) {
                memory.push(line);
            }
            return Ok(entry);
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        file.lock()?;
        let entry = self.judge(&read(&mut file)?, &line);
        if matches!(entry, Entry::Recorded { .. }) {
            file.write_all(format!("{}\n", serde_json::to_string(&line)?).as_bytes())?;
            file.sync_all()?;
        }
        Ok(entry)
    }

    /// Finds the execution with a key and its place among those of its tool.
    pub fn find(&self, key: &str) -> io::Result<Option<(Line, usize)>> {
        let lines = match &self.file {
            None => self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Some(path) => match File::open(path) {
                Ok(mut file) => {
                    file.lock_shared()?;
                    read(&mut file)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            },
        };
        let at = lines.iter().position(|line| line.key.as_deref() == Some(key));
        Ok(at.and_then(|at| lines.get(at)).map(|line| (line.clone(), count(&lines, line))))
    }

    fn judge(&self, lines: &[Line], line: &Line) -> Entry {
        let same = |old: &&Line| old.key.is_some() && old.key == line.key && old.tool == line.tool;
        match lines.iter().find(same) {
            Some(old) if self.honour_keys => Entry::Repeated { count: count(lines, old) },
            _ => {
                let before = lines.iter().filter(|old| old.tool == line.tool).count();
                Entry::Recorded { count: before + 1 }
            }
        }
    }
}

/// The place of the first line with this one's key among those of its tool.
fn count(lines: &[Line], line: &Line) -> usize {
    let of_tool = lines.iter().filter(|old| old.tool == line.tool);
    of_tool.take_while(|old| old.key != line.key).count() + 1
}

fn read(file: &mut File) -> io::Result<Vec<Line>> {
    file.rewind()?;
    BufReader::new(file).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tool: &str, key: Option<&str>) -> Line {
        let (tool, key) = (tool.to_owned(), key.map(str::to_owned));
        Line { tool, key, call_id: None, args: Value::Null }
    }

    #[test]
    fn a_key_is_executed_once_across_servers() {
        let path = std::env::temp_dir().join(format!("windlass-log-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let add = |log: &Log, key| log.record(line("add", key)).unwrap();
        let first = Log::new(Some(path.clone()), true);
        assert_eq!(add(&first, Some("a")), Entry::Recorded { count: 1 });
        assert_eq!(add(&first, None), Entry::Recorded { count: 2 });
        let second = Log::new(Some(path.clone()), true);
        assert_eq!(add(&second, Some("b")), Entry::Recorded { count: 3 });
        assert_eq!(add(&second, Some("a")), Entry::Repeated { count: 1 });
        assert_eq!(add(&first, Some("b")), Entry::Repeated { count: 3 });
        assert_eq!(second.find("b").unwrap().unwrap().1, 3);
        assert!(second.find("c").unwrap().is_none());
        let careless = Log::new(Some(path.clone()), false);
        assert_eq!(add(&careless, Some("a")), Entry::Recorded { count: 4 });
        std::fs::remove_file(&path).unwrap();
    }
}
