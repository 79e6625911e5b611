//! Compares two checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use windlass_engine::{EngineError, SnapshotStore, recorded_tree};
use windlass_kernel::run::GateStatus;
use windlass_kernel::{CheckpointId, TraceId};
use windlass_workspace::{ChangeKind, PathChange, Rename, TreeId};

use super::Checkpoints;
use super::document::{ArtifactInfo, CheckpointDocument};

/// The differences between two checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckpointDiff {
    /// The first checkpoint.
    pub from: CheckpointId,
    /// The second checkpoint.
    pub to: CheckpointId,
    /// The fields of the run's state that differ, by name.
    pub state: BTreeMap<String, ValueChange>,
    /// The fields of the agents that differ, by agent and name.
    pub agents: BTreeMap<String, BTreeMap<String, ValueChange>>,
    /// Tokens and time.
    pub usage: BTreeMap<String, ValueChange>,
    /// Gates and compliance checks with another status.
    pub governance: Vec<GateChange>,
    /// Outputs of the second checkpoint's phase that the workspace of the first does not have.
    pub added: Vec<ArtifactInfo>,
    /// Outputs of the first checkpoint's phase that the workspace of the second does not have.
    pub removed: Vec<ArtifactInfo>,
    /// Outputs of both phases that differ, in the first and in the second.
    pub modified: Vec<(ArtifactInfo, ArtifactInfo)>,
    /// Files of the workspace that differ; a renamed file is removed and added.
    pub files: Vec<PathChange>,
    /// Repositories inside the workspace, of which only the commits are compared.
    pub nested: BTreeSet<PathBuf>,
    /// Files of the workspace that were renamed.
    pub renames: Vec<Rename>,
    /// The trees of the workspaces.
    pub trees: Option<(TreeId, TreeId)>,
}

/// A value before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueChange {
    /// The value before.
    pub from: Value,
    /// The value after.
    pub to: Value,
}

/// A gate or check with another status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateChange {
    /// Its id.
    pub id: String,
    /// The status before; `None` if it was not evaluated.
    pub from: Option<GateStatus>,
    /// The status after.
    pub to: Option<GateStatus>,
}

impl CheckpointDiff {
    /// Whether only the ids differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
            && self.agents.is_empty()
            && self.usage.is_empty()
            && self.governance.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.modified.is_empty()
            && self.files.is_empty()
    }
}

impl CheckpointDiff {
    /// Drops outputs that only one of the phases has listed, but that both workspaces have: a phase lists the files
    /// that it changed, so a file that it left alone is not in its list.
    fn keep_changed(&mut self) {
        let paths = |kind: ChangeKind| -> BTreeSet<&Path> {
            let of_kind = self.files.iter().filter(|change| change.kind == kind);
            of_kind.map(|change| change.path.as_path()).collect()
        };
        let (added, removed) = (paths(ChangeKind::Added), paths(ChangeKind::Removed));
        self.added.retain(|one| added.contains(Path::new(&one.path)));
        self.removed.retain(|one| removed.contains(Path::new(&one.path)));
    }
}

impl Checkpoints {
    /// Compares two checkpoints, of one run or of two.
    ///
    /// # Errors
    /// [`EngineError`] if one does not exist, or its snapshot is corrupt.
    pub fn compare(
        &self,
        snapshots: &dyn SnapshotStore,
        from: (TraceId, CheckpointId),
        to: (TraceId, CheckpointId),
    ) -> Result<CheckpointDiff, EngineError> {
        let before = self.load(from.0, from.1)?;
        let after = self.load(to.0, to.1)?;
        let mut diff = compare(&before, &after);
        if let (Some(from), Some(to)) = (tree(&before)?, tree(&after)?) {
            diff.files = snapshots.changes(&from, &to)?;
            diff.keep_changed();
            if !diff.files.is_empty() {
                diff.renames = snapshots.renames(&from, &to)?;
            }
            for tree in [&from, &to] {
                diff.nested.extend(snapshots.nested(tree)?);
            }
            diff.trees = Some((from, to));
        }
        Ok(diff)
    }
}

/// The tree of the workspace in which a checkpoint's phase worked.
fn tree(document: &CheckpointDocument) -> Result<Option<TreeId>, EngineError> {
    let workspace = document.metadata.get("workspace");
    let text = |key: &str| workspace.and_then(|workspace| workspace.get(key)?.as_str());
    text("branch").or_else(|| text("tree")).map(recorded_tree).transpose()
}

/// Compares everything except the workspaces.
fn compare(before: &CheckpointDocument, after: &CheckpointDocument) -> CheckpointDiff {
    let paths: BTreeSet<&String> = before.artifacts.keys().chain(after.artifacts.keys()).collect();
    let (mut added, mut removed, mut modified) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        match (before.artifacts.get(path), after.artifacts.get(path)) {
            (None, Some(new)) => added.push(new.clone()),
            (Some(old), None) => removed.push(old.clone()),
            (Some(old), Some(new)) if old != new => modified.push((old.clone(), new.clone())),
            _ => {}
        }
    }
    CheckpointDiff {
        from: before.id,
        to: after.id,
        state: state(before, after),
        agents: agents(before, after),
        usage: usage(before, after),
        governance: governance(before, after),
        added,
        removed,
        modified,
        files: Vec::new(),
        nested: BTreeSet::new(),
        renames: Vec::new(),
        trees: None,
    }
}

/// Returns the rows that differ.
fn differing(rows: Vec<(&str, Value, Value)>) -> BTreeMap<String, ValueChange> {
    let rows = rows.into_iter().filter(|(_, from, to)| from != to);
    rows.map(|(name, from, to)| (name.to_owned(), ValueChange { from, to })).collect()
}

fn state(before: &CheckpointDocument, after: &CheckpointDocument) -> BTreeMap<String, ValueChange> {
    let (old, new) = (&before.orchestrator_state, &after.orchestrator_state);
    let meta = |document: &CheckpointDocument, key: &str| {
        document.metadata.get(key).cloned().unwrap_or(Value::Null)
    };
    differing(vec![
        ("run_id", json!(old.run_id), json!(new.run_id)),
        ("current_phase", json!(old.current_phase), json!(new.current_phase)),
        ("completed_phases", json!(old.completed_phases), json!(new.completed_phases)),
        ("intake_summary", old.intake_summary.clone(), new.intake_summary.clone()),
        ("facts", meta(before, "facts"), meta(after, "facts")),
        ("type", json!(before.side), json!(after.side)),
        ("version", json!(before.version), json!(after.version)),
        ("kind", meta(before, "kind"), meta(after, "kind")),
    ])
}

fn agents(
    before: &CheckpointDocument,
    after: &CheckpointDocument,
) -> BTreeMap<String, BTreeMap<String, ValueChange>> {
    let names: BTreeSet<&String> =
        before.agent_states.keys().chain(after.agent_states.keys()).collect();
    let mut changed = BTreeMap::new();
    for name in names {
        let of = |document: &CheckpointDocument| {
            document.agent_states.get(name).map(|state| {
                let calls = state.tool_invocations.len();
                (state.status.as_str(), state.token_usage, calls, state.summary.clone())
            })
        };
        let (old, new) = (of(before), of(after));
        let field = |get: fn(&(&'static str, super::TokenUsage, usize, String)) -> Value| {
            (old.as_ref().map_or(Value::Null, get), new.as_ref().map_or(Value::Null, get))
        };
        let rows = [
            ("status", field(|state| json!(state.0))),
            ("input_tokens", field(|state| json!(state.1.input))),
            ("output_tokens", field(|state| json!(state.1.output))),
            ("tool_invocations", field(|state| json!(state.2))),
            ("summary", field(|state| json!(state.3))),
        ];
        let rows = rows.into_iter().map(|(name, (from, to))| (name, from, to)).collect();
        let rows = differing(rows);
        if !rows.is_empty() {
            changed.insert(name.clone(), rows);
        }
    }
    changed
}

fn usage(before: &CheckpointDocument, after: &CheckpointDocument) -> BTreeMap<String, ValueChange> {
    let (old, new) = (before.tokens(), after.tokens());
    let wall = |document: &CheckpointDocument| {
        document.metadata.get("wall_ms").cloned().unwrap_or(Value::Null)
    };
    differing(vec![
        ("input_tokens", json!(old.input), json!(new.input)),
        ("output_tokens", json!(old.output), json!(new.output)),
        ("duration_ms", json!(before.duration_ms), json!(after.duration_ms)),
        ("wall_ms", wall(before), wall(after)),
    ])
}

fn governance(before: &CheckpointDocument, after: &CheckpointDocument) -> Vec<GateChange> {
    let of = |document: &CheckpointDocument| {
        let results = &document.governance_results;
        let gates = results.quality_gates.iter().map(|gate| (gate.gate_id.clone(), gate.status));
        let checks = results.compliance_checks.iter();
        let checks = checks.map(|check| (check.compliance_type.clone(), check.status));
        gates.chain(checks).collect::<BTreeMap<String, GateStatus>>()
    };
    let (old, new) = (of(before), of(after));
    let ids: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changes = ids.into_iter().map(|id| GateChange {
        id: id.clone(),
        from: old.get(id).copied(),
        to: new.get(id).copied(),
    });
    changes.filter(|change| change.from != change.to).collect()
}
