//! MCP servers that a user put Windlass in front of, without registering them.

use windlass_kernel::RiskLevel;

use super::load::{READ_BYTES, RETRIES, WRITE_BYTES};
use super::{Connector, Server, Tool};

/// What the names of such servers begin with. No registered server has such a name.
pub const WRAPPED_PREFIX: &str = "wrapped-";

/// Nobody has set a time limit for these tools, so it is a generous one.
const TIMEOUT_MS: u64 = 300_000;

/// Refuses the name of a wrapped server for a registered one.
pub(super) fn refuse(name: &str) -> Result<(), String> {
    if name.starts_with(WRAPPED_PREFIX) {
        return Err(format!(
            "names that begin with `{WRAPPED_PREFIX}` are those of `windlass mcp wrap`"
        ));
    }
    Ok(())
}

impl Server {
    /// A wrapped server. Its name begins with [`WRAPPED_PREFIX`].
    #[must_use]
    pub fn wrapped(
        name: &str,
        connector: Connector,
        env: Vec<String>,
        tools: impl IntoIterator<Item = Tool>,
    ) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
        let name = format!("{WRAPPED_PREFIX}{name}");
        Self { name, connector, env, honours_keys: false, tools }
    }
}

impl Tool {
    /// A tool of a wrapped server, with the usual limits.
    #[must_use]
    pub fn wrapped(name: &str, remote_name: &str, class: RiskLevel) -> Self {
        let bytes = if class.writes() { WRITE_BYTES } else { READ_BYTES };
        Self {
            name: name.to_owned(),
            remote_name: remote_name.to_owned(),
            description: None,
            class,
            timeout_ms: TIMEOUT_MS,
            input_bytes_max: bytes,
            output_bytes_max: bytes,
            idempotent: false,
            retries_max: RETRIES,
            paths_read: Vec::new(),
            paths_write: Vec::new(),
            shell_line: None,
            argv: Vec::new(),
            stdin: None,
            network: Vec::new(),
            sandbox: true,
            secrets: Vec::new(),
            declared_on_uncertain: None,
        }
    }
}
