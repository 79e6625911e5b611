//! The Claude Code plugin at the root of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agents::lab::{CLAUDE, Lab};
use crate::agents::session::{client, run, script, shell};
use crate::harness::finish;

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a folder")
}

#[test]
fn the_client_finds_the_plugin_valid() {
    let Some(lab) = Lab::new(&CLAUDE, &script(&[])) else { return };
    let mut command = Command::new(lab.clients().join(".bin/claude"));
    command.args(["plugin", "validate"]).arg(plugin()).arg("--strict");
    lab.repo.place.settle(&mut command);
    finish(command, &[]).exit(0);
}

#[test]
fn the_plugin_guards_a_session() {
    let calls = [shell("claude", "touch denied; cat ~/.ssh/id_rsa"), shell("claude", "touch made")];
    let Some(lab) = Lab::new(&CLAUDE, &script(&calls)) else { return };
    let root = lab.repo.root();
    let with_plugin = |path: Option<&Path>| {
        let mut command = client(&lab);
        command.arg("--plugin-dir").arg(plugin());
        let mut folders = path.map_or_else(OsString::new, |path| path.as_os_str().to_owned());
        folders.push(":/usr/bin:/bin");
        command.env("PATH", folders);
        run(command)
    };
    // Without the program no tool runs.
    let ended = with_plugin(None);
    assert!(!root.join("made").exists() && !root.join("denied").exists(), "{ended}");
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let ended = with_plugin(binary.parent());
    assert!(root.join("made").exists(), "{ended}\n{}", lab.told());
    assert!(!root.join("denied").exists(), "{ended}");
    assert!(lab.told().contains("refused: "), "{}", lab.told());
    let states: Vec<String> = lab.calls().into_iter().map(|(_, _, state)| state).collect();
    assert_eq!(states, ["DENIED", "COMPLETED"]);
}
