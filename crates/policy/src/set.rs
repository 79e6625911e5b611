//! The frozen policy set.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use windlass_kernel::{Code, Digest, RiskLevel, canon};
use windlass_text::{FileError, Glob, SourceFile};

use crate::judge::{self, Facts, denied};
use crate::rule::{self, Limits, RULES_MAX, RawCase, Rule};
use crate::shell::Access;
use crate::{
    Judgement, LexicalWorkspace, Question, Registry, Server, Tool, UnreadablePaths, Verdict,
    WRAPPED_PREFIX, Workspace, registry,
};

/// The most files of a set.
const FILES_MAX: usize = 10_000;
/// The largest rule or registry file.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The rules and tools that calls are judged by; never changed after loading.
///
/// An empty set is valid and denies everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySet {
    hash: Digest,
    registry: Registry,
    rules: Vec<Rule>,
    /// The rules that apply to each tool of each server, by index.
    by_tool: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    cases: usize,
    /// Whether clients make the calls themselves, so that nothing is left out of their results.
    #[serde(skip)]
    by_clients: bool,
}

impl PolicySet {
    /// Loads a set from its files, by relative path, and runs its examples and cases.
    ///
    /// `policy/*.toml` are rule files, except those in `policy/governance`; `tools.toml` is the
    /// registry; all other files count only for the hash.
    ///
    /// # Errors
    /// The first [`FileError`]: one error refuses the whole set.
    pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, FileError> {
        let hash = policy_hash(files)?;
        let registry = match files.get("tools.toml") {
            Some(bytes) => registry::load(&source_file("tools.toml", bytes)?)?,
            None => Registry::default(),
        };
        let mut set = Self {
            hash,
            registry,
            rules: Vec::new(),
            by_tool: BTreeMap::new(),
            cases: 0,
            by_clients: false,
        };
        let mut spans = Vec::new();
        let mut cases = Vec::new();
        let is_rule_file = |path: &str| {
            let inside = path.starts_with("policy/") && path.ends_with(".toml");
            inside && !path.starts_with("policy/governance/")
        };
        for (path, bytes) in files.iter().filter(|(path, _)| is_rule_file(path)) {
            let source = source_file(path, bytes)?;
            let file = rule::load(&source)?;
            cases.extend(file.cases.into_iter().map(|case| (source, case)));
            for (rule, span) in file.rules {
                if set.rules.len() >= RULES_MAX {
                    return Err(
                        source.error(span, format!("there are more than {RULES_MAX} rules"))
                    );
                }
                set.rules.push(rule);
                spans.push((source, span));
            }
        }
        set.cases = cases.len();
        set.check_rules(&spans)?;
        set.index();
        set.check_examples(&spans)?;
        for (source, case) in cases {
            let outcome = set.run_case(&source, &case)?;
            if !outcome.passed {
                return Err(source.error(case.span(), outcome.failure()).with_hint(
                    "run `windlass policy explain` on this call to see which rules matched",
                ));
            }
        }
        Ok(set)
    }

    /// Adds servers that are wrapped. The rules apply to their tools; the hash stays that of the files.
    #[must_use]
    pub fn with_wrapped(mut self, servers: impl IntoIterator<Item = Server>) -> Self {
        let wrapped = servers.into_iter().filter(|server| server.name.starts_with(WRAPPED_PREFIX));
        let before = self.registry.servers.len();
        self.registry.servers.extend(wrapped.map(|server| (server.name.clone(), server)));
        if self.registry.servers.len() != before {
            self.index();
        }
        self
    }

    /// Judges calls that clients make themselves: a search reads every file that it may show.
    #[must_use]
    pub const fn for_clients(mut self) -> Self {
        self.by_clients = true;
        self
    }

    /// The files whose content a search may not show, whatever its verdict.
    #[must_use]
    pub fn unreadable(&self, question: &Question, folds_case: bool) -> UnreadablePaths {
        judge::unreadable(&self.registry, &self.rules, question, folds_case)
    }

    /// The digest of all files, which a run records.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.hash
    }

    /// The tool registry.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All rules, by file and in their order there.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that forbid or ask about files that are written, whoever writes them: what a command leaves behind is held
    /// against them too.
    pub fn rules_of_written_files(&self) -> impl Iterator<Item = (&Rule, &[Glob], &[Glob])> {
        let about_files = self.rules.iter().filter(|rule| {
            let Limits { tool, class, command, path, access, phase, agent, args, .. } =
                &rule.limits;
            let whoever = tool.is_empty() && class.is_empty() && command.is_empty();
            let always = phase.is_empty() && agent.is_empty() && args.is_empty();
            rule.verdict > Verdict::Allow
                && whoever
                && always
                && !path.is_empty()
                && *access == Some(Access::Write)
        });
        about_files.map(|rule| (rule, &*rule.limits.path, &*rule.limits.except_path))
    }

    /// How many cases the set's own files hold.
    #[must_use]
    pub const fn cases(&self) -> usize {
        self.cases
    }

    /// Judges a call: all matching rules count and the strictest wins; without a match it is denied.
    #[must_use]
    pub fn judge(&self, question: &Question, workspace: &dyn Workspace) -> Judgement {
        let Some((server, tool)) = self.registry.find(&question.server, &question.tool) else {
            let reason =
                format!("the tool `{}/{}` is not registered", question.server, question.tool);
            return denied(Code::ToolUnclassifiedDenied, reason);
        };
        let indices = self.by_tool.get(&server.name).and_then(|tools| tools.get(&tool.name));
        let rules: Vec<&Rule> =
            indices.into_iter().flatten().filter_map(|at| self.rules.get(*at)).collect();
        judge::judge(question, server, tool, &rules, workspace, self.by_clients)
    }

    /// Runs the cases of a TOML file of `[[case]]` against this set.
    ///
    /// # Errors
    /// [`FileError`] when the file is malformed; a case that fails is not an error.
    pub fn run_cases(&self, path: &str, bytes: &[u8]) -> Result<CaseReport, FileError> {
        let source = source_file(path, bytes)?;
        let cases = rule::read_cases(&source)?;
        let outcomes = cases.iter().map(|case| self.run_case(&source, case));
        Ok(CaseReport { outcomes: outcomes.collect::<Result<_, _>>()? })
    }

    fn run_case(
        &self,
        source: &SourceFile<'_>,
        case: &Spanned<RawCase>,
    ) -> Result<CaseOutcome, FileError> {
        let raw = case.get_ref();
        let error = |message| source.error(case.span(), format!("case `{}`: {message}", raw.name));
        let question = raw.question().map_err(error)?;
        let judgement = self.judge(&question, &LexicalWorkspace::default());
        let passed = judgement.verdict == raw.verdict
            && raw.code.is_none_or(|code| judgement.code == Some(code));
        Ok(CaseOutcome {
            name: raw.name.clone(),
            line: source.location(case.span().start).line,
            expected: raw.verdict,
            judgement,
            passed,
        })
    }

    fn index(&mut self) {
        for (server, tool) in self.registry.tools() {
            let applying = self.rules.iter().enumerate();
            let applying = applying.filter(|(_, rule)| judge::applies_to(rule, server, tool));
            let indices = applying.map(|(at, _)| at).collect();
            let tools = self.by_tool.entry(server.name.clone()).or_default();
            tools.insert(tool.name.clone(), indices);
        }
    }

    fn check_rules(&self, spans: &[(SourceFile<'_>, Range<usize>)]) -> Result<(), FileError> {
        let at = |index: usize, message: String| match spans.get(index) {
            Some((source, span)) => source.error(span.clone(), message),
            None => no_file("policy").error(0..0, message),
        };
        let mut ids: BTreeMap<&str, &Rule> = BTreeMap::new();
        for (index, rule) in self.rules.iter().enumerate() {
            if let Some(first) = ids.insert(&rule.id, rule) {
                let location = format!("{}:{}", first.file, first.line);
                return Err(at(
                    index,
                    format!("the rule id `{}` is already used at {location}", rule.id),
                ));
            }
            let applies = |(server, tool)| judge::applies_to(rule, server, tool);
            if !self.registry.tools().any(applies) && !is_about_wrapped(rule) {
                let message = format!("rule `{}` matches no registered tool", rule.id);
                return Err(at(index, message).with_hint("tools are registered in tools.toml"));
            }
        }
        if let Some((redundant, stricter)) = rule::unreachable(&self.rules)
            && let (Some(rule), Some(other)) = (self.rules.get(redundant), self.rules.get(stricter))
        {
            let location = format!("{}:{}", other.file, other.line);
            let message = format!(
                "rule `{}` has no effect: `{}` at {location} matches every call that it matches",
                rule.id, other.id
            );
            return Err(at(redundant, message)
                .with_hint("remove one of the two, or narrow the stricter one"));
        }
        Ok(())
    }

    fn check_examples(&self, spans: &[(SourceFile<'_>, Range<usize>)]) -> Result<(), FileError> {
        let workspace = LexicalWorkspace::default();
        for (rule, (source, _)) in self.rules.iter().zip(spans) {
            for example in &rule.examples {
                let question = &example.question;
                let error = |message: &str| {
                    source.error(example.span.clone(), format!("rule `{}`: {message}", rule.id))
                };
                let found = self.registry.find(&question.server, &question.tool);
                let search =
                    found.and_then(|(server, tool)| judge::Search::of(server, tool, false));
                let tool = match found {
                    Some((_, tool)) => Cow::Borrowed(tool),
                    None if question.server.starts_with(WRAPPED_PREFIX) => {
                        let class = rule.limits.class.first().copied().unwrap_or(RiskLevel::Write);
                        Cow::Owned(Tool::wrapped(&question.tool, &question.tool, class))
                    }
                    None => return Err(error("the tool of this example is not registered")),
                };
                let facts = Facts::gather(question, &tool, &workspace, search);
                match (judge::rule_matches(rule, question, &tool, &facts), example.must_match) {
                    (true, true) | (false, false) => {}
                    (false, true) => {
                        return Err(error("it does not match this example of `matches`"));
                    }
                    (true, false) => return Err(error("it matches this example of `misses`")),
                }
                if let Some((other, verdict)) = self.stricter_on(rule, example) {
                    let verb = if verdict == Verdict::Deny { "denied" } else { "asked about" };
                    let (id, location) = (&other.id, format!("{}:{}", other.file, other.line));
                    let message = format!("this example is {verb} by rule `{id}` at {location}");
                    return Err(error(&message).with_hint(
                        "narrow one of the two, for example with `except_command` or `except_path`",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The rule that is stricter on an example which this rule allows.
    fn stricter_on(&self, rule: &Rule, example: &rule::Example) -> Option<(&Rule, Verdict)> {
        if rule.verdict != Verdict::Allow || !example.must_match {
            return None;
        }
        let judgement = self.judge(&example.question, &LexicalWorkspace::default());
        let hit = judgement.rules.iter().find(|hit| hit.verdict > Verdict::Allow)?;
        let other = self.rules.iter().find(|other| other.id == hit.id)?;
        Some((other, hit.verdict))
    }
}

/// Whether a rule names tools of wrapped servers. Which of them there are is not known to the files.
fn is_about_wrapped(rule: &Rule) -> bool {
    rule.limits.tool.iter().any(|glob| glob.pattern().starts_with(WRAPPED_PREFIX))
}

fn source_file<'a>(path: &'a str, bytes: &'a [u8]) -> Result<SourceFile<'a>, FileError> {
    SourceFile::new(path, bytes, FILE_BYTES_MAX, Code::PolicyInvalid)
}

/// For errors that concern no position in a file.
const fn no_file(path: &str) -> SourceFile<'_> {
    SourceFile::empty(path, Code::PolicyInvalid)
}

/// The policy hash of files: the digest over `{relative path: digest of its bytes}`.
///
/// # Errors
/// [`FileError`] if there are too many files, or a path is not a plain relative one.
pub fn policy_hash(files: &BTreeMap<String, Vec<u8>>) -> Result<Digest, FileError> {
    let error = |path: &str, message: &str| no_file(path).error(0..0, message);
    if files.len() > FILES_MAX {
        return Err(error("policy", &format!("there are more than {FILES_MAX} files")));
    }
    let mut digests: BTreeMap<&str, String> = BTreeMap::new();
    for (path, bytes) in files {
        let normal = path.split('/').all(|name| !matches!(name, "" | "." | ".."));
        if !normal || path.contains(['\\', '\0']) {
            return Err(error(path, "a policy file's path must be relative, without `.` and `..`"));
        }
        digests.insert(path, Digest::of(bytes).hex().as_str().to_owned());
    }
    canon::digest(&digests).map_err(|cause| error("policy", &cause.to_string()))
}

/// The results of the cases of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseReport {
    /// One outcome for each case, in their order.
    pub outcomes: Vec<CaseOutcome>,
}

impl CaseReport {
    /// Whether there are cases and all passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.outcomes.is_empty() && self.outcomes.iter().all(|outcome| outcome.passed)
    }
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseOutcome {
    /// The case's name.
    pub name: String,
    /// The line where it starts.
    pub line: usize,
    /// The expected verdict.
    pub expected: Verdict,
    /// The actual judgement.
    pub judgement: Judgement,
    /// Whether the judgement is as expected.
    pub passed: bool,
}

impl CaseOutcome {
    /// Why the case failed, in one line.
    #[must_use]
    pub fn failure(&self) -> String {
        let (expected, found) = (self.expected.as_str(), self.judgement.verdict.as_str());
        let code = self.judgement.code.map_or_else(String::new, |code| format!(" ({code})"));
        format!(
            "case `{}` expects {expected} but gets {found}{code}: {}",
            self.name, self.judgement.reason
        )
    }
}
