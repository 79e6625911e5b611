//! Parses governance files, which are TOML.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Number;
use toml::Spanned;
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};
use windlass_text::{FileError, SourceFile};

use crate::limits::{self, RuleField, TIMEOUT_MS, TIMEOUT_MS_MAX, shown};
use crate::rule::{LocatedRule, RuleKind};

/// The largest governance file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// The most rules of one file.
const RULES_MAX: usize = 1000;
/// The most phases that a rule names.
const PHASES_MAX: usize = 1000;
/// The longest id, and the longest remediation.
const NAME_BYTES_MAX: usize = 64;
const REMEDIATION_BYTES_MAX: usize = 1000;

/// A checked governance file.
#[derive(Clone, Debug, PartialEq)]
pub struct GovernanceFile {
    /// The level of its rules.
    pub level: RuleLevel,
    /// The rules, gates first, each in the file's order.
    pub rules: Vec<LocatedRule>,
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

/// The level `loop` is reserved for loop files.
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
    pinned: Option<RawPaths>,
    timeout_seconds: Option<Spanned<RawNumber>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTool {
    command: Spanned<Vec<String>>,
    pinned: Option<RawPaths>,
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
    /// The number as it is recorded, if it can be exact.
    fn exact(self) -> Option<Number> {
        match self {
            Self::Whole(whole) => limits::exact_number(&Number::from(whole)),
            Self::Decimal(decimal) => limits::exact_number(&Number::from_f64(decimal)?),
        }
    }

    /// Seconds converted to milliseconds; a finer number is refused.
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

impl GovernanceFile {
    /// Parses the governance file at `path`.
    ///
    /// # Errors
    /// The first [`FileError`].
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, FileError> {
        let source = SourceFile::new(path, bytes, FILE_BYTES_MAX, Code::GovernanceInvalid)?;
        Parser(source).file()
    }
}

type RawPaths = Spanned<Vec<Spanned<String>>>;

fn pinned(raw: Option<&RawPaths>) -> Option<Vec<String>> {
    raw.map(|paths| paths.get_ref().iter().map(|path| path.get_ref().clone()).collect())
}

/// Where a pinned path is written, or the whole list.
fn pinned_span(raw: Option<&RawPaths>, at: usize) -> Option<Range<usize>> {
    raw.map(|paths| paths.get_ref().get(at).map_or_else(|| paths.span(), Spanned::span))
}

struct Parser<'a>(SourceFile<'a>);

impl Parser<'_> {
    fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> FileError {
        self.0.error(span, message).with_hint(hint)
    }

    fn file(&self) -> Result<GovernanceFile, FileError> {
        let raw: RawFile =
            self.0.parse_toml(Some("governance files are described in docs/guides/loops.md"))?;
        let level = match raw.level {
            RawLevel::Universal => RuleLevel::Universal,
            RawLevel::Organisation => RuleLevel::Organisation,
            RawLevel::Project => RuleLevel::Project,
        };
        let mut rules = Vec::new();
        for (kind, raw) in [(RuleKind::Gate, raw.gate), (RuleKind::Compliance, raw.compliance)] {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for raw in raw {
                let at = raw.get_ref().id.span();
                let location = self.0.location(at.start);
                let rule = self.rule(raw, level)?;
                if rules.len() >= RULES_MAX {
                    let message = format!("the file has more than {RULES_MAX} rules");
                    return Err(self.error(at, message, "split the rules over several files"));
                }
                if let Some(first) = seen.insert(rule.id.clone(), location.line) {
                    let message = format!(
                        "the {} rule `{}` appears twice, first in line {first}",
                        kind.as_str(),
                        rule.id
                    );
                    return Err(self.error(at, message, "remove one, or give it another id"));
                }
                rules.push(LocatedRule { kind, location, rule });
            }
        }
        Ok(GovernanceFile { level, rules })
    }

    /// Checks the id of a rule or a phase.
    fn named(&self, name: &Spanned<String>, what: &str) -> Result<String, FileError> {
        let text = name.get_ref();
        let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(allowed) {
            let message = format!(
                "`{}` cannot be {what}: use only `a` to `z`, `0` to `9`, `_` and `-`, at most {NAME_BYTES_MAX} characters",
                shown(text)
            );
            return Err(self.error(name.span(), message, "choose another name"));
        }
        Ok(text.clone())
    }

    fn rule(&self, raw: Spanned<RawRule>, level: RuleLevel) -> Result<Rule, FileError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let id = self.named(&raw.id, "the id of a rule")?;
        let mut phases: Vec<String> = Vec::new();
        for phase in &raw.phases {
            let name = self.named(phase, "the id of a phase")?;
            if phases.contains(&name) || phases.len() >= PHASES_MAX {
                let message =
                    format!("the phase `{name}` appears twice, or there are too many phases");
                return Err(self.error(phase.span(), message, "name each phase once"));
            }
            phases.push(name);
        }
        let remediation = raw.remediation.get_ref().trim().to_owned();
        let long = remediation.len() > REMEDIATION_BYTES_MAX;
        if remediation.is_empty() || long || remediation.chars().any(char::is_control) {
            let message =
                format!("`remediation` must be one line of 1 to {REMEDIATION_BYTES_MAX} bytes");
            return Err(self.error(
                raw.remediation.span(),
                message,
                "write what to do when the rule is not met",
            ));
        }
        let evidence = match (raw.metric, raw.tool, raw.validator) {
            (Some(metric), None, None) => self.metric(metric)?,
            (None, Some(tool), None) => self.tool(tool)?,
            (None, None, Some(validator)) => self.validator(validator)?,
            (_, _, _) => {
                let message = format!(
                    "the rule `{id}` must have exactly one of `metric`, `tool`, `validator`"
                );
                return Err(self.error(span, message, "keep one of them"));
            }
        };
        Ok(Rule { evidence, id, level, on_failure: raw.on_failure, phases, remediation })
    }

    fn timeout(&self, raw: Option<Spanned<RawNumber>>) -> Result<u64, FileError> {
        let Some(raw) = raw else { return Ok(TIMEOUT_MS) };
        raw.get_ref().milliseconds().ok_or_else(|| {
            let most = TIMEOUT_MS_MAX / 1000;
            let message = format!(
                "`timeout_seconds` must be more than 0 and at most {most}, with at most 3 decimals"
            );
            self.error(raw.span(), message, "stay within the limit")
        })
    }

    fn metric(&self, raw: Spanned<RawMetric>) -> Result<Evidence, FileError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let given = [
            (Compare::AtLeast, raw.at_least),
            (Compare::AtMost, raw.at_most),
            (Compare::Equal, raw.equal),
        ];
        let mut given = given.into_iter().filter_map(|(compare, number)| Some((compare, number?)));
        let (Some((compare, number)), None) = (given.next(), given.next()) else {
            let message = "a metric must have exactly one of `at_least`, `at_most`, `equal`";
            return Err(self.error(span, message, "keep one of them"));
        };
        let Some(threshold) = number.get_ref().exact() else {
            let message = "the threshold cannot be recorded exactly";
            return Err(self.error(number.span(), message, "write a finite number below 2^53"));
        };
        let evidence = Evidence::Metric {
            argv: raw.command.get_ref().clone(),
            compare,
            pinned: pinned(raw.pinned.as_ref()),
            pointer: raw.pointer.get_ref().clone(),
            threshold,
            timeout_ms: self.timeout(raw.timeout_seconds)?,
        };
        self.checked(evidence, |field| match field {
            RuleField::Command => raw.command.span(),
            RuleField::Pinned(at) => {
                pinned_span(raw.pinned.as_ref(), at).unwrap_or_else(|| span.clone())
            }
            RuleField::Pointer => raw.pointer.span(),
            RuleField::Threshold => number.span(),
            RuleField::BytesMax
            | RuleField::Files(_)
            | RuleField::Forbid
            | RuleField::Require
            | RuleField::Timeout
            | RuleField::Validator => span.clone(),
        })
    }

    fn tool(&self, raw: Spanned<RawTool>) -> Result<Evidence, FileError> {
        let raw = raw.into_inner();
        let timeout_ms = self.timeout(raw.timeout_seconds)?;
        let (argv, pinned) = (raw.command.get_ref().clone(), pinned(raw.pinned.as_ref()));
        let evidence = Evidence::Tool { argv, pinned, timeout_ms };
        self.checked(evidence, |field| {
            let span = match field {
                RuleField::Pinned(at) => pinned_span(raw.pinned.as_ref(), at),
                RuleField::BytesMax
                | RuleField::Command
                | RuleField::Files(_)
                | RuleField::Forbid
                | RuleField::Pointer
                | RuleField::Require
                | RuleField::Threshold
                | RuleField::Timeout
                | RuleField::Validator => None,
            };
            span.unwrap_or_else(|| raw.command.span())
        })
    }

    fn validator(&self, raw: Spanned<RawValidator>) -> Result<Evidence, FileError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let text =
            |text: &Option<Spanned<String>>| text.as_ref().map(|text| text.get_ref().clone());
        let evidence = Evidence::Validator {
            bytes_max: raw.bytes_max.as_ref().map(|most| *most.get_ref()),
            files: raw.files.get_ref().iter().map(|file| file.get_ref().clone()).collect(),
            forbid: text(&raw.forbid),
            json: raw.json,
            require: text(&raw.require),
        };
        self.checked(evidence, |field| {
            let span_of_field = match field {
                RuleField::Files(at) => raw.files.get_ref().get(at).map(Spanned::span),
                RuleField::Forbid => raw.forbid.as_ref().map(Spanned::span),
                RuleField::Require => raw.require.as_ref().map(Spanned::span),
                RuleField::BytesMax => raw.bytes_max.as_ref().map(Spanned::span),
                RuleField::Command
                | RuleField::Pinned(_)
                | RuleField::Pointer
                | RuleField::Threshold
                | RuleField::Timeout
                | RuleField::Validator => None,
            };
            let files = matches!(field, RuleField::Files(_)).then(|| raw.files.span());
            span_of_field.or(files).unwrap_or_else(|| span.clone())
        })
    }

    fn checked(
        &self,
        evidence: Evidence,
        span: impl Fn(RuleField) -> Range<usize>,
    ) -> Result<Evidence, FileError> {
        match limits::check_evidence(&evidence) {
            Ok(()) => Ok(evidence),
            Err(error) => Err(self.error(span(error.field), error.message, error.hint)),
        }
    }
}
