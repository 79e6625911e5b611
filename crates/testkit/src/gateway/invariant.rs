//! What must hold after any sequence of crashes, once a process has lived to its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_journal::verify_store;
use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{ArtifactType, Code, Entry, State, TraceId};
use windlass_policy::{OnUncertain, Verdict};
use windlass_runtime::CallReport;
use windlass_store::{IdempotencyRecord, Slot};

use super::explore::Violation;
use super::invariant_effects::{
    invariant_announced, invariant_executed_once, invariant_keys_bound,
    invariant_no_dispatch_after_effect, invariant_only_allowed, invariant_redispatches_recorded,
    invariant_same_identity,
};
use super::scenario::{Client, Scenario, Step, timeless};
use super::supervisor::{TestSupervisor, test_set};
use super::tools::Tools;
use super::world::World;

/// What is left after a scenario, read once for all invariants.
pub struct Outcome<'a> {
    /// What was wanted.
    pub scenario: &'a Scenario,
    /// What is there.
    pub world: &'a World,
    /// What the clients know.
    pub client: &'a Client,
    /// How many processes died on the way.
    pub crashes: usize,
    pub(super) traces: BTreeMap<TraceId, Trace>,
    pub(super) keys: BTreeMap<Slot, IdempotencyRecord>,
    pub(super) tools: Tools,
    pub(super) honest: TestSupervisor,
    /// The traces of each request, without what differs from run to run.
    shapes: BTreeMap<String, Vec<Shape>>,
    /// What the journal says now about the call of each answer.
    shown: Vec<Result<CallReport, String>>,
}

type Shape = Vec<(State, State, Option<String>, Value)>;

/// One trace as it is stored.
pub(super) struct Trace {
    pub state: Option<State>,
    pub entries: Vec<Entry>,
    pub bodies: Vec<Value>,
    pub redispatches: Vec<Redispatch>,
}

impl Trace {
    pub fn body(&self, kind: ArtifactType) -> Option<&Value> {
        let at = self.entries.iter().position(|entry| entry.artifact_type == kind)?;
        self.bodies.get(at)
    }

    pub fn text(&self, kind: ArtifactType, pointer: &str) -> &str {
        self.body(kind).and_then(|body| body.pointer(pointer)?.as_str()).unwrap_or_default()
    }

    /// The tool that the request names.
    pub fn tool(&self) -> &str {
        self.text(ArtifactType::ActionRequest, "/proposal/tool_name")
    }

    pub fn key(&self) -> Option<&str> {
        let request = self.body(ArtifactType::ActionRequest)?;
        request.pointer("/idempotency_key")?.as_str()
    }

    /// The entry that says the call is handed over.
    pub fn executing(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.to_state == State::Executing)
    }

    /// Whether it was made on behalf of another call.
    pub fn is_side(&self) -> bool {
        self.text(ArtifactType::ActionRequest, "/resources/0/kind") == "call"
    }

    fn request(&self) -> String {
        let proposal = self.body(ArtifactType::ActionRequest).and_then(|body| body.get("proposal"));
        format!("{:?} {}", self.key(), proposal.unwrap_or(&Value::Null))
    }

    fn shape(&self) -> Shape {
        let entries = self.entries.iter().zip(&self.bodies);
        let shape = entries.map(|(entry, body)| {
            let mut body = body.clone();
            timeless(&mut body);
            (entry.from_state, entry.to_state, entry.idempotency_key.clone(), body)
        });
        shape.collect()
    }
}

impl<'a> Outcome<'a> {
    /// Reads what is left.
    #[must_use]
    pub fn new(
        scenario: &'a Scenario,
        world: &'a World,
        client: &'a Client,
        crashes: usize,
    ) -> Self {
        let tables = world.shared.tables();
        let mut redispatches = tables.redispatches;
        let heads = tables.traces;
        let traces = tables.entries.into_iter().map(|(trace_id, records)| {
            let read = |body: &Option<Vec<u8>>| {
                let body = body.as_deref().unwrap_or(b"null");
                serde_json::from_slice(body).unwrap_or_default()
            };
            let trace = Trace {
                state: heads.get(&trace_id).and_then(|state| state.head.state),
                bodies: records.iter().map(|record| read(&record.body)).collect(),
                entries: records.into_iter().map(|record| record.entry).collect(),
                redispatches: redispatches.remove(&trace_id).unwrap_or_default(),
            };
            (trace_id, trace)
        });
        let traces: BTreeMap<TraceId, Trace> = traces.collect();
        let mut shapes: BTreeMap<String, Vec<Shape>> = BTreeMap::new();
        for trace in traces.values().filter(|trace| !trace.is_side()) {
            shapes.entry(trace.request()).or_default().push(trace.shape());
        }
        let gateway = world.gateway(Arc::new(TestSupervisor::default()));
        let show = |answer: &CallReport| {
            let shown = gateway.show(answer.trace_id);
            shown.map_err(|error| format!("{}: {error} {}", answer.trace_id, error.code()))
        };
        let shown = client.answers.iter().map(show).collect();
        let tools = world.tools.lock().clone();
        let last =
            |(slot, mut records): (Slot, Vec<IdempotencyRecord>)| Some((slot, records.pop()?));
        let keys = tables.keys.into_iter().filter_map(last).collect();
        let honest = TestSupervisor::default();
        Self { scenario, world, client, crashes, traces, keys, tools, honest, shapes, shown }
    }

    /// What the registry says of a tool's uncertain calls.
    pub(super) fn rule(tool: &str) -> OnUncertain {
        let found = test_set().registry().find("world", tool);
        found.map_or(OnUncertain::Hold, |(server, tool)| tool.on_uncertain(server, Some("key")))
    }
}

pub(super) type Check = fn(&Outcome<'_>, &Outcome<'_>) -> Result<(), String>;

/// All invariants by name, in the order in which they are checked.
pub const INVARIANTS: &[(&str, Check)] = &[
    ("invariant_announced", invariant_announced),
    ("invariant_no_dispatch_after_effect", invariant_no_dispatch_after_effect),
    ("invariant_same_identity", invariant_same_identity),
    ("invariant_only_allowed", invariant_only_allowed),
    ("invariant_executed_once", invariant_executed_once),
    ("invariant_redispatches_recorded", invariant_redispatches_recorded),
    ("invariant_keys_bound", invariant_keys_bound),
    ("invariant_journals_verify", invariant_journals_verify),
    ("invariant_decided_once", invariant_decided_once),
    ("invariant_nothing_open", invariant_nothing_open),
    ("invariant_same_entries", invariant_same_entries),
    ("invariant_nothing_lost", invariant_nothing_lost),
    ("invariant_same_ending", invariant_same_ending),
    ("invariant_all_answered", invariant_all_answered),
    ("invariant_recovery_rests", invariant_recovery_rests),
];

/// Checks everything against the calm run; returns the first violation.
#[must_use]
pub fn check(outcome: &Outcome<'_>, calm: &Outcome<'_>) -> Option<Violation> {
    INVARIANTS.iter().find_map(|(invariant, holds)| {
        let message = holds(outcome, calm).err()?;
        Some(Violation { invariant, message })
    })
}

/// Every chain, artifact, link and recorded head is intact.
fn invariant_journals_verify(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    let report =
        verify_store(&outcome.world.store(), &mut |_| {}).map_err(|error| error.to_string())?;
    require(report.broken == 0 && report.missing_artifacts == 0, || format!("{report:?}"))
}

/// No request was answered with an error, and none was left without an answer.
fn invariant_all_answered(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    let client = outcome.client;
    require(client.errors.is_empty(), || format!("errors: {:?}", client.errors))?;
    require(client.answers.len() == outcome.scenario.steps.len(), || "not answered".to_owned())
}

/// Each answer is what its trace says, unless a later answer is about the same trace.
fn invariant_nothing_lost(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    let answers = &outcome.client.answers;
    for (at, (answer, shown)) in answers.iter().zip(&outcome.shown).enumerate() {
        if answers.iter().skip(at + 1).any(|later| later.trace_id == answer.trace_id) {
            continue;
        }
        let mut kept = shown.clone()?;
        // These two tell how the answer came about, not what it is.
        kept.replayed = answer.replayed;
        if let (Some(kept), Some(told)) = (&mut kept.hold, &answer.hold) {
            kept.reason.clone_from(&told.reason);
        }
        require(*answer == kept, || format!("told {answer:?}\n kept {kept:?}"))?;
    }
    Ok(())
}

/// Each step ends as in the calm run, or in the one other way that its tool's rule gives it.
fn invariant_same_ending(outcome: &Outcome<'_>, calm: &Outcome<'_>) -> Result<(), String> {
    let same = |after: &CallReport, before: &CallReport| {
        let error = |report: &CallReport| report.error.as_ref().map(|error| error.code);
        let refusal = |report: &CallReport| report.refusal.as_ref().map(|refused| refused.code);
        let hold = |report: &CallReport| report.hold.as_ref().map(|hold| hold.question);
        let other = outcome.scenario.also.is_some_and(|(state, code)| {
            outcome.crashes > 0 && after.state == state && error(after) == Some(code)
        });
        other
            || (after.state == before.state
                && after.outcome == before.outcome
                && after.result == before.result
                && error(after) == error(before)
                && refusal(after) == refusal(before)
                && hold(after) == hold(before))
    };
    for (after, before) in outcome.shown.iter().zip(&calm.shown) {
        let (after, before) =
            (after.as_ref().map_err(String::clone)?, before.as_ref().map_err(String::clone)?);
        require(same(after, before), || format!("calm {before:?}\n after {after:?}"))?;
    }
    Ok(())
}

/// What has not ended waits for a person: a request that policy asks about.
fn invariant_nothing_open(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    for (trace_id, trace) in &outcome.traces {
        let ended = trace.state.is_some_and(State::is_terminal);
        let asked = trace.state == Some(State::Pending)
            && outcome.honest.verdict(trace.tool()) == Verdict::Ask;
        require(ended || asked, || format!("{trace_id} is {:?}", trace.state))?;
    }
    Ok(())
}

/// A trace has at most one decision, and a person's name is on it only where a person was asked.
fn invariant_decided_once(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    for (trace_id, trace) in &outcome.traces {
        let kind = ArtifactType::SupervisorDecision;
        let made = trace.entries.iter().filter(|entry| entry.artifact_type == kind).count();
        require(made <= 1, || format!("{trace_id} was decided {made} times"))?;
        let person = trace.text(kind, "/decided_by/by") == "person";
        let asked = outcome.honest.verdict(trace.tool()) == Verdict::Ask;
        require(made == 0 || person == asked, || format!("{trace_id}: by a person: {person}"))?;
    }
    Ok(())
}

/// The entries and artifacts of each request are the calm run's, but for ids, times and
/// redispatches; what is there more often was never handed over, or is a read.
fn invariant_same_entries(outcome: &Outcome<'_>, calm: &Outcome<'_>) -> Result<(), String> {
    let (after, before) = (&outcome.shapes, &calm.shapes);
    require(after.keys().eq(before.keys()), || format!("{:?}", after.keys()))?;
    for (request, shapes) in after {
        let expected = before.get(request).map(Vec::as_slice).unwrap_or_default();
        for shape in shapes {
            let same = expected.iter().any(|calm| {
                calm == shape
                    || (shape.len() == 1 && calm.first() == shape.first())
                    || ends_otherwise(outcome, calm, shape)
            });
            require(same, || format!("calm {expected:#?}\n after {shape:#?}"))?;
        }
        // A call under a key is handed over once, whatever happens.
        let executed = |shapes: &[Shape]| shapes.iter().filter(|shape| shape.len() > 2).count();
        let (more, less) = (executed(shapes), executed(expected));
        let limit = if request.starts_with("None") { less + outcome.crashes } else { less };
        require((less..=limit).contains(&more), || format!("{request}: {more} for {less}"))?;
        let limit = expected.len() + outcome.crashes;
        require(shapes.len() <= limit, || format!("{request}: {} traces", shapes.len()))?;
    }
    Ok(())
}

fn ends_otherwise(outcome: &Outcome<'_>, calm: &Shape, shape: &Shape) -> bool {
    let (Some((last, before)), Some((_, calm_before))) = (shape.split_last(), calm.split_last())
    else {
        return false;
    };
    outcome.scenario.also.is_some_and(|(state, code)| {
        let told = last.3.pointer("/error/code").and_then(Value::as_str).and_then(Code::named);
        before == calm_before && last.1 == state && told == Some(code)
    })
}

/// Once everything is answered, another recovery hands nothing over and records nothing.
fn invariant_recovery_rests(outcome: &Outcome<'_>, _: &Outcome<'_>) -> Result<(), String> {
    if outcome.traces.values().all(|trace| trace.state.is_some_and(State::is_terminal)) {
        return Ok(());
    }
    let world = outcome.world.fork();
    let again = world.gateway(Arc::new(TestSupervisor::default())).recover_all();
    require(again.is_ok(), || format!("{again:?}"))?;
    require(*world.tools.lock() == outcome.tools, || "something was handed over".to_owned())?;
    let count = |world: &World| world.shared.tables().entries.values().map(Vec::len).sum::<usize>();
    require(count(&world) == count(outcome.world), || "something was recorded".to_owned())
}

pub(super) fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// Whether a scenario has a person in it.
pub(super) fn has_person(scenario: &Scenario) -> bool {
    scenario.steps.iter().any(|step| matches!(step, Step::Person { .. }))
}
