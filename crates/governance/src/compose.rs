//! Composes the rules of all levels: a later level can only make a rule stricter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Number;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, Governance, Rule};
use windlass_text::FileError;

use crate::judge::order;
use crate::rule::{LocatedRule, RuleKind, level_name};

/// The composed rules, and the definitions of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Composed {
    /// The rules, as a plan records them.
    pub governance: Governance,
    /// The definitions of each rule, by level.
    pub origins: BTreeMap<(RuleKind, String), Vec<LocatedRule>>,
}

/// Composes rules; their order does not matter.
///
/// # Errors
/// [`FileError`] when a level defines a rule twice, or makes a rule of an earlier level looser or
/// different.
pub fn compose(rules: impl IntoIterator<Item = LocatedRule>) -> Result<Composed, FileError> {
    let mut composed = Composed::default();
    for rule in rules {
        composed.origins.entry((rule.kind, rule.rule.id.clone())).or_default().push(rule);
    }
    for ((kind, _), all) in &mut composed.origins {
        all.sort_by(|one, other| {
            (one.rule.level, &one.location).cmp(&(other.rule.level, &other.location))
        });
        let mut merged: Option<(Rule, &LocatedRule)> = None;
        for next in all.iter() {
            merged = Some(match merged {
                None => (next.rule.clone(), next),
                Some((rule, before)) => (tighten(rule, before, next)?, next),
            });
        }
        if let Some((rule, _)) = merged {
            match kind {
                RuleKind::Compliance => composed.governance.compliance.push(rule),
                RuleKind::Gate => composed.governance.gates.push(rule),
            }
        }
    }
    Ok(composed)
}

/// The rule as a later level tightens it.
fn tighten(rule: Rule, before: &LocatedRule, next: &LocatedRule) -> Result<Rule, FileError> {
    let refuse = |what: &str, hint: &str| refusal(before, next, what, hint);
    if before.rule.level == next.rule.level {
        let level = level_name(next.rule.level);
        return Err(refuse(
            &format!("is defined twice at the level `{level}`"),
            "remove one of the two, or give it another id",
        ));
    }
    if next.rule.on_failure < rule.on_failure {
        return Err(refuse(
            "only warns where an earlier level blocks",
            "write `block`, or remove the rule",
        ));
    }
    let evidence = stricter(rule.evidence, &next.rule.evidence).map_err(|why| match why {
        Conflict::Looser(what) => refuse(
            &format!("is looser: {what}"),
            "a level may only make rules of earlier levels stricter",
        ),
        Conflict::Different(what) => refuse(
            &format!("is a different rule: {what}"),
            "keep what the earlier level says, or give the rule another id",
        ),
    })?;
    Ok(Rule {
        evidence,
        id: rule.id,
        // The first level that defined it: later levels cannot remove it.
        level: rule.level,
        on_failure: rule.on_failure.max(next.rule.on_failure),
        phases: union(&rule.phases, &next.rule.phases),
        remediation: next.rule.remediation.clone(),
    })
}

fn refusal(before: &LocatedRule, next: &LocatedRule, what: &str, hint: &str) -> FileError {
    let (kind, id) = (next.kind.as_str(), &next.rule.id);
    FileError {
        location: next.location.clone(),
        message: format!("the {kind} rule `{id}` {what}; the other is at {}", before.location),
        hint: Some(hint.to_owned()),
        code: Code::GovernanceInvalid,
    }
}

/// The phases of both; none means all phases.
fn union(one: &[String], other: &[String]) -> Vec<String> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let all: BTreeSet<&String> = one.iter().chain(other).collect();
    all.into_iter().cloned().collect()
}

/// Why a rule does not tighten an earlier one.
enum Conflict {
    Looser(String),
    Different(&'static str),
}

fn stricter(rule: Evidence, next: &Evidence) -> Result<Evidence, Conflict> {
    match (rule, next) {
        (
            Evidence::Metric { argv, compare, pinned, pointer, threshold, timeout_ms },
            Evidence::Metric {
                argv: other_argv,
                compare: other_compare,
                pinned: other_pinned,
                pointer: other_pointer,
                threshold: other_threshold,
                timeout_ms: other_timeout,
            },
        ) => {
            same(&argv, other_argv, "the command differs")?;
            same(&pointer, other_pointer, "the pointer differs")?;
            same(&compare, other_compare, "the comparison differs")?;
            let threshold = tighter(compare, &threshold, other_threshold)?;
            let timeout_ms = timeout_ms.min(*other_timeout);
            let pinned = more_pinned(pinned, other_pinned.as_deref())?;
            Ok(Evidence::Metric { argv, compare, pinned, pointer, threshold, timeout_ms })
        }
        (
            Evidence::Tool { argv, pinned, timeout_ms },
            Evidence::Tool { argv: other_argv, pinned: other_pinned, timeout_ms: other_timeout },
        ) => {
            same(&argv, other_argv, "the command differs")?;
            let pinned = more_pinned(pinned, other_pinned.as_deref())?;
            Ok(Evidence::Tool { argv, pinned, timeout_ms: timeout_ms.min(*other_timeout) })
        }
        (
            Evidence::Validator { bytes_max, files, forbid, json, require },
            Evidence::Validator {
                bytes_max: other_bytes,
                files: other_files,
                forbid: other_forbid,
                json: other_json,
                require: other_require,
            },
        ) => {
            // More files would loosen the requirement that one of them matches.
            let set = |files: &[String]| files.iter().cloned().collect::<BTreeSet<_>>();
            same(&set(&files), &set(other_files), "the files differ")?;
            if let (Some(max), Some(other)) = (bytes_max, other_bytes)
                && *other > max
            {
                return Err(Conflict::Looser(format!("{other} bytes instead of {max}")));
            }
            let files: Vec<String> = set(&files).into_iter().collect();
            Ok(Evidence::Validator {
                bytes_max: other_bytes.or(bytes_max),
                files,
                forbid: added(forbid, other_forbid, "`forbid` differs")?,
                json: json || *other_json,
                require: added(require, other_require, "`require` differs")?,
            })
        }
        (
            Evidence::Metric { .. } | Evidence::Tool { .. } | Evidence::Validator { .. },
            Evidence::Metric { .. } | Evidence::Tool { .. } | Evidence::Validator { .. },
        ) => Err(Conflict::Different("the kind of evidence differs")),
    }
}

/// The pinned files of both. A later level that does not write the list leaves it as it is.
fn more_pinned(
    one: Option<Vec<String>>,
    other: Option<&[String]>,
) -> Result<Option<Vec<String>>, Conflict> {
    let Some(other) = other else { return Ok(one) };
    // Which files the command names is known only at the start of a run.
    let Some(one) = one else {
        let what = "the earlier level pins the files that the command names".to_owned();
        return Err(Conflict::Looser(what));
    };
    match one.iter().find(|path| !other.contains(path)) {
        Some(path) => Err(Conflict::Looser(format!("`{path}` is no longer pinned"))),
        None => Ok(Some(other.to_vec())),
    }
}

fn same<T: PartialEq>(one: &T, other: &T, what: &'static str) -> Result<(), Conflict> {
    if one == other { Ok(()) } else { Err(Conflict::Different(what)) }
}

/// Which of two regular expressions is stricter cannot be decided.
fn added(
    one: Option<String>,
    other: &Option<String>,
    what: &'static str,
) -> Result<Option<String>, Conflict> {
    match (one, other) {
        (Some(one), Some(other)) if one != *other => Err(Conflict::Different(what)),
        (Some(one), _) => Ok(Some(one)),
        (None, other) => Ok(other.clone()),
    }
}

fn tighter(compare: Compare, one: &Number, other: &Number) -> Result<Number, Conflict> {
    let order = order(other, one).ok_or(Conflict::Different("the threshold differs"))?;
    let is_looser = match compare {
        Compare::AtLeast => order.is_lt(),
        Compare::AtMost => order.is_gt(),
        Compare::Equal if order.is_ne() => {
            return Err(Conflict::Different("the threshold differs"));
        }
        Compare::Equal => false,
    };
    if is_looser {
        return Err(Conflict::Looser(format!("{other} instead of {one}")));
    }
    Ok(other.clone())
}
