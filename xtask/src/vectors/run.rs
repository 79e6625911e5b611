//! The events of a run: one of each kind to the byte, and in which state each may be recorded.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use windlass_kernel::run::plan::{
    At, Budget, Check, Concurrency, Doer, Effect, Gate, Governance, HoldRule, OnRestart, Phase,
    Plan, Requirement, Resource, RunOutcome, Trigger, When,
};
use windlass_kernel::run::{
    Base, Call, Change, Decision, Done, Event, Failure, Held, InvocationResult, Note, RunEvent,
    Started, Usage, Vote,
};
use windlass_kernel::{ArtifactId, Digest, SCHEMA_VERSION, State, Timestamp, TraceId, Uuid7};

/// The states of a run.
const STATES: [State; 5] =
    [State::Init, State::Running, State::Checkpoint, State::Resumed, State::Terminal];

/// The file as it should be.
pub fn events() -> Result<Value> {
    let mut events = Vec::new();
    let mut transitions = Vec::new();
    for (number, event) in samples()?.into_iter().enumerate() {
        let (kind, to_state) = (event.kind(), event.to_state());
        for current in std::iter::once(None).chain(STATES.map(Some)) {
            let allowed = is_specified(kind, current);
            transitions.push(json!({
                "event": kind, "current_state": current, "to_state": to_state, "allowed": allowed,
            }));
        }
        let artifact_id = ArtifactId(id(u8::try_from(number)?));
        let body = RunEvent::new(trace(), artifact_id, ts()?, event).to_bytes()?;
        events.push(json!({
            "kind": kind,
            "to_state": to_state,
            "sha256": Digest::of(&body),
            "canonical": String::from_utf8(body)?,
        }));
    }
    Ok(json!({
        "comment": "The events of a run. `events`: one of each kind as its RFC 8785 text, which is \
            what is stored, with its SHA-256. `transitions`: whether an event of this kind may be \
            recorded while the run stands in `current_state` (null: no entry yet); what else must \
            hold depends on the run's plan.",
        "schema_version": SCHEMA_VERSION,
        "events": events,
        "transitions": transitions,
    }))
}

fn is_specified(kind: &str, current: Option<State>) -> bool {
    match kind {
        "started" => current.is_none(),
        "begun" => current == Some(State::Init),
        "continued" => current == Some(State::Resumed),
        "voted" | "resumed" => current == Some(State::Checkpoint),
        "ended" => current.is_some_and(|state| state != State::Terminal),
        _ => current == Some(State::Running),
    }
}

const fn id(number: u8) -> Uuid7 {
    Uuid7::from_parts(1_770_033_600_000, [number; 10])
}

const fn trace() -> TraceId {
    TraceId(id(0xaa))
}

fn ts() -> Result<Timestamp> {
    Ok(Timestamp::from_unix_ms(1_770_033_600_123)?)
}

fn usage() -> Usage {
    Usage { cost_micros: 1200, input_tokens: 345, output_tokens: 67, unaccounted: false }
}

fn change() -> Change {
    let files = vec!["src/a.rs".to_owned(), "é.txt".to_owned()];
    Change { diff_digest: Digest::of(b"diff"), files, lines: 12, tree: "4b825dc6".to_owned() }
}

fn plan() -> Plan {
    let hold = Effect::Hold { approvals: Some(2), trigger: Trigger::EscalationRequested };
    let then = Box::new(Effect::Redo { max: 2, phase: "build".to_owned(), then: Box::new(hold) });
    let stop = Effect::Stop { outcome: RunOutcome::WaiverRequested, reason: "scope".to_owned() };
    let verdicts: BTreeMap<String, Effect> = [
        ("approved", Effect::Continue),
        ("needs_mending", Effect::Intervene { phase: "mend".to_owned(), then }),
        ("rejected", Effect::Block),
        ("scope", stop),
    ]
    .map(|(verdict, effect)| (verdict.to_owned(), effect))
    .into();
    let argv = vec!["cargo".to_owned(), "test".to_owned()];
    let check = Check {
        at: At::After,
        doer: Doer::Command { argv, repeatable: true, timeout_ms: 600_000 },
        id: "tests".to_owned(),
        verdicts: [("pass".to_owned(), Effect::Continue)].into(),
    };
    let phase = |id: &str, needs: &[&str], doer: Doer, when: When| Phase {
        branch: false,
        checks: Vec::new(),
        doer,
        gate: None,
        id: id.to_owned(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        outputs: Vec::new(),
        when,
    };
    let builtin = |name: &str| Doer::Builtin {
        name: name.to_owned(),
        with: [("depth".to_owned(), json!(1))].into(),
    };
    let agent = Doer::Agent { agent: "builder".to_owned(), prompt: Some("Be brief.".to_owned()) };
    let person = Doer::Person { approvals: 2, question: "May it?".to_owned() };
    let fact = When::Fact { fact: "kind".to_owned(), one_of: vec!["release".to_owned()] };
    let mut build = phase("build", &[], agent, When::Always);
    build.checks = vec![check];
    build.outputs = vec!["src/**".to_owned()];
    let mut review = phase("review", &["build"], builtin("review"), When::Always);
    review.gate = Some(Gate { id: "review".to_owned(), verdicts });
    Plan {
        budget: Budget { attempts: Some(5), tokens: Some(100_000), ..Budget::default() },
        checkpoints: false,
        concurrency: Concurrency::Serial,
        governance: Governance::default(),
        hold: HoldRule { approvals: 1, expires_ms: Some(86_400_000) },
        id: "sample".to_owned(),
        on_restart: OnRestart::Hold,
        phases: vec![
            build,
            phase("mend", &["build"], builtin("mend"), When::Intervention),
            review,
            phase("sign", &["review"], person, fact),
        ],
        require: vec![Requirement::CleanRepo, Requirement::Single],
        title: "A sample".to_owned(),
        variant: None,
        version: "1".to_owned(),
    }
}

fn done() -> Done {
    Done {
        answer: json!({"verdict": "approved", "z": [1, 2.5, null], "é": true}),
        calls: vec![Call {
            entry_digest: Digest::of(b"entry"),
            state: State::Completed,
            tool: "fs/write".to_owned(),
            trace_id: TraceId(id(0xbb)),
        }],
        change: Some(change()),
        duration_ms: 1500,
        facts: [("kind".to_owned(), "release".to_owned())].into(),
        failure: Some(Failure { class: "timeout".to_owned(), reason: "too slow".to_owned() }),
        governance: None,
        outputs: [("src/a.rs".to_owned(), Digest::of(b"a"))].into(),
        summary: "Tried.".to_owned(),
        usage: usage(),
    }
}

fn held() -> Result<Held> {
    Ok(Held {
        approvals: 2,
        call: Some(TraceId(id(0xbb))),
        change: Some(change()),
        checklist: Vec::new(),
        expires_at: Some(ts()?),
        evidence: json!({"used": 5, "limit": 5}),
        number: 1,
        phase: "build".to_owned(),
        source: Some("review".to_owned()),
        question: "May it go on?".to_owned(),
        rejections: 1,
        resource: Some(Resource::Attempts),
        reviewers: Vec::new(),
        step_index: 0,
        trigger: Trigger::BudgetExhausted,
    })
}

fn started() -> Event {
    let base = Some(Base { branch: Some("main".to_owned()), commit: "c0ffee".to_owned() });
    Event::Started(Box::new(Started {
        base,
        by: "ann".to_owned(),
        inherited: std::collections::BTreeMap::new(),
        loop_digest: Digest::of(b"loop"),
        options: json!({"dry": false}),
        plan: plan(),
        policy_hash: Digest::of(b"policy"),
        run_id: "run_20260202_120000_aaaaaaaa".to_owned(),
        task: json!({"task": "build it"}),
        worktree: Some(".windlass/worktrees/x".to_owned()),
    }))
}

/// One event of each kind.
fn samples() -> Result<Vec<Event>> {
    let phase = || "build".to_owned();
    let by = || "ann".to_owned();
    let (attempt, duration_ms, usage) = (1, 1500, usage());
    let word = str::to_owned;
    let mut events = vec![started(), Event::Begun {}];
    events.extend([
        Event::PhaseStarted { phase: phase(), attempt },
        Event::PhaseSkipped { phase: word("mend"), reason: word("no intervention is needed") },
        Event::Checked {
            phase: phase(),
            attempt,
            check: word("tests"),
            verdict: word("pass"),
            reason: word("all green"),
            findings: json!([{"line": 3}]),
            usage,
            duration_ms,
        },
        Event::InvocationStarted {
            phase: phase(),
            attempt,
            invocation: 1,
            agent: word("builder"),
            runner: word("script"),
            model: None,
        },
        Event::InvocationEnded {
            invocation: 1,
            result: InvocationResult::Success,
            usage,
            duration_ms,
            note: String::new(),
        },
        Event::PhaseDone { phase: phase(), attempt, done: Box::new(done()) },
        Event::Waiting {
            phase: phase(),
            attempt,
            call: TraceId(id(0xbb)),
            change: None,
            question: word("may it?"),
        },
        Event::SentBack {
            phase: word("review"),
            source: word("review"),
            verdict: word("needs_mending"),
            to: word("mend"),
            count: 1,
            fingerprint: Some(Digest::of(b"diff")),
        },
        Event::Warned { resource: Resource::Tokens, used: 80_000, limit: 100_000 },
        Event::Held(Box::new(held()?)),
        Event::Voted(Vote {
            by: by(),
            conditions: Vec::new(),
            decision: Decision::Approved,
            reason: word("looks right"),
            shown: Digest::of(b"shown"),
        }),
        Event::Resumed { by: by() },
        Event::Continued {},
        Event::Restarted { by: by() },
        Event::CommitPrepared {
            branch: word("windlass/x"),
            commit: word("c0ffee"),
            parent: word("decaf"),
            tree: word("4b825dc6"),
        },
        Event::Noted { what: Note::Telemetry, body: json!({"note": "\u{1f511}"}) },
        Event::Ended { outcome: RunOutcome::Pass, reason: word("pass"), detail: String::new() },
    ]);
    Ok(events)
}
