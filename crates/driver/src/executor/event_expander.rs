//! Adds telemetry and sandbox notes to the events of a task.

use crate::{Outcome, Phase, RecordedState as RecordedSandbox, SandboxEvent, TaskResult};
use serde_json::{Value, json};
use windlass_kernel::run::plan::{Doer, Effect, RunOutcome, Trigger};
use windlass_kernel::run::{Event, InvocationResult, Run};
use windlass_kernel::{State, Timestamp};

use super::report::{
    RecordInput, TEXT_CHARS_MAX, result_of, result_of_verdict, seal, telemetry_note,
};
use super::{Driver, invalid, is_driven, recorded, sandbox_note, stage_of, task_id, to_value};
use windlass_engine::EngineError;
use windlass_engine::EventExpander;

impl EventExpander for Driver {
    fn expand(&self, run: &Run, event: Event, now: Timestamp) -> Result<Vec<Event>, EngineError> {
        if !is_driven(run) {
            return Ok(vec![event]);
        }
        match &event {
            Event::Begun {} => self.begun(run),
            Event::InvocationStarted { phase, attempt, invocation, model, .. } => {
                let note = self.admitted(run, phase, *attempt, *invocation, model.as_deref())?;
                Ok(vec![note, event])
            }
            Event::InvocationEnded { .. } => self.invocation_ended(run, event, now),
            Event::PhaseDone { .. } => self.phase_done(run, event, now),
            Event::Checked { .. } => self.checked(run, event, now),
            Event::Held(_) => self.held(run, event, now),
            Event::Ended { .. } => self.ended(run, event),
            Event::Started(_)
            | Event::Setup(_)
            | Event::Integration(_)
            | Event::PhaseStarted { .. }
            | Event::PhaseSkipped { .. }
            | Event::Waiting { .. }
            | Event::SentBack { .. }
            | Event::Warned { .. }
            | Event::Voted(_)
            | Event::Revoked(_)
            | Event::Resumed { .. }
            | Event::Continued {}
            | Event::Reviewed { .. }
            | Event::Checkpointed(_)
            | Event::MergePrepared { .. }
            | Event::Merged { .. }
            | Event::Conflicted { .. }
            | Event::RollbackBegun(_)
            | Event::RolledBack { .. }
            | Event::Restarted { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. } => Ok(vec![event]),
        }
    }
}

impl Driver {
    /// Records telemetry and the sandbox before phase 0.
    fn begun(&self, run: &Run) -> Result<Vec<Event>, EngineError> {
        let task = run.head.trace_id;
        self.confinement.set_confined(task, true);
        let opened = json!({
            "kind": "opened",
            "project_id": self.settings.project_id,
            "session_id": self.settings.session_id,
            "task_id": task_id(run),
            "config": self.config().digest(),
        });
        let mut events = vec![Event::Begun {}, telemetry_note(opened)];
        let mut recorded = recorded::initial_sandbox();
        recorded.sandbox = recorded.sandbox.apply(SandboxEvent::TaskBoundary);
        events.push(sandbox_note(SandboxEvent::TaskBoundary, &recorded, "the task begins")?);
        if self.is_first(task)? {
            recorded.sandbox = recorded.sandbox.apply(SandboxEvent::FirstRunInProject);
            let why = "no task of the project has ended before";
            events.push(sandbox_note(SandboxEvent::FirstRunInProject, &recorded, why)?);
        }
        Ok(events)
    }

    /// Counts a model call before it is made.
    fn admitted(
        &self,
        run: &Run,
        phase: &str,
        attempt: u32,
        invocation: u64,
        model: Option<&str>,
    ) -> Result<Event, EngineError> {
        let refuse = |reason: String| invalid(run.head.trace_id, reason);
        let next = recorded::next_call(run, attempt);
        let next =
            next.ok_or_else(|| refuse(format!("nothing was delegated to phase `{phase}`")))?;
        let usage = recorded::usage(run);
        let mut usage = usage.ok_or_else(|| refuse("its usage is not known".to_owned()))?;
        usage.begin(self.config(), next).map_err(|error| EngineError::Invalid {
            code: error.code(),
            message: error.to_string(),
            hint: None,
        })?;
        let sandbox = recorded::sandbox(run).unwrap_or_else(recorded::initial_sandbox);
        Ok(telemetry_note(json!({
            "kind": "invocation",
            "invocation": invocation,
            "model": model,
            "call": to_value(&next)?,
            "usage": to_value(&usage)?,
            "sandbox": to_value(&sandbox)?,
        })))
    }

    fn invocation_ended(
        &self,
        run: &Run,
        event: Event,
        now: Timestamp,
    ) -> Result<Vec<Event>, EngineError> {
        let Event::InvocationEnded { invocation, result, usage: used, note, .. } = &event else {
            return Ok(vec![event]);
        };
        let admitted = recorded::invocation(run).filter(|one| one.number == *invocation);
        let admitted = admitted.ok_or_else(|| {
            invalid(run.head.trace_id, format!("invocation {invocation} was not admitted"))
        })?;
        let result = match result {
            InvocationResult::Success => TaskResult::Success,
            InvocationResult::Failure => TaskResult::Halt,
            InvocationResult::OnHold => TaskResult::AskUser,
        };
        let record = self.record(
            run,
            now,
            RecordInput {
                result,
                reason: note,
                notes: format!("invocation {invocation}, {} tokens", used.tokens()),
                call: Some((*invocation, admitted.call.token_estimate)),
                model: admitted.model,
                ..RecordInput::new(run, Phase::Execution)
            },
        )?;
        let mut events = vec![record];
        if !used.unaccounted
            && let Some(mut usage) = recorded::usage(run)
        {
            usage.settle(admitted.call, used.tokens());
            events.push(telemetry_note(json!({ "kind": "settled", "usage": to_value(&usage)? })));
        }
        if result != TaskResult::Success {
            events.push(self.failure(run, note)?);
        }
        events.insert(0, event);
        Ok(events)
    }

    fn phase_done(
        &self,
        run: &Run,
        event: Event,
        now: Timestamp,
    ) -> Result<Vec<Event>, EngineError> {
        let Event::PhaseDone { phase, attempt, done } = &event else { return Ok(vec![event]) };
        let Some(stage) = stage(run, phase) else { return Ok(vec![event]) };
        let (result, reason) = result_of(done);
        let input = RecordInput {
            result,
            reason: &reason,
            notes: format!("phase `{phase}`, attempt {attempt}"),
            escalated: done.answer.get("escalate").and_then(Value::as_bool) == Some(true),
            ..RecordInput::new(run, stage)
        };
        // The phase's own result is not part of the run yet.
        let stated = |key| recorded::field(&done.answer, key);
        let intent = if stage == Phase::IntentClassification { stated("intent") } else { None };
        let input = RecordInput { intent: intent.or(input.intent), ..input };
        let selected = match stage {
            Phase::ModelSelection => recorded::field(&done.answer, "selection"),
            Phase::StateValidation
            | Phase::IntentClassification
            | Phase::ContextAssembly
            | Phase::ContextBootstrap
            | Phase::Delegation
            | Phase::Execution
            | Phase::Verification
            | Phase::Intervention
            | Phase::TelemetryFinalization
            | Phase::MemorySync
            | Phase::TaskTermination => None,
        };
        let input = RecordInput { selection: selected.or(input.selection), ..input };
        let record = self.record(run, now, input)?;
        let mut events = vec![record];
        // A question that a person can answer is no failure: the work goes on with the answer.
        let asks = result == TaskResult::AskUser && asks_person(run, phase);
        if result != TaskResult::Success && !asks {
            events.push(self.failure(run, &reason)?);
        }
        events.insert(0, event);
        Ok(events)
    }

    fn checked(&self, run: &Run, event: Event, now: Timestamp) -> Result<Vec<Event>, EngineError> {
        let Event::Checked { phase, attempt, check, verdict, reason, .. } = &event else {
            return Ok(vec![event]);
        };
        let Some(doer) = doer_of(run, phase) else { return Ok(vec![event]) };
        let Some(stage) = stage(run, phase) else { return Ok(vec![event]) };
        let result = result_of_verdict(verdict);
        // A phase that a person performs ends only with its check.
        if result == TaskResult::Success && !matches!(doer, Doer::Person { .. }) {
            return Ok(vec![event]);
        }
        let record = self.record(
            run,
            now,
            RecordInput {
                result,
                reason,
                notes: format!("check `{check}` of phase `{phase}`, attempt {attempt}"),
                ..RecordInput::new(run, stage)
            },
        )?;
        let mut events = vec![record];
        if result != TaskResult::Success {
            events.push(self.failure(run, reason)?);
        }
        events.insert(0, event);
        Ok(events)
    }

    fn held(&self, run: &Run, event: Event, now: Timestamp) -> Result<Vec<Event>, EngineError> {
        let Event::Held(mut held) = event else { return Ok(vec![event]) };
        let stage = stage(run, &held.phase).unwrap_or(Phase::Execution);
        if held.trigger == Trigger::PersonRequested && stage == Phase::Intervention {
            held.evidence = failed_verification(run);
        } else if let Some((question, evidence)) = asked(run, stage, held.trigger) {
            (held.question, held.evidence) = (question, evidence);
        }
        let result = match held.trigger {
            Trigger::PersonRequested if stage == Phase::Intervention => TaskResult::Intervention,
            Trigger::PersonRequested
            | Trigger::AgentUnavailable
            | Trigger::BudgetExhausted
            | Trigger::CallApproval
            | Trigger::ConsensusRequested
            | Trigger::EscalationRequested
            | Trigger::MergeConflict
            | Trigger::RestartRequested
            | Trigger::RolledBack
            | Trigger::SetupFailed
            | Trigger::UncertainEffect
            | Trigger::WaiverRequested => TaskResult::AskUser,
        };
        let record = self.record(
            run,
            now,
            RecordInput {
                result,
                reason: &held.question,
                notes: format!("phase `{}` waits for a person", held.phase),
                ..RecordInput::new(run, stage)
            },
        )?;
        let mut events = vec![record];
        if held.trigger == Trigger::PersonRequested && stage == Phase::Execution {
            // The answer may change what the task is about, so the sandbox is left anew.
            events.push(self.confine(
                run,
                SandboxEvent::IntentChanged,
                "the agent asks a person",
            )?);
        }
        events.push(Event::Held(held));
        Ok(events)
    }

    /// Records the end of a task: a task boundary, and a seal over its telemetry.
    fn ended(&self, run: &Run, event: Event) -> Result<Vec<Event>, EngineError> {
        let Event::Ended { outcome, reason, detail } = &event else { return Ok(vec![event]) };
        let mut events = match run.head.state {
            // The run never began: its telemetry is opened here, so that it can be closed.
            Some(State::Init) | None => self.begun(run)?,
            Some(State::Resumed) => vec![Event::Continued {}],
            Some(_) => Vec::new(),
        };
        let begun = recorded::sandbox(run);
        if begun.is_none() || !recorded::has_ended(run) {
            let mut recorded = begun.unwrap_or_else(recorded::initial_sandbox);
            self.confinement.set_confined(run.head.trace_id, true);
            recorded.sandbox = recorded.sandbox.apply(SandboxEvent::TaskBoundary);
            let (context, intent) = (recorded.context, None);
            let recorded = RecordedSandbox { sandbox: recorded.sandbox, context, intent };
            events.push(sandbox_note(SandboxEvent::TaskBoundary, &recorded, recorded::TASK_ENDS)?);
        }
        let task_outcome = match (outcome, Outcome::ALL.iter().find(|one| one.as_str() == reason)) {
            (RunOutcome::Pass, _) => Outcome::Pass,
            (_, Some(named)) if !named.is_success() => *named,
            (_, _) => Outcome::Halt,
        };
        let mut seal = seal(run, "closed")?;
        if let Some(object) = seal.as_object_mut() {
            object.insert("outcome".to_owned(), json!(task_outcome.as_str()));
            object.insert("reason".to_owned(), json!(reason));
            object.insert("detail".to_owned(), json!(detail));
        }
        events.push(telemetry_note(seal));
        events.push(event);
        Ok(events)
    }

    /// Turns the sandbox on after a failure.
    fn failure(&self, run: &Run, why: &str) -> Result<Event, EngineError> {
        self.confine(run, SandboxEvent::Failure, why)
    }

    /// Turns the sandbox on because of an event.
    fn confine(&self, run: &Run, event: SandboxEvent, why: &str) -> Result<Event, EngineError> {
        self.confinement.set_confined(run.head.trace_id, true);
        let mut recorded = recorded::sandbox(run).unwrap_or_else(recorded::initial_sandbox);
        recorded.sandbox = recorded.sandbox.apply(event);
        let why: String = why.chars().take(TEXT_CHARS_MAX).collect();
        sandbox_note(event, &recorded, &why)
    }
}

fn doer_of<'a>(run: &'a Run, phase: &str) -> Option<&'a Doer> {
    let at = run.position(phase)?;
    run.phase(at).map(|(phase, _)| &phase.doer)
}

fn stage(run: &Run, phase: &str) -> Option<Phase> {
    let (phase, _) = run.phase(run.position(phase)?)?;
    stage_of(run, phase)
}

/// Whether the gate of a phase can ask a person, once, when it says ASK_USER.
fn asks_person(run: &Run, phase: &str) -> bool {
    let gate =
        run.position(phase).and_then(|at| run.phase(at)).and_then(|(phase, _)| phase.gate.as_ref());
    let effect = gate.and_then(|gate| gate.verdicts.get(Outcome::AskUser.as_str()));
    matches!(effect, Some(Effect::Intervene { .. }))
}

/// The most questions of an agent that are shown.
const QUESTIONS_MAX: usize = 20;

/// The question that a phase asks a person, and what belongs to it.
fn asked(run: &Run, stage: Phase, trigger: Trigger) -> Option<(String, Value)> {
    if trigger != Trigger::PersonRequested {
        return None;
    }
    if stage == Phase::IntentClassification {
        let answer = recorded::answer_of(run, "classify")?;
        let candidates = answer.get("candidates").cloned().unwrap_or_default();
        let question = recorded::str_field(answer, "reason")?.to_owned();
        return Some((question, json!({ "candidates": candidates })));
    }
    let output = recorded::output(run).filter(|_| stage == Phase::Execution)?;
    let listed = output.get("questions").and_then(Value::as_array);
    let short = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    let mut questions: Vec<String> = texts.take(QUESTIONS_MAX).map(short).collect();
    if questions.is_empty() {
        let said = ["reason", "summary"].into_iter();
        let said =
            said.filter_map(|key| recorded::str_field(output, key)).find(|text| !text.is_empty());
        questions.push(short(said.unwrap_or("the agent asks, and does not say what")));
    }
    Some((short(&questions.join("; ")), json!({ "questions": questions })))
}

/// What a person needs to know to edit an output: what failed, at which step, and where the output is.
fn failed_verification(run: &Run) -> Value {
    let Some(answer) = recorded::answer_of(run, "verify") else { return Value::Null };
    let keys = ["failed_step", "reason", "edit"];
    let known = keys.into_iter().filter_map(|key| Some((key.to_owned(), answer.get(key)?.clone())));
    Value::Object(known.collect())
}
