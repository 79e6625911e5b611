//! Traces for tests: real artifacts in valid chains, the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass_kernel::artifact::{
    ActionRequest, DecidedBy, Decider, Decision, EffectError, Proposal, Redispatch, Resource,
    SettledBy, SupervisorDecision, ToolCall, ToolEffect,
};
use windlass_kernel::{
    Artifact, ArtifactBody, ArtifactId, ArtifactType, Code, Digest, Draft, Head, Outcome, PlanId,
    ReplayPoint, ReplayPointState, RiskLevel, SCHEMA_VERSION, State, Timestamp, ToolCallId,
    TraceId, Transition, Uuid7, canon, transition_of,
};

use crate::types::{After, Append, Claim, KeyAction, Lease, NewEntry, Record, Reservation, Slot};

/// The first time that a fixture gives out.
const EPOCH_MS: u64 = 1_770_000_000_000;
/// The longest arguments or results, in bytes.
const JSON_BYTES_MAX: usize = 16 << 20;

/// Generates ids, times and traces by counting.
#[derive(Debug, Default)]
pub struct Fixture {
    counter: AtomicU64,
}

/// How far a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Requested only.
    Pending,
    /// Allowed.
    Authorized,
    /// Refused.
    Denied,
    /// Dispatched, without an effect yet.
    Executing,
    /// Ended with success.
    Completed,
    /// Ended with a failure.
    Failed,
}

impl Ending {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::Authorized,
        Self::Denied,
        Self::Executing,
        Self::Completed,
        Self::Failed,
    ];
}

/// The properties of a call.
#[derive(Clone, Debug)]
pub struct CallSpec {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The key; without one the call is a read.
    pub key: Option<String>,
    /// The arguments, as JSON text.
    pub args: String,
    /// The result, as JSON text.
    pub result: String,
    /// How far it gets.
    pub ending: Ending,
}

/// A whole trace, of which a test appends a part.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its id.
    pub trace_id: TraceId,
    /// The plan it belongs to.
    pub plan_id: PlanId,
    /// Its entries, from the first.
    pub entries: Vec<NewEntry>,
    /// The head before each entry, and the one after the last.
    pub heads: Vec<Head>,
    /// The reservation of a call with a key.
    pub reservation: Option<Reservation>,
}

impl Fixture {
    /// Starts counting at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn number(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    /// The next id; later ids are greater, also within one millisecond.
    pub fn uuid(&self) -> Uuid7 {
        let number = self.number();
        let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
        Uuid7::from_parts(EPOCH_MS + number / 4, [0, 0, a, b, c, d, e, f, g, h])
    }

    /// The next time.
    pub fn ts(&self) -> Timestamp {
        let ms = i64::try_from(EPOCH_MS + self.number()).unwrap();
        Timestamp::from_unix_ms(ms).unwrap()
    }

    /// A call with its own key.
    pub fn call(&self, ending: Ending) -> Trace {
        let key = Some(format!("key-{}", self.number()));
        self.call_of(&CallSpec { key, ..CallSpec::read(ending) })
    }

    /// A call as specified.
    pub fn call_of(&self, spec: &CallSpec) -> Trace {
        let mut trace = self.trace();
        let key = &spec.key;
        let proposal = Proposal {
            tool_server: spec.server.clone(),
            tool_name: spec.tool.clone(),
            args: canon::parse(spec.args.as_bytes(), JSON_BYTES_MAX).unwrap(),
            workspace: ".".into(),
        };
        let tool_call_id = ToolCallId(self.uuid());
        let proposal_digest = proposal.digest().unwrap();
        trace.reservation = key.as_ref().map(|key| Reservation {
            slot: Slot {
                server_id: spec.server.clone(),
                tool_name: spec.tool.clone(),
                idempotency_key: key.clone(),
            },
            request_digest: proposal_digest,
            tool_call_id,
        });
        let request = self.request(&trace, proposal, key);
        let request_digest = self.push(&mut trace, request, key);
        if spec.ending == Ending::Pending {
            return trace;
        }
        let decision = self.decision(&trace, request_digest, spec.ending);
        let decision_digest = self.push(&mut trace, decision, key);
        if matches!(spec.ending, Ending::Authorized | Ending::Denied) {
            return trace;
        }
        let call = Artifact::Call(ToolCall {
            schema_id: ToolCall::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.uuid()),
            trace_id: trace.trace_id,
            ts: self.ts(),
            decision_digest,
            foreseen: None,
            tool_call_id,
            proposal_digest,
            idempotency_key: key.clone(),
        });
        let tool_call_digest = self.push(&mut trace, call, key);
        if spec.ending != Ending::Executing {
            let effect = self.effect(&trace, tool_call_id, tool_call_digest, spec);
            self.push(&mut trace, effect, key);
        }
        trace
    }

    /// A run that goes from its first entry through these states.
    pub fn run(&self, states: &[State]) -> Trace {
        let bodies = (0..=states.len()).map(|n| format!(r#"{{"event":"step","n":{n}}}"#).into());
        self.trace_of((State::Init, ArtifactType::RunEvent), states, bodies)
    }

    /// A grant that goes from its first entry through these states.
    pub fn grant(&self, states: &[State]) -> Trace {
        let bodies = (0..=states.len()).map(|n| format!(r#"{{"event":"use","n":{n}}}"#).into());
        self.trace_of((State::Granted, ArtifactType::GrantEvent), states, bodies)
    }

    /// A notification that goes from its first entry through these states.
    pub fn notification(&self, states: &[State]) -> Trace {
        let bodies = (0..=states.len()).map(|n| format!(r#"{{"event":"try","n":{n}}}"#).into());
        self.trace_of((State::Due, ArtifactType::NotificationEvent), states, bodies)
    }

    /// A run of so many entries that does not end.
    pub fn run_long(&self, length: usize) -> Trace {
        self.run(&vec![State::Running; length - 1])
    }

    /// A run that does not end, with these bodies.
    pub fn run_carrying(&self, bodies: Vec<Vec<u8>>) -> Trace {
        let states = vec![State::Running; bodies.len() - 1];
        self.trace_of((State::Init, ArtifactType::RunEvent), &states, bodies.into_iter())
    }

    fn trace_of(
        &self,
        (first, artifact): (State, ArtifactType),
        states: &[State],
        bodies: impl Iterator<Item = Vec<u8>>,
    ) -> Trace {
        let mut trace = self.trace();
        let mut from = first;
        for (to, body) in std::iter::once(&first).chain(states).zip(bodies) {
            let transition = Transition { from, to: *to, artifact };
            self.push_body(&mut trace, transition, ArtifactId(self.uuid()), body, (None, None));
            from = *to;
        }
        trace
    }

    /// A replay point of a trace after so many of its entries.
    pub fn replay_point(&self, trace: &Trace, count: usize) -> ReplayPoint {
        let state = ReplayPointState::of(&trace.head_after(count), trace.plan_id).unwrap();
        ReplayPoint::new(state, self.ts())
    }

    /// A further dispatch with this number.
    pub fn redispatch(&self, attempt: u32) -> Redispatch {
        let by = attempt.is_multiple_of(2).then(|| Decider::Hold {
            entry_digest: Digest::of(&attempt.to_be_bytes()),
            names: vec![format!("Zoë {attempt}")],
            trace_id: TraceId(self.uuid()),
        });
        Redispatch {
            attempt, ts: self.ts(), by, reason: format!("no answer to {attempt} – “?”")
        }
    }

    fn trace(&self) -> Trace {
        let trace_id = TraceId(self.uuid());
        Trace {
            trace_id,
            plan_id: PlanId(self.uuid()),
            entries: Vec::new(),
            heads: vec![Head::empty(trace_id)],
            reservation: None,
        }
    }

    fn push(&self, trace: &mut Trace, artifact: Artifact, key: &Option<String>) -> Digest {
        let transition = transition_of(&artifact).unwrap();
        let tool_call_id = match &artifact {
            Artifact::Request(_) | Artifact::Decision(_) => None,
            Artifact::Call(call) => Some(call.tool_call_id),
            Artifact::Effect(effect) => Some(effect.tool_call_id),
        };
        let body = artifact.to_bytes().unwrap();
        let named = (tool_call_id, key.clone());
        self.push_body(trace, transition, artifact.artifact_id(), body, named)
    }

    fn push_body(
        &self,
        trace: &mut Trace,
        transition: Transition,
        artifact_id: ArtifactId,
        body: Vec<u8>,
        (tool_call_id, idempotency_key): (Option<ToolCallId>, Option<String>),
    ) -> Digest {
        let body = ArtifactBody::new(body);
        let artifact_digest = body.digest();
        let ts = self.ts();
        let draft =
            Draft { ts, transition, artifact_id, artifact_digest, tool_call_id, idempotency_key };
        let (sealed, head) = trace.heads.last().unwrap().seal(draft, body).unwrap();
        trace.entries.push(sealed.into());
        trace.heads.push(head);
        artifact_digest
    }

    fn request(&self, trace: &Trace, proposal: Proposal, key: &Option<String>) -> Artifact {
        Artifact::Request(ActionRequest {
            files: Vec::new(),
            schema_id: ActionRequest::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.uuid()),
            trace_id: trace.trace_id,
            ts: self.ts(),
            plan_id: trace.plan_id,
            risk_level: if key.is_some() { RiskLevel::Write } else { RiskLevel::Read },
            intent: "to see whether the store keeps this".into(),
            resources: vec![Resource { kind: "file".into(), id: "notes/plan.md".into() }],
            proposal,
            idempotency_key: key.clone(),
            agent: Some("scribe".into()),
            phase: None,
            run: None,
        })
    }

    fn decision(&self, trace: &Trace, request_digest: Digest, ending: Ending) -> Artifact {
        let denied = ending == Ending::Denied;
        Artifact::Decision(SupervisorDecision {
            schema_id: SupervisorDecision::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.uuid()),
            trace_id: trace.trace_id,
            ts: self.ts(),
            request_digest,
            decision: if denied { Decision::Deny } else { Decision::Approve },
            rationale: "a rule says so".into(),
            decided_by: DecidedBy::Policy { rules: vec!["notes".into()] },
            policy_hash: Digest::of(b"policy"),
            code: denied.then_some(Code::PolicyDenied),
        })
    }

    fn effect(
        &self,
        trace: &Trace,
        tool_call_id: ToolCallId,
        tool_call_digest: Digest,
        spec: &CallSpec,
    ) -> Artifact {
        let failed = spec.ending == Ending::Failed;
        Artifact::Effect(ToolEffect {
            schema_id: ToolEffect::SCHEMA_ID.into(),
            schema_version: SCHEMA_VERSION.into(),
            artifact_id: ArtifactId(self.uuid()),
            trace_id: trace.trace_id,
            ts: self.ts(),
            tool_call_digest,
            tool_call_id,
            outcome: if failed { Outcome::Failure } else { Outcome::Success },
            result: canon::parse(spec.result.as_bytes(), JSON_BYTES_MAX).unwrap(),
            error: failed.then(|| EffectError {
                code: Code::ToolFailed,
                message: "the disk said no".into(),
                may_have_run: false,
            }),
            duration_ms: 12,
            settled_by: SettledBy::Answer,
            redispatches: Vec::new(),
        })
    }
}

impl CallSpec {
    /// A call without a key.
    #[must_use]
    pub fn read(ending: Ending) -> Self {
        Self {
            server: "files".into(),
            tool: "write_file".into(),
            key: None,
            args: r#"{"path":"notes/plan.md","text":"one line"}"#.into(),
            result: r#"{"bytes":8}"#.into(),
            ending,
        }
    }
}

impl Trace {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries, which no fixture makes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The head after so many entries.
    #[must_use]
    pub fn head_after(&self, count: usize) -> Head {
        *self.heads.get(count).unwrap()
    }

    /// The entry with this number, counted from 1.
    #[must_use]
    pub fn entry(&self, number: usize) -> NewEntry {
        self.entries.get(number - 1).unwrap().clone()
    }

    /// Up to `count` entries after the first `skip`.
    #[must_use]
    pub fn part(&self, skip: usize, count: usize) -> Vec<NewEntry> {
        self.entries.iter().skip(skip).take(count).cloned().collect()
    }

    /// The first entries as a store returns them.
    #[must_use]
    pub fn records(&self, count: usize) -> Vec<Record> {
        self.part(0, count).into_iter().map(Record::from).collect()
    }

    /// The slot of a call with a key.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.reservation.clone().unwrap().slot
    }

    /// The action that reserves the key of the call.
    #[must_use]
    pub fn reserve(&self) -> KeyAction {
        KeyAction::Reserve(self.reservation.clone().unwrap())
    }

    /// The claim that creates the trace.
    #[must_use]
    pub const fn new_claim(&self) -> Claim<'static> {
        Claim::New { trace_id: self.trace_id, plan_id: self.plan_id }
    }

    /// The append that creates the trace with its first entries.
    #[must_use]
    pub fn create(&self, count: usize, after: After) -> Append<'static> {
        let entries = self.part(0, count);
        Append { claim: self.new_claim(), entries, key: KeyAction::None, after }
    }

    /// The append of `count` entries after the first `skip`.
    #[must_use]
    pub fn append<'a>(&self, lease: &'a Lease, skip: usize, count: usize) -> Append<'a> {
        holding(lease, self.part(skip, count))
    }
}

/// An append of any entries to a held trace, which keeps the lease.
#[must_use]
pub const fn holding(lease: &Lease, entries: Vec<NewEntry>) -> Append<'_> {
    Append { claim: Claim::Held(lease), entries, key: KeyAction::None, after: After::Keep }
}

/// Changes an entry and computes its digest again.
#[must_use]
pub fn forged(mut new: NewEntry, change: impl FnOnce(&mut NewEntry)) -> NewEntry {
    change(&mut new);
    new.entry.entry_digest = new.entry.compute_digest(&mut Vec::new());
    new
}
