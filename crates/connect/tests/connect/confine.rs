//! Commands that must be confined, without a working launcher.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_cell::{CellLimits, Layout, Level};
use windlass_connect::{
    Access, Certainty, Confinement, Connect, Connectors, Job, Sandbox, SandboxSettings, Target,
};
use windlass_kernel::Code;

use crate::common::{self, failure};

/// Runs a command that creates a file, with these connectors.
fn refused(connectors: &Connectors, argv: &[&str], code: Code) -> String {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::Command {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        stdin: None,
        env: BTreeMap::new(),
        cwd: folder.path().to_owned(),
    };
    let confinement = Confinement::new(folder.path().to_owned(), Access::Write);
    let args = json!({});
    let job = Job { confinement: Some(&confinement), ..common::job(&target, "", &args) };
    let (message, _) = failure(connectors.perform(&job), code, Certainty::DidNotRun);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    message
}

/// Connectors whose launcher is another program.
fn with(launcher: &str, folder: &Path) -> Connectors {
    at_level(Level::Full, launcher, folder)
}

fn at_level(level: Level, launcher: &str, folder: &Path) -> Connectors {
    Connectors::new().with_sandbox(Sandbox::new(SandboxSettings {
        level,
        launcher: launcher.into(),
        bwrap: None,
        layout: Layout::default(),
        limits: CellLimits::default(),
        folder: folder.to_owned(),
        private_hosts: Vec::new(),
    }))
}

#[test]
fn without_a_launcher_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let touch = &["touch", "mark"];
    let message = refused(&Connectors::new(), touch, Code::SandboxUnavailable);
    assert!(message.contains("no sandbox"), "{message}");
    let missing = with("/no/such/launcher", folder.path());
    let message = refused(&missing, touch, Code::SandboxUnavailable);
    assert!(message.contains("/no/such/launcher"), "{message}");
    // A program that sends no report is not a launcher, whatever its exit code.
    for other in ["true", "false", "echo"] {
        let message = refused(&with(other, folder.path()), touch, Code::SandboxUnavailable);
        assert!(message.contains("reported nothing"), "{message}");
    }
}

#[test]
fn an_invalid_command_fails_as_it_does_without_a_launcher() {
    let folder = tempfile::tempdir().unwrap();
    // At the full level a trial of the launcher comes first.
    let connectors = at_level(Level::Landlock, "true", folder.path());
    refused(&connectors, &[], Code::ToolServerUnavailable);
    refused(&connectors, &["touch", "nul\0byte"], Code::ToolServerUnavailable);
}
