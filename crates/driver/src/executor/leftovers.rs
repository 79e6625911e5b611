//! Finds processes that an earlier task has left running.

use std::path::Path;

use windlass_kernel::run::RunName;

/// The variable that all commands of a run have in their environment.
const VARIABLE: &[u8] = b"WINDLASS_RUN=";
/// The maximum length of a command's name that is told.
const NAME_CHARS_MAX: usize = 60;

/// A process that belongs to another task.
pub(super) struct Leftover {
    pub pid: u32,
    pub command: String,
    pub run: String,
}

/// Finds a process of this user that a run for which `is_other` holds has started; `None` where processes cannot be
/// listed.
pub(super) fn find(processes: &Path, is_other: impl Fn(&RunName) -> bool) -> Option<Leftover> {
    for entry in std::fs::read_dir(processes).ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Those of other users, and those that have ended meanwhile, cannot be read.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        let mut variables = environment.split(|byte| *byte == 0);
        let Some(run) = variables.find_map(|variable| variable.strip_prefix(VARIABLE)) else {
            continue;
        };
        let Some(name) = std::str::from_utf8(run).ok().and_then(|run| run.parse().ok()) else {
            continue;
        };
        if is_other(&name) {
            let command = std::fs::read(entry.path().join("comm")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            let command = command.trim().chars().take(NAME_CHARS_MAX).collect();
            return Some(Leftover { pid, command, run: name.to_string() });
        }
    }
    None
}
