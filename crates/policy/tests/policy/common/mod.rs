//! A policy set from text, and questions to it.

use std::collections::BTreeMap;

use windlass_policy::{FileError, PolicySet, Question};

/// A rule for the server `notes`.
pub const RULE: &str = r#"
[[rule]]
id = "a"
verdict = "allow"
reason = "it is fine"
tool = "notes/*"
matches = [{ tool = "notes/add" }]
"#;

pub fn load(tools: &str, rules: &str) -> Result<PolicySet, FileError> {
    PolicySet::load(&BTreeMap::from([
        ("tools.toml".to_owned(), tools.as_bytes().to_vec()),
        ("policy/a.toml".to_owned(), rules.as_bytes().to_vec()),
    ]))
}

pub fn question(tool: &str, args: serde_json::Value) -> Question {
    let (server, tool) = tool.split_once('/').unwrap();
    Question {
        server: server.to_owned(),
        tool: tool.to_owned(),
        declared_class: None,
        args,
        has_key: true,
        phase: None,
        agent: None,
    }
}
