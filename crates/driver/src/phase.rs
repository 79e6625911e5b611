//! The phases of a task.

use serde::{Deserialize, Serialize};

use crate::{CONTEXT_INTENT, DriverConfig, IntentId};

/// A phase of a task, in the order in which a task goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// 0: the state is validated.
    #[serde(rename = "Phase0_StateValidation")]
    StateValidation,
    /// 1: the request is classified.
    #[serde(rename = "Phase1_IntentClassification")]
    IntentClassification,
    /// 2: the context is assembled.
    #[serde(rename = "Phase2_ContextAssembly")]
    ContextAssembly,
    /// 2a: the context file is created.
    #[serde(rename = "Phase2a_ContextBootstrap")]
    ContextBootstrap,
    /// 3: the model is selected.
    #[serde(rename = "Phase3_ModelSelection")]
    ModelSelection,
    /// 4: the task is delegated to the model.
    #[serde(rename = "Phase4_Delegation")]
    Delegation,
    /// 5: the model works.
    #[serde(rename = "Phase5_Execution")]
    Execution,
    /// 6: the output is verified.
    #[serde(rename = "Phase6_Verification")]
    Verification,
    /// 7: a person edits the output.
    #[serde(rename = "Phase7_Intervention")]
    Intervention,
    /// 8: telemetry is finalised.
    #[serde(rename = "Phase8_TelemetryFinalization")]
    TelemetryFinalization,
    /// 9: memory is saved.
    #[serde(rename = "Phase9_MemorySync")]
    MemorySync,
    /// 10: the task ends.
    #[serde(rename = "Phase10_TaskTermination")]
    TaskTermination,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 12] = [
        Self::StateValidation,
        Self::IntentClassification,
        Self::ContextAssembly,
        Self::ContextBootstrap,
        Self::ModelSelection,
        Self::Delegation,
        Self::Execution,
        Self::Verification,
        Self::Intervention,
        Self::TelemetryFinalization,
        Self::MemorySync,
        Self::TaskTermination,
    ];

    /// Whether tasks of this intent can have this phase: only one intent creates the context file, and
    /// only some save.
    #[must_use]
    pub fn is_for(self, config: &DriverConfig, intent: &IntentId) -> bool {
        let Some(declared) = config.intent(intent) else { return false };
        match self {
            Self::ContextBootstrap => intent.as_str() == CONTEXT_INTENT,
            Self::MemorySync => declared.save_allowed,
            Self::StateValidation
            | Self::IntentClassification
            | Self::ContextAssembly
            | Self::ModelSelection
            | Self::Delegation
            | Self::Execution
            | Self::Verification
            | Self::Intervention
            | Self::TelemetryFinalization
            | Self::TaskTermination => true,
        }
    }
}
