//! `windlass policy`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_governance::{level_name, on_failure_name};
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, Rule};
use windlass_policy::{Judgement, PolicySet, Question, Verdict};
use windlass_runtime::FileWorkspace;

use crate::args::{Explain, Policy};
use crate::commands::{read_args, risk, tool_name};
use crate::failure::{CommandResult, Failure};
use crate::input::{self, unreadable};
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::project::{FILE_BYTES_MAX, Project};
use crate::run_policy::hash_of_run;
use crate::setup::{agents, compose_rules, loops, rules};
use crate::user_config::UserConfig;

/// Runs a subcommand of `policy`.
pub fn run(project: &Project, command: &Policy, output: &Output) -> CommandResult {
    let files = project.files()?;
    match command {
        Policy::Check => {
            Project::config(&files)?;
            let set = PolicySet::load(&files)?;
            let rules = compose_rules(&rules(&files)?, None)?.origins.len();
            check(&set, rules, output)
        }
        Policy::Explain(options) => {
            let set = project
                .policy(Part::Whole, &files)?
                .with_wrapped(project.wrapped(&UserConfig::load()?));
            explain(project, &set, options, output)
        }
        Policy::Test { file: None } => {
            // Loading runs the policy's own cases and fails if one does.
            let cases = PolicySet::load(&files)?.cases();
            if output.json {
                output.value(&json!({ "file": null, "passed": true, "cases": cases }))?;
            } else {
                output.line(&format!("the policy's own cases: {cases} passed, 0 failed"));
            }
            Ok(0)
        }
        Policy::Test { file: Some(file) } => {
            let bytes = input::read(file, FILE_BYTES_MAX)?;
            let set = PolicySet::load(&files)?;
            let failed = run_cases(&set, &display(file), &bytes, output)?;
            Ok(u8::from(failed > 0))
        }
        Policy::Gates { name } => gates(&files, name.as_deref(), output),
        Policy::Hash { name: Some(name) } => {
            let all = loops(&files, &agents(&files)?)?;
            let Some(file) = all.get(name) else {
                return Err(Failure::new(Code::LoopNotFound, format!("there is no loop `{name}`")));
            };
            let hash = hash_of_run(files, &file.plan)?;
            match output.json {
                true => output.value(&json!({ "policy_hash": hash, "loop": name }))?,
                false => output.line(&hash.to_string()),
            }
            Ok(0)
        }
        Policy::Hash { name: None } => {
            let hash = PolicySet::load(&files)?.hash();
            if output.json {
                output.value(
                    &json!({ "policy_hash": hash, "files": files.keys().collect::<Vec<_>>() }),
                )?;
            } else {
                output.line(&hash.to_string());
            }
            Ok(0)
        }
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn check(set: &PolicySet, gates: usize, output: &Output) -> CommandResult {
    if output.json {
        let rules: Vec<_> = set
            .rules()
            .iter()
            .map(|rule| {
                json!({ "id": rule.id(), "file": rule.file(), "line": rule.line(),
                        "verdict": rule.verdict(), "reason": rule.reason() })
            })
            .collect();
        let tools: Vec<_> = set
            .registry()
            .tools()
            .map(|(server, tool)| {
                json!({ "tool": format!("{}/{}", server.name, tool.name),
                        "class": tool.class, "timeout_ms": tool.timeout_ms })
            })
            .collect();
        output.value(&json!({ "policy_hash": set.hash(), "rules": rules, "tools": tools, "cases": set.cases(), "gates": gates }))?;
        return Ok(0);
    }
    let tools: Vec<_> = set
        .registry()
        .tools()
        .map(|(server, tool)| {
            vec![
                (format!("{}/{}", server.name, tool.name), None),
                (tool.class.as_str().to_owned(), None),
                (format!("{} ms", tool.timeout_ms), None),
            ]
        })
        .collect();
    output.table(&["TOOL", "CLASS", "TIMEOUT"], &tools);
    output.line("");
    let rules: Vec<_> = set
        .rules()
        .iter()
        .map(|rule| {
            vec![
                (label(rule.verdict()).to_owned(), Some(style(rule.verdict()))),
                (rule.id().to_owned(), None),
                (rule.reason().to_owned(), Some(Style::Faint)),
            ]
        })
        .collect();
    output.table(&["VERDICT", "RULE", "REASON"], &rules);
    output.line(&format!(
        "\n{}: {} rules, {} cases, {gates} gates, hash {}",
        output.paint("ok", Style::Good),
        set.rules().len(),
        set.cases(),
        set.hash()
    ));
    Ok(0)
}

/// Lists the governance rules.
fn gates(files: &BTreeMap<String, Vec<u8>>, name: Option<&str>, output: &Output) -> CommandResult {
    let loops = loops(files, &agents(files)?)?;
    let file = match name {
        None => None,
        Some(name) => Some(loops.get(name).ok_or_else(|| {
            Failure::new(Code::LoopNotFound, format!("there is no loop `{name}`"))
        })?),
    };
    let composed = compose_rules(&rules(files)?, file)?;
    let all = composed.governance.gates.iter().chain(&composed.governance.compliance);
    let places = composed.origins.iter().map(|((kind, id), stated)| {
        let places: Vec<String> = stated.iter().map(|one| one.location.to_string()).collect();
        let levels: Vec<&str> = stated.iter().map(|one| level_name(one.rule.level)).collect();
        ((kind.as_str(), id.as_str()), (places, levels))
    });
    let places: BTreeMap<_, _> = places.collect();
    let gates = composed.governance.gates.len();
    let kinds = all.enumerate().map(|(at, rule)| {
        let kind = if at < gates { "gate" } else { "compliance" };
        let (places, levels) = places.get(&(kind, rule.id.as_str())).cloned().unwrap_or_default();
        (kind, rule, places, levels)
    });
    if output.json {
        let values: Vec<_> = kinds
            .map(|(kind, rule, places, levels)| {
                json!({ "kind": kind, "rule": rule, "places": places, "levels": levels })
            })
            .collect();
        output.value(&values)?;
        return Ok(0);
    }
    let rows: Vec<_> = kinds
        .map(|(kind, rule, _, levels)| {
            let phases =
                if rule.phases.is_empty() { "all".to_owned() } else { rule.phases.join(", ") };
            vec![
                (kind.to_owned(), None),
                (rule.id.clone(), Some(Style::Bold)),
                (on_failure_name(rule.on_failure).to_owned(), None),
                (levels.join(", "), None),
                (phases, None),
                (sanitize(&wanted(rule)), Some(Style::Faint)),
            ]
        })
        .collect();
    output.table(&["KIND", "RULE", "ON FAILURE", "LEVELS", "PHASES", "REQUIRES"], &rows);
    Ok(0)
}

/// A short description of what a rule requires.
fn wanted(rule: &Rule) -> String {
    match &rule.evidence {
        Evidence::Metric { argv, compare, pointer, threshold, .. } => {
            let compare = match compare {
                Compare::AtLeast => "at least",
                Compare::AtMost => "at most",
                Compare::Equal => "exactly",
            };
            format!("{pointer} of `{}` {compare} {threshold}", argv.join(" "))
        }
        Evidence::Tool { argv, .. } => format!("`{}` succeeds", argv.join(" ")),
        Evidence::Validator { bytes_max, files, forbid, json, require } => {
            let mut words = vec![files.join(", ")];
            words.extend(require.iter().map(|require| format!("with `{require}`")));
            words.extend(forbid.iter().map(|forbid| format!("without `{forbid}`")));
            words.extend(json.then(|| "JSON".to_owned()));
            words.extend(bytes_max.map(|most| format!("at most {most} bytes")));
            words.join(" ")
        }
    }
}

fn explain(
    project: &Project,
    set: &PolicySet,
    options: &Explain,
    output: &Output,
) -> CommandResult {
    let (server, tool) = tool_name(&options.tool)?;
    let question = Question {
        server,
        tool,
        declared_class: options.class.map(risk),
        args: read_args(&options.args)?,
        has_key: !options.no_key,
        phase: options.phase.clone(),
        agent: options.agent.clone(),
    };
    let workspace =
        FileWorkspace::new(&project.root).map_err(|error| unreadable(&project.root, &error))?;
    let judgement = set.judge(&question, &workspace);
    if output.json {
        output.value(&judgement)?;
        return Ok(0);
    }
    print_judgement(&judgement, output);
    Ok(0)
}

fn print_judgement(judgement: &Judgement, output: &Output) {
    let verdict = output.paint(label(judgement.verdict), style(judgement.verdict));
    let code = judgement.code.map(|code| format!(" [{code}]")).unwrap_or_default();
    output.line(&format!("{verdict}: {}{code}", judgement.reason));
    for (name, items) in [
        ("commands", &judgement.commands),
        ("paths", &judgement.paths),
        ("findings", &judgement.findings),
    ] {
        if !items.is_empty() {
            output.line(&format!("  {name:<9} {}", items.join(" | ")));
        }
    }
    for hit in &judgement.rules {
        output.line(&format!(
            "  {:<9} {} ({}) on {}: {}",
            label(hit.verdict),
            hit.id,
            hit.file,
            hit.on,
            hit.reason
        ));
    }
}

fn run_cases(set: &PolicySet, name: &str, bytes: &[u8], output: &Output) -> Result<usize, Failure> {
    let report = set.run_cases(name, bytes)?;
    let failed = report.outcomes.iter().filter(|outcome| !outcome.passed).count();
    if output.json {
        let outcomes: Vec<_> = report
            .outcomes
            .iter()
            .map(|outcome| {
                json!({ "name": outcome.name, "line": outcome.line, "expected": outcome.expected,
                        "passed": outcome.passed, "judgement": outcome.judgement })
            })
            .collect();
        output.value(&json!({ "file": name, "passed": report.passed(), "outcomes": outcomes }))?;
        return Ok(failed);
    }
    for outcome in report.outcomes.iter().filter(|outcome| !outcome.passed) {
        let bad = output.paint("failed", Style::Bad);
        output.line(&format!("{bad} {name}:{}: {}", outcome.line, outcome.failure()));
    }
    output.line(&format!("{name}: {} passed, {failed} failed", report.outcomes.len() - failed));
    Ok(failed)
}

const fn label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

const fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Allow => Style::Good,
        Verdict::Ask => Style::Warn,
        Verdict::Deny => Style::Bad,
    }
}
