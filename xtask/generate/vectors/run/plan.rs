//! A plan that uses everything a plan can contain.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_kernel::run::plan::{
    Budget, Check, CheckTiming, Compare, Concurrency, Doer, Effect, Evidence, Gate, Governance,
    HoldRule, OnFailure, OnRestart, Phase, PhaseCondition, Plan, Requirement, Reviewer, Rule,
    RuleLevel, RunOutcome, Trigger,
};

/// The plan.
pub fn plan() -> Plan {
    let person = Doer::Person { approvals: 2, question: "May it?".to_owned() };
    let fact = PhaseCondition::Fact { fact: "kind".to_owned(), one_of: vec!["release".to_owned()] };
    let mut review = phase("review", &["build"], builtin("review"), PhaseCondition::Always);
    review.gate = Some(Gate { id: "review".to_owned(), verdicts: verdicts() });
    Plan {
        budget: Budget { attempts: Some(5), tokens: Some(100_000), ..Budget::default() },
        checkpoints: true,
        concurrency: Concurrency::Serial,
        governance: governance(),
        hold: HoldRule {
            approvals: 1,
            expires_ms: Some(86_400_000),
            retries: 3,
            starter_counts: true,
        },
        id: "sample".to_owned(),
        on_restart: OnRestart::Hold,
        phases: vec![
            phase("scout", &[], builtin("scout"), PhaseCondition::Always),
            build(),
            phase("mend", &["build"], builtin("mend"), PhaseCondition::Intervention),
            review,
            agree(),
            phase("sign", &["agree"], person, fact),
        ],
        require: vec![Requirement::CleanRepo, Requirement::Single],
        title: "A sample".to_owned(),
        variant: Some("webapp".to_owned()),
        version: "1".to_owned(),
    }
}

fn phase(id: &str, needs: &[&str], doer: Doer, when: PhaseCondition) -> Phase {
    Phase {
        branch: false,
        checks: Vec::new(),
        doer,
        gate: None,
        id: id.to_owned(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        outputs: Vec::new(),
        title: None,
        when,
    }
}

fn builtin(name: &str) -> Doer {
    Doer::Builtin { name: name.to_owned(), with: [("depth".to_owned(), json!(1))].into() }
}

fn verdicts() -> BTreeMap<String, Effect> {
    let hold = Effect::Hold { approvals: Some(2), trigger: Trigger::EscalationRequested };
    let then = Box::new(Effect::Redo { max: 2, phase: "build".to_owned(), then: Box::new(hold) });
    let stop = Effect::Stop { outcome: RunOutcome::WaiverRequested, reason: "scope".to_owned() };
    [
        ("approved", Effect::Continue),
        ("needs_mending", Effect::Intervene { phase: "mend".to_owned(), then }),
        ("rejected", Effect::Block),
        ("scope", stop),
    ]
    .map(|(verdict, effect)| (verdict.to_owned(), effect))
    .into()
}

/// A phase that an agent performs in a work tree of its own.
fn build() -> Phase {
    let argv = vec!["cargo".to_owned(), "test".to_owned()];
    let check = Check {
        at: CheckTiming::After,
        doer: Doer::Command { argv, repeatable: true, timeout_ms: 600_000 },
        id: "tests".to_owned(),
        pinned: Some(vec!["scripts".to_owned()]),
        verdicts: [("pass".to_owned(), Effect::Continue)].into(),
    };
    let agent = Doer::Agent { agent: "builder".to_owned(), prompt: Some("Be brief.".to_owned()) };
    let mut build = phase("build", &["scout"], agent, PhaseCondition::Always);
    build.branch = true;
    build.checks = vec![check];
    build.outputs = vec!["src/**".to_owned()];
    build
}

/// A phase in which agents and people must agree.
fn agree() -> Phase {
    let person = |name: &str| Reviewer::Person { name: name.to_owned() };
    let agent = |agent: &str, prompt| Reviewer::Agent { agent: agent.to_owned(), prompt };
    let doer = Doer::Consensus {
        checklist: vec!["Is it tested?".to_owned()],
        question: "Do you agree?".to_owned(),
        quorum: 2,
        reviewers: vec![
            agent("critic", Some("Be strict.".to_owned())),
            agent("tester", None),
            person("ann"),
            person("bob"),
        ],
    };
    let mut agree = phase("agree", &["review"], doer, PhaseCondition::Always);
    let verdicts = [
        ("approved", Effect::Continue),
        ("approved_with_conditions", Effect::Continue),
        ("rejected", Effect::Block),
    ];
    let verdicts = verdicts.map(|(verdict, effect)| (verdict.to_owned(), effect)).into();
    agree.gate = Some(Gate { id: "agreed".to_owned(), verdicts });
    agree
}

fn governance() -> Governance {
    let rule = |id: &str, level, on_failure, evidence| Rule {
        evidence,
        id: id.to_owned(),
        level,
        on_failure,
        phases: vec!["build".to_owned()],
        remediation: "Mend it.".to_owned(),
    };
    let coverage = Evidence::Metric {
        argv: vec!["cover".to_owned(), "--json".to_owned()],
        compare: Compare::AtLeast,
        pinned: None,
        pointer: "/total".to_owned(),
        threshold: 80.into(),
        timeout_ms: 60_000,
    };
    let lint = Evidence::Tool {
        argv: vec!["lint".to_owned()],
        pinned: Some(Vec::new()),
        timeout_ms: 60_000,
    };
    let licence = Evidence::Validator {
        bytes_max: Some(1_000_000),
        files: vec!["src/**".to_owned()],
        forbid: Some("GPL".to_owned()),
        json: false,
        require: None,
    };
    Governance {
        compliance: vec![rule("licence", RuleLevel::Universal, OnFailure::Block, licence)],
        gates: vec![
            rule("coverage", RuleLevel::Organisation, OnFailure::Warn, coverage),
            rule("lint", RuleLevel::Loop, OnFailure::Block, lint),
        ],
    }
}
