//! The format of the vector files, read strictly.

use serde::Deserialize;
use serde_json::Value;
use windlass_kernel::{ArtifactType, Code, Digest, State};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub comment: String,
    pub schema_version: String,
    pub events: Vec<Value>,
    pub transitions: Vec<TransitionRow>,
    pub canonical: Vec<CanonicalRow>,
    pub valid_chains: Vec<ValidChain>,
    pub invalid_chains: Vec<InvalidChain>,
    pub recovery: Vec<RecoveryRow>,
    pub checkpoints: Vec<CheckpointRow>,
    pub states: Vec<StateRow>,
    pub valid_transitions: Vec<UpstreamChain>,
    pub invalid_transitions: Vec<UpstreamChain>,
    pub recovery_vectors: Vec<UpstreamRecovery>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamChain {
    pub description: String,
    pub entries: Vec<Value>,
    pub should_pass: bool,
    pub expected_error: Option<Code>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamRecovery {
    pub description: String,
    pub initial_log: Vec<Value>,
    pub recovery_action: String,
    pub expected_state_after_recovery: String,
    pub idempotency_enforced: bool,
}

#[derive(Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct TransitionRow {
    pub current_state: Option<State>,
    pub event: String,
    pub from_state: State,
    pub to_state: State,
    pub artifact_type: ArtifactType,
    pub allowed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanonicalRow {
    pub name: String,
    pub value: Value,
    pub canonical_hex: String,
    pub sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidChain {
    pub name: String,
    pub comment: String,
    pub entries: Vec<Value>,
    pub artifacts: Vec<ArtifactRow>,
    pub expect: ValidExpectation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRow {
    pub artifact_type: ArtifactType,
    pub artifact_digest: Digest,
    pub body: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidExpectation {
    pub chain_valid: bool,
    pub entry_count: u64,
    pub last_sequence_number: u64,
    pub latest_entry_digest: Digest,
    pub final_state: Option<State>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidChain {
    pub name: String,
    pub entries: Vec<Value>,
    pub schema_invalid_at: Option<usize>,
    pub expect: InvalidExpectation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidExpectation {
    pub chain_valid: bool,
    pub error_code: Code,
    pub divergence_point: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryRow {
    pub chain: Option<String>,
    pub on_uncertain: String,
    pub redispatches: u32,
    pub retries_max: u32,
    pub plan: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRow {
    pub name: String,
    pub chain: String,
    pub entries_applied: usize,
    pub checkpoint: Value,
    pub expect: CheckpointExpectation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointExpectation {
    pub valid: bool,
    pub error_code: Option<Code>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRow {
    pub chain: String,
    pub entries_applied: usize,
    pub state: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Texts {
    pub comment: String,
    pub schema_version: String,
    pub accepted: Vec<AcceptedRow>,
    pub refused: Vec<RefusedRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedRow {
    pub name: String,
    pub text: String,
    pub canonical_hex: String,
    pub sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedRow {
    pub name: String,
    pub text: Option<String>,
    pub text_hex: Option<String>,
    pub bytes_max: Option<usize>,
    pub code: Code,
}
