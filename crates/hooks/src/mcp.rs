//! Tools of MCP servers, by the names that clients give them.

use crate::client::Client;
use crate::event::ToolUse;

/// Names of servers of ours, which an MCP server of a client may not have.
const RESERVED: [&str; 5] = ["shell", "fs", "ask", "client", "agent"];

/// The longest name of a server or tool.
const NAME_BYTES_MAX: usize = 128;

/// Returns the server and the tool, or `None` if it is not a tool of an MCP server.
///
/// # Errors
/// A name that does not tell where the server's name ends, or that is not plain.
pub(crate) fn tool(client: Client, tool_use: &ToolUse) -> Result<Option<(String, String)>, String> {
    let name = tool_use.name.as_str();
    let server = tool_use.mcp_server.as_deref();
    let parts = match client {
        Client::Claude | Client::Codex => match (name.strip_prefix("mcp__"), server) {
            (None, None) => None,
            (None, Some(_)) => return Err(format!("`{name}` is not a tool of an MCP server")),
            (Some(rest), None) => Some(at_only_underscores(rest)?),
            (Some(rest), Some(server)) => Some(after_server(rest, &plain(server))?),
        },
        Client::Gemini => match server {
            Some(server) => Some((plain(server), without_server(name, &plain(server)))),
            None if name.contains("__") => {
                Some(at_only_underscores(name.strip_prefix("mcp__").unwrap_or(name))?)
            }
            None => None,
        },
        Client::OpenCode => server.map(|server| {
            let server = plain(server);
            let tool = name.strip_prefix(&format!("{server}_")).unwrap_or(name).to_owned();
            (server, tool)
        }),
    };
    let Some((server, tool)) = parts else { return Ok(None) };
    if !is_plain(&server) || !is_plain(&tool) {
        return Err(format!("`{name}` does not name a server and a tool in plain letters"));
    }
    if RESERVED.contains(&server.as_str()) {
        return Err(format!("the MCP server `{server}` has a name that is reserved"));
    }
    Ok(Some((server, tool)))
}

/// Splits `SERVER__TOOL` if there is one way to do it.
fn at_only_underscores(name: &str) -> Result<(String, String), String> {
    let unclear = || format!("`{name}` does not tell where the MCP server's name ends");
    let (server, tool) = name.split_once("__").ok_or_else(unclear)?;
    if server.is_empty() || tool.is_empty() || tool.contains("__") || tool.starts_with('_') {
        return Err(unclear());
    }
    Ok((server.to_owned(), tool.to_owned()))
}

fn after_server(name: &str, server: &str) -> Result<(String, String), String> {
    let tool = name.strip_prefix(server).and_then(|rest| rest.strip_prefix("__"));
    let tool = tool.ok_or_else(|| format!("`{name}` is not a tool of the server `{server}`"))?;
    Ok((server.to_owned(), tool.to_owned()))
}

/// Takes the server's name off a tool's name; Gemini CLI has written it in several ways.
fn without_server(name: &str, server: &str) -> String {
    let prefixes = [format!("mcp__{server}__"), format!("mcp_{server}_"), format!("{server}__")];
    let tool = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
    tool.unwrap_or(name).to_owned()
}

/// A server's name as it appears in names of tools.
fn plain(name: &str) -> String {
    let is_kept = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    name.chars().map(|char| if is_kept(char) { char } else { '_' }).collect()
}

fn is_plain(name: &str) -> bool {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_kept)
}
