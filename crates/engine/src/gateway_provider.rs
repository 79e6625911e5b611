//! Access to the gateway and the policy of a workspace.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use windlass_connect::Confinement;
use windlass_kernel::{RiskLevel, TraceId};
use windlass_policy::{Judgement, Question};
use windlass_runtime::Gateway;

use crate::error::EngineError;

/// A tool as an agent is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The tool, as `server/tool`.
    pub tool: String,
    /// Its class in the tool registry.
    pub class: RiskLevel,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

/// Provides the gateway of a workspace.
pub trait GatewayProvider: Send + Sync {
    /// The gateway whose tools work in this workspace.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be created.
    fn gateway(&self, workspace: &Path) -> Result<Arc<Gateway>, EngineError>;

    /// The confinement of the programs of a run in this workspace, if they are confined.
    fn confinement(&self, workspace: &Path, run: TraceId) -> Option<Confinement>;

    /// The class of a tool in the tool registry.
    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel>;

    /// The judgement of the policy on a call that is not made; `None` if it cannot be judged.
    fn judgement(&self, workspace: &Path, question: &Question) -> Option<Judgement>;

    /// The tools that agents in this workspace can be offered.
    fn definitions(&self, workspace: &Path) -> Vec<ToolDefinition>;

    /// The number of rules and the number of tools.
    fn sizes(&self) -> (usize, usize);
}
