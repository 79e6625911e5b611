//! The frozen policy set.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use toml::Spanned;
use windlass_kernel::{Code, Digest, canon};

use crate::judge::{self, Facts, denied};
use crate::rule::{self, RULES_MAX, RawCase, Rule};
use crate::source::Source;
use crate::{
    Judgement, LexicalWorkspace, PolicyError, Question, Registry, Verdict, Workspace, registry,
};

/// The most files of a set.
const FILES_MAX: usize = 10_000;

/// Everything that calls are judged by, read once and never changed.
///
/// An empty set is a set: it denies everything.
#[derive(Clone, Debug)]
pub struct PolicySet {
    hash: Digest,
    registry: Registry,
    rules: Vec<Rule>,
    /// For each tool the rules that can concern it.
    by_tool: BTreeMap<(String, String), Vec<usize>>,
    cases: usize,
}

/// Whether a set's own examples and cases are run when it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    Run,
    Known,
}

impl PolicySet {
    /// Reads a set from its files, by relative path, and runs its examples and cases.
    ///
    /// `policy/*.toml` are rules, except those in `policy/governance`, which calls are not judged by;
    /// `tools.toml` is the registry; all others count only for the hash.
    ///
    /// # Errors
    /// The first [`PolicyError`] found: one fault refuses the whole set.
    pub fn load(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, PolicyError> {
        Self::read(files, Proof::Run)
    }

    /// Reads a set that [`PolicySet::load`] has accepted before, without running its examples again.
    ///
    /// # Errors
    /// As [`PolicySet::load`], and when the files do not have the hash that was accepted.
    pub fn load_known(
        files: &BTreeMap<String, Vec<u8>>,
        hash: &Digest,
    ) -> Result<Self, PolicyError> {
        let set = Self::read(files, Proof::Known)?;
        if set.hash == *hash {
            return Ok(set);
        }
        Err(Source { file: "policy", text: "" }
            .error(0..0, "the policy set is not the one that was checked"))
    }

    fn read(files: &BTreeMap<String, Vec<u8>>, proof: Proof) -> Result<Self, PolicyError> {
        let hash = hash(files)?;
        let registry = match files.get("tools.toml") {
            Some(bytes) => registry::load(&Source::new("tools.toml", bytes)?)?,
            None => Registry::default(),
        };
        let mut set =
            Self { hash, registry, rules: Vec::new(), by_tool: BTreeMap::new(), cases: 0 };
        let mut places = Vec::new();
        let mut cases = Vec::new();
        let is_rule_file = |path: &str| {
            let inside = path.starts_with("policy/") && path.ends_with(".toml");
            inside && !path.starts_with("policy/governance/")
        };
        for (path, bytes) in files.iter().filter(|(path, _)| is_rule_file(path)) {
            let source = Source::new(path, bytes)?;
            let file = rule::load(&source)?;
            cases.extend(file.cases.into_iter().map(|case| (source, case)));
            for (rule, place) in file.rules {
                if set.rules.len() >= RULES_MAX {
                    return Err(
                        source.error(place, format!("there are more than {RULES_MAX} rules"))
                    );
                }
                set.rules.push(rule);
                places.push((source, place));
            }
        }
        set.check_rules(&places)?;
        set.index();
        set.cases = cases.len();
        if proof == Proof::Run {
            set.check_examples(&places)?;
            for (source, case) in cases {
                let outcome = set.run_case(&source, &case)?;
                if !outcome.passed {
                    return Err(source.error(case.span(), outcome.complaint()).hint(
                        "run `windlass policy explain` on this call to see which rules matched",
                    ));
                }
            }
        }
        Ok(set)
    }

    /// The digest of all files, by which a run remembers what it was judged by.
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

    /// How many cases the set's own files hold.
    #[must_use]
    pub const fn cases(&self) -> usize {
        self.cases
    }

    /// Judges a question: all matching rules count and the strictest wins; no match denies.
    #[must_use]
    pub fn judge(&self, question: &Question, workspace: &dyn Workspace) -> Judgement {
        let Some((server, tool)) = self.registry.find(&question.server, &question.tool) else {
            let reason =
                format!("the tool `{}/{}` is not registered", question.server, question.tool);
            return denied(Code::ToolUnclassifiedDenied, reason);
        };
        let indices = self.by_tool.get(&(server.name.clone(), tool.name.clone()));
        let rules: Vec<&Rule> =
            indices.into_iter().flatten().filter_map(|at| self.rules.get(*at)).collect();
        judge::judge(question, server, tool, &rules, workspace)
    }

    /// Runs the cases of a TOML file of `[[case]]` against this set.
    ///
    /// # Errors
    /// [`PolicyError`] when the file is not of that form; a case that fails is no error.
    pub fn run_cases(&self, file: &str, bytes: &[u8]) -> Result<CaseReport, PolicyError> {
        let source = Source::new(file, bytes)?;
        let cases = rule::read_cases(&source)?;
        let outcomes = cases.iter().map(|case| self.run_case(&source, case));
        Ok(CaseReport { outcomes: outcomes.collect::<Result<_, _>>()? })
    }

    fn run_case(
        &self,
        source: &Source<'_>,
        case: &Spanned<RawCase>,
    ) -> Result<CaseOutcome, PolicyError> {
        let raw = case.get_ref();
        let fault = |message| source.error(case.span(), format!("case `{}`: {message}", raw.name));
        let question = raw.question().map_err(fault)?;
        let judgement = self.judge(&question, &LexicalWorkspace::default());
        let passed = judgement.verdict == raw.verdict
            && raw.code.is_none_or(|code| judgement.code == Some(code));
        Ok(CaseOutcome {
            name: raw.name.clone(),
            line: source.error(case.span(), "").line,
            expected: raw.verdict,
            judgement,
            passed,
        })
    }

    fn index(&mut self) {
        for (server, tool) in self.registry.tools() {
            let concerned = self.rules.iter().enumerate();
            let concerned = concerned.filter(|(_, rule)| judge::concerns(rule, server, tool));
            let indices = concerned.map(|(at, _)| at).collect();
            self.by_tool.insert((server.name.clone(), tool.name.clone()), indices);
        }
    }

    fn check_rules(&self, places: &[(Source<'_>, Range<usize>)]) -> Result<(), PolicyError> {
        let at = |index: usize, message: String| match places.get(index) {
            Some((source, span)) => source.error(span.clone(), message),
            None => Source { file: "policy", text: "" }.error(0..0, message),
        };
        let mut ids: BTreeMap<&str, &Rule> = BTreeMap::new();
        for (index, rule) in self.rules.iter().enumerate() {
            if let Some(first) = ids.insert(&rule.id, rule) {
                let place = format!("{}:{}", first.file, first.line);
                return Err(at(
                    index,
                    format!("the rule id `{}` is used before, at {place}", rule.id),
                ));
            }
            if !self.registry.tools().any(|(server, tool)| judge::concerns(rule, server, tool)) {
                let message = format!("rule `{}` matches no registered tool", rule.id);
                return Err(at(index, message).hint("tools are registered in tools.toml"));
            }
        }
        if let Some((useless, stricter)) = rule::unreachable(&self.rules)
            && let (Some(rule), Some(other)) = (self.rules.get(useless), self.rules.get(stricter))
        {
            let place = format!("{}:{}", other.file, other.line);
            let message = format!(
                "rule `{}` can never matter: `{}` at {place} matches all that it matches",
                rule.id, other.id
            );
            return Err(
                at(useless, message).hint("remove one of the two, or narrow the stricter one")
            );
        }
        Ok(())
    }

    fn check_examples(&self, places: &[(Source<'_>, Range<usize>)]) -> Result<(), PolicyError> {
        let workspace = LexicalWorkspace::default();
        for (rule, (source, _)) in self.rules.iter().zip(places) {
            for example in &rule.examples {
                let question = &example.question;
                let fault = |message: &str| {
                    source.error(example.span.clone(), format!("rule `{}`: {message}", rule.id))
                };
                let Some((_, tool)) = self.registry.find(&question.server, &question.tool) else {
                    return Err(fault("the tool of this example is not registered"));
                };
                let facts = Facts::gather(question, tool, &workspace);
                match (judge::rule_matches(rule, question, tool, &facts), example.must_match) {
                    (true, true) | (false, false) => {}
                    (false, true) => {
                        return Err(fault("it does not match this example of `matches`"));
                    }
                    (true, false) => return Err(fault("it matches this example of `misses`")),
                }
            }
        }
        Ok(())
    }
}

/// The digest over `{relative path: digest of its bytes}`.
fn hash(files: &BTreeMap<String, Vec<u8>>) -> Result<Digest, PolicyError> {
    let fault =
        |path: &str, message: &str| Source { file: path, text: "" }.error(0..0, message.to_owned());
    if files.len() > FILES_MAX {
        return Err(fault("policy", &format!("there are more than {FILES_MAX} files")));
    }
    let mut digests: BTreeMap<&str, String> = BTreeMap::new();
    for (path, bytes) in files {
        let normal = path.split('/').all(|name| !matches!(name, "" | "." | ".."));
        if !normal || path.contains(['\\', '\0']) {
            return Err(fault(path, "a policy file's path must be relative and normal"));
        }
        digests.insert(path, Digest::of(bytes).hex().as_str().to_owned());
    }
    canon::digest(&digests).map_err(|error| fault("policy", &error.to_string()))
}

/// What came of the cases of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseReport {
    /// One outcome for each case, in their order.
    pub outcomes: Vec<CaseOutcome>,
}

impl CaseReport {
    /// Whether all cases passed; without any there is nothing that passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.outcomes.is_empty() && self.outcomes.iter().all(|outcome| outcome.passed)
    }
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseOutcome {
    /// The case.
    pub name: String,
    /// The line it starts at.
    pub line: usize,
    /// The verdict it wants.
    pub expected: Verdict,
    /// What the set said.
    pub judgement: Judgement,
    /// Whether that is what it wants.
    pub passed: bool,
}

impl CaseOutcome {
    /// What is wrong, in one line.
    #[must_use]
    pub fn complaint(&self) -> String {
        let (expected, found) = (self.expected.as_str(), self.judgement.verdict.as_str());
        let code = self.judgement.code.map_or_else(String::new, |code| format!(" ({code})"));
        format!(
            "case `{}` wants {expected} but gets {found}{code}: {}",
            self.name, self.judgement.reason
        )
    }
}
