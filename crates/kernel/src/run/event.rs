//! What can be recorded of a run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checkpoint::{Checkpoint, Rollback};
use super::payload::{Change, HoldRequest, InvocationResult, PhaseResult, Started, Usage, Vote};
use super::plan::{BudgetedResource, RunOutcome};
use crate::canon::{self, CanonError};
use crate::entry::present;
use crate::{ArtifactId, Digest, SCHEMA_VERSION, State, Timestamp, TraceId};

/// The artifact of a run's entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEvent {
    /// The artifact's id.
    pub artifact_id: ArtifactId,
    /// What happened.
    pub event: Event,
    /// What kind of document this is.
    pub schema_id: Cow<'static, str>,
    /// Its version.
    pub schema_version: Cow<'static, str>,
    /// The run's trace.
    pub trace_id: TraceId,
    /// When it was recorded.
    pub ts: Timestamp,
}

impl RunEvent {
    /// The `schema_id` of this artifact.
    pub const SCHEMA_ID: &'static str = "windlass.run_event";

    /// Wraps an event.
    #[must_use]
    pub fn new(trace_id: TraceId, artifact_id: ArtifactId, ts: Timestamp, event: Event) -> Self {
        let (schema_id, schema_version) = (Self::SCHEMA_ID.into(), SCHEMA_VERSION.into());
        Self { artifact_id, event, schema_id, schema_version, trace_id, ts }
    }

    /// The canonical bytes, as they are stored and hashed.
    ///
    /// # Errors
    /// [`CanonError`] when the event holds what canonical JSON would change.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonError> {
        canon::to_bytes(self)
    }
}

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The run exists.
    Started(Box<Started>),
    /// The first phase may start.
    Begun {},
    /// A try of a phase begins.
    PhaseStarted {
        /// The phase.
        phase: String,
        /// The number of the try, from 1.
        attempt: u32,
    },
    /// A phase is not done in this run.
    PhaseSkipped {
        /// The phase.
        phase: String,
        /// Why.
        reason: String,
    },
    /// A check has judged.
    Checked {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// The check.
        check: String,
        /// What it said; empty when it could not say anything that counts.
        verdict: String,
        /// Why.
        reason: String,
        /// What is to be done better.
        findings: Value,
        /// What it used, its invocations included.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
    },
    /// An agent or a program is about to be started.
    InvocationStarted {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// Which invocation of the run, from 1.
        invocation: u64,
        /// The agent, or the program.
        agent: String,
        /// What performs it.
        runner: String,
        /// The model, where there is one.
        #[serde(deserialize_with = "present")]
        model: Option<String>,
    },
    /// It has ended.
    InvocationEnded {
        /// Which invocation of the run.
        invocation: u64,
        /// How.
        result: InvocationResult,
        /// What it used.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
        /// What to know about it.
        note: String,
    },
    /// The work of a try has ended.
    PhaseDone {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// What came of it.
        done: Box<PhaseResult>,
    },
    /// One of those who must agree has said what it thinks.
    Reviewed {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// Who.
        reviewer: String,
        /// `approved`, `approved_with_conditions` or `rejected`; anything else counts as the last.
        verdict: String,
        /// What an approval is bound to.
        conditions: Vec<String>,
        /// Why.
        reason: String,
        /// What is to be done better.
        findings: Value,
        /// What it used.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
    },
    /// The run's state and workspace were kept.
    Checkpointed(Box<Checkpoint>),
    /// A branch has been merged, and the workspace is about to become what came of it.
    MergePrepared {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// The workspace before.
        ours: String,
        /// The branch.
        theirs: String,
        /// The workspace after.
        tree: String,
    },
    /// The workspace has become it.
    Merged {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// The workspace as it is now, against where the run started.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
    },
    /// A branch cannot be merged as it is; both sides lie in its work tree, marked.
    Conflicted {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// The workspace that it does not fit to.
        ours: String,
        /// The files.
        paths: Vec<String>,
        /// What git said.
        messages: Vec<String>,
    },
    /// A person takes the run back; its workspace is about to be restored.
    RollbackBegun(Box<Rollback>),
    /// The workspace is restored.
    RolledBack {
        /// The workspace as it is now, against where the run started.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
    },
    /// The work of a try cannot go on before a person has answered.
    Waiting {
        /// The phase.
        phase: String,
        /// The try.
        attempt: u32,
        /// The call that waits.
        call: TraceId,
        /// The workspace as it is now.
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
        /// What is asked.
        question: String,
    },
    /// A gate or check sends the run back.
    SentBack {
        /// The phase that was judged.
        phase: String,
        /// By which gate or check of it.
        source: String,
        /// What it said.
        verdict: String,
        /// The phase to be done again, or the intervention.
        to: String,
        /// How often this source has sent back, this time included.
        count: u32,
        /// What the work looked like, to see whether the next one differs.
        #[serde(deserialize_with = "present")]
        fingerprint: Option<Digest>,
    },
    /// Four fifths of a budget are used.
    Warned {
        /// Which.
        resource: BudgetedResource,
        /// How much is used.
        used: u64,
        /// Of how much.
        limit: u64,
    },
    /// The run waits for a person.
    Held(Box<HoldRequest>),
    /// A person has answered.
    Voted(Vote),
    /// The run is taken up after an answer.
    Resumed {
        /// By whom.
        by: String,
    },
    /// The run goes on.
    Continued {},
    /// The run is taken up after its process died.
    Restarted {
        /// By whom.
        by: String,
    },
    /// A commit has been made and is about to become the branch's newest.
    CommitPrepared {
        /// The branch.
        branch: String,
        /// The commit.
        commit: String,
        /// What the branch pointed at.
        parent: String,
        /// The commit's tree.
        tree: String,
    },
    /// Something a doer states for the record.
    Noted {
        /// What kind of thing.
        what: NoteKind,
        /// The thing.
        body: Value,
    },
    /// The run has ended.
    Ended {
        /// How.
        outcome: RunOutcome,
        /// Why, as a word.
        reason: String,
        /// Why, for a person.
        detail: String,
    },
}

/// What kind of thing is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Project memory was saved or restored.
    Memory,
    /// The sandbox changed its state.
    Sandbox,
    /// A telemetry record.
    Telemetry,
}

impl Event {
    /// The state that an entry with this event leads to.
    #[must_use]
    pub const fn to_state(&self) -> State {
        match self {
            Self::Started(_) => State::Init,
            Self::Begun {}
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
            Self::Held(_) | Self::Voted(_) => State::Checkpoint,
            Self::Resumed { .. } => State::Resumed,
            Self::Ended { .. } => State::Terminal,
        }
    }

    /// The state that an entry with this event leads to from a state: what is noted of a run on hold
    /// leaves it there.
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
            Self::Resumed { .. } => "resumed",
            Self::Continued {} => "continued",
            Self::Restarted { .. } => "restarted",
            Self::CommitPrepared { .. } => "commit_prepared",
            Self::Noted { .. } => "noted",
            Self::Ended { .. } => "ended",
        }
    }
}
