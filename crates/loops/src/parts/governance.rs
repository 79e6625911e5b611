//! What the work of this loop's phases is measured by.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Number;
use windlass_governance::{Kind, Part, Stated};
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};

use crate::error::{Fault, Problem, shown};
use crate::near;
use crate::parts::shape::{self, Fields};
use crate::parts::{doer, effect, number, text};
use crate::yaml::{Node, Value};

/// The most rules of one kind.
const RULES_MAX: usize = 1000;

/// Reads the rules; `file` is what their places are in.
pub fn read(node: Option<&Node>, ids: &BTreeSet<&str>, file: &str) -> Result<Vec<Stated>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let fields = Fields::of(node, "governance", "governance", &["gates", "compliance"])?;
    let mut stated = Vec::new();
    for (kind, key) in [(Kind::Gate, "gates"), (Kind::Compliance, "compliance")] {
        let Some(node) = fields.get(key) else { continue };
        let items = shape::list(node, key)?;
        if items.len() > RULES_MAX {
            return Err(Problem::TooMany { key, most: RULES_MAX }.at(node.at));
        }
        let mut seen = BTreeMap::new();
        for item in items {
            let (rule, at) = rule(item, ids)?;
            if let Some(first) = seen.insert(rule.id.clone(), at.line) {
                let problem = Problem::DuplicateName { what: "the rule", name: rule.id, first };
                return Err(problem.at(at));
            }
            let file = near::clean(file, 4096);
            let place = windlass_governance::Place { file, line: at.line, column: at.column };
            stated.push(Stated { kind, place, rule });
        }
    }
    Ok(stated)
}

fn rule(node: &Node, ids: &BTreeSet<&str>) -> Result<(Rule, crate::error::Place), Fault> {
    let known = ["id", "phases", "on_failure", "remediation", "metric", "tool", "validator"];
    let fields = Fields::of(node, "governance", "a rule", &known)?;
    let id_node = fields.need("id")?;
    let id = text::id(id_node, "id", "the id of a rule")?;
    let phases = fields.get("phases").map(|node| phases(node, ids)).transpose()?;
    let ways = [("block", OnFailure::Block), ("warn", OnFailure::Warn)];
    let on_failure = shape::choice(fields.need("on_failure")?, "on_failure", &ways)?;
    let remediation = text::line(fields.need("remediation")?, "remediation")?;
    let [kind] = fields.among(&["metric", "tool", "validator"])[..] else {
        return Err(Problem::OneEvidence.at(node.at));
    };
    let inside = fields.need(kind)?;
    let evidence = match kind {
        "metric" => metric(inside)?,
        "tool" => tool(inside)?,
        _ => validator(inside)?,
    };
    let phases = phases.unwrap_or_default();
    let rule = Rule { evidence, id, level: RuleLevel::Loop, on_failure, phases, remediation };
    Ok((rule, id_node.at))
}

fn phases(node: &Node, ids: &BTreeSet<&str>) -> Result<Vec<String>, Fault> {
    let mut seen = BTreeMap::new();
    let mut names = Vec::new();
    for item in shape::list(node, "phases")? {
        let name = shape::string(item, "phases")?;
        if !ids.contains(name) {
            let near = near::nearest(name, ids.iter().copied());
            return Err(effect::unknown(name, "`phases`", near).at(item.at));
        }
        if let Some(first) = seen.insert(name.to_owned(), item.at.line) {
            let name = shown(name);
            return Err(Problem::DuplicateName { what: "the phase", name, first }.at(item.at));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn metric(node: &Node) -> Result<Evidence, Fault> {
    let known = ["command", "pointer", "at_least", "at_most", "equal", "timeout_seconds"];
    let fields = Fields::of(node, "metric", "a metric", &known)?;
    let [key] = fields.among(&["at_least", "at_most", "equal"])[..] else {
        return Err(Problem::OneCompare.at(node.at));
    };
    let compare = match key {
        "at_least" => Compare::AtLeast,
        "at_most" => Compare::AtMost,
        _ => Compare::Equal,
    };
    let evidence = Evidence::Metric {
        argv: doer::words(fields.need("command")?)?,
        compare,
        pointer: shape::string(fields.need("pointer")?, "pointer")?.to_owned(),
        threshold: threshold(fields.need(key)?, key)?,
        timeout_ms: doer::timeout(fields.get("timeout_seconds"))?,
    };
    checked(evidence, node, &fields)
}

/// A number as the journal keeps it: whole ones without decimals.
fn threshold(node: &Node, key: &'static str) -> Result<Number, Fault> {
    let Value::Number(digits) = &node.value else {
        return Err(shape::wrong(node, key, "a number"));
    };
    let exact = shape::exact(digits, node.at).ok();
    exact.and_then(|number| windlass_governance::number(&number)).ok_or_else(|| {
        let message = format!("the number `{}` cannot be recorded exactly", shown(digits));
        Problem::Flaw { message, hint: "write a number of at most 15 digits" }.at(node.at)
    })
}

fn tool(node: &Node) -> Result<Evidence, Fault> {
    let fields = Fields::of(node, "tool", "a tool", &["command", "timeout_seconds"])?;
    let evidence = Evidence::Tool {
        argv: doer::words(fields.need("command")?)?,
        timeout_ms: doer::timeout(fields.get("timeout_seconds"))?,
    };
    checked(evidence, node, &fields)
}

fn validator(node: &Node) -> Result<Evidence, Fault> {
    let known = ["files", "require", "forbid", "json", "bytes_max"];
    let fields = Fields::of(node, "validator", "a validator", &known)?;
    let pattern = |key| fields.get(key).map(|node| shape::string(node, key)).transpose();
    let files = shape::list(fields.need("files")?, "files")?;
    let files: Result<Vec<String>, Fault> =
        files.iter().map(|item| shape::string(item, "files").map(str::to_owned)).collect();
    let json = fields.get("json").map(|node| shape::boolean(node, "json")).transpose()?;
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

/// What holds for rules of every kind of file, at its place in this one.
fn checked(evidence: Evidence, node: &Node, fields: &Fields<'_>) -> Result<Evidence, Fault> {
    let Err(flaw) = windlass_governance::check(&evidence) else { return Ok(evidence) };
    let at = match flaw.part {
        Part::BytesMax => fields.get("bytes_max"),
        Part::Command => fields.get("command"),
        Part::Files(at) => {
            let list = fields.get("files");
            let items = list.and_then(|list| shape::list(list, "files").ok());
            items.and_then(|items| items.get(at)).or(list)
        }
        Part::Forbid => fields.get("forbid"),
        Part::Pointer => fields.get("pointer"),
        Part::Require => fields.get("require"),
        Part::Timeout => fields.get("timeout_seconds"),
        Part::Threshold | Part::Validator => None,
    };
    let place = at.unwrap_or(node).at;
    Err(Problem::Flaw { message: flaw.message, hint: flaw.hint }.at(place))
}
