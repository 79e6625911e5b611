//! Settings of the whole loop: budget, holds, requirements.

use windlass_kernel::run::plan::{Budget, HoldRule, Requirement};
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, Problem};
use crate::parts::fields::{self, Fields};
use crate::parts::number::{self, SAFE_MAX, Scale};

/// The most approvals that a hold may need.
const APPROVALS_MAX: u32 = 20;
/// How often an attempt may go on by itself.
const RETRIES_MAX: u64 = 1000;

const COST: Scale = Scale { decimals: 6, factor: 1_000_000, max: SAFE_MAX };
const MINUTES: Scale = Scale { decimals: 3, factor: 60_000, max: SAFE_MAX };
const HOURS: Scale = Scale { decimals: 3, factor: 3_600_000, max: SAFE_MAX };

pub fn budget(node: Option<&Node>) -> Result<Budget, Diagnostic> {
    let Some(node) = node else { return Ok(Budget::default()) };
    let known = ["attempts", "tokens", "cost", "wall_minutes", "changed_lines"];
    let fields = Fields::new(node, "budget", "a budget", &known)?;
    let whole = |key| fields.get(key).map(|node| number::whole(node, key, 1, SAFE_MAX)).transpose();
    let decimal =
        |key, scale| fields.get(key).map(|node| number::decimal(node, key, scale)).transpose();
    Ok(Budget {
        attempts: whole("attempts")?,
        changed_lines: whole("changed_lines")?,
        cost_micros: decimal("cost", COST)?,
        tokens: whole("tokens")?,
        wall_ms: decimal("wall_minutes", MINUTES)?,
    })
}

pub fn approvals(node: &Node) -> Result<u32, Diagnostic> {
    number::small(node, "approvals", APPROVALS_MAX)
}

pub fn hold(node: Option<&Node>) -> Result<HoldRule, Diagnostic> {
    let Some(node) = node else { return Ok(HoldRule::default()) };
    let names = ["approvals", "expires_hours", "retries", "starter_counts"];
    let fields = Fields::new(node, "hold", "the rule for holds", &names)?;
    let asked = fields.get("approvals").map(approvals).transpose()?;
    let expires = fields.get("expires_hours");
    let expires = expires.map(|node| number::decimal(node, "expires_hours", HOURS));
    let retries = fields.get("retries").map(|node| number::whole(node, "retries", 0, RETRIES_MAX));
    let starter = fields.get("starter_counts").map(|node| fields::boolean(node, "starter_counts"));
    Ok(HoldRule {
        approvals: asked.unwrap_or(HoldRule::default().approvals),
        expires_ms: expires.transpose()?,
        retries: match retries.transpose()? {
            Some(retries) => u32::try_from(retries).unwrap_or(u32::MAX),
            None => HoldRule::default().retries,
        },
        starter_counts: starter.transpose()?.unwrap_or(false),
    })
}

pub fn require(node: Option<&Node>) -> Result<Vec<Requirement>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let names = [
        ("clean_repo", Requirement::CleanRepo),
        ("repo", Requirement::Repo),
        ("single", Requirement::Single),
    ];
    let mut found = Vec::new();
    let mut lines = Vec::new();
    for item in fields::list(node, "require")? {
        let requirement = fields::choice(item, "require", &names)?;
        if let Some(first) = found.iter().position(|other| *other == requirement) {
            let name = fields::string(item, "require")?.to_owned();
            let first_line = lines.get(first).copied().unwrap_or(item.position.line);
            return Err(Problem::DuplicateName { what: "the requirement", name, first_line }
                .at(item.position));
        }
        found.push(requirement);
        lines.push(item.position.line);
    }
    Ok(found)
}
