//! The document of a checkpoint: its entry, and the run's state at that entry.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_kernel::run::plan::{Doer, Phase, Reviewer};
use windlass_kernel::run::{
    Checkpoint, CheckpointKind, CheckpointSide, ComplianceResult, GateResult, PhaseState,
    PhaseStatus, Run, checkpoint_name,
};
use windlass_kernel::{CheckpointId, Digest, Timestamp};

use super::tool_invocation::{CallLookup, ToolInvocation, invocations};

/// The document of a checkpoint.
// INVARIANT: the fields are declared in the order of their names, which is the order in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointDocument {
    /// The work of each agent so far, by its name.
    pub agent_states: BTreeMap<String, AgentState>,
    /// The outputs of the phase, by path.
    pub artifacts: BTreeMap<String, ArtifactInfo>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The duration of the phase.
    pub duration_ms: u64,
    /// The governance results of the phase.
    pub governance_results: GovernanceResults,
    /// Its id.
    pub id: CheckpointId,
    /// Additional data.
    pub metadata: Value,
    /// The state of the run.
    pub orchestrator_state: OrchestratorState,
    /// The checkpoint before it.
    pub parent_checkpoint_id: Option<CheckpointId>,
    /// The phase.
    pub phase: String,
    /// Before or after it.
    #[serde(rename = "type")]
    pub side: CheckpointSide,
    /// Its number among those of its phase and side, from 1.
    pub version: u32,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrchestratorState {
    /// The phases that were complete, in the plan's order.
    pub completed_phases: Vec<String>,
    /// The current phase.
    pub current_phase: String,
    /// The task, and the answer of the phase `intake`.
    pub intake_summary: Value,
    /// The run.
    pub run_id: String,
}

/// The work of an agent so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentState {
    /// The status of its newest work.
    pub status: AgentStatus,
    /// A short summary.
    pub summary: String,
    /// The tokens it used.
    pub token_usage: TokenUsage,
    /// The newest of its calls.
    pub tool_invocations: Vec<ToolInvocation>,
}

impl AgentState {
    /// An agent that has not started.
    const fn pending() -> Self {
        Self {
            status: AgentStatus::Pending,
            summary: String::new(),
            token_usage: TokenUsage { input: 0, output: 0 },
            tool_invocations: Vec::new(),
        }
    }
}

/// The status of an agent's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Not started.
    Pending,
    /// In progress.
    Running,
    /// Done.
    Complete,
    /// Failed.
    Failed,
}

impl AgentStatus {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUsage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// An output of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactInfo {
    /// Its type.
    pub artifact_type: String,
    /// The digest of its content.
    pub hash: Digest,
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// The governance results of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GovernanceResults {
    /// The compliance checks.
    pub compliance_checks: Vec<ComplianceResult>,
    /// Whether none of them blocks; `null` if nothing was measured and the phase has not failed.
    pub passed: Option<bool>,
    /// The quality gates.
    pub quality_gates: Vec<GateResult>,
    /// Whether anything was measured, and with what result.
    pub status: GovernanceStatus,
}

/// The result of the governance rules of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GovernanceStatus {
    /// No rule blocks.
    Passed,
    /// A rule blocks.
    Failed,
    /// No rule was evaluated.
    NotMeasured,
}

impl GovernanceStatus {
    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotMeasured => "not_measured",
        }
    }
}

impl CheckpointDocument {
    /// The checkpoint's name in its run, which is also the name of its file.
    #[must_use]
    pub fn name(&self) -> String {
        checkpoint_name(self.side, &self.phase, self.version)
    }

    /// The file's bytes: JSON with sorted keys.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The tokens of all agents.
    #[must_use]
    pub fn tokens(&self) -> TokenUsage {
        let mut all = TokenUsage::default();
        for state in self.agent_states.values() {
            all.input = all.input.saturating_add(state.token_usage.input);
            all.output = all.output.saturating_add(state.token_usage.output);
        }
        all
    }
}

/// Builds the document of a checkpoint from its entry and the run just after it. Nothing else decides its bytes.
#[must_use]
pub fn build_document(
    run: &Run,
    checkpoint: &Checkpoint,
    created_at: Timestamp,
    calls: &CallLookup<'_>,
) -> CheckpointDocument {
    let started = run.started.as_deref();
    let done = run.position(&checkpoint.phase).and_then(|at| run.phase(at)?.1.done.clone());
    let governed = done
        .filter(|_| checkpoint.at == CheckpointSide::Post)
        .and_then(|done| done.governance.clone());
    let failed = checkpoint.kind == CheckpointKind::Failed;
    let governance_results = match governed {
        Some(governed) => GovernanceResults {
            compliance_checks: governed.compliance_checks,
            passed: Some(governed.passed && !failed),
            quality_gates: governed.quality_gates,
            status: if governed.passed {
                GovernanceStatus::Passed
            } else {
                GovernanceStatus::Failed
            },
        },
        None => GovernanceResults {
            compliance_checks: Vec::new(),
            passed: failed.then_some(false),
            quality_gates: Vec::new(),
            status: GovernanceStatus::NotMeasured,
        },
    };
    let artifacts = checkpoint.artifacts.iter().map(|(path, artifact)| {
        let info = ArtifactInfo {
            artifact_type: artifact.artifact_type.clone(),
            hash: artifact.digest,
            path: path.clone(),
            size_bytes: artifact.size_bytes,
        };
        (path.clone(), info)
    });
    let complete = |phase: &Phase, state: &PhaseState| {
        state.status == PhaseStatus::Complete
            || phase.id == checkpoint.phase && keeps_result(run, checkpoint)
    };
    CheckpointDocument {
        agent_states: agent_states(run, calls),
        artifacts: artifacts.collect(),
        created_at,
        duration_ms: checkpoint.duration_ms,
        governance_results,
        id: checkpoint.id,
        metadata: metadata(run, checkpoint),
        orchestrator_state: OrchestratorState {
            completed_phases: run
                .all_phases()
                .filter(|(phase, state)| complete(phase, state))
                .map(|(phase, _)| phase.id.clone())
                .collect(),
            current_phase: checkpoint.phase.clone(),
            intake_summary: json!({
                "answer": intake(run),
                "task": started.map(|started| started.task.clone()),
            }),
            run_id: started.map(|started| started.run_id.clone()).unwrap_or_default(),
        },
        parent_checkpoint_id: checkpoint.parent,
        phase: checkpoint.phase.clone(),
        side: checkpoint.at,
        version: checkpoint.version,
    }
}

/// Whether the phase of a checkpoint has done its work at it, though its gate may still judge it.
fn keeps_result(run: &Run, checkpoint: &Checkpoint) -> bool {
    let succeeded = |kind| matches!(kind, CheckpointKind::Succeeded | CheckpointKind::Approved);
    let mut kind = checkpoint.kind;
    let mut source = checkpoint.parent;
    // The checkpoint of a rollback has the state of the checkpoint that was restored.
    while kind == CheckpointKind::Rollback
        && let Some(parent) = source.and_then(|source| run.checkpoint(source))
    {
        (kind, source) = (parent.kind, parent.parent);
    }
    succeeded(kind)
}

/// The answer of the phase `intake`, or of the first phase.
fn intake(run: &Run) -> Value {
    let at = run.position("intake").unwrap_or_default();
    let done = run.phase(at).and_then(|(_, state)| state.done.as_ref());
    done.map_or(Value::Null, |done| done.answer.clone())
}

fn metadata(run: &Run, checkpoint: &Checkpoint) -> Value {
    let mut all: Map<String, Value> = checkpoint.metadata.as_object().cloned().unwrap_or_default();
    all.insert("attempt".to_owned(), json!(checkpoint.attempt));
    all.insert("facts".to_owned(), json!(run.facts));
    all.insert("kind".to_owned(), json!(checkpoint.kind));
    all.insert("workspace".to_owned(), json!(checkpoint.workspace));
    all.insert("wall_ms".to_owned(), json!(run.spent.wall_ms));
    all.insert(
        "entry".to_owned(),
        json!({"digest": run.head.entry_digest, "sequence_number": run.head.sequence_number}),
    );
    Value::Object(all)
}

/// The work of every agent so far; agents of later phases are pending. Tokens are those of all attempts.
fn agent_states(run: &Run, calls: &CallLookup<'_>) -> BTreeMap<String, AgentState> {
    let mut states: BTreeMap<String, AgentState> = BTreeMap::new();
    for (phase, state) in run.all_phases() {
        let named: BTreeSet<String> =
            agents_of(phase).into_iter().chain(state.agents.keys().cloned()).collect();
        for name in named {
            let known = states.entry(name.clone()).or_insert_with(AgentState::pending);
            let (status, summary) = work_of(phase, state, &name);
            if status == AgentStatus::Pending {
                continue;
            }
            known.status = status;
            if let Some(summary) = summary {
                known.summary = summary;
            }
            if let Some(done) = &state.done {
                let made = invocations(calls, &done.calls, Some(&name), INVOCATIONS_MAX);
                known.tool_invocations.extend(made);
                let more = known.tool_invocations.len().saturating_sub(INVOCATIONS_MAX);
                known.tool_invocations.drain(..more);
            }
        }
    }
    for (name, usage) in &run.agents {
        let known = states.entry(name.clone()).or_insert_with(AgentState::pending);
        known.token_usage = TokenUsage { input: usage.input_tokens, output: usage.output_tokens };
    }
    states
}

/// The status and the summary of an agent's work in a phase. A reviewer has its own; one that only checks the
/// work of another has no summary.
fn work_of(phase: &Phase, state: &PhaseState, name: &str) -> (AgentStatus, Option<String>) {
    let status = status_of(state);
    let summary = || state.done.as_ref().map(|done| done.summary.clone());
    match &phase.doer {
        Doer::Consensus { .. } => match state.reviews.iter().find(|review| review.by == name) {
            Some(review) => (AgentStatus::Complete, Some(review.reason.clone())),
            // The others have decided without it.
            None if state.done.is_some() && !state.agents.contains_key(name) => {
                (AgentStatus::Pending, None)
            }
            None => (status, None),
        },
        Doer::Agent { agent, .. } => (status, summary().filter(|_| agent == name)),
        Doer::Builtin { .. } | Doer::Command { .. } | Doer::Person { .. } => {
            let checks = phase
                .checks
                .iter()
                .any(|check| matches!(&check.doer, Doer::Agent { agent, .. } if agent == name));
            (status, summary().filter(|_| !checks))
        }
    }
}

/// The maximum number of listed calls of one agent; the newest are listed.
const INVOCATIONS_MAX: usize = 100;

fn agents_of(phase: &Phase) -> Vec<String> {
    match &phase.doer {
        Doer::Agent { agent, .. } => vec![agent.clone()],
        Doer::Consensus { reviewers, .. } => {
            let agents = reviewers.iter().filter(|one| matches!(one, Reviewer::Agent { .. }));
            agents.map(|one| one.name().to_owned()).collect()
        }
        Doer::Builtin { .. } | Doer::Command { .. } | Doer::Person { .. } => Vec::new(),
    }
}

fn status_of(state: &PhaseState) -> AgentStatus {
    match (state.status, &state.done) {
        (PhaseStatus::Pending | PhaseStatus::Skipped, _) => AgentStatus::Pending,
        (PhaseStatus::Failed, _) => AgentStatus::Failed,
        (PhaseStatus::Complete, _) | (PhaseStatus::Running, Some(_)) => AgentStatus::Complete,
        (PhaseStatus::Running, None) => AgentStatus::Running,
    }
}
