//! Temporary files of tests, kept in memory.
//!
//! Tests write durably, thousands of times, and no kill of a process can tell whether a disk has
//! something. In memory they take a fraction of the time, and as long on a slow disk as on a quick one.

use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts memory at the first argument, seen by this process and its children alone, and becomes the
/// command in the others. The mount is gone when they have ended, however they end.
const SCRIPT: &str = r#"mount -t tmpfs -o mode=1777 windlass "$1" && shift && exec "$@""#;

/// A private mount namespace, and the shell in it.
const SHELL: [&str; 5] = ["--mount", "--propagation=private", "sh", "-c", SCRIPT];

/// The same command with a temporary folder in memory where the machine allows that, else as it is.
pub fn with_temporary_folder(command: Command) -> Command {
    let folder = std::env::temp_dir().join("windlass-check");
    if !can_be_mounted(&folder) {
        println!("the tests keep their temporary files on the disk: memory cannot be mounted");
        return command;
    }
    println!("the tests keep their temporary files in memory");
    let mut wrapped = shell(&folder);
    wrapped.arg(command.get_program()).args(command.get_args()).env("TMPDIR", &folder);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(root) = command.get_current_dir() {
        wrapped.current_dir(root);
    }
    wrapped
}

fn shell(folder: &Path) -> Command {
    let mut shell = Command::new("unshare");
    shell.args(SHELL).arg("sh").arg(folder);
    shell
}

fn can_be_mounted(folder: &Path) -> bool {
    let quiet = |mut command: Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|end| end.success())
    };
    let mut probe = shell(folder);
    probe.arg("true");
    std::fs::create_dir_all(folder).is_ok() && quiet(probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_same_but_for_its_temporary_folder() {
        let mut command = Command::new("sh");
        let script = r#"touch "$TMPDIR/seen"; pwd; echo "$1,$GIVEN,${CARGO_PKG_NAME-removed}""#;
        command.args(["-c", script, "sh", "a b"]).current_dir("/");
        command.env("GIVEN", "yes").env_remove("CARGO_PKG_NAME");
        let output = with_temporary_folder(command).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/\na b,yes,removed\n");
        let folder = std::env::temp_dir().join("windlass-check");
        if can_be_mounted(&folder) {
            assert!(!folder.join("seen").exists(), "it was written to the disk");
        }
    }
}
