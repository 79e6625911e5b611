//! The events of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checkpoint::{Checkpoint, Rollback};
use super::integration::IntegrationStep;
use super::payload::{
    Change, HoldRequest, InvocationResult, PhaseResult, Revocation, Started, Usage, Vote, WaitsFor,
};
use super::plan::{BudgetedResource, RunOutcome};
use super::setup::SetupStep;
use crate::entry::present;
use crate::{ArtifactType, Digest, EventArtifact, Signed, State, TraceEvent};

/// The artifact of an entry of a run: an event with its envelope.
pub type RunEvent = EventArtifact<Event>;

impl TraceEvent for Event {
    const SCHEMA_ID: &'static str = "windlass.run_event";
    const ARTIFACT: ArtifactType = ArtifactType::RunEvent;
    const OF_ANOTHER: &'static str = "the event belongs to another run";

    fn state_after(&self, from: State) -> State {
        self.to_state_from(from)
    }
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The run was created.
    Started(Box<Started>),
    /// The first phase may start.
    Begun {},
    /// The work tree of the run is made ready.
    Setup(Box<SetupStep>),
    /// An attempt of a phase begins.
    PhaseStarted {
        /// The phase.
        phase: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A phase is skipped.
    PhaseSkipped {
        /// The phase.
        phase: String,
        /// The reason.
        reason: String,
    },
    /// A check gave its verdict.
    Checked {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The check.
        check: String,
        /// The verdict; empty if the check gave no valid one.
        verdict: String,
        /// The reason.
        reason: String,
        /// The findings to be fixed.
        findings: Value,
        /// The usage, including that of its invocations.
        usage: Usage,
        /// The duration.
        duration_ms: u64,
    },
    /// An agent or a program is about to be started.
    InvocationStarted {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The number of the invocation in the run, from 1.
        invocation: u64,
        /// The agent or the program.
        agent: String,
        /// The runner.
        runner: String,
        /// The model, if there is one.
        #[serde(deserialize_with = "present")]
        model: Option<String>,
        /// The invocation whose agent asked for it, if it is a subagent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<u64>,
    },
    /// An invocation ended.
    InvocationEnded {
        /// The number of the invocation in the run.
        invocation: u64,
        /// The result.
        result: InvocationResult,
        /// The usage.
        usage: Usage,
        /// The duration.
        duration_ms: u64,
        /// A note for people.
        note: String,
    },
    /// The work of an attempt ended.
    PhaseDone {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The result.
        done: Box<PhaseResult>,
    },
    /// An agent gave its review in a consensus phase.
    Reviewed {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The name of the reviewer.
        reviewer: String,
        /// `approved`, `approved_with_conditions` or `rejected`; any other verdict counts as rejected.
        verdict: String,
        /// The conditions of an approval.
        conditions: Vec<String>,
        /// The reason.
        reason: String,
        /// The findings to be fixed.
        findings: Value,
        /// The usage.
        usage: Usage,
        /// The duration.
        duration_ms: u64,
    },
    /// A checkpoint of the run was created.
    Checkpointed(Box<Checkpoint>),
    /// A merge was computed; the workspace is about to be updated to it.
    MergePrepared {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The tree of the workspace before the merge.
        ours: String,
        /// The tree of the branch.
        theirs: String,
        /// The tree of the workspace after the merge.
        tree: String,
    },
    /// The workspace was updated to the merge.
    Merged {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The change of the workspace since the start of the run.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
    },
    /// A branch has conflicts; its work tree contains both sides with conflict markers.
    Conflicted {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The tree of the workspace that it conflicts with.
        ours: String,
        /// The files with conflicts.
        paths: Vec<String>,
        /// The messages of git.
        messages: Vec<String>,
    },
    /// A person rolls back the run; its workspace is about to be restored.
    RollbackBegun(Box<Rollback>),
    /// The workspace was restored.
    RolledBack {
        /// The change of the workspace since the start of the run.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
    },
    /// The work of an attempt waits.
    Waiting {
        /// The phase.
        phase: String,
        /// The attempt.
        attempt: u32,
        /// The change of the workspace since the start of the run.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
        /// What the person should see.
        evidence: Value,
        /// The question to the person.
        question: String,
        /// What it waits for.
        waits_for: WaitsFor,
    },
    /// A gate or check sent the run back.
    SentBack {
        /// The phase that was judged.
        phase: String,
        /// The gate or check.
        source: String,
        /// The verdict.
        verdict: String,
        /// The phase to be redone, or the intervention.
        to: String,
        /// How often this gate or check has sent the run back, including this time.
        count: u32,
        /// The fingerprint of the work, to detect that the next attempt does not differ.
        #[serde(deserialize_with = "present")]
        fingerprint: Option<Digest>,
    },
    /// Four fifths of a budget were used.
    Warned {
        /// The resource.
        resource: BudgetedResource,
        /// The amount used.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// The run was put on hold.
    Held(Box<HoldRequest>),
    /// A person answered the hold.
    Voted(Box<Vote>),
    /// A person withdrew their answer.
    Revoked(Box<Revocation>),
    /// The run was resumed after the hold was answered.
    Resumed {
        /// The person or process.
        by: String,
        /// How long the call took that the run waited for, if it was made because of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worked_ms: Option<u64>,
    },
    /// The run continues.
    Continued {},
    /// The run was restarted after its process died.
    Restarted {
        /// The person or process.
        by: String,
    },
    /// A commit was created; the branch is about to be updated to it.
    CommitPrepared {
        /// The branch.
        branch: String,
        /// The commit.
        commit: String,
        /// The commit that the branch pointed to.
        parent: String,
        /// The commit's tree.
        tree: String,
    },
    /// A note of an executor.
    Noted {
        /// The kind of the note.
        what: NoteKind,
        /// The content of the note.
        body: Value,
    },
    /// The run ended.
    Ended {
        /// The outcome.
        outcome: RunOutcome,
        /// The reason, as an identifier.
        reason: String,
        /// The reason, for a person.
        detail: String,
    },
    /// The branch of the ended run is merged.
    Integration(Box<IntegrationStep>),
}

/// The kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The client that does the work of an agent: version, flags, session, transcript.
    Agent,
    /// Project memory was saved or restored.
    Memory,
    /// A signal ended the process that worked on the run.
    Interrupt,
    /// A person's answer was refused.
    Refusal,
    /// The state of the sandbox changed.
    Sandbox,
    /// A telemetry record.
    Telemetry,
}

impl Event {
    /// The person who signed the event, if it is a person's.
    #[must_use]
    pub fn signed(&self) -> Option<&Signed> {
        if let Self::Voted(vote) = self {
            Some(&vote.by)
        } else if let Self::Revoked(revoked) = self {
            Some(&revoked.by)
        } else {
            None
        }
    }

    /// The state after an entry with this event.
    #[must_use]
    pub const fn to_state(&self) -> State {
        match self {
            Self::Started(_) => State::Init,
            Self::Begun {}
            | Self::Setup(_)
            | Self::PhaseStarted { .. }
            | Self::PhaseSkipped { .. }
            | Self::Checked { .. }
            | Self::InvocationStarted { .. }
            | Self::InvocationEnded { .. }
            | Self::PhaseDone { .. }
            | Self::Reviewed { .. }
            | Self::Checkpointed(_)
            | Self::MergePrepared { .. }
            | Self::Merged { .. }
            | Self::Conflicted { .. }
            | Self::RollbackBegun(_)
            | Self::RolledBack { .. }
            | Self::Waiting { .. }
            | Self::SentBack { .. }
            | Self::Warned { .. }
            | Self::Continued {}
            | Self::Restarted { .. }
            | Self::CommitPrepared { .. }
            | Self::Noted { .. } => State::Running,
            Self::Held(_) | Self::Voted(_) | Self::Revoked(_) => State::Checkpoint,
            Self::Resumed { .. } => State::Resumed,
            Self::Ended { .. } | Self::Integration(_) => State::Terminal,
        }
    }

    /// The state after an entry with this event in the state `from`: a note leaves a run on hold.
    #[must_use]
    pub const fn to_state_from(&self, from: State) -> State {
        match (self, from) {
            (Self::Noted { .. }, State::Checkpoint) => State::Checkpoint,
            _ => self.to_state(),
        }
    }

    /// The event's name in the journal.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Begun {} => "begun",
            Self::Setup(_) => "setup",
            Self::PhaseStarted { .. } => "phase_started",
            Self::PhaseSkipped { .. } => "phase_skipped",
            Self::Checked { .. } => "checked",
            Self::InvocationStarted { .. } => "invocation_started",
            Self::InvocationEnded { .. } => "invocation_ended",
            Self::PhaseDone { .. } => "phase_done",
            Self::Reviewed { .. } => "reviewed",
            Self::Checkpointed(_) => "checkpointed",
            Self::MergePrepared { .. } => "merge_prepared",
            Self::Merged { .. } => "merged",
            Self::Conflicted { .. } => "conflicted",
            Self::RollbackBegun(_) => "rollback_begun",
            Self::RolledBack { .. } => "rolled_back",
            Self::Waiting { .. } => "waiting",
            Self::SentBack { .. } => "sent_back",
            Self::Warned { .. } => "warned",
            Self::Held(_) => "held",
            Self::Voted(_) => "voted",
            Self::Revoked(_) => "revoked",
            Self::Resumed { .. } => "resumed",
            Self::Continued {} => "continued",
            Self::Restarted { .. } => "restarted",
            Self::CommitPrepared { .. } => "commit_prepared",
            Self::Noted { .. } => "noted",
            Self::Ended { .. } => "ended",
            Self::Integration(_) => "integration",
        }
    }
}
