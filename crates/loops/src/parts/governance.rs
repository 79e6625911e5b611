//! The governance rules of a loop.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Number;
use windlass_governance::{LocatedRule, RuleField, RuleKind};
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};
use windlass_text::yaml::{Node, Value};
use windlass_text::{Location, Position, printable};

use crate::error::{Diagnostic, Problem, shown};
use crate::markdown::PATH_CHARS_MAX;
use crate::parts::fields::{self, Fields};
use crate::parts::{doer, effect, number, text};

/// The most rules of one kind.
const RULES_MAX: usize = 1000;

/// Reads the rules of the loop file at `path`.
pub fn read(
    node: Option<&Node>,
    ids: &BTreeSet<&str>,
    path: &str,
) -> Result<Vec<LocatedRule>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let fields = Fields::new(node, "governance", "governance", &["gates", "compliance"])?;
    let mut rules = Vec::new();
    for (kind, key) in [(RuleKind::Gate, "gates"), (RuleKind::Compliance, "compliance")] {
        let Some(node) = fields.get(key) else { continue };
        let items = fields::list(node, key)?;
        if items.len() > RULES_MAX {
            return Err(Problem::TooMany { key, max: RULES_MAX }.at(node.position));
        }
        let mut seen = BTreeMap::new();
        for item in items {
            let (rule, position) = rule(item, ids)?;
            if let Some(first_line) = seen.insert(rule.id.clone(), position.line) {
                let (what, name) = ("the rule", rule.id);
                return Err(Problem::DuplicateName { what, name, first_line }.at(position));
            }
            let location = Location::new(&printable(path, PATH_CHARS_MAX), position);
            rules.push(LocatedRule { kind, location, rule });
        }
    }
    Ok(rules)
}

fn rule(node: &Node, ids: &BTreeSet<&str>) -> Result<(Rule, Position), Diagnostic> {
    let known = ["id", "phases", "on_failure", "remediation", "metric", "tool", "validator"];
    let fields = Fields::new(node, "governance", "a rule", &known)?;
    let id_node = fields.required("id")?;
    let id = text::id(id_node, "id", "the id of a rule")?;
    let phases = fields.get("phases").map(|node| phases(node, ids)).transpose()?;
    let effects = [("block", OnFailure::Block), ("warn", OnFailure::Warn)];
    let on_failure = fields::choice(fields.required("on_failure")?, "on_failure", &effects)?;
    let remediation = text::line(fields.required("remediation")?, "remediation")?;
    let [kind] = fields.present(&["metric", "tool", "validator"])[..] else {
        return Err(Problem::OneEvidence.at(node.position));
    };
    let inside = fields.required(kind)?;
    let evidence = match kind {
        "metric" => metric(inside)?,
        "tool" => tool(inside)?,
        _ => validator(inside)?,
    };
    let phases = phases.unwrap_or_default();
    let rule = Rule { evidence, id, level: RuleLevel::Loop, on_failure, phases, remediation };
    Ok((rule, id_node.position))
}

fn phases(node: &Node, ids: &BTreeSet<&str>) -> Result<Vec<String>, Diagnostic> {
    let mut seen = BTreeMap::new();
    let mut names = Vec::new();
    for item in fields::list(node, "phases")? {
        let name = fields::string(item, "phases")?;
        if !ids.contains(name) {
            return Err(effect::unknown(name, "`phases`", ids.iter().copied()).at(item.position));
        }
        if let Some(first_line) = seen.insert(name.to_owned(), item.position.line) {
            let name = shown(name);
            return Err(
                Problem::DuplicateName { what: "the phase", name, first_line }.at(item.position)
            );
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn metric(node: &Node) -> Result<Evidence, Diagnostic> {
    let known = ["command", "pointer", "at_least", "at_most", "equal", "pinned", "timeout_seconds"];
    let fields = Fields::new(node, "metric", "a metric", &known)?;
    let [key] = fields.present(&["at_least", "at_most", "equal"])[..] else {
        return Err(Problem::OneCompare.at(node.position));
    };
    let compare = match key {
        "at_least" => Compare::AtLeast,
        "at_most" => Compare::AtMost,
        _ => Compare::Equal,
    };
    let evidence = Evidence::Metric {
        argv: doer::words(fields.required("command")?)?,
        compare,
        pinned: doer::pinned(fields.get("pinned"))?,
        pointer: fields::string(fields.required("pointer")?, "pointer")?.to_owned(),
        threshold: threshold(fields.required(key)?, key)?,
        timeout_ms: doer::timeout(fields.get("timeout_seconds"))?,
    };
    checked(evidence, node, &fields)
}

/// A number as the journal records it: integers without decimals.
fn threshold(node: &Node, key: &'static str) -> Result<Number, Diagnostic> {
    let Value::Number(digits) = &node.value else {
        return Err(fields::wrong(node, key, "a number"));
    };
    let exact = fields::exact(digits, node.position).ok();
    exact.and_then(|number| windlass_governance::exact_number(&number)).ok_or_else(|| {
        let message = format!("the number `{}` cannot be recorded exactly", shown(digits));
        Problem::Rule { message, hint: "write a number of at most 15 digits" }.at(node.position)
    })
}

fn tool(node: &Node) -> Result<Evidence, Diagnostic> {
    let fields = Fields::new(node, "tool", "a tool", &["command", "pinned", "timeout_seconds"])?;
    let evidence = Evidence::Tool {
        argv: doer::words(fields.required("command")?)?,
        pinned: doer::pinned(fields.get("pinned"))?,
        timeout_ms: doer::timeout(fields.get("timeout_seconds"))?,
    };
    checked(evidence, node, &fields)
}

fn validator(node: &Node) -> Result<Evidence, Diagnostic> {
    let known = ["files", "require", "forbid", "json", "bytes_max"];
    let fields = Fields::new(node, "validator", "a validator", &known)?;
    let pattern = |key| fields.get(key).map(|node| fields::string(node, key)).transpose();
    let files = fields::list(fields.required("files")?, "files")?;
    let files: Result<Vec<String>, Diagnostic> =
        files.iter().map(|item| fields::string(item, "files").map(str::to_owned)).collect();
    let json = fields.get("json").map(|node| fields::boolean(node, "json")).transpose()?;
    let bytes_max = fields.get("bytes_max");
    let bytes_max = bytes_max.map(|node| number::whole(node, "bytes_max", 1, number::SAFE_MAX));
    let evidence = Evidence::Validator {
        bytes_max: bytes_max.transpose()?,
        files: files?,
        forbid: pattern("forbid")?.map(str::to_owned),
        json: json.unwrap_or(false),
        require: pattern("require")?.map(str::to_owned),
    };
    checked(evidence, node, &fields)
}

/// Checks what holds for rules in every kind of file, and locates an error in this one.
fn checked(evidence: Evidence, node: &Node, fields: &Fields<'_>) -> Result<Evidence, Diagnostic> {
    let Err(error) = windlass_governance::check_evidence(&evidence) else { return Ok(evidence) };
    let at = match error.field {
        RuleField::BytesMax => fields.get("bytes_max"),
        RuleField::Command => fields.get("command"),
        RuleField::Files(at) => {
            let list = fields.get("files");
            let items = list.and_then(|list| fields::list(list, "files").ok());
            items.and_then(|items| items.get(at)).or(list)
        }
        RuleField::Forbid => fields.get("forbid"),
        RuleField::Pinned(at) => {
            let list = fields.get("pinned");
            let items = list.and_then(|list| fields::list(list, "pinned").ok());
            items.and_then(|items| items.get(at)).or(list)
        }
        RuleField::Pointer => fields.get("pointer"),
        RuleField::Require => fields.get("require"),
        RuleField::Timeout => fields.get("timeout_seconds"),
        RuleField::Threshold | RuleField::Validator => None,
    };
    let problem = Problem::Rule { message: error.message, hint: error.hint };
    Err(problem.at(at.unwrap_or(node).position))
}
