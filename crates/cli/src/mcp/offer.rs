//! The registered tools as MCP clients see them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use windlass_connect::{Connectors, Limits, ServerDescription};
use windlass_kernel::{Code, RiskLevel};
use windlass_mcp::ToolInfo;
use windlass_policy::{Connector, Server, WRAPPED_PREFIX};
use windlass_runtime::PolicySupervisor;

use super::host::Offered;
use crate::failure::Failure;
use crate::output::{Output, sanitize};
use crate::tool_definitions;

/// How long an MCP server may take to describe its tools.
pub const DESCRIBE_LIMITS: Limits =
    Limits { timeout: Duration::from_secs(20), output_bytes_max: 16 << 20 };

/// The tools of the registry, all or those with these names. A server that does not answer has none.
pub fn registered(
    supervisor: &PolicySupervisor,
    connectors: &Connectors,
    names: &[String],
    output: &Output,
) -> Result<Vec<Offered>, Failure> {
    let registry = supervisor.set().registry();
    let all = || registry.tools().filter(|(server, _)| !server.name.starts_with(WRAPPED_PREFIX));
    let wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let known = |name: &String| {
        all().any(|(server, tool)| *name == format!("{}/{}", server.name, tool.name))
    };
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let message = format!("`--tools` names `{unknown}`, which is not registered");
        return Err(Failure::new(Code::ToolUnclassifiedDenied, message));
    }
    let own = tool_definitions::definitions(registry).into_iter().filter_map(|definition| {
        let (server, tool) = definition.tool.split_once('/')?;
        let info = ToolInfo {
            name: plain_name(&definition.tool),
            title: None,
            description: definition.description.clone(),
            input_schema: definition.input_schema.clone(),
            output_schema: None,
            annotations: Some(json!({
                "readOnlyHint": definition.class == RiskLevel::Read, "openWorldHint": false,
            })),
        };
        let (server, tool) = (server.to_owned(), tool.to_owned());
        Some(Offered { server, tool, class: definition.class, info })
    });
    let mut offered: Vec<Offered> =
        own.filter(|one| wanted(&format!("{}/{}", one.server, one.tool))).collect();
    let servers: Vec<&Server> = registry
        .servers()
        .filter(|server| {
            let is_mcp =
                matches!(server.connector, Connector::McpStdio { .. } | Connector::McpHttp { .. });
            let mut names = server.tools.keys().map(|tool| format!("{}/{tool}", server.name));
            is_mcp && !server.name.starts_with(WRAPPED_PREFIX) && names.any(|name| wanted(&name))
        })
        .collect();
    // Together, since each may take long to start.
    let descriptions = std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|server| scope.spawn(|| describe(server, supervisor, connectors)))
            .collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    for (server, description) in servers.into_iter().zip(descriptions) {
        match description {
            Some(Ok(description)) => {
                let tools = described(server, &description);
                offered.extend(tools.filter(|one| wanted(&format!("{}/{}", one.server, one.tool))));
            }
            Some(Err(reason)) => {
                let (name, reason) = (sanitize(&server.name), sanitize(&reason));
                output.note(&format!("the tools of server `{name}` are not offered: {reason}"));
            }
            None => output.note(&format!("server `{}` cannot be asked", server.name)),
        }
    }
    Ok(distinct(offered, output))
}

fn describe(
    server: &Server,
    supervisor: &PolicySupervisor,
    connectors: &Connectors,
) -> Result<ServerDescription, String> {
    let target = supervisor.target(server).map_err(|refusal| refusal.reason)?;
    connectors.describe(&target, DESCRIBE_LIMITS).map_err(|error| error.to_string())
}

/// The registered tools of a server that it has.
fn described<'a>(
    server: &'a Server,
    description: &'a ServerDescription,
) -> impl Iterator<Item = Offered> + 'a {
    server.tools.values().filter_map(|tool| {
        let found = description.tools.iter().find(|found| found.name == tool.remote_name)?;
        let (server, tool, class) = (server.name.clone(), tool.name.clone(), tool.class);
        let info = ToolInfo {
            name: plain_name(&format!("{server}/{tool}")),
            title: found.title.clone(),
            description: found.description.clone().unwrap_or_default(),
            input_schema: found.input_schema.clone(),
            output_schema: found.output_schema.clone(),
            annotations: found.annotations.clone(),
        };
        Some(Offered { server, tool, class, info })
    })
}

/// A name that all clients accept.
fn plain_name(tool: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
    tool.chars().map(|char| if plain(char) { char } else { '_' }).collect()
}

/// Leaves out a tool whose name for clients is taken: a call must mean one tool.
fn distinct(offered: Vec<Offered>, output: &Output) -> Vec<Offered> {
    let mut by_name: BTreeMap<String, Offered> = BTreeMap::new();
    for one in offered {
        if let Some(first) = by_name.get(&one.info.name) {
            let Offered { server, tool, .. } = first;
            output.note(&format!(
                "`{}/{}` is not offered: for clients it has the name of `{server}/{tool}`",
                one.server, one.tool
            ));
            continue;
        }
        by_name.insert(one.info.name.clone(), one);
    }
    by_name.into_values().collect()
}
