//! Commands that must be confined, without a working launcher.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_connect::{
    Certainty, Confinement, Connect, Connectors, Job, Launcher, Network, Target,
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
    let confinement = Confinement {
        writable: vec![folder.path().to_owned()],
        protected: Vec::new(),
        network: Network::Closed,
    };
    let args = json!({});
    let job = Job { confinement: Some(&confinement), ..common::job(&target, "", &args) };
    let (message, _) = failure(connectors.perform(&job), code, Certainty::DidNotRun);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    message
}

#[test]
fn without_a_launcher_nothing_runs() {
    let touch = &["touch", "mark"];
    let none = Connectors::new();
    let message = refused(&none, touch, Code::SandboxUnavailable);
    assert!(message.contains("no launcher"), "{message}");
    let with = |launcher: &str| Connectors::new().with_launcher(Launcher::new(launcher));
    let message = refused(&with("/no/such/launcher"), touch, Code::SandboxUnavailable);
    assert!(message.contains("/no/such/launcher"), "{message}");
    // A program that sends no report is not a launcher, whatever its exit code.
    for other in ["true", "false", "echo"] {
        let message = refused(&with(other), touch, Code::SandboxUnavailable);
        assert!(message.contains("could not be confined"), "{message}");
    }
    let bwrap = Launcher::new("true").with_bwrap("/no/such/bwrap");
    refused(&Connectors::new().with_launcher(bwrap), touch, Code::SandboxUnavailable);
}

#[test]
fn an_invalid_command_fails_as_it_does_without_a_launcher() {
    let connectors = Connectors::new().with_launcher(Launcher::new("true"));
    refused(&connectors, &[], Code::ToolServerUnavailable);
    refused(&connectors, &["touch", "nul\0byte"], Code::ToolServerUnavailable);
}
