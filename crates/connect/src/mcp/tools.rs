//! What a server reports about itself and its tools.

use serde::Deserialize;
use serde_json::Value;
use windlass_kernel::RiskLevel;

use crate::Certainty;
use crate::call_failure::CallFailure;

/// A server, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDescription {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The negotiated version of the protocol.
    pub protocol: String,
    /// Its tools, in its order.
    pub tools: Vec<ToolDescription>,
}

/// A tool, as its server describes it. The hints are a proposal for the registry, not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDescription {
    /// Its name at the server.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// Its annotations, as the server wrote them.
    pub annotations: Option<Value>,
    /// Whether it changes nothing.
    pub read_only: Option<bool>,
    /// Whether it can destroy something.
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
}

/// One page of `tools/list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    tools: Vec<Entry>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "inputSchema")]
    input_schema: Value,
    #[serde(default, rename = "outputSchema")]
    output_schema: Option<Value>,
    #[serde(default)]
    annotations: Option<RawAnnotations>,
}

/// Annotations with the hints among them, read strictly.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct RawAnnotations {
    raw: Value,
    hints: Annotations,
}

impl TryFrom<Value> for RawAnnotations {
    type Error = serde_json::Error;

    fn try_from(raw: Value) -> Result<Self, Self::Error> {
        Ok(Self { hints: Annotations::deserialize(&raw)?, raw })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    #[serde(default)]
    read_only_hint: Option<bool>,
    #[serde(default)]
    destructive_hint: Option<bool>,
    #[serde(default)]
    idempotent_hint: Option<bool>,
}

impl Page {
    /// The tools of this page.
    pub fn into_tools(self) -> impl Iterator<Item = ToolDescription> {
        self.tools.into_iter().map(|entry| {
            let (hints, annotations) = match entry.annotations {
                Some(RawAnnotations { raw, hints }) => (hints, Some(raw)),
                None => (Annotations::default(), None),
            };
            ToolDescription {
                name: entry.name,
                title: entry.title,
                description: entry.description,
                input_schema: entry.input_schema,
                output_schema: entry.output_schema,
                annotations,
                read_only: hints.read_only_hint,
                destructive: hints.destructive_hint,
                idempotent: hints.idempotent_hint,
            }
        })
    }
}

/// Fails for a tool that the server does not have, or that it describes as riskier than the registry.
pub(crate) fn check(
    tools: &[ToolDescription],
    name: &str,
    class: RiskLevel,
) -> Result<(), CallFailure> {
    let mut listed = tools.iter().filter(|tool| tool.name == name).peekable();
    if listed.peek().is_none() {
        let message = format!("the server has no tool `{name}`");
        return Err(CallFailure::protocol(Certainty::DidNotRun, message));
    }
    let contradiction = listed.find_map(|tool| match (tool.read_only, tool.destructive) {
        (Some(false), _) => Some("readOnlyHint=false"),
        (_, Some(true)) => Some("destructiveHint=true"),
        _ => None,
    });
    match (class, contradiction) {
        (RiskLevel::Read, Some(hint)) => Err(CallFailure::class_mismatch(format!(
            "the registry says that `{name}` only reads, the server says {hint}"
        ))),
        (RiskLevel::Read | RiskLevel::Write | RiskLevel::HighRisk, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Code;

    use super::*;

    #[test]
    fn hints_can_only_raise_the_class() {
        let page: Page = serde_json::from_str(
            r#"{"tools":[
                {"name":"silent","inputSchema":{}},
                {"name":"reads","annotations":{"readOnlyHint":true}},
                {"name":"writes","annotations":{"readOnlyHint":false}},
                {"name":"destroys","annotations":{"readOnlyHint":true,"destructiveHint":true}},
                {"name":"twice"},
                {"name":"twice","annotations":{"destructiveHint":true}}
            ]}"#,
        )
        .unwrap();
        let tools: Vec<_> = page.into_tools().collect();
        let code = |name, class| check(&tools, name, class).map_err(|failure| failure.code);
        for name in ["silent", "reads"] {
            assert_eq!(code(name, RiskLevel::Read), Ok(()));
        }
        for name in ["writes", "destroys", "twice"] {
            assert_eq!(code(name, RiskLevel::Read), Err(Code::ToolClassMismatch));
            assert_eq!(code(name, RiskLevel::Write), Ok(()));
            assert_eq!(code(name, RiskLevel::HighRisk), Ok(()));
        }
        assert_eq!(code("none", RiskLevel::Write), Err(Code::ToolProtocolError));
    }
}
