//! One set of rules out of those of all levels: a later level can only make a rule stricter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Number;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, Governance, Rule};

use crate::error::GovernanceError;
use crate::judge::order;
use crate::stated::{Kind, Place, Stated, level_name};

/// All rules, and where each was laid down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Composed {
    /// What a run carries.
    pub governance: Governance,
    /// For each rule every place that lays it down, the first level first.
    pub origins: BTreeMap<(Kind, String), Vec<Stated>>,
}

/// Composes rules, in whatever order they come.
///
/// # Errors
/// [`GovernanceError`] when a level lays a rule down twice, or one makes a rule of an earlier level
/// looser or another one.
pub fn compose(stated: impl IntoIterator<Item = Stated>) -> Result<Composed, GovernanceError> {
    let mut composed = Composed::default();
    for rule in stated {
        composed.origins.entry((rule.kind, rule.rule.id.clone())).or_default().push(rule);
    }
    for ((kind, _), all) in &mut composed.origins {
        all.sort_by(|one, other| {
            (one.rule.level, &one.place).cmp(&(other.rule.level, &other.place))
        });
        let mut merged: Option<(Rule, &Stated)> = None;
        for next in all.iter() {
            merged = Some(match merged {
                None => (next.rule.clone(), next),
                Some((rule, before)) => (tighten(rule, before, next)?, next),
            });
        }
        if let Some((rule, _)) = merged {
            match kind {
                Kind::Compliance => composed.governance.compliance.push(rule),
                Kind::Gate => composed.governance.gates.push(rule),
            }
        }
    }
    Ok(composed)
}

/// The rule so far, made stricter by a later level.
fn tighten(rule: Rule, before: &Stated, next: &Stated) -> Result<Rule, GovernanceError> {
    let refuse = |what: &str, hint: &str| refusal(before, next, what, hint);
    if before.rule.level == next.rule.level {
        let level = level_name(next.rule.level);
        return Err(refuse(
            &format!("is laid down twice at the level `{level}`"),
            "leave one of the two out, or give it an id of its own",
        ));
    }
    if next.rule.on_failure < rule.on_failure {
        return Err(refuse("only warns where it blocked", "write `block`, or leave it out"));
    }
    let evidence = stricter(rule.evidence, &next.rule.evidence).map_err(|why| match why {
        Clash::Looser(what) => refuse(
            &format!("is looser: {what}"),
            "a level may only make a rule stricter than the levels before it",
        ),
        Clash::Other(what) => refuse(
            &format!("looks at something else: {what}"),
            "keep what the earlier level says, or give the rule an id of its own",
        ),
    })?;
    Ok(Rule {
        evidence,
        id: rule.id,
        // Who laid it down first: nobody below them can take it away.
        level: rule.level,
        on_failure: rule.on_failure.max(next.rule.on_failure),
        phases: union(&rule.phases, &next.rule.phases),
        remediation: next.rule.remediation.clone(),
    })
}

fn refusal(before: &Stated, next: &Stated, what: &str, hint: &str) -> GovernanceError {
    let (kind, id) = (next.kind.as_str(), &next.rule.id);
    let Place { file, line, column } = &before.place;
    GovernanceError {
        place: next.place.clone(),
        message: format!("the {kind} rule `{id}` {what}; it stands at {file}:{line}:{column}"),
        hint: hint.to_owned(),
        code: Code::GovernanceInvalid,
    }
}

/// All phases when one of the two is about all of them.
fn union(one: &[String], other: &[String]) -> Vec<String> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let all: BTreeSet<&String> = one.iter().chain(other).collect();
    all.into_iter().cloned().collect()
}

/// Why a rule cannot be laid down again like this.
enum Clash {
    Looser(String),
    Other(&'static str),
}

fn stricter(rule: Evidence, next: &Evidence) -> Result<Evidence, Clash> {
    match (rule, next) {
        (
            Evidence::Metric { argv, compare, pointer, threshold, timeout_ms },
            Evidence::Metric {
                argv: other_argv,
                compare: other_compare,
                pointer: other_pointer,
                threshold: other_threshold,
                timeout_ms: other_timeout,
            },
        ) => {
            same(&argv, other_argv, "another command")?;
            same(&pointer, other_pointer, "another pointer")?;
            same(&compare, other_compare, "another comparison")?;
            let threshold = tighter(compare, &threshold, other_threshold)?;
            let timeout_ms = timeout_ms.min(*other_timeout);
            Ok(Evidence::Metric { argv, compare, pointer, threshold, timeout_ms })
        }
        (
            Evidence::Tool { argv, timeout_ms },
            Evidence::Tool { argv: other_argv, timeout_ms: other_timeout },
        ) => {
            same(&argv, other_argv, "another command")?;
            Ok(Evidence::Tool { argv, timeout_ms: timeout_ms.min(*other_timeout) })
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
            // More files would loosen that one of them must be there.
            let set = |files: &[String]| files.iter().cloned().collect::<BTreeSet<_>>();
            same(&set(&files), &set(other_files), "other files")?;
            if let (Some(most), Some(other)) = (bytes_max, other_bytes)
                && *other > most
            {
                return Err(Clash::Looser(format!("{other} bytes instead of {most}")));
            }
            let files: Vec<String> = set(&files).into_iter().collect();
            Ok(Evidence::Validator {
                bytes_max: other_bytes.or(bytes_max),
                files,
                forbid: added(forbid, other_forbid, "another `forbid`")?,
                json: json || *other_json,
                require: added(require, other_require, "another `require`")?,
            })
        }
        (
            Evidence::Metric { .. } | Evidence::Tool { .. } | Evidence::Validator { .. },
            Evidence::Metric { .. } | Evidence::Tool { .. } | Evidence::Validator { .. },
        ) => Err(Clash::Other("another kind of evidence")),
    }
}

fn same<T: PartialEq>(one: &T, other: &T, what: &'static str) -> Result<(), Clash> {
    if one == other { Ok(()) } else { Err(Clash::Other(what)) }
}

/// Which of two regular expressions is the stricter one cannot be said.
fn added(
    one: Option<String>,
    other: &Option<String>,
    what: &'static str,
) -> Result<Option<String>, Clash> {
    match (one, other) {
        (Some(one), Some(other)) if one != *other => Err(Clash::Other(what)),
        (Some(one), _) => Ok(Some(one)),
        (None, other) => Ok(other.clone()),
    }
}

fn tighter(compare: Compare, one: &Number, other: &Number) -> Result<Number, Clash> {
    let order = order(other, one).ok_or(Clash::Other("another threshold"))?;
    let is_looser = match compare {
        Compare::AtLeast => order.is_lt(),
        Compare::AtMost => order.is_gt(),
        Compare::Equal if order.is_ne() => return Err(Clash::Other("another threshold")),
        Compare::Equal => false,
    };
    if is_looser {
        return Err(Clash::Looser(format!("{other} instead of {one}")));
    }
    Ok(other.clone())
}
