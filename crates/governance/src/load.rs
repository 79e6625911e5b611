//! Reads a governance file: TOML, strictly.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Number;
use toml::Spanned;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};

use crate::error::GovernanceError;
use crate::limits::{self, Part, TIMEOUT_MS, TIMEOUT_MS_MAX, cut};
use crate::stated::{Kind, Place, Stated};

/// The largest governance file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The most rules of one file.
const RULES_MAX: usize = 1000;
/// The most phases that a rule names.
const PHASES_MAX: usize = 1000;
/// The longest name, and the longest advice.
const NAME_BYTES_MAX: usize = 64;
const REMEDIATION_BYTES_MAX: usize = 1000;

/// A governance file, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct GovernanceFile {
    /// Who lays its rules down.
    pub level: RuleLevel,
    /// The rules, gates first, in the file's order.
    pub rules: Vec<Stated>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    level: RawLevel,
    #[serde(default)]
    gate: Vec<Spanned<RawRule>>,
    #[serde(default)]
    compliance: Vec<Spanned<RawRule>>,
}

/// The level `loop` is that of loop files.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawLevel {
    Universal,
    Organisation,
    Project,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: Spanned<String>,
    #[serde(default)]
    phases: Vec<Spanned<String>>,
    on_failure: OnFailure,
    remediation: Spanned<String>,
    metric: Option<Spanned<RawMetric>>,
    tool: Option<Spanned<RawTool>>,
    validator: Option<Spanned<RawValidator>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMetric {
    command: Spanned<Vec<String>>,
    pointer: Spanned<String>,
    at_least: Option<Spanned<RawNumber>>,
    at_most: Option<Spanned<RawNumber>>,
    equal: Option<Spanned<RawNumber>>,
    timeout_seconds: Option<Spanned<RawNumber>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTool {
    command: Spanned<Vec<String>>,
    timeout_seconds: Option<Spanned<RawNumber>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValidator {
    files: Spanned<Vec<Spanned<String>>>,
    require: Option<Spanned<String>>,
    forbid: Option<Spanned<String>>,
    #[serde(default)]
    json: bool,
    bytes_max: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum RawNumber {
    Whole(i64),
    Decimal(f64),
}

impl RawNumber {
    /// As it is recorded, if it can be.
    fn exact(self) -> Option<Number> {
        match self {
            Self::Whole(whole) => limits::number(&Number::from(whole)),
            Self::Decimal(decimal) => limits::number(&Number::from_f64(decimal)?),
        }
    }

    /// Seconds, in milliseconds; nothing finer.
    fn milliseconds(self) -> Option<u64> {
        let text = match self {
            Self::Whole(whole) => format!("{whole}"),
            Self::Decimal(decimal) => format!("{decimal}"),
        };
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        if decimals.len() > 3 {
            return None;
        }
        let milliseconds: u64 = format!("{decimals:0<3}").parse().ok()?;
        let whole: u64 = whole.parse().ok()?;
        let all = whole.checked_mul(1000)?.checked_add(milliseconds)?;
        (1..=TIMEOUT_MS_MAX).contains(&all).then_some(all)
    }
}

/// What is wrong, at a place of the file.
struct Fault {
    at: Range<usize>,
    hint: String,
    message: String,
}

fn fault(at: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Fault {
    Fault { at, hint: hint.into(), message: message.into() }
}

impl GovernanceFile {
    /// Reads the bytes of the file that is named `file`.
    ///
    /// # Errors
    /// The first thing that is wrong, at its place.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, GovernanceError> {
        let text = text(file, bytes)?;
        let locate = |fault: Fault, code: Code| GovernanceError {
            place: place(file, text, &fault.at),
            message: fault.message,
            hint: fault.hint,
            code,
        };
        read(file, text).map_err(|fault| locate(fault, Code::GovernanceInvalid))
    }
}

fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, GovernanceError> {
    let start = Place { file: file.to_owned(), line: 1, column: 1 };
    if bytes.len() > FILE_BYTES_MAX {
        return Err(GovernanceError {
            place: start,
            message: format!("the file has {} bytes, more than {FILE_BYTES_MAX}", bytes.len()),
            hint: "spread the rules over several files".to_owned(),
            code: Code::DocSizeExceeded,
        });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let good = std::str::from_utf8(good).unwrap_or_default();
        GovernanceError {
            place: place(file, good, &(good.len()..good.len())),
            message: "the file is not UTF-8".to_owned(),
            hint: "save the file as UTF-8".to_owned(),
            code: Code::GovernanceInvalid,
        }
    })
}

fn place(file: &str, text: &str, at: &Range<usize>) -> Place {
    let mut end = at.start.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { file: file.to_owned(), line: before.matches('\n').count() + 1, column }
}

fn read(file: &str, text: &str) -> Result<GovernanceFile, Fault> {
    let raw: RawFile = toml::from_str(text).map_err(|error| {
        let message = error.message().trim().replace('\n', "; ");
        let hint = "see `docs/guides/loops.md` for what a governance file may say";
        fault(error.span().unwrap_or(0..0), message, hint)
    })?;
    let level = match raw.level {
        RawLevel::Universal => RuleLevel::Universal,
        RawLevel::Organisation => RuleLevel::Organisation,
        RawLevel::Project => RuleLevel::Project,
    };
    let mut rules = Vec::new();
    for (kind, raw) in [(Kind::Gate, raw.gate), (Kind::Compliance, raw.compliance)] {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for raw in raw {
            let at = raw.get_ref().id.span();
            let here = place(file, text, &at);
            let rule = rule(raw, level)?;
            if rules.len() >= RULES_MAX {
                let message = format!("the file has more than {RULES_MAX} rules");
                return Err(fault(at, message, "spread the rules over several files"));
            }
            if let Some(first) = seen.insert(rule.id.clone(), here.line) {
                let message = format!(
                    "the {} rule `{}` is there twice, first in line {first}",
                    kind.as_str(),
                    rule.id
                );
                return Err(fault(at, message, "give each an id of its own"));
            }
            rules.push(Stated { kind, place: here, rule });
        }
    }
    Ok(GovernanceFile { level, rules })
}

/// Whether a rule or a phase may be named so.
fn named(name: &Spanned<String>, what: &str) -> Result<String, Fault> {
    let text = name.get_ref();
    let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(allowed) {
        let message = format!(
            "`{}` is not {what}: only `a` to `z`, `0` to `9`, `_` and `-`, at most {NAME_BYTES_MAX}",
            cut(text)
        );
        return Err(fault(name.span(), message, "use another name"));
    }
    Ok(text.clone())
}

fn rule(raw: Spanned<RawRule>, level: RuleLevel) -> Result<Rule, Fault> {
    let span = raw.span();
    let raw = raw.into_inner();
    let id = named(&raw.id, "the id of a rule")?;
    let mut phases: Vec<String> = Vec::new();
    for phase in &raw.phases {
        let name = named(phase, "the id of a phase")?;
        if phases.contains(&name) || phases.len() >= PHASES_MAX {
            let message = format!("the phase `{name}` is there twice, or there are too many");
            return Err(fault(phase.span(), message, "name each phase once"));
        }
        phases.push(name);
    }
    let remediation = raw.remediation.get_ref().trim().to_owned();
    let long = remediation.len() > REMEDIATION_BYTES_MAX;
    if remediation.is_empty() || long || remediation.chars().any(char::is_control) {
        let message =
            format!("`remediation` must be one line of 1 to {REMEDIATION_BYTES_MAX} bytes");
        return Err(fault(raw.remediation.span(), message, "say what to do when it is not met"));
    }
    let evidence = match (raw.metric, raw.tool, raw.validator) {
        (Some(metric), None, None) => self::metric(metric)?,
        (None, Some(tool), None) => self::tool(tool)?,
        (None, None, Some(validator)) => self::validator(validator)?,
        (_, _, _) => {
            let message =
                format!("the rule `{id}` must say exactly one of `metric`, `tool`, `validator`");
            return Err(fault(span, message, "keep one of them"));
        }
    };
    Ok(Rule { evidence, id, level, on_failure: raw.on_failure, phases, remediation })
}

fn timeout(raw: Option<Spanned<RawNumber>>) -> Result<u64, Fault> {
    let Some(raw) = raw else { return Ok(TIMEOUT_MS) };
    raw.get_ref().milliseconds().ok_or_else(|| {
        let most = TIMEOUT_MS_MAX / 1000;
        let message = format!(
            "`timeout_seconds` must be more than 0 and at most {most}, with at most 3 decimals"
        );
        fault(raw.span(), message, "stay within the limit")
    })
}

fn metric(raw: Spanned<RawMetric>) -> Result<Evidence, Fault> {
    let span = raw.span();
    let raw = raw.into_inner();
    let given = [
        (Compare::AtLeast, raw.at_least),
        (Compare::AtMost, raw.at_most),
        (Compare::Equal, raw.equal),
    ];
    let mut given = given.into_iter().filter_map(|(compare, number)| Some((compare, number?)));
    let (Some((compare, number)), None) = (given.next(), given.next()) else {
        let message = "a metric must say exactly one of `at_least`, `at_most`, `equal`";
        return Err(fault(span, message, "keep one of them"));
    };
    let Some(threshold) = number.get_ref().exact() else {
        let message = "the threshold cannot be recorded exactly";
        return Err(fault(number.span(), message, "write a finite number below 2^53"));
    };
    let evidence = Evidence::Metric {
        argv: raw.command.get_ref().clone(),
        compare,
        pointer: raw.pointer.get_ref().clone(),
        threshold,
        timeout_ms: timeout(raw.timeout_seconds)?,
    };
    checked(evidence, |part| match part {
        Part::Command => raw.command.span(),
        Part::Pointer => raw.pointer.span(),
        Part::Threshold => number.span(),
        Part::BytesMax
        | Part::Files(_)
        | Part::Forbid
        | Part::Require
        | Part::Timeout
        | Part::Validator => span.clone(),
    })
}

fn tool(raw: Spanned<RawTool>) -> Result<Evidence, Fault> {
    let raw = raw.into_inner();
    let timeout_ms = timeout(raw.timeout_seconds)?;
    let evidence = Evidence::Tool { argv: raw.command.get_ref().clone(), timeout_ms };
    checked(evidence, |_| raw.command.span())
}

fn validator(raw: Spanned<RawValidator>) -> Result<Evidence, Fault> {
    let span = raw.span();
    let raw = raw.into_inner();
    let text = |text: &Option<Spanned<String>>| text.as_ref().map(|text| text.get_ref().clone());
    let evidence = Evidence::Validator {
        bytes_max: raw.bytes_max.as_ref().map(|most| *most.get_ref()),
        files: raw.files.get_ref().iter().map(|file| file.get_ref().clone()).collect(),
        forbid: text(&raw.forbid),
        json: raw.json,
        require: text(&raw.require),
    };
    checked(evidence, |part| {
        let of = match part {
            Part::Files(at) => raw.files.get_ref().get(at).map(Spanned::span),
            Part::Forbid => raw.forbid.as_ref().map(Spanned::span),
            Part::Require => raw.require.as_ref().map(Spanned::span),
            Part::BytesMax => raw.bytes_max.as_ref().map(Spanned::span),
            Part::Command | Part::Pointer | Part::Threshold | Part::Timeout | Part::Validator => {
                None
            }
        };
        let files = matches!(part, Part::Files(_)).then(|| raw.files.span());
        of.or(files).unwrap_or_else(|| span.clone())
    })
}

fn checked(evidence: Evidence, at: impl Fn(Part) -> Range<usize>) -> Result<Evidence, Fault> {
    match limits::check(&evidence) {
        Ok(()) => Ok(evidence),
        Err(flaw) => Err(fault(at(flaw.part), flaw.message, flaw.hint)),
    }
}
