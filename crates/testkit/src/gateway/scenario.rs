//! What clients and people want of a gateway, and one life of a process that serves them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::{Value, json};
use windlass_kernel::{Code, RiskLevel, State, TraceId};
use windlass_runtime::{
    Answer, CallReport, CallRequest, Gateway, GatewayError, HoldQuestion, ReadDurability,
};

use super::crash::Crash;
use super::world::{Honest, Parts, World};

/// Something a client or a person does. It is done again until it was answered.
#[derive(Clone, Debug)]
pub enum Step {
    /// A client makes a call, always with the same request.
    Call(Box<CallRequest>),
    /// A person looks at the call of an earlier step and, if it is on hold, answers.
    Person {
        /// The number of the earlier step.
        of: usize,
        /// The answer.
        answer: Answer,
    },
}

/// Steps, one after the other, and what may come of them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub steps: Vec<Step>,
    /// When reads are committed.
    pub reads: ReadDurability,
    /// How a call may end after a crash besides as in the calm run.
    pub also: Option<(State, Code)>,
    /// How many crashes in a row the sweep tries.
    pub crashes: usize,
}

/// Makes a request of the world's tools; a write has the key `key`.
#[must_use]
pub fn call(tool: &str, key: Option<&str>, value: u32) -> CallRequest {
    CallRequest {
        server: "world".to_owned(),
        tool: tool.to_owned(),
        args: json!({ "value": value }),
        intent: "a step of a test".to_owned(),
        resources: Vec::new(),
        declared_class: if key.is_some() { RiskLevel::Write } else { RiskLevel::Read },
        key: key.map(str::to_owned),
        plan_id: None,
        agent: None,
        phase: None,
        run: None,
    }
}

/// What the clients know: which steps were answered, and how.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The answer to each step so far.
    pub answers: Vec<CallReport>,
    /// The errors that were answered instead, with where they came from.
    pub errors: Vec<(String, Code)>,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Every step was answered.
    Done,
    /// The process died before that.
    Crashed,
}

impl Client {
    fn note(&mut self, place: &str, error: &GatewayError) {
        self.errors.push((place.to_owned(), error.code()));
    }

    /// Does all the steps that were not answered yet; an error counts as an answer to be blamed.
    pub fn serve(&mut self, gateway: &Gateway, parts: &dyn Parts, steps: &[Step]) {
        match parts.recover(gateway) {
            Ok(all) => {
                for one in all {
                    if let Err(error) = one.result {
                        self.note("recover", &error);
                    }
                }
            }
            Err(error) => self.note("recover", &error),
        }
        while let Some(step) = steps.get(self.answers.len()) {
            let answer = match step {
                Step::Call(request) => gateway.call(request.as_ref().clone()),
                Step::Person { of, answer } => self.person(gateway, *of, *answer),
            };
            match answer {
                Ok(report) => self.answers.push(report),
                Err(error) => {
                    self.note("call", &error);
                    return;
                }
            }
        }
    }

    fn person(
        &self,
        gateway: &Gateway,
        of: usize,
        answer: Answer,
    ) -> Result<CallReport, GatewayError> {
        let trace_id = self.answers.get(of).map(|report| report.trace_id);
        let Some(trace_id) = trace_id else {
            let reason = "a person answers an earlier step".to_owned();
            return Err(windlass_runtime::RequestError::Field { field: "of", reason }.into());
        };
        let report = gateway.show(trace_id)?;
        match report.hold {
            Some(hold) => {
                // Approving what may have run means that it did not.
                let answer = match (hold.question, answer) {
                    (HoldQuestion::DidItRun, Answer::Approve) => Answer::DidNotRun,
                    (HoldQuestion::DidItRun, Answer::Deny) => Answer::Failed,
                    (_, answer) => answer,
                };
                gateway.decide(trace_id, answer, crate::people::by("Ada", "I looked"))
            }
            None => Ok(report),
        }
    }
}

/// One life of a process: recovery, then every step that was not answered yet.
///
/// # Panics
/// When anything but a planned crash is thrown.
#[must_use]
pub fn live(
    world: &World,
    scenario: &Scenario,
    parts: &dyn Parts,
    client: &mut Client,
    at: Option<u32>,
) -> Life {
    let crash = Crash::at(at);
    let process = world.start(parts, scenario.reads, &crash);
    let served = catch_unwind(AssertUnwindSafe(|| {
        client.serve(&process.gateway, parts, &scenario.steps);
    }));
    drop(process);
    match served {
        Ok(()) => Life::Done,
        Err(thrown) if Crash::is_crash(thrown.as_ref()) => {
            parts.after_death(world);
            Life::Crashed
        }
        Err(thrown) => resume_unwind(thrown),
    }
}

/// Lets a process make one call and die at its `at`-th point; returns the call's trace.
///
/// The points of a write are: before and after the commit that hands it over, before and after its
/// effect, before and after the commit of the effect.
///
/// # Panics
/// When it did not die there, or left no trace.
#[must_use]
#[expect(clippy::panic, reason = "a test that is set up wrongly")]
pub fn interrupt(world: &World, request: CallRequest, at: u32) -> TraceId {
    let crash = Crash::at(Some(at));
    let process = world.start(&Honest, ReadDurability::WriteAhead, &crash);
    let called = catch_unwind(AssertUnwindSafe(|| process.gateway.call(request)));
    drop(process);
    match (called, world.shared.tables().traces.last_key_value()) {
        (Err(thrown), Some((trace_id, _))) if Crash::is_crash(thrown.as_ref()) => *trace_id,
        (called, trace) => panic!("the call was not interrupted at {at}: {called:?}, {trace:?}"),
    }
}

/// A value without what differs from run to run: ids, times, digests, and how often and by whom a
/// call was handed over or settled.
pub(super) fn timeless(value: &mut Value) {
    const VARIES: &[&str] = &[
        "artifact_id",
        "decision_digest",
        "duration_ms",
        "plan_id",
        "policy_hash",
        "redispatches",
        "request_digest",
        "settled_by",
        "tool_call_digest",
        "tool_call_id",
        "trace_id",
        "ts",
    ];
    if let Value::Object(map) = value {
        map.retain(|key, _| !VARIES.contains(&key.as_str()));
        // A signature covers ids and digests.
        let decider = map.get_mut("decided_by").and_then(|by| by.get_mut("decider"));
        if let Some(Value::Object(decider)) = decider {
            decider.remove("signature");
        }
        // It names the trace that has the key.
        if map.get("code").and_then(Value::as_str) == Some(Code::IdempotencyConflict.as_str()) {
            map.remove("rationale");
        }
    }
}
