//! Runs the `bd` program.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use windlass_cell::{
    Ending, Excess, Finished, Limits, OnSignal, ProcessError, Program, describe_exit, one_line, run,
};

use crate::WorkError;
use crate::bd_json;

/// The most that is read of one answer.
const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What the names of its own variables begin with.
const PREFIXES: [&str; 4] = ["BD_", "BEADS_", "DOLT_", "XDG_"];
/// Other variables that it gets: git's agent of keys, with which it reaches a remote repository.
const NAMES: [&str; 2] = ["SSH_AUTH_SOCK", "LOGNAME"];

/// Whether a command changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
}

/// Finds a program in the folders of a search path. Relative folders do not count: they would let the
/// working directory decide what is run.
pub fn find(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    let folders = std::env::split_paths(search_path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| {
        std::fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// A program, where it works, and how long one command may take.
#[derive(Clone, Debug)]
pub struct BdProgram {
    pub path: PathBuf,
    pub folder: PathBuf,
    pub deadline: Duration,
}

/// What a command printed that ended with success.
pub struct Printed {
    pub value: Option<Value>,
    pub output: String,
    pub warnings: String,
}

impl BdProgram {
    /// Runs a command that answers with JSON.
    pub fn json(&self, arguments: &[&str], effect: Effect) -> Result<Printed, WorkError> {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        self.run(&arguments, effect)
    }

    /// Runs a command.
    pub fn run(&self, arguments: &[&str], effect: Effect) -> Result<Printed, WorkError> {
        let finished = self.start(arguments, effect).map_err(|error| match error {
            ProcessError::NotStarted(why)
            | ProcessError::NotConfined(why)
            | ProcessError::Lost(why) => WorkError::unavailable(why),
        })?;
        match finished.ending {
            Ending::Exited => {}
            Ending::TimedOut => return Err(WorkError::DeadlinePassed { limit: self.deadline }),
            Ending::TooLarge(stream) => {
                let reason = format!("`bd` writes more than {OUTPUT_BYTES_MAX} bytes to {stream}");
                return Err(WorkError::unavailable(reason));
            }
            Ending::Limit(_) | Ending::Interrupted => {
                return Err(WorkError::unavailable("`bd` was interrupted"));
            }
        }
        let value = bd_json::find_value(&finished.stdout);
        let warnings = String::from_utf8_lossy(&finished.stderr).into_owned();
        let error = value.as_ref().and_then(bd_json::error_message);
        if finished.status.is_some_and(|status| status.success()) && error.is_none() {
            let output = String::from_utf8_lossy(&finished.stdout).into_owned();
            return Ok(Printed { value, output, warnings });
        }
        let told = bd_json::find_value(&finished.stderr);
        let message = error
            .or_else(|| told.as_ref().and_then(bd_json::error_message))
            .or_else(|| first_line(&warnings))
            .unwrap_or_else(|| match finished.status {
                Some(status) => format!("`bd` {}", describe_exit(status)),
                None => "`bd` ended".to_owned(),
            });
        Err(explain(&one_line(&message)))
    }

    fn start(&self, arguments: &[&str], effect: Effect) -> Result<Finished, ProcessError> {
        let ours: Vec<(OsString, OsString)> =
            std::env::vars_os().filter(|(name, _)| passed_on(name)).collect();
        let mut env: Vec<(&OsStr, &OsStr)> =
            ours.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        // Its versions with a background process would leave it behind, as a part of this command.
        env.push((OsStr::new("BEADS_AUTO_START_DAEMON"), OsStr::new("false")));
        env.push((OsStr::new("NO_COLOR"), OsStr::new("1")));
        let mut argv = vec![self.path.as_os_str()];
        argv.extend(arguments.iter().map(OsStr::new));
        run(&Program {
            argv,
            stdin: None,
            env,
            cwd: &self.folder,
            limits: Limits { timeout: self.deadline, output_bytes_max: OUTPUT_BYTES_MAX },
            confined: None,
            excess: Excess::End,
            on_signal: match effect {
                Effect::Reads => OnSignal::End,
                Effect::Writes => OnSignal::EndSoon,
            },
        })
    }

    /// Whether the program and its folder are there.
    pub fn is_there(&self) -> bool {
        self.path.is_file() && Path::is_dir(&self.folder)
    }
}

fn passed_on(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// The first line that says something.
fn first_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// What a message of `bd` means. It has no codes, so its words decide; what is not known may be tried
/// again.
pub fn explain(message: &str) -> WorkError {
    const NOT_FOUND: [&str; 3] = ["no issue found", "issue not found", "no issues found matching"];
    const INVALID: [&str; 10] = [
        "cycle",
        "circular",
        "invalid",
        "unknown flag",
        "unknown command",
        "validation",
        "must be",
        "cannot close",
        "cannot add",
        "required",
    ];
    let lower = message.to_lowercase();
    let message = message.strip_prefix("Error: ").unwrap_or(message);
    let named = lower.starts_with("issue ") && lower.contains("not found");
    if named || NOT_FOUND.iter().any(|words| lower.contains(words)) {
        // Its callers know the id.
        return WorkError::NotFound { id: String::new() };
    }
    if INVALID.iter().any(|words| lower.contains(words)) {
        return WorkError::invalid(format!("`bd` refused: {message}"));
    }
    WorkError::unavailable(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        for message in ["no issue found matching \"x\"", "Issue bd-9 not found"] {
            assert!(matches!(explain(message), WorkError::NotFound { .. }), "{message}");
        }
        for message in [
            "Error: adding dependency: would create a cycle",
            "unknown flag: --sort",
            "validation failed: title must be 500 characters or less",
        ] {
            assert!(matches!(explain(message), WorkError::Invalid { .. }), "{message}");
        }
        for message in ["no beads database found", "database is locked", "something new"] {
            assert_eq!(explain(message), WorkError::unavailable(message));
        }
    }

    #[test]
    fn only_absolute_folders_are_searched() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("bd");
        std::fs::write(&path, "").unwrap();
        let search = folder.path().as_os_str();
        assert_eq!(find("bd", search), None, "not executable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("bd", search), Some(path));
        assert_eq!(find("bd", OsStr::new(".:relative:")), None);
    }

    #[test]
    fn its_own_variables_are_passed_on_and_tokens_are_not() {
        for name in ["BEADS_DIR", "BD_ACTOR", "SSH_AUTH_SOCK"] {
            assert!(passed_on(OsStr::new(name)), "{name}");
        }
        for name in ["GITHUB_TOKEN", "ANTHROPIC_API_KEY", "LD_PRELOAD", ""] {
            assert!(!passed_on(OsStr::new(name)), "{name}");
        }
    }
}
