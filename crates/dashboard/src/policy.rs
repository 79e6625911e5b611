//! The policy: its rules in their order, what each decided lately, and why a call is decided as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Check, Reader};
use windlass_kernel::{Call, Code, TraceId};

use crate::act::{object, operand};
use crate::call_list::{self, CallFilter, CallRow};
use crate::dashboard::{Context, shown};
use crate::paging::{ITEMS_MAX, Paging};
use crate::problem::Problem;
use crate::project::{Command, Project};

/// How many of the newest calls are looked at for what rules decided lately.
pub const CALLS_LOOKED_AT: usize = ITEMS_MAX;
/// How many of them are shown for each rule.
const CALLS_SHOWN: usize = 3;

/// The policy of a project.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyDetail {
    /// The project.
    pub project: String,
    /// The digest of all files that decide.
    pub policy_hash: String,
    /// The rules, in the order of their files and lines. The order decides nothing: the strictest rule that matches
    /// wins.
    pub rules: Vec<RuleItem>,
    /// The tools.
    pub tools: Vec<ToolItem>,
    /// How many of the newest calls were looked at for what the rules decided.
    pub calls_looked_at: u64,
    /// How many of them people or grants decided, or wait for a person: their record names no rules.
    pub calls_asked: u64,
}

/// A rule.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RuleItem {
    /// The id.
    pub id: String,
    /// `allow`, `ask` or `deny`.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// The file that it stands in.
    pub file: String,
    /// The line.
    pub line: u64,
    /// How many of the calls that were looked at it decided, alone or with others.
    pub calls: u64,
    /// What became of these calls, by decision.
    pub decisions: BTreeMap<String, u64>,
    /// The newest of them.
    pub newest: Vec<CallRow>,
}

/// A tool of the registry.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolItem {
    /// The name, as `server/tool`.
    pub tool: String,
    /// `read`, `write` or `high_risk`.
    pub class: String,
    /// The longest time that a call may take.
    pub timeout_ms: u64,
}

/// How a call is decided, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// What the policy says now: verdict, reason, rules, commands, paths, findings.
    pub judgement: Value,
    /// What was decided when the call was made, if a call was named.
    pub recorded: Option<Recorded>,
}

/// What was decided about a call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Recorded {
    /// The call.
    pub call: String,
    /// The decision.
    pub decision: String,
    /// The reason.
    pub reason: String,
    /// Whether the policy was the one of today.
    pub same_policy: bool,
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The policy of a project.
///
/// # Errors
/// The error of the command if the policy cannot be loaded, or the journal cannot be read.
pub fn look(context: &Context<'_>, project: &Arc<dyn Project>) -> Result<PolicyDetail, Problem> {
    context.require_all()?;
    let checked = project.policy()?;
    let store = project.store()?;
    let paging = Paging { before: None, limit: CALLS_LOOKED_AT };
    let filter = CallFilter::default();
    let calls = call_list::list_in(project.id(), store.as_ref(), &filter, paging)?.items;
    let mut rules: Vec<RuleItem> = items(&checked, "rules")
        .map(|rule| RuleItem {
            id: text(rule, "id"),
            verdict: text(rule, "verdict"),
            reason: text(rule, "reason"),
            file: text(rule, "file"),
            line: rule.get("line").and_then(Value::as_u64).unwrap_or_default(),
            calls: 0,
            decisions: BTreeMap::new(),
            newest: Vec::new(),
        })
        .collect();
    for call in &calls {
        for rule in rules.iter_mut().filter(|rule| call.rules.contains(&rule.id)) {
            rule.calls += 1;
            if let Some(decision) = &call.decision {
                *rule.decisions.entry(decision.clone()).or_default() += 1;
            }
            if rule.newest.len() < CALLS_SHOWN {
                rule.newest.push(call.clone());
            }
        }
    }
    let asked = calls.iter().filter(|call| {
        let by_rules = call.decided_by.as_deref() == Some("policy") || !call.rules.is_empty();
        call.decision.is_some() && !by_rules
    });
    let asked = u64::try_from(asked.count()).unwrap_or(u64::MAX);
    let tools = items(&checked, "tools").map(|tool| ToolItem {
        tool: text(tool, "tool"),
        class: text(tool, "class"),
        timeout_ms: tool.get("timeout_ms").and_then(Value::as_u64).unwrap_or_default(),
    });
    Ok(PolicyDetail {
        project: project.id().to_owned(),
        policy_hash: text(&checked, "policy_hash"),
        tools: tools.collect(),
        rules,
        calls_looked_at: u64::try_from(calls.len()).unwrap_or(u64::MAX),
        calls_asked: asked,
    })
}

/// What a request asks to be explained.
enum Asked<'a> {
    Call(&'a str),
    Tool { tool: &'a str, args: &'a str },
}

/// Explains the call that the fields `call`, or `tool` and `args`, name.
///
/// # Errors
/// The error of the command, or a call that there is not.
pub fn explain(context: &Context<'_>, project: &Arc<dyn Project>) -> Result<Explanation, Problem> {
    context.require_all()?;
    let asked = match (context.field("call"), context.field("tool")) {
        (Some(call), _) => Asked::Call(call.trim()),
        (None, Some(tool)) => {
            Asked::Tool { tool: tool.trim(), args: context.field("args").unwrap_or("{}") }
        }
        (None, None) => {
            let message = "name a tool, or the id of a call";
            return Err(Problem::new(Code::RequestInvalid, message));
        }
    };
    match asked {
        Asked::Tool { tool, args } => {
            let mut command = Command::new(["policy", "explain"]).option("args", object(args)?);
            for name in ["agent", "phase"] {
                if let Some(value) = context.field(name) {
                    command = command.option(name, value);
                }
            }
            let judgement = project.command(operand(command, tool))?;
            let args = serde_json::from_str(args).unwrap_or_default();
            Ok(Explanation { tool: tool.to_owned(), args, judgement, recorded: None })
        }
        Asked::Call(name) => {
            let missing = || {
                let message = format!("there is no call `{}`", shown(name));
                Problem::new(Code::TraceNotFound, message)
            };
            let id: TraceId = name.parse().map_err(|_| missing())?;
            explain_call(project, id)
        }
    }
}

/// Explains a call of the journal by today's policy.
fn explain_call(project: &Arc<dyn Project>, id: TraceId) -> Result<Explanation, Problem> {
    let store = project.store()?;
    let call = Reader::<Call>::state_of(store.as_ref(), id, Check::Verified)?;
    let Some((request, _)) = &call.request else {
        return Err(Problem::new(Code::TraceNotFound, format!("`{id}` has no request")));
    };
    let proposal = &request.proposal;
    let tool = format!("{}/{}", proposal.tool_server, proposal.tool_name);
    let mut command =
        Command::new(["policy", "explain"]).option("args", &proposal.args.to_string());
    for (name, value) in [("agent", &request.agent), ("phase", &request.phase)] {
        if let Some(value) = value {
            command = command.option(name, value);
        }
    }
    command = command.flag("no-key", request.idempotency_key.is_none());
    let judgement = project.command(operand(command, &tool))?;
    let recorded = match &call.decision {
        Some((decision, _)) => {
            let checked = project.policy()?;
            Some(Recorded {
                call: id.to_string(),
                decision: call_list::decision_name(decision.decision),
                reason: decision.rationale.clone(),
                same_policy: text(&checked, "policy_hash") == decision.policy_hash.to_string(),
            })
        }
        None => None,
    };
    Ok(Explanation { tool, args: proposal.args.clone(), judgement, recorded })
}
