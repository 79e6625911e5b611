//! Judges one call.

mod command;
mod effects;
mod facts;
mod fed;
mod git;
mod links;
mod losses;
mod matching;
mod path;
mod pathspec;
mod search;
mod trees;
mod uri;
mod words;

use std::io::{self, Write};

use windlass_kernel::Code;
use windlass_text::{Glob, GlobText};

pub(crate) use facts::Facts;
pub use facts::folder_of_pattern;
pub use search::UnreadablePaths;
pub(crate) use search::{Search, unreadable};

use command::{CommandFacts, printable};
use matching::{Applicable, Match, rule_match};
use path::{PathFact, PathMatch};

use crate::grant::Subject;
use crate::pointer::scalar;
use crate::rule::{Limits, Rule};
use crate::shell::Access;
use crate::{Asked, Judgement, Question, RuleHit, Server, Tool, Verdict, Workspace};

/// Judges a call of a registered tool by the rules that apply to the tool.
pub(crate) fn judge(
    question: &Question,
    server: &Server,
    tool: &Tool,
    rules: &[&Rule],
    workspace: &dyn Workspace,
    by_client: bool,
) -> Judgement {
    if let Some((code, reason)) = precondition(question, server, tool) {
        return denied(code, reason);
    }
    let mut facts = Facts::gather(question, tool, workspace, Search::of(server, tool, by_client));
    facts.take_named_by_git(workspace);
    let mut judgement = Judgement {
        verdict: Verdict::Allow,
        code: None,
        reason: String::new(),
        rules: Vec::new(),
        commands: facts.commands.iter().map(|command| command.shown.clone()).collect(),
        paths: facts.shown_paths(),
        findings: facts.findings.iter().cloned().collect(),
        asked: Vec::new(),
        written: facts.written(),
    };
    let applicable: Vec<Applicable<'_>> = rules
        .iter()
        .filter(|rule| call_matches(&rule.limits, question, rule.verdict))
        .map(|rule| Applicable::new(rule, &facts))
        .collect();
    let mut strictest = Strictest::default();
    // What is wrong with the call itself is more telling than that no rule allows it.
    if let Some((code, reason)) = facts.denied.as_ref().filter(|_| facts.commands.is_empty()) {
        strictest.add((Verdict::Deny, Some(*code), reason.clone()));
    }
    if facts.commands.is_empty() {
        let hits = hits(&applicable, &facts, None);
        let what = format!("`{}/{}`", question.server, question.tool);
        strictest.add(outcome(&hits, &what, true));
        judgement.rules.extend(hits);
    }
    for command in &facts.commands {
        let hits = hits(&applicable, &facts, Some(command));
        strictest.add(outcome(&hits, &format!("`{}`", command.shown), command.certain));
        for hit in hits {
            // What was matched tells most hits apart: the rest is compared if that is equal.
            if !judgement.rules.iter().any(|known| known.on == hit.on && *known == hit) {
                judgement.rules.push(hit);
            }
        }
    }
    if let Some(finding) = facts.findings.first() {
        strictest.add((Verdict::Ask, None, format!("a person must review this: {finding}")));
    }
    if let Some((code, reason)) = &facts.denied {
        strictest.add((Verdict::Deny, Some(*code), reason.clone()));
    }
    judgement.rules.sort_by_key(|hit| std::cmp::Reverse(hit.verdict));
    let (verdict, code, reason) = strictest.0.unwrap_or_else(|| no_rule("this call"));
    if verdict == Verdict::Ask {
        judgement.asked = asked(&applicable, &facts);
    }
    Judgement { verdict, code, reason: printable(&reason), ..judgement }
}

/// Whether a rule matches any part of a call; used for the examples of rules.
pub(crate) fn rule_matches(rule: &Rule, question: &Question, tool: &Tool, facts: &Facts) -> bool {
    let named = name_matches(&rule.limits, question) && class_matches(&rule.limits, tool);
    if !named || !call_matches(&rule.limits, question, rule.verdict) {
        return false;
    }
    let rule = Applicable::new(rule, facts);
    if facts.commands.is_empty() {
        return rule_match(&rule, facts, None).is_some();
    }
    facts.commands.iter().any(|command| rule_match(&rule, facts, Some(command)).is_some())
}

/// Whether a rule applies to a tool.
pub(crate) fn applies_to(rule: &Rule, server: &Server, tool: &Tool) -> bool {
    let name = GlobText::new(&format!("{}/{}", server.name, tool.name));
    (rule.limits.tool.is_empty() || any(&rule.limits.tool, &name))
        && class_matches(&rule.limits, tool)
}

/// Whether a line of shell only reads and ends with a search.
pub(crate) fn ends_with_search(line: &str) -> bool {
    let shell = crate::shell::analyse(line);
    let is_search = |words: &[crate::shell::Word]| {
        let name = effects::split(words).map(|(name, _)| name);
        matches!(name, Some("grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag"))
            || git::git(words).is_some_and(|(command, _)| command == "grep")
    };
    shell.opaque.is_empty()
        && shell.refused.is_none()
        && shell.commands.last().is_some_and(|last| is_search(&last.words))
        && shell
            .commands
            .iter()
            .all(|one| effects::access(&one.words) == Some(crate::shell::Access::Read))
}

/// A denial before any rule is consulted.
pub(crate) fn denied(code: Code, reason: String) -> Judgement {
    Judgement {
        verdict: Verdict::Deny,
        code: Some(code),
        reason,
        rules: Vec::new(),
        commands: Vec::new(),
        paths: Vec::new(),
        findings: Vec::new(),
        asked: Vec::new(),
        written: Vec::new(),
    }
}

type Outcome = (Verdict, Option<Code>, String);

/// The strictest outcome so far; of equals the first.
#[derive(Default)]
struct Strictest(Option<Outcome>);

impl Strictest {
    fn add(&mut self, outcome: Outcome) {
        if self.0.as_ref().is_none_or(|(verdict, ..)| *verdict < outcome.0) {
            self.0 = Some(outcome);
        }
    }
}

fn no_rule(what: &str) -> Outcome {
    (Verdict::Deny, Some(Code::PolicyDenied), format!("no rule allows {what}"))
}

/// The outcome of the rules that matched one command, or the whole call.
fn outcome(hits: &[RuleHit], what: &str, certain: bool) -> Outcome {
    // Of equals the first rule is named.
    let Some(strictest) =
        hits.iter().reduce(|best, hit| if hit.verdict > best.verdict { hit } else { best })
    else {
        if certain {
            return no_rule(what);
        }
        return (
            Verdict::Ask,
            None,
            format!("a person must review this: {what} may not be what runs"),
        );
    };
    let code = (strictest.verdict == Verdict::Deny).then_some(Code::PolicyDenied);
    let verb = match strictest.verdict {
        Verdict::Allow => "allows",
        Verdict::Ask => "asks about",
        Verdict::Deny => "denies",
    };
    let reason = format!("rule `{}` {verb} {}: {}", strictest.id, strictest.on, strictest.reason);
    (strictest.verdict, code, reason)
}

fn precondition(question: &Question, server: &Server, tool: &Tool) -> Option<(Code, String)> {
    let name = format!("{}/{}", server.name, tool.name);
    if let Some(declared) = question.declared_class
        && declared != tool.class
    {
        let (declared, class) = (declared.as_str(), tool.class.as_str());
        return Some((
            Code::ToolClassDeclarationMismatch,
            format!("the call declares `{name}` as {declared}, the registry as {class}"),
        ));
    }
    if tool.class.writes() && !question.has_key {
        return Some((
            Code::IdempotencyKeyRequired,
            format!("`{name}` writes, so its call needs an idempotency key"),
        ));
    }
    let mut counter = Counter { bytes: 0, bytes_max: tool.input_bytes_max };
    if serde_json::to_writer(&mut counter, &question.args).is_err() {
        let max = tool.input_bytes_max;
        return Some((
            Code::DocSizeExceeded,
            format!("the arguments of `{name}` are larger than {max} bytes"),
        ));
    }
    None
}

/// Counts the bytes written to it, and fails above its limit.
struct Counter {
    bytes: u64,
    bytes_max: u64,
}

impl Write for Counter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(buffer.len() as u64);
        if self.bytes > self.bytes_max {
            return Err(io::Error::other("too large"));
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn any(globs: &[Glob], text: &GlobText) -> bool {
    globs.iter().any(|glob| glob.matches(text))
}

fn name_matches(limits: &Limits, question: &Question) -> bool {
    let name = GlobText::new(&format!("{}/{}", question.server, question.tool));
    limits.tool.is_empty() || any(&limits.tool, &name)
}

fn class_matches(limits: &Limits, tool: &Tool) -> bool {
    limits.class.is_empty() || limits.class.contains(&tool.class)
}

/// Whether phase, agent and arguments of a call match a rule.
fn call_matches(limits: &Limits, question: &Question, verdict: Verdict) -> bool {
    let named = |globs: &[Glob], text: Option<&String>| {
        globs.is_empty() || text.is_some_and(|text| any(globs, &GlobText::new(text)))
    };
    named(&limits.phase, question.phase.as_ref())
        && named(&limits.agent, question.agent.as_ref())
        && limits.args.iter().all(|(pointer, globs)| {
            let values = pointer.select(&question.args);
            let mut fits = values
                .iter()
                .map(|value| scalar(value).is_some_and(|text| any(globs, &GlobText::new(&text))));
            // As with paths: an allow rule must match all values, the others any.
            if verdict == Verdict::Allow {
                !values.is_empty() && fits.all(|fit| fit)
            } else {
                fits.any(|fit| fit)
            }
        })
}

fn hits(rules: &[Applicable<'_>], facts: &Facts, command: Option<&CommandFacts>) -> Vec<RuleHit> {
    rules
        .iter()
        .filter_map(|applicable| {
            let hit = rule_match(applicable, facts, command)?;
            let rule = applicable.rule;
            let verdict =
                if hit.is_possible { rule.verdict.min(Verdict::Ask) } else { rule.verdict };
            Some(RuleHit {
                id: rule.id.clone(),
                file: rule.file.clone(),
                verdict,
                reason: rule.reason.clone(),
                on: printable(&hit.on),
            })
        })
        .collect()
}

/// What the rules ask about.
fn asked(rules: &[Applicable<'_>], facts: &Facts) -> Vec<Asked> {
    let mut all = Vec::new();
    let commands = facts.commands.iter().map(Some);
    let whole_call = facts.commands.is_empty().then_some(None);
    for command in commands.chain(whole_call) {
        let found: Vec<(&Rule, Match)> = rules
            .iter()
            .filter_map(|rule| Some((rule.rule, rule_match(rule, facts, command)?)))
            .collect();
        let certain = !facts.alters_shell && command.is_none_or(|command| command.certain);
        let one = |subject| Asked {
            subject: if certain { subject } else { Subject::Uncertain },
            command: command.map(|command| command.written().clone()),
            folds_case: facts.folds_case,
        };
        if found.is_empty() {
            all.push(one(Subject::Uncertain));
        }
        let is_asked = found.iter().any(|(rule, _)| is_about(rule, facts, command));
        if command.is_some_and(|command| !is_asked && !command.changes_nothing) {
            all.push(one(Subject::Beside));
        }
        for (rule, hit) in found {
            match rule.verdict {
                Verdict::Allow => {}
                Verdict::Ask => all.push(one(subject(rule, facts, command))),
                // A denied path may be among those of a pattern.
                Verdict::Deny if hit.is_possible => all.push(one(Subject::Uncertain)),
                Verdict::Deny => {}
            }
        }
    }
    let is_asked = |path: &PathFact| {
        rules.iter().any(|rule| {
            rule.rule.verdict == Verdict::Ask && uses(&rule.rule.limits, path, facts.folds_case)
        })
    };
    let is_written = |path: &&PathFact| path.access != Some(Access::Read) && path.counts_for_allow;
    // Redirections belong to no command.
    if !facts.commands.is_empty()
        && facts.paths.iter().filter(is_written).any(|path| !is_asked(path))
    {
        let folds_case = facts.folds_case;
        all.push(Asked { subject: Subject::Beside, command: None, folds_case });
    }
    all
}

/// Whether a path is one that the path globs of a rule are about.
fn uses(limits: &Limits, path: &PathFact, folds_case: bool) -> bool {
    !limits.path.is_empty()
        && limits.access.is_none_or(|access| path.access.is_none_or(|used| used == access))
        && path.match_globs(limits, folds_case) != PathMatch::None
}

/// Whether a rule asks about a command itself: about its words or its paths.
fn is_about(rule: &Rule, facts: &Facts, command: Option<&CommandFacts>) -> bool {
    let own = command.map_or(&[][..], |command| &command.paths);
    rule.verdict == Verdict::Ask
        && (rule.limits.path.is_empty()
            || own.iter().any(|path| uses(&rule.limits, path, facts.folds_case)))
}

/// What a rule asks about in a command or in the whole call.
fn subject(rule: &Rule, facts: &Facts, command: Option<&CommandFacts>) -> Subject {
    let limits = &rule.limits;
    let own = command.map_or(&[][..], |command| &command.paths);
    let paths = facts.paths.iter().chain(own);
    if !limits.path.is_empty() {
        let is_used = |path: &&PathFact| uses(limits, path, facts.folds_case);
        Subject::Paths(paths.filter(is_used).map(PathFact::exact).collect())
    } else if limits.command.is_empty() {
        let certain = paths.filter(|path| path.counts_for_allow);
        Subject::Call(certain.map(PathFact::exact).collect())
    } else {
        Subject::Command
    }
}
