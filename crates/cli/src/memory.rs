//! The memory of a project.

use std::path::PathBuf;

use windlass_kernel::Code;
use windlass_memory::{BuiltIn, McpMemory, Memory, MemoryError, Settings, ToolNames};

use crate::config::Config;
use crate::failure::Failure;
use crate::part::Part;
use crate::project::Project;
use crate::user_config::UserConfig;

/// The built-in memory's file in the state folder.
const DATABASE: &str = "memory.db";
/// The knowledge folder in the state folder, if no other is named.
const KNOWLEDGE: &str = "knowledge";
/// The variable that names the user's knowledge folder.
const KNOWLEDGE_VARIABLE: &str = "ACA_DATA";

/// Opens the memory that the settings name. A server is started or reached with the first request.
///
/// # Errors
/// [`Failure`], also if the settings name a server or a folder, and the user does not trust the project.
pub fn memory(project: &Project, config: &Config) -> Result<Box<dyn Memory>, Failure> {
    let settings = &config.memory;
    if !settings.server.is_empty() {
        return server(project, config);
    }
    if settings.knowledge.is_some() {
        project.require_trust(&project.files()?)?;
    }
    let state = project.state()?;
    let knowledge = match &settings.knowledge {
        Some(folder) => project.root.join(folder),
        None => std::env::var_os(KNOWLEDGE_VARIABLE)
            .filter(|value| !value.is_empty())
            .map_or_else(|| state.join(KNOWLEDGE), PathBuf::from),
    };
    let settings = Settings { knowledge: Some(knowledge), deadline: settings.timeout() };
    Ok(Box::new(BuiltIn::open(&state.join(DATABASE), settings)?))
}

fn server(project: &Project, config: &Config) -> Result<Box<dyn Memory>, Failure> {
    let settings = &config.memory;
    let files = project.files()?;
    project.require_trust(&files)?;
    let supervisor = project.supervisor(Part::Whole, &files)?;
    let mut servers = supervisor.set().registry().servers();
    let server = servers.find(|server| server.name == settings.server).ok_or_else(|| {
        let name = settings.server.escape_debug();
        let message = format!("config.toml: tools.toml has no server `{name}` for the memory");
        Failure::new(Code::ConfigInvalid, message)
    })?;
    let target = supervisor.target(server);
    let target = target.map_err(|refusal| Failure::new(refusal.code, refusal.reason))?;
    let user = UserConfig::load()?;
    user.apply()?;
    let connectors = user.connectors_without_signals(project)?;
    let names = ToolNames {
        retrieve: settings.retrieve_tool.clone(),
        store: settings.store_tool.clone(),
        ..ToolNames::default()
    };
    Ok(Box::new(McpMemory::new(connectors, target, names, settings.timeout())))
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        let code = match &error {
            MemoryError::Unavailable { .. } => Code::ToolServerUnavailable,
            MemoryError::DeadlinePassed { .. } => Code::ToolTimeout,
            MemoryError::Invalid { .. } => Code::RequestInvalid,
        };
        Self::of(code, &error)
    }
}
