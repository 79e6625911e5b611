//! The events of a run: the bytes of one of each kind, and the states in which each may be recorded.

mod plan;

use anyhow::Result;
use serde_json::{Value, json};
use windlass_kernel::artifact::{Edit, NamedFile};
use windlass_kernel::run::plan::{BudgetedResource, RunOutcome, Trigger};
use windlass_kernel::run::{
    Base, CallRecord, Change, Checkpoint, CheckpointArtifact, CheckpointKind, CheckpointSide,
    CheckpointWorkspace, ComplianceResult, CopiedFile, Event, Failure, GateResult, GateStatus,
    GovernanceResult, HoldRequest, Integration, IntegrationStep, InvocationResult, MergeStrategy,
    NoteKind, PhaseResult, PortRange, Revocation, Rollback, RunEvent, Setup, SetupStep, Started,
    UnsignedVote, Usage, Vote, VoteDecision, WaitsFor,
};
use windlass_kernel::{
    ArtifactId, CheckpointId, Digest, Head, SCHEMA_VERSION, Signed, Signer, State, Timestamp,
    TraceId, Uuid7,
};

use plan::plan;

/// The states of a run.
const STATES: [State; 5] =
    [State::Init, State::Running, State::Checkpoint, State::Resumed, State::Terminal];

/// The file of events.
pub fn events() -> Result<Value> {
    let mut events = Vec::new();
    let mut transitions = Vec::new();
    for (number, event) in samples()?.into_iter().enumerate() {
        let (kind, to_state) = (event.kind(), event.to_state());
        for current in std::iter::once(None).chain(STATES.map(Some)) {
            let allowed = is_specified(kind, current);
            let to_state = event.to_state_from(current.unwrap_or(State::Init));
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
        "noted" => matches!(current, Some(State::Running | State::Checkpoint)),
        // A person may roll a run back in any state, after its end too.
        "rollback_begun" => current.is_some_and(|state| state != State::Init),
        "voted" | "revoked" | "resumed" => current == Some(State::Checkpoint),
        "integration" => current == Some(State::Terminal),
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
    Change {
        commit: None,
        diff_digest: Digest::of(b"diff"),
        files,
        lines: 12,
        tree: "4b825dc6".to_owned(),
    }
}

fn done() -> PhaseResult {
    PhaseResult {
        answer: json!({"verdict": "approved", "z": [1, 2.5, null], "é": true}),
        calls: vec![CallRecord {
            entry_digest: Digest::of(b"entry"),
            state: State::Completed,
            tool: "fs/write".to_owned(),
            trace_id: TraceId(id(0xbb)),
        }],
        change: Some(change()),
        duration_ms: 1500,
        facts: [("kind".to_owned(), "release".to_owned())].into(),
        failure: Some(Failure { class: "timeout".to_owned(), reason: "too slow".to_owned() }),
        governance: Some(governed()),
        outputs: [("src/a.rs".to_owned(), Digest::of(b"a"))].into(),
        summary: "Tried.".to_owned(),
        usage: usage(),
    }
}

fn governed() -> GovernanceResult {
    GovernanceResult {
        compliance_checks: vec![ComplianceResult {
            compliance_type: "licence".to_owned(),
            passed: false,
            status: GateStatus::Blocked,
            violations: vec!["src/a.rs".to_owned()],
        }],
        passed: false,
        quality_gates: vec![GateResult {
            actual: json!(71.5),
            gate_id: "coverage".to_owned(),
            message: "71.5 of 80".to_owned(),
            remediation: "Write tests.".to_owned(),
            status: GateStatus::Warned,
            threshold: json!(80),
        }],
    }
}

fn checkpoint_id(number: u8) -> CheckpointId {
    CheckpointId(id(number))
}

fn checkpoint() -> Checkpoint {
    let artifact = CheckpointArtifact {
        artifact_type: "rs".to_owned(),
        digest: Digest::of(b"a"),
        size_bytes: 1,
    };
    Checkpoint {
        artifacts: [("src/a.rs".to_owned(), artifact)].into(),
        at: CheckpointSide::Post,
        attempt: 1,
        duration_ms: 1500,
        id: checkpoint_id(0xc2),
        kind: CheckpointKind::Succeeded,
        metadata: json!({"note": "kept"}),
        parent: Some(checkpoint_id(0xc1)),
        phase: "build".to_owned(),
        version: 1,
        workspace: Some(CheckpointWorkspace {
            branch: Some("deadbeef".to_owned()),
            tree: "4b825dc6".to_owned(),
        }),
    }
}

fn rollback() -> Rollback {
    Rollback {
        archived: vec!["build".to_owned(), "review".to_owned()],
        by: "ann".to_owned(),
        checkpoint: checkpoint_id(0xc1),
        commit: None,
        ends: None,
        from: Some(checkpoint_id(0xc2)),
        reason: "another way".to_owned(),
        resume: false,
        snapshot: Some("5ca1ab1e".to_owned()),
        target: Some("4b825dc6".to_owned()),
        tree: Some("4b825dc6".to_owned()),
    }
}

fn held() -> Result<HoldRequest> {
    Ok(HoldRequest {
        approvals: 2,
        call: Some(TraceId(id(0xbb))),
        change: Some(change()),
        checklist: vec!["is it tested?".to_owned()],
        expires_at: Some(ts()?),
        evidence: json!({"used": 5, "limit": 5}),
        number: 1,
        phase: "build".to_owned(),
        source: Some("review".to_owned()),
        question: "May it go on?".to_owned(),
        rejections: 1,
        resource: Some(BudgetedResource::Attempts),
        reviewers: vec!["ann".to_owned(), "bob".to_owned()],
        step_index: 0,
        trigger: Trigger::BudgetExhausted,
    })
}

fn started() -> Event {
    let base =
        Some(Base { branch: Some("main".to_owned()), commit: "c0ffee".to_owned(), tree: None });
    Event::Started(Box::new(Started {
        base,
        by: "ann".to_owned(),
        folder: None,
        inherited: [("scout".to_owned(), done())].into(),
        loop_digest: Digest::of(b"loop"),
        options: json!({"dry": false}),
        plan: plan(),
        policy_hash: Digest::of(b"policy"),
        run_id: "run_20260202_120000_aaaaaaaa".to_owned(),
        setup: Some(Setup {
            commands: vec![vec!["npm".to_owned(), "ci".to_owned()]],
            copy: vec![".env.local".to_owned()],
            ports: Some(PortRange { count: 10, first: 4000 }),
            timeout_seconds: 600,
        }),
        task: json!({"task": "build it"}),
        worktree: Some(".windlass/worktrees/x".to_owned()),
    }))
}

fn setup() -> Event {
    let path = ".env.local".to_owned();
    let file = CopiedFile { bytes: 1, digest: Digest::of(b"a"), mode: 0o600, path };
    Event::Setup(Box::new(SetupStep::Started { attempt: 1, files: vec![file] }))
}

/// One event of each kind.
fn samples() -> Result<Vec<Event>> {
    let phase = || "build".to_owned();
    let by = || "ann".to_owned();
    let (attempt, duration_ms, usage) = (1, 1500, usage());
    let word = str::to_owned;
    let mut events = vec![started(), Event::Begun {}, setup()];
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
            parent: None,
        },
        Event::InvocationEnded {
            invocation: 1,
            result: InvocationResult::Success,
            usage,
            duration_ms,
            note: String::new(),
        },
        Event::PhaseDone { phase: phase(), attempt, done: Box::new(done()) },
        Event::Reviewed {
            phase: word("agree"),
            attempt,
            reviewer: word("critic"),
            verdict: word("approved_with_conditions"),
            conditions: vec![word("shorter")],
            reason: word("nearly there"),
            findings: json!(["too long"]),
            usage,
            duration_ms,
        },
        Event::Checkpointed(Box::new(checkpoint())),
        Event::MergePrepared {
            phase: phase(),
            attempt,
            ours: word("4b825dc6"),
            theirs: word("deadbeef"),
            tree: word("c0ffee"),
        },
        Event::Merged { phase: phase(), attempt, change: Some(change()) },
        Event::Conflicted {
            phase: phase(),
            attempt,
            ours: word("4b825dc6"),
            paths: vec![word("src/a.rs")],
            messages: vec![word("CONFLICT (content): src/a.rs")],
        },
        Event::RollbackBegun(Box::new(rollback())),
        Event::RolledBack { change: None },
        Event::Waiting {
            phase: phase(),
            attempt,
            change: None,
            evidence: json!({"tool": "shell/run"}),
            question: word("may it?"),
            waits_for: WaitsFor::Call { call: TraceId(id(0xbb)) },
        },
        Event::SentBack {
            phase: word("review"),
            source: word("review"),
            verdict: word("needs_mending"),
            to: word("mend"),
            count: 1,
            fingerprint: Some(Digest::of(b"diff")),
        },
        Event::Warned { resource: BudgetedResource::Tokens, used: 80_000, limit: 100_000 },
        Event::Held(Box::new(held()?)),
        Event::Voted(Box::new(vote())),
        Event::Revoked(Box::new(Revocation {
            by: vote().by,
            reason: word("a mistake"),
            shown: Digest::of(b"shown"),
        })),
        Event::Resumed { by: by(), worked_ms: None },
        Event::Continued {},
        Event::Restarted { by: by() },
        Event::CommitPrepared {
            branch: word("windlass/x"),
            commit: word("c0ffee"),
            parent: word("decaf"),
            tree: word("4b825dc6"),
        },
        Event::Noted { what: NoteKind::Telemetry, body: json!({"note": "\u{1f511}"}) },
        Event::Ended { outcome: RunOutcome::Pass, reason: word("pass"), detail: String::new() },
        Event::Integration(Box::new(IntegrationStep::Prepared(Box::new(Integration {
            before: word("decaf"),
            by: by(),
            commit: word("c0ffee"),
            into: word("main"),
            strategy: MergeStrategy::FastForward,
            tip: word("c0ffee"),
        })))),
    ]);
    Ok(events)
}

/// An answer, signed.
fn vote() -> Vote {
    let word = str::to_owned;
    let unsigned = UnsignedVote {
        conditions: vec![word("tests first")],
        decision: VoteDecision::Approved,
        edit: Some(Edit { args: json!({"line": "ls"}), proposal_digest: Digest::of(b"edited") }),
        files: vec![NamedFile { digest: Digest::of(b"x"), path: word("src/a.rs") }],
        reason: word("looks right"),
        send_back: None,
        shown: Digest::of(b"shown"),
    };
    let signer = Signer::from_seed(&[7; 32]);
    let (name, approver) = (word("ann"), word("person ann"));
    let statement = unsigned.statement(&Head::empty(TraceId(id(0xcc))));
    let signature = signer.sign(&statement.to_bytes(&name, &approver));
    let by = Signed { approver, key: signer.public(), name, security_key: None, signature };
    unsigned.signed(by)
}
