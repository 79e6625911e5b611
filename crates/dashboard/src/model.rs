//! What the API says about runs and holds, and what the pages show.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::Timestamp;
use windlass_kernel::run::plan::{BudgetedResource, Doer, Phase, RunOutcome, Trigger};
use windlass_kernel::run::{
    CallRecord, CheckpointRecord, Hold, PhaseState, PhaseStatus, Resolution, Run, VoteDecision,
    checkpoint_name,
};
use windlass_views::RunSummary;

use crate::problem::Problem;
use crate::project::Project;

/// A project.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProjectItem {
    /// The id in addresses.
    pub id: String,
    /// The name.
    pub name: String,
    /// Why it cannot be used; `null` if it can.
    pub unusable: Option<UnusableProject>,
}

/// A project that cannot be used, and which lists leave out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnusableProject {
    /// The project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// The code of the error.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl UnusableProject {
    /// What is said of a project that has this problem.
    #[must_use]
    pub fn of(project: &dyn Project, problem: &Problem) -> Self {
        Self {
            project: project.id().to_owned(),
            name: project.name().to_owned(),
            code: problem.code.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}

/// The state of a run, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process is at work on it.
    Running,
    /// It waits for a person, or for an agent that could not be reached.
    OnHold,
    /// People have answered; it has not gone on yet.
    Answered,
    /// It waited too long.
    Expired,
    /// No process is at work on it.
    Interrupted,
    /// A session that goes on.
    Open,
    /// It has ended with success.
    Passed,
    /// It has ended otherwise.
    Failed,
    /// Its record is damaged.
    Damaged,
}

impl RunState {
    /// The state of a run in a list.
    #[must_use]
    pub fn of(run: &RunSummary, is_live: bool, now: Timestamp) -> Self {
        match (&run.ended, &run.hold) {
            (Some(ended), _) if ended.outcome == RunOutcome::Pass => Self::Passed,
            (Some(_), _) => Self::Failed,
            (None, Some(hold)) => match hold.resolution() {
                Resolution::Open if hold.is_expired(now) => Self::Expired,
                Resolution::Open => Self::OnHold,
                Resolution::Approved | Resolution::Rejected => Self::Answered,
            },
            (None, None) if is_live => Self::Running,
            (None, None) if run.client.is_some() => Self::Open,
            (None, None) => Self::Interrupted,
        }
    }

    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::OnHold => "waits for you",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::Open => "open",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Damaged => "damaged",
        }
    }

    /// The name in addresses and style sheets.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::OnHold => "on_hold",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::Open => "open",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Damaged => "damaged",
        }
    }
}

/// A run in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunItem {
    /// The project.
    pub project: String,
    /// The name of the run.
    pub run: String,
    /// The loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The task, in words.
    pub task: String,
    /// The state.
    pub state: RunState,
    /// When it started.
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// The phase that is at work, or that waits.
    pub phase: Option<String>,
    /// Why it ended, or why it cannot be read.
    pub reason: Option<String>,
    /// The client, if it is a session of one.
    pub client: Option<String>,
    /// The folder in which the client works, if it is a session of one.
    pub folder: Option<String>,
    /// What it waits for.
    pub hold: Option<HoldItem>,
    /// How many entries it has.
    pub entries: u64,
}

/// What a run waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HoldItem {
    /// Why it waits, as a name.
    pub trigger: String,
    /// Why it waits, in words.
    pub why: String,
    /// The phase.
    pub phase: String,
    /// The question.
    pub question: String,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Until when it can be answered.
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    /// The digest of what the hold shows, which a decision must name.
    pub shown: String,
    /// How many have approved, and how many must.
    pub approvals: u32,
    /// How many must approve.
    pub approvals_needed: u32,
    /// How many have rejected.
    pub rejections: u32,
    /// Who may answer; anybody if empty.
    pub reviewers: Vec<String>,
    /// The call that is asked about, if it is one.
    pub call: Option<String>,
    /// Whose approval does not count, because they started the run.
    pub excluded: Option<String>,
}

/// A run in full.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub item: RunItem,
    /// The title of the loop.
    pub title: String,
    /// Who started it.
    pub by: String,
    /// The phases, in the order of the plan.
    pub phases: Vec<PhaseItem>,
    /// What it has used of what it may use.
    pub budgets: Vec<BudgetItem>,
    /// The facts that phases have recorded.
    pub facts: BTreeMap<String, String>,
    /// The usage of agents and programs, by name.
    pub agents: BTreeMap<String, AgentUsage>,
    /// The newest commit.
    pub commit: Option<String>,
    /// The files that it has changed.
    pub changed_files: Vec<String>,
    /// The checkpoints between which all of its work lies.
    pub span: Option<(String, String)>,
    /// The work tree of its own, if it has one.
    pub worktree: Option<String>,
    /// The digest of the newest entry.
    pub head: String,
    /// Why it ended, in words.
    pub detail: Option<String>,
}

/// A phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseItem {
    /// The id.
    pub id: String,
    /// The title.
    pub title: Option<String>,
    /// The status.
    pub status: String,
    /// The number of the newest attempt.
    pub attempt: u32,
    /// Who does it.
    pub doer: String,
    /// The phases that must be settled before it.
    pub needs: Vec<String>,
    /// Whether a gate judges it.
    pub gate: Option<String>,
    /// When the newest attempt began.
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    /// How long the newest attempt took.
    pub duration_ms: Option<u64>,
    /// The verdict.
    pub verdict: Option<String>,
    /// What was done.
    pub summary: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// The calls of the newest attempt.
    pub calls: Vec<CallItem>,
}

/// A call of a phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallItem {
    /// Its trace.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// How it ended.
    pub state: String,
}

/// A limited resource.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BudgetItem {
    /// The resource.
    pub resource: String,
    /// How much is used.
    pub used: u64,
    /// How much may be used.
    pub limit: Option<u64>,
}

/// The usage of an agent or program.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct AgentUsage {
    /// Cost, in millionths of a dollar.
    pub cost_micros: u64,
    /// Tokens.
    pub tokens: u64,
}

impl RunItem {
    /// A run in a list.
    #[must_use]
    pub fn of(project: &str, run: &RunSummary, is_live: bool, now: Timestamp) -> Self {
        let waits = run.hold.as_ref().map(|hold| hold.held.phase.clone());
        Self {
            project: project.to_owned(),
            run: run.run_id.clone(),
            loop_id: run.loop_id.clone(),
            task: task_of(&run.task),
            state: RunState::of(run, is_live, now),
            started_at: run.started_at,
            ended_at: run.ended.as_ref().map(|ended| ended.at),
            phase: waits.or_else(|| run.phase.clone()),
            reason: run.ended.as_ref().map(|ended| ended.reason.clone()),
            client: run.client.clone(),
            folder: run.client.as_ref().and_then(|_| folder_of(&run.task)),
            hold: run.hold.as_ref().map(HoldItem::of),
            entries: run.head.sequence_number,
        }
    }
}

/// The folder in which a client works.
fn folder_of(task: &Value) -> Option<String> {
    task.get("folder").and_then(Value::as_str).map(str::to_owned)
}

/// The first and the last checkpoint that have files.
fn span(run: &Run) -> Option<(String, String)> {
    let has_files = |one: &&CheckpointRecord| one.workspace.is_some();
    let name = |one: &CheckpointRecord| {
        let (phase, _) = run.phase(one.phase)?;
        Some(checkpoint_name(one.at, &phase.id, one.version))
    };
    let first = run.checkpoints.iter().find(has_files)?;
    let last = run.checkpoints.iter().rev().find(has_files)?;
    (first.id != last.id).then_some((name(first)?, name(last)?))
}

/// A task in words.
fn task_of(task: &Value) -> String {
    task.get("task").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl HoldItem {
    fn of(hold: &Hold) -> Self {
        let votes = |decision| u32::try_from(hold.count(decision)).unwrap_or(u32::MAX);
        Self {
            trigger: hold.held.trigger.as_str().to_owned(),
            why: why(hold.held.trigger).to_owned(),
            phase: hold.held.phase.clone(),
            question: hold.held.question.clone(),
            since: hold.since,
            expires_at: hold.held.expires_at,
            shown: hold.shown.to_string(),
            approvals: votes(VoteDecision::Approved),
            approvals_needed: hold.held.approvals,
            rejections: votes(VoteDecision::Rejected),
            reviewers: hold.held.reviewers.clone(),
            call: hold.held.call.map(|call| call.to_string()),
            excluded: hold.excluded.clone(),
        }
    }
}

impl RunDetail {
    /// A run in full.
    #[must_use]
    pub fn of(project: &str, run: &Run, is_live: bool, now: Timestamp) -> Self {
        let started = run.started.as_deref();
        let plan = run.plan();
        let budgets = BudgetedResource::ALL
            .into_iter()
            .filter(|resource| *resource != BudgetedResource::Attempts)
            .map(|resource| BudgetItem {
                resource: resource.as_str().to_owned(),
                used: run.used(resource),
                limit: run.limit(resource),
            });
        let agents = run.agents.iter().map(|(name, usage)| {
            let usage = AgentUsage {
                cost_micros: usage.cost_micros,
                tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            };
            (name.clone(), usage)
        });
        let item = RunItem::of(project, &RunSummary::of(run), is_live, now);
        let state = item.state;
        Self {
            item,
            title: plan.map(|plan| plan.title.clone()).unwrap_or_default(),
            by: started.map(|started| started.by.clone()).unwrap_or_default(),
            phases: run
                .all_phases()
                .map(|(phase, phase_state)| PhaseItem::of(phase, phase_state, state))
                .collect(),
            budgets: budgets.collect(),
            facts: run.facts.clone(),
            agents: agents.collect(),
            commit: run.newest_commit().map(str::to_owned),
            changed_files: run.change.as_ref().map(|one| one.files.clone()).unwrap_or_default(),
            span: span(run),
            worktree: started.and_then(|started| started.worktree.clone()),
            head: run.head.entry_digest.to_string(),
            detail: run.ended.as_ref().map(|ended| ended.detail.clone()),
        }
    }

    /// Whether the run has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.item.state, RunState::Passed | RunState::Failed)
    }
}

impl PhaseItem {
    fn of(phase: &Phase, state: &PhaseState, run: RunState) -> Self {
        let status = match (state.status, run) {
            // What was under way when the run ended does not go on.
            (PhaseStatus::Running, RunState::Passed | RunState::Failed) => "not finished",
            (PhaseStatus::Running, RunState::Interrupted) => "interrupted",
            (status, _) => status.as_str(),
        };
        let done = state.done.as_deref();
        let verdict = done.and_then(|done| done.answer.get("verdict")).and_then(Value::as_str);
        Self {
            id: phase.id.clone(),
            title: phase.title.clone(),
            status: status.to_owned(),
            attempt: state.attempt,
            doer: doer(&phase.doer),
            needs: phase.needs.clone(),
            gate: phase.gate.as_ref().map(|gate| gate.id.clone()),
            started_at: state.started_at,
            duration_ms: done.map(|done| done.duration_ms),
            verdict: verdict.filter(|text| !text.is_empty()).map(str::to_owned),
            summary: done.map(|done| done.summary.clone()),
            failure: done
                .and_then(|done| done.failure.as_ref())
                .map(|failure| failure.reason.clone()),
            calls: done
                .map(|done| done.calls.iter().map(CallItem::of).collect())
                .unwrap_or_default(),
        }
    }
}

impl CallItem {
    fn of(call: &CallRecord) -> Self {
        Self {
            call: call.trace_id.to_string(),
            tool: call.tool.clone(),
            state: call.state.as_str().to_owned(),
        }
    }
}

/// Why a run waits, in words.
const fn why(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::AgentUnavailable => "its agent cannot be reached",
        Trigger::BudgetExhausted => "a budget is used up",
        Trigger::CallApproval => "a call needs approval",
        Trigger::ConsensusRequested => "reviewers are asked",
        Trigger::EscalationRequested => "a check asks for a person",
        Trigger::MergeConflict => "a merge has conflicts",
        Trigger::PersonRequested => "the loop asks a person",
        Trigger::RestartRequested => "its process died",
        Trigger::RolledBack => "it was rolled back",
        Trigger::SetupFailed => "its work tree could not be made ready",
        Trigger::UncertainEffect => "what was interrupted may have taken effect",
        Trigger::WaiverRequested => "a check asks for a waiver",
    }
}

/// Who does a phase, in words.
fn doer(doer: &Doer) -> String {
    match doer {
        Doer::Agent { agent, .. } => format!("agent {agent}"),
        Doer::Builtin { name, .. } => name.clone(),
        Doer::Consensus { reviewers, quorum, .. } => {
            format!("{quorum} of {} reviewers", reviewers.len())
        }
        Doer::Command { argv, .. } => argv.first().cloned().unwrap_or_default(),
        Doer::Person { .. } => "a person".to_owned(),
    }
}
