//! How the work tree of a run is made ready before its first phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::event::Event;
use super::next::{Next, Work};
use super::payload::{Failure, Started};
use super::plan::Trigger;
use super::state::Run;
use crate::Digest;
use crate::entry::present;

/// What makes the work tree of a run ready, as the project's settings had it when the run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The commands, each a program with its arguments, in their order.
    pub commands: Vec<Vec<String>>,
    /// Globs of the untracked files that are copied from the project's folder.
    pub copy: Vec<String>,
    /// The ports of the run, if it has some.
    #[serde(deserialize_with = "present")]
    pub ports: Option<PortRange>,
    /// The time limit of all commands together, in seconds.
    pub timeout_seconds: u64,
}

/// Consecutive port numbers that no other run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// How many.
    pub count: u16,
    /// The first.
    pub first: u16,
}

/// A file that is copied into a work tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedFile {
    /// Its size.
    pub bytes: u64,
    /// The digest of its content.
    pub digest: Digest,
    /// Its permissions.
    pub mode: u32,
    /// Its path in the work tree.
    pub path: String,
}

/// One step of a setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum SetupStep {
    /// An attempt begins: the files are about to be copied.
    Started {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The files to copy.
        files: Vec<CopiedFile>,
    },
    /// A command is about to be started.
    CommandStarted {
        /// The number of the command, from 1.
        command: u32,
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A command ended.
    CommandEnded {
        /// The number of the command.
        command: u32,
        /// The duration.
        duration_ms: u64,
        /// The end of its output.
        output: String,
        /// The failure, if it failed.
        #[serde(deserialize_with = "present")]
        failure: Option<Failure>,
    },
    /// The attempt ended.
    Ended {
        /// The failure; without one the work tree is ready.
        #[serde(deserialize_with = "present")]
        failure: Option<Failure>,
    },
}

/// How far the setup of a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupState {
    /// The number of the newest attempt; 0 before the first.
    pub attempt: u32,
    /// Whether the work tree is ready.
    pub complete: bool,
    /// The failure of the newest attempt, until a person lets it be repeated.
    pub failure: Option<Failure>,
    /// The files that were copied, which belong to no commit.
    pub files: Arc<Vec<CopiedFile>>,
    /// Whether an attempt is in progress.
    open: bool,
    /// The command that was started and has not ended.
    running: Option<u32>,
    /// The number of commands that succeeded in this attempt.
    succeeded: u32,
}

impl Started {
    /// The environment variables that all commands of the run get.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([("WINDLASS_RUN".to_owned(), self.run_id.clone())]);
        if let Some(ports) = self.setup.as_ref().and_then(|setup| setup.ports) {
            variables.insert("WINDLASS_PORT".to_owned(), ports.first.to_string());
        }
        variables
    }
}

impl Run {
    /// Whether the work tree is not ready yet.
    pub(super) fn needs_setup(&self) -> bool {
        let setup = self.started.as_ref().and_then(|started| started.setup.as_ref());
        !self.setup.complete
            && setup.is_some_and(|setup| !setup.commands.is_empty() || !setup.copy.is_empty())
    }

    /// What comes next for the setup, if it is not complete.
    pub(super) fn next_of_setup(&self) -> Option<Next> {
        if !self.needs_setup() {
            return None;
        }
        let Some(failure) = &self.setup.failure else {
            return Some(Next::Perform(vec![Work::Setup]));
        };
        let question = format!(
            "[SETUP_FAILED] the work tree is not ready: {}; mend it, then approve to run the setup again",
            failure.reason
        );
        let mut held = self.held(0, Trigger::SetupFailed, question);
        held.evidence = json!({"class": failure.class, "attempt": self.setup.attempt});
        Some(Next::Record(Box::new(Event::Held(Box::new(held)))))
    }

    pub(super) fn fold_setup(&mut self, step: &SetupStep) -> Result<(), String> {
        if !self.needs_setup() {
            return Err("the run needs no setup, or it is complete".to_owned());
        }
        let commands = self
            .started
            .as_ref()
            .and_then(|started| started.setup.as_ref())
            .map(|setup| &setup.commands);
        let planned = commands.map_or(0, Vec::len);
        let next = self.setup.succeeded.saturating_add(1);
        let known = |number: u32| {
            let index = usize::try_from(number).ok()?.checked_sub(1)?;
            commands?.get(index)
        };
        match step {
            SetupStep::Started { attempt, files } => {
                // After a crash the last attempt is still open.
                if self.setup.failure.is_some() || *attempt != self.setup.attempt.saturating_add(1)
                {
                    return Err(format!("attempt {attempt} of the setup is not the next one"));
                }
                self.setup = SetupState {
                    attempt: *attempt,
                    files: Arc::new(files.clone()),
                    open: true,
                    ..SetupState::default()
                };
            }
            SetupStep::CommandStarted { command, argv } => {
                let is_next = self.setup.open && self.setup.running.is_none() && *command == next;
                if !is_next || known(*command) != Some(argv) {
                    return Err(format!("command {command} of the setup is not the next one"));
                }
                self.setup.running = Some(*command);
            }
            SetupStep::CommandEnded { command, failure, .. } => {
                if self.setup.running != Some(*command) {
                    return Err(format!("command {command} of the setup is not running"));
                }
                self.setup.running = None;
                if failure.is_none() {
                    self.setup.succeeded = next;
                } else {
                    // Nothing but the end of the attempt can follow.
                    self.setup.succeeded = u32::MAX;
                }
            }
            SetupStep::Ended { failure } => {
                let done = usize::try_from(self.setup.succeeded) == Ok(planned);
                if !self.setup.open || self.setup.running.is_some() || failure.is_none() && !done {
                    return Err(
                        "the setup is not in progress, or not all commands succeeded".to_owned()
                    );
                }
                self.setup.open = false;
                self.setup.complete = failure.is_none();
                self.setup.failure.clone_from(failure);
            }
        }
        Ok(())
    }

    /// Lets a failed setup be repeated.
    pub(super) fn repeat_setup(&mut self) {
        self.setup.failure = None;
    }
}
