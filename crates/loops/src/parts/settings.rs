//! What holds for the whole loop: budget, holds, requirements.

use windlass_kernel::run::plan::{Budget, HoldRule, Requirement};

use crate::error::{Fault, Problem};
use crate::parts::number::{self, SAFE_MAX, Unit};
use crate::parts::shape::{self, Fields};
use crate::yaml::Node;

/// How many people a hold may ask for.
const APPROVALS_MAX: u32 = 20;

const COST: Unit = Unit { decimals: 6, worth: 1_000_000, most: SAFE_MAX };
const MINUTES: Unit = Unit { decimals: 3, worth: 60_000, most: SAFE_MAX };
const HOURS: Unit = Unit { decimals: 3, worth: 3_600_000, most: SAFE_MAX };

pub fn budget(node: Option<&Node>) -> Result<Budget, Fault> {
    let Some(node) = node else { return Ok(Budget::default()) };
    let known = ["attempts", "tokens", "cost", "wall_minutes", "changed_lines"];
    let fields = Fields::of(node, "budget", "a budget", &known)?;
    let whole = |key| fields.get(key).map(|node| number::whole(node, key, 1, SAFE_MAX)).transpose();
    let decimal =
        |key, unit| fields.get(key).map(|node| number::decimal(node, key, unit)).transpose();
    Ok(Budget {
        attempts: whole("attempts")?,
        changed_lines: whole("changed_lines")?,
        cost_micros: decimal("cost", COST)?,
        tokens: whole("tokens")?,
        wall_ms: decimal("wall_minutes", MINUTES)?,
    })
}

pub fn approvals(node: &Node) -> Result<u32, Fault> {
    number::small(node, "approvals", APPROVALS_MAX)
}

pub fn hold(node: Option<&Node>) -> Result<HoldRule, Fault> {
    let Some(node) = node else { return Ok(HoldRule::default()) };
    let fields = Fields::of(node, "hold", "the rule for holds", &["approvals", "expires_hours"])?;
    let asked = fields.get("approvals").map(approvals).transpose()?;
    let expires = fields.get("expires_hours");
    let expires = expires.map(|node| number::decimal(node, "expires_hours", HOURS));
    Ok(HoldRule {
        approvals: asked.unwrap_or(HoldRule::default().approvals),
        expires_ms: expires.transpose()?,
    })
}

pub fn require(node: Option<&Node>) -> Result<Vec<Requirement>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let names = [
        ("clean_repo", Requirement::CleanRepo),
        ("repo", Requirement::Repo),
        ("single", Requirement::Single),
    ];
    let mut found = Vec::new();
    let mut lines = Vec::new();
    for item in shape::list(node, "require")? {
        let requirement = shape::choice(item, "require", &names)?;
        if let Some(first) = found.iter().position(|other| *other == requirement) {
            let name = shape::string(item, "require")?.to_owned();
            let first = lines.get(first).copied().unwrap_or(item.at.line);
            return Err(Problem::DuplicateName { what: "the requirement", name, first }.at(item.at));
        }
        found.push(requirement);
        lines.push(item.at.line);
    }
    Ok(found)
}
