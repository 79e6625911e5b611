//! Plans written out as loop files. JSON is YAML, so values are written as JSON.

use serde_json::{Map, Value, json};
use windlass_kernel::run::plan::{
    Check, CheckTiming, Compare, Concurrency, Doer, Effect, Evidence, OnFailure, OnRestart, Phase,
    PhaseCondition, Plan, Requirement, Reviewer, Rule,
};

/// How a file is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// All of it on one line for each key.
    Flow,
    /// Lists and mappings by indentation.
    Block,
}

/// A number that YAML and JSON write alike, in units of `worth`, as decimals.
fn decimal(value: u64, worth: u64, decimals: u32) -> Value {
    let step = worth / 10u64.pow(decimals);
    let (whole, part) = (value / worth, value % worth / step);
    let digits = format!("{whole}.{part:0width$}", width = decimals as usize);
    json!({ "number": digits })
}

fn doer(doer: &Doer) -> Value {
    match doer {
        Doer::Agent { agent, prompt: None } => json!({ "agent": agent }),
        Doer::Agent { agent, prompt } => json!({ "agent": agent, "prompt": prompt }),
        Doer::Builtin { name, with } => json!({ "builtin": name, "with": with }),
        Doer::Command { argv, repeatable, timeout_ms } => {
            let timeout = decimal(*timeout_ms, 1000, 3);
            json!({ "command": argv, "repeatable": repeatable, "timeout_seconds": timeout })
        }
        Doer::Consensus { checklist, question, quorum, reviewers } => {
            let reviewers = reviewers.iter().map(|reviewer| match reviewer {
                Reviewer::Agent { agent, prompt: None } => json!({ "agent": agent }),
                Reviewer::Agent { agent, prompt } => json!({ "agent": agent, "prompt": prompt }),
                Reviewer::Person { name } => json!({ "person": name }),
            });
            let reviewers: Vec<Value> = reviewers.collect();
            let mut value =
                json!({ "consensus": question, "reviewers": reviewers, "quorum": quorum });
            if !checklist.is_empty() {
                value["checklist"] = json!(checklist);
            }
            value
        }
        Doer::Person { approvals, question } => {
            json!({ "person": question, "approvals": approvals })
        }
    }
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::Block => json!("block"),
        Effect::Continue => json!("continue"),
        Effect::Hold { approvals: None, trigger } => json!({ "hold": trigger }),
        Effect::Hold { approvals, trigger } => json!({ "hold": trigger, "approvals": approvals }),
        Effect::Intervene { phase, then } => {
            json!({ "intervene": phase, "then": self::effect(then) })
        }
        Effect::Redo { max, phase, then } => {
            json!({ "redo": phase, "max": max, "then": self::effect(then) })
        }
        Effect::Stop { outcome, reason } => json!({ "stop": reason, "outcome": outcome }),
    }
}

fn verdicts<'a>(verdicts: impl IntoIterator<Item = (&'a String, &'a Effect)>) -> Value {
    verdicts
        .into_iter()
        .map(|(name, then)| (name.clone(), effect(then)))
        .collect::<Map<_, _>>()
        .into()
}

fn check(check: &Check) -> Value {
    let at = match check.at {
        CheckTiming::After => json!("after"),
        CheckTiming::Before => json!("before"),
        CheckTiming::During { chance_percent, every, .. } => {
            json!({ "during": { "chance_percent": chance_percent, "every": every } })
        }
    };
    let mut value = json!({ "id": check.id, "at": at, "doer": doer(&check.doer), "verdicts": verdicts(&check.verdicts) });
    if let Some(pinned) = &check.pinned {
        value["pinned"] = json!(pinned);
    }
    value
}

fn phase(phase: &Phase) -> Value {
    let mut value = json!({ "id": phase.id, "doer": doer(&phase.doer) });
    let Value::Object(fields) = &mut value else { return value };
    let mut put = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    match &phase.when {
        PhaseCondition::Always => {}
        PhaseCondition::Fact { fact, one_of } => put("when", json!({ "fact": fact, "in": one_of })),
        PhaseCondition::Intervention => put("when", json!("intervention")),
    }
    if phase.branch {
        put("branch", json!(true));
    }
    if !phase.needs.is_empty() {
        put("needs", json!(phase.needs));
    }
    if let Some(title) = &phase.title {
        put("title", json!(title));
    }
    if !phase.outputs.is_empty() {
        put("outputs", json!(phase.outputs));
    }
    if !phase.checks.is_empty() {
        put("checks", phase.checks.iter().map(check).collect());
    }
    if let Some(gate) = &phase.gate {
        put("gate", json!({ "id": gate.id, "verdicts": verdicts(&gate.verdicts) }));
    }
    value
}

fn rule(rule: &Rule) -> Value {
    let on_failure = match rule.on_failure {
        OnFailure::Block => "block",
        OnFailure::Warn => "warn",
    };
    let mut value = json!({
        "id": rule.id, "on_failure": on_failure, "remediation": rule.remediation,
        "phases": rule.phases,
    });
    let seconds = |ms: u64| decimal(ms, 1000, 3);
    let (key, mut evidence) = match &rule.evidence {
        Evidence::Metric { argv, compare, pinned: _, pointer, threshold, timeout_ms } => {
            let mut metric = json!({
                "command": argv, "pointer": pointer, "timeout_seconds": seconds(*timeout_ms),
            });
            let key = match compare {
                Compare::AtLeast => "at_least",
                Compare::AtMost => "at_most",
                Compare::Equal => "equal",
            };
            metric[key] = json!({ "number": threshold.to_string() });
            ("metric", metric)
        }
        Evidence::Tool { argv, pinned: _, timeout_ms } => {
            ("tool", json!({ "command": argv, "timeout_seconds": seconds(*timeout_ms) }))
        }
        Evidence::Validator { bytes_max, files, forbid, json, require } => {
            let mut validator = json!({ "files": files, "json": json });
            let more = [
                ("bytes_max", bytes_max.map(Value::from)),
                ("forbid", forbid.clone().map(Value::from)),
                ("require", require.clone().map(Value::from)),
            ];
            for (key, value) in more {
                if let Some(value) = value {
                    validator[key] = value;
                }
            }
            ("validator", validator)
        }
    };
    if let Some(pinned) = rule.evidence.pinned() {
        evidence["pinned"] = json!(pinned);
    }
    value[key] = evidence;
    value
}

fn keys(plan: &Plan, phases: &[Value]) -> Vec<(&'static str, Value)> {
    let mut budget = Map::new();
    let limits = [
        ("attempts", plan.budget.attempts.map(Value::from)),
        ("tokens", plan.budget.tokens.map(Value::from)),
        ("changed_lines", plan.budget.changed_lines.map(Value::from)),
        ("cost", plan.budget.cost_micros.map(|cost| decimal(cost, 1_000_000, 6))),
        ("wall_minutes", plan.budget.wall_ms.map(|wall| decimal(wall, 60_000, 3))),
    ];
    for (key, limit) in limits {
        budget.extend(limit.map(|limit| (key.to_owned(), limit)));
    }
    let mut hold = Map::from_iter([("approvals".to_owned(), json!(plan.hold.approvals))]);
    let expires = plan.hold.expires_ms.map(|ms| decimal(ms, 3_600_000, 3));
    hold.extend(expires.map(|expires| ("expires_hours".to_owned(), expires)));
    hold.insert("retries".to_owned(), json!(plan.hold.retries));
    if plan.hold.starter_counts {
        hold.insert("starter_counts".to_owned(), json!(true));
    }
    let require = plan.require.iter().map(|requirement| match requirement {
        Requirement::CleanRepo => json!("clean_repo"),
        Requirement::Repo => json!("repo"),
        Requirement::Single => json!("single"),
    });
    let on_restart = match plan.on_restart {
        OnRestart::Hold => "hold",
        OnRestart::Resume => "resume",
        OnRestart::Terminate => "terminate",
    };
    let concurrency = match plan.concurrency {
        Concurrency::Parallel => "parallel",
        Concurrency::Serial => "serial",
    };
    let all = |rules: &[Rule]| rules.iter().map(rule).collect::<Vec<_>>();
    let governance = json!({
        "gates": all(&plan.governance.gates), "compliance": all(&plan.governance.compliance),
    });
    vec![
        ("id", json!(plan.id)),
        ("title", json!(plan.title)),
        ("type", json!("loop")),
        ("category", json!("test")),
        ("version", json!(plan.version)),
        ("on_restart", json!(on_restart)),
        ("concurrency", json!(concurrency)),
        ("require", require.collect()),
        ("budget", budget.into()),
        ("hold", hold.into()),
        ("checkpoints", json!(plan.checkpoints)),
        ("phases", phases.to_vec().into()),
        ("governance", governance),
    ]
}

/// JSON, with decimals as they are to be written.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => match map.get("number") {
            Some(Value::String(digits)) if map.len() == 1 => digits.clone(),
            _ => {
                let entry =
                    |(key, value): (&String, &Value)| format!("{}: {}", json!(key), flow(value));
                format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        },
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            leaf.to_string()
        }
    }
}

/// By indentation; single quotes where they can say it.
fn block(value: &Value, indent: usize, out: &mut String) {
    let margin = "  ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() && !map.contains_key("number") => {
            for (key, value) in map {
                out.push_str(&format!("\n{margin}{}:", json!(key)));
                block(value, indent + 1, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{margin}-"));
                block(item, indent + 1, out);
            }
        }
        Value::String(text) if !text.contains(['\n', '\t']) => {
            out.push_str(&format!(" '{}'  # text", text.replace('\'', "''")));
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => out.push_str(&format!(" {}", flow(value))),
    }
}

/// The plan as a file; its phases in an order that `shuffle` decides, or as they are.
pub fn file(plan: &Plan, style: Style, shuffle: u64) -> String {
    let mut phases: Vec<Value> = plan.phases.iter().map(phase).collect();
    let mut state = shuffle;
    for at in (1..phases.len()).rev().filter(|_| shuffle != 0) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        phases.swap(at, (state >> 33) as usize % (at + 1));
    }
    let mut text = String::from("---\n");
    for (key, value) in keys(plan, &phases) {
        text.push_str(&format!("{key}:"));
        match style {
            Style::Flow => text.push_str(&format!(" {}", flow(&value))),
            Style::Block => block(&value, 1, &mut text),
        }
        text.push('\n');
    }
    text + "---\nProse.\n"
}
