//! Parses rule files and case files.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;
use windlass_kernel::{Code, RiskLevel};
use windlass_text::{FileError, Glob, GlobError, GlobKind, SourceFile};

use super::{Limits, Rule, Verdict};
use crate::shell::Access;
use crate::strings::Strings;
use crate::{Pointer, Question};

const PATTERNS_MAX: usize = 1000;
const REASON_BYTES_MAX: usize = 1000;
const EXAMPLES_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: Spanned<String>,
    verdict: Verdict,
    reason: Spanned<String>,
    tool: Option<Spanned<Strings>>,
    class: Option<Spanned<Strings>>,
    command: Option<Spanned<Strings>>,
    except_command: Option<Spanned<Strings>>,
    path: Option<Spanned<Strings>>,
    except_path: Option<Spanned<Strings>>,
    access: Option<Spanned<Access>>,
    phase: Option<Spanned<Strings>>,
    agent: Option<Spanned<Strings>>,
    #[serde(default)]
    args: BTreeMap<String, Spanned<Strings>>,
    #[serde(default)]
    matches: Vec<Spanned<RawExample>>,
    #[serde(default)]
    misses: Vec<Spanned<RawExample>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExample {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
    phase: Option<String>,
    agent: Option<String>,
}

/// A call and the verdict that the whole set must give.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCase {
    pub name: String,
    pub tool: String,
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Whether the call has an idempotency key; true by default.
    #[serde(default = "yes")]
    pub key: bool,
    pub class: Option<String>,
    pub phase: Option<String>,
    pub agent: Option<String>,
    pub verdict: Verdict,
    pub code: Option<Code>,
}

const fn yes() -> bool {
    true
}

/// A call that a rule must match or miss.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub question: Question,
    pub must_match: bool,
    pub span: Range<usize>,
}

/// The content of a rule file.
pub(crate) struct FileRules {
    pub rules: Vec<(Rule, Range<usize>)>,
    pub cases: Vec<Spanned<RawCase>>,
}

/// Splits `server/name`.
fn tool_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((server, tool)) => Ok((server.to_owned(), tool.to_owned())),
        None => Err(format!("`{text}` does not have the form `server/tool`")),
    }
}

fn class(text: &str) -> Result<RiskLevel, String> {
    match text {
        "read" => Ok(RiskLevel::Read),
        "write" => Ok(RiskLevel::Write),
        "high-risk" => Ok(RiskLevel::HighRisk),
        other => Err(format!("the class must be `read`, `write` or `high-risk`, not `{other}`")),
    }
}

impl RawCase {
    /// The question it asks.
    pub fn question(&self) -> Result<Question, String> {
        let (server, tool) = tool_name(&self.tool)?;
        Ok(Question {
            server,
            tool,
            declared_class: self.class.as_deref().map(class).transpose()?,
            args: Value::Object(self.args.clone()),
            has_key: self.key,
            phase: self.phase.clone(),
            agent: self.agent.clone(),
        })
    }
}

/// Reads the rules and cases of one file.
pub(crate) fn load(source: &SourceFile<'_>) -> Result<FileRules, FileError> {
    let raw: RawFile = source.parse_toml(None)?;
    let mut rules = Vec::new();
    let (mut line, mut counted) = (1_usize, 0);
    for raw in raw.rule {
        let span = raw.span();
        let between = source.text.as_bytes().get(counted..span.start).unwrap_or_default();
        line += between.iter().filter(|byte| **byte == b'\n').count();
        counted = span.start.max(counted);
        let id_span = raw.get_ref().id.span();
        let rule = rule(source, line, raw.into_inner())
            .map_err(|(at, message)| source.error(at.unwrap_or(span), message))?;
        rules.push((rule, id_span));
    }
    Ok(FileRules { rules, cases: raw.case })
}

/// Reads a file that holds only cases.
pub(crate) fn read_cases(source: &SourceFile<'_>) -> Result<Vec<Spanned<RawCase>>, FileError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct RawCases {
        #[serde(default)]
        case: Vec<Spanned<RawCase>>,
    }
    source.parse_toml::<RawCases>(None).map(|raw| raw.case)
}

/// A message and its span; without a span, that of the whole rule.
type RuleError = (Option<Range<usize>>, String);

fn rule(source: &SourceFile<'_>, line: usize, raw: RawRule) -> Result<Rule, RuleError> {
    let id = raw.id.get_ref().clone();
    let at_id = |message: String| (Some(raw.id.span()), message);
    let plain = |char: char| matches!(char, 'a'..='z' | '0'..='9' | '_' | '-' | '.');
    if id.is_empty() || id.len() > 128 || !id.chars().all(plain) {
        return Err(at_id(format!(
            "the rule id `{id}` may contain only a-z, 0-9, `_`, `-` and `.`"
        )));
    }
    let reason = raw.reason.get_ref().trim().to_owned();
    if reason.is_empty() || reason.len() > REASON_BYTES_MAX || reason.contains('\n') {
        let message =
            format!("rule `{id}`: the reason must be one line of 1 to {REASON_BYTES_MAX} bytes");
        return Err((Some(raw.reason.span()), message));
    }
    if raw.verdict == Verdict::Allow && raw.tool.is_none() {
        return Err(at_id(format!("rule `{id}`: an allow rule must name its `tool`")));
    }
    if let (Some(access), None) = (&raw.access, &raw.path) {
        return Err((Some(access.span()), format!("rule `{id}`: `access` needs `path`")));
    }
    for (except, limit, key) in
        [(&raw.except_command, &raw.command, "command"), (&raw.except_path, &raw.path, "path")]
    {
        if let (Some(except), None) = (except, limit) {
            let message = format!("rule `{id}`: `except_{key}` needs `{key}`");
            return Err((Some(except.span()), message));
        }
    }
    let count = raw.matches.len() + raw.misses.len();
    if raw.matches.is_empty() || count > EXAMPLES_MAX {
        return Err(at_id(format!(
            "rule `{id}`: `matches` must have an example of a call that it matches"
        )));
    }
    let mut examples = Vec::with_capacity(count);
    for (list, must_match) in [(raw.matches, true), (raw.misses, false)] {
        for example in list {
            let span = example.span();
            let example = self::example(example.into_inner())
                .map_err(|message| (Some(span.clone()), format!("rule `{id}`: {message}")))?;
            examples.push(Example { question: example, must_match, span });
        }
    }
    let mut args = Vec::new();
    for (pointer, texts) in raw.args {
        let pointer = Pointer::new(&pointer)
            .map_err(|message| (Some(texts.span()), format!("rule `{id}`: {message}")))?;
        args.push((pointer, globs(&id, Some(&texts), GlobKind::Text)?));
    }
    let limits = Limits {
        tool: globs(&id, raw.tool.as_ref(), GlobKind::Text)?,
        class: classes(&id, raw.class)?,
        command: commands(&id, raw.command.as_ref())?,
        except_command: commands(&id, raw.except_command.as_ref())?,
        path: globs(&id, raw.path.as_ref(), GlobKind::Path)?,
        path_folded: folded(&id, raw.path)?,
        except_path: globs(&id, raw.except_path.as_ref(), GlobKind::Path)?,
        except_path_folded: folded(&id, raw.except_path)?,
        access: raw.access.map(Spanned::into_inner),
        phase: globs(&id, raw.phase.as_ref(), GlobKind::Text)?,
        agent: globs(&id, raw.agent.as_ref(), GlobKind::Text)?,
        args,
    };
    let file = source.path.to_owned();
    Ok(Rule { id, file, line, verdict: raw.verdict, reason, limits, examples })
}

fn example(raw: RawExample) -> Result<Question, String> {
    let (server, tool) = tool_name(&raw.tool)?;
    Ok(Question {
        server,
        tool,
        declared_class: None,
        args: Value::Object(raw.args),
        has_key: true,
        phase: raw.phase,
        agent: raw.agent,
    })
}

fn globs(
    id: &str,
    texts: Option<&Spanned<Strings>>,
    kind: GlobKind,
) -> Result<Vec<Glob>, RuleError> {
    let Some(texts) = texts else { return Ok(Vec::new()) };
    let error = |message: String| (Some(texts.span()), format!("rule `{id}`: {message}"));
    if texts.get_ref().0.len() > PATTERNS_MAX {
        return Err(error(format!("a list has more than {PATTERNS_MAX} globs")));
    }
    texts
        .get_ref()
        .0
        .iter()
        .map(|text| Glob::new(text, kind).map_err(|cause| error(cause.to_string())))
        .collect()
}

/// A command glob that ends in ` *` also matches the command without words: `ls *` matches `ls`.
fn commands(id: &str, texts: Option<&Spanned<Strings>>) -> Result<Vec<Glob>, RuleError> {
    let Some(texts) = texts else { return Ok(Vec::new()) };
    let short = texts.get_ref().0.iter().filter_map(|text| text.strip_suffix(" *"));
    let all = texts.get_ref().0.iter().map(String::as_str).chain(short);
    let all = Strings(all.map(str::to_owned).collect());
    globs(id, Some(&Spanned::new(texts.span(), all)), GlobKind::Text)
}

/// The globs of one command pattern.
pub(crate) fn command_globs(text: &str) -> Result<Vec<Glob>, GlobError> {
    let all = std::iter::once(text).chain(text.strip_suffix(" *"));
    all.map(|text| Glob::new(text, GlobKind::Text)).collect()
}

fn folded(id: &str, texts: Option<Spanned<Strings>>) -> Result<Vec<Glob>, RuleError> {
    let Some(texts) = texts else { return Ok(Vec::new()) };
    let span = texts.span();
    let lower = texts.into_inner().0.iter().map(|text| text.to_lowercase()).collect();
    globs(id, Some(&Spanned::new(span, Strings(lower))), GlobKind::Path)
}

fn classes(id: &str, texts: Option<Spanned<Strings>>) -> Result<Vec<RiskLevel>, RuleError> {
    let Some(texts) = texts else { return Ok(Vec::new()) };
    let error = |message: String| (Some(texts.span()), format!("rule `{id}`: {message}"));
    texts.get_ref().0.iter().map(|text| class(text).map_err(error)).collect()
}
