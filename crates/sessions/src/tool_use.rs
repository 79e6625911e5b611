//! From a use of a client's tool to calls of ours.

use serde_json::Value;
use windlass_hooks::{
    CellLine, HookEvent, MappedCall, Mapping, ToolTable, ToolUse, unwrap_cell_line,
};
use windlass_kernel::artifact::Resource;
use windlass_kernel::run::RunName;
use windlass_kernel::{Call, Code, Digest, KEY_CHARS_MAX, PlanId, RiskLevel, TraceId};
use windlass_runtime::{CallRequest, TOOL_USE};

use crate::guard::Guard;

/// The server under which tools are recorded that only a client has.
pub const CLIENT_SERVER: &str = "client";

/// The client's ids of the uses of tools that a call was requested for.
pub(crate) fn tool_use_ids(call: &Call) -> impl Iterator<Item = &str> {
    let resources = call.request.iter().flat_map(|(request, _)| &request.resources);
    resources.filter(|one| one.kind == TOOL_USE).map(|one| one.id.as_str())
}

impl Guard<'_> {
    /// The input with its line of shell in a cell, if there are cells.
    pub(crate) fn in_cell(
        &self,
        event: &HookEvent,
        run: TraceId,
        tool_use: &ToolUse,
        line: &str,
        reading: bool,
    ) -> Option<Value> {
        let binary = self.cell?;
        let session = RunName::of(run).to_string();
        let project = self.project;
        let workspace = Some(self.root).filter(|root| *root != project);
        let cell = CellLine { binary, project, workspace, session: &session, reading };
        let line = cell.wrap_own(line).unwrap_or_else(|| cell.wrap(line));
        ToolTable::shipped().with_command(event.client, tool_use, &line)
    }

    /// What a use of a tool stands for. Its own line is judged, not the one that runs it in a cell.
    pub(crate) fn map(&self, event: &HookEvent, tool_use: &ToolUse) -> MappedUse {
        let table = ToolTable::shipped();
        let given = table.command_of(event.client, tool_use);
        let inner = given.as_deref().and_then(|line| unwrap_cell_line(self.cell?, line));
        let unwrapped = inner.as_deref().and_then(|line| {
            let input = table.with_command(event.client, tool_use, line)?;
            Some(ToolUse { input, ..tool_use.clone() })
        });
        let own = unwrapped.as_ref().unwrap_or(tool_use);
        let calls = match table.map_within(event.client, own, self.root, &event.cwd) {
            Mapping::Calls(calls) => Mapped::Calls(calls),
            Mapping::Mcp { server, .. }
                if self.surroundings.is_own_server(&plain_name(&server)) =>
            {
                Mapped::Refused {
                    code: Code::ToolUnclassifiedDenied,
                    reason: format!(
                        "the MCP server `{server}` has the name of a server of Windlass"
                    ),
                }
            }
            Mapping::Mcp { server, tool, args } => Mapped::Calls(vec![MappedCall {
                server: plain_name(&server),
                tool: plain_name(&tool),
                args,
            }]),
            Mapping::Internal => Mapped::Nothing,
            Mapping::Unknown => Mapped::Refused {
                code: Code::ToolUnclassifiedDenied,
                reason: format!("`{}` is not a known tool of the client", tool_use.name),
            },
            Mapping::Invalid { reason } => Mapped::Refused { code: Code::RequestInvalid, reason },
        };
        MappedUse { calls, line: inner.or(given) }
    }

    pub(crate) fn request(
        &self,
        event: &HookEvent,
        run: TraceId,
        tool_use: &ToolUse,
        call: &MappedCall,
        number: usize,
    ) -> CallRequest {
        let client = event.client.as_str();
        let class = self.surroundings.class(&call.server, &call.tool).unwrap_or(RiskLevel::Read);
        let key = tool_use.id.as_ref().map(|id| key(client, &event.session, id, number));
        let resource = |id: &String| Resource { id: id.clone(), kind: TOOL_USE.to_owned() };
        CallRequest {
            server: call.server.clone(),
            tool: call.tool.clone(),
            args: call.args.clone(),
            intent: format!("`{}` in a session of {client}", plain_name(&tool_use.name)),
            resources: tool_use.id.iter().map(resource).collect(),
            declared_class: class,
            key,
            plan_id: Some(PlanId(run.0)),
            agent: Some(event.subagent.as_ref().map_or_else(
                || client.to_owned(),
                |one| format!("{client}/{}", plain_name(one.kind.as_deref().unwrap_or("agent"))),
            )),
            phase: None,
            run: Some(run),
        }
    }
}

/// A use of a tool as calls of ours, and its line of shell if it has one.
pub(crate) struct MappedUse {
    pub calls: Mapped,
    pub line: Option<String>,
}

/// What a use of a tool stands for.
pub(crate) enum Mapped {
    Calls(Vec<MappedCall>),
    /// Nothing outside the client.
    Nothing,
    Refused {
        code: Code,
        reason: String,
    },
}

/// The key of one call of a use of a tool: the client's own id of it.
pub(crate) fn key(client: &str, session: &str, id: &str, number: usize) -> String {
    let key = format!("{client}/{session}/{id}/{number}");
    if key.chars().count() <= KEY_CHARS_MAX { key } else { Digest::of(key.as_bytes()).to_string() }
}

/// A name of a client as one of ours: letters, digits, `_` and `-`, at most 64.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = name.chars().map(|one| match one.to_ascii_lowercase() {
        one @ ('a'..='z' | '0'..='9' | '_' | '-') => one,
        _ => '-',
    });
    let plain: String = plain.take(64).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}
