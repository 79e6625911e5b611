//! Tools of MCP servers.

use serde_json::json;
use windlass_hooks::{Client, Mapping, ToolTable, ToolUse};

use crate::fixtures::tool;

/// `server/tool`, or what else it is.
fn found(client: Client, name: &str, mcp_server: Option<&str>) -> String {
    let mcp_server = mcp_server.map(str::to_owned);
    let used = ToolUse { mcp_server, ..tool(name, json!({ "command": "x" })) };
    match ToolTable::shipped().map(client, &used, "/w") {
        Mapping::Mcp { server, tool, args } => {
            assert_eq!(args, used.input);
            format!("{server}/{tool}")
        }
        Mapping::Invalid { .. } => "invalid".to_owned(),
        Mapping::Unknown => "unknown".to_owned(),
        Mapping::Internal => "internal".to_owned(),
        Mapping::Calls(_) => "calls".to_owned(),
    }
}

#[test]
fn names_are_split_where_the_server_ends() {
    for (client, name, server, expected) in [
        (Client::Claude, "mcp__github__create_issue", None, "github/create_issue"),
        (Client::Codex, "mcp__github__create_issue", None, "github/create_issue"),
        (Client::Claude, "mcp__a__b__c", None, "invalid"),
        (Client::Claude, "mcp__a__b__c", Some("a"), "a/b__c"),
        (Client::Claude, "mcp__a__b__c", Some("a__b"), "a__b/c"),
        (Client::Claude, "mcp__a___b", None, "invalid"),
        (Client::Claude, "mcp__plugin_p_s__t", Some("plugin:p:s"), "plugin_p_s/t"),
        (Client::Claude, "mcp__a__b", Some("c"), "invalid"),
        (Client::Claude, "Bash", Some("c"), "invalid"),
        (Client::Claude, "TodoWrite", Some("c"), "invalid"),
        (Client::Claude, "mcp__a", None, "invalid"),
        (Client::Claude, "mcp____b", None, "invalid"),
        (Client::Claude, "mcp__a__", None, "invalid"),
        (Client::Claude, "mcp__a__b c", None, "invalid"),
        (Client::Claude, "mcp__a__b/c", None, "invalid"),
        (Client::Claude, "a__b", None, "unknown"),
        (Client::Gemini, "web__search", None, "web/search"),
        (Client::Gemini, "search", Some("web"), "web/search"),
        (Client::Gemini, "run_shell_command", Some("web"), "web/run_shell_command"),
        (Client::Gemini, "write_todos", Some("web"), "web/write_todos"),
        (Client::Gemini, "mcp_web_search", Some("web"), "web/search"),
        (Client::Gemini, "mcp__web__search", None, "web/search"),
        (Client::Gemini, "a__b__c", None, "invalid"),
        (Client::OpenCode, "web_search", Some("web"), "web/search"),
        (Client::OpenCode, "web_search", None, "unknown"),
    ] {
        assert_eq!(found(client, name, server), expected, "{name} {server:?}");
    }
}

#[test]
fn servers_named_like_ours_are_refused() {
    for server in ["shell", "fs", "ask", "client"] {
        assert_eq!(found(Client::Claude, &format!("mcp__{server}__run"), None), "invalid");
        assert_eq!(found(Client::Gemini, "run", Some(server)), "invalid");
        assert_eq!(found(Client::OpenCode, "run", Some(server)), "invalid");
    }
}
