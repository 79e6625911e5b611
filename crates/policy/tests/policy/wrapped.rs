//! Rules for servers that are wrapped, not registered.

use crate::common::{RULE, load, question};
use serde_json::json;
use windlass_kernel::{Code, RiskLevel};
use windlass_policy::{Connector, LexicalWorkspace, Server, Tool, Verdict};

const TOOLS: &str = r#"
[server.notes]
connector = "mcp-stdio"
command = ["node", "server.js"]
[server.notes.tool.add]
class = "write"
"#;

#[test]
fn rules_for_wrapped_servers_stand_before_the_servers_do() {
    let rule = |class: &str| RULE.replace("notes", "wrapped-memory") + class;
    let class = "class = [\"read\"]\n";
    for rules in [rule(""), rule(class)] {
        let set = load(TOOLS, &rules).unwrap();
        let unknown =
            set.judge(&question("wrapped-memory/add", json!({})), &LexicalWorkspace::default());
        assert_eq!(unknown.code, Some(Code::ToolUnclassifiedDenied));
        let stdio = Connector::McpStdio { command: Vec::new(), sandbox: true, network: Vec::new() };
        let tools = [
            Tool::wrapped("add", "add", RiskLevel::Write),
            Tool::wrapped("get", "Get", RiskLevel::Read),
        ];
        let hash = set.hash();
        let set = set.with_wrapped([Server::wrapped("memory", stdio, Vec::new(), tools)]);
        let verdict =
            |tool| set.judge(&question(tool, json!({})), &LexicalWorkspace::default()).verdict;
        assert_eq!(verdict("wrapped-memory/get"), Verdict::Allow);
        let expected = if rules.contains("class") { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(verdict("wrapped-memory/add"), expected);
        assert_eq!(set.hash(), hash);
    }
    // An example must still be one, and no registered server has such a name.
    let error = load(TOOLS, &rule("misses = [{ tool = \"wrapped-memory/x\" }]")).unwrap_err();
    assert!(error.message.contains("it matches this example"), "{error}");
    let error = load(&TOOLS.replace("notes", "wrapped-notes"), RULE).unwrap_err();
    assert!(error.message.contains("`windlass mcp wrap`"), "{error}");
}
