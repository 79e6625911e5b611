//! Reads the recorded data of a task.

use crate::{
    IntentId, NextCall, Outcome, RecordedState as RecordedSandbox, Sandbox, SandboxEvent,
    Selection, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{NoteKind, Run};

use super::PREFIX;

/// The sandbox before its first entry: on, without a context file or an intent.
pub(super) fn initial_sandbox() -> RecordedSandbox {
    RecordedSandbox { sandbox: Sandbox::default(), context: None, intent: None }
}

/// The bodies of one kind of note, newest first.
pub(super) fn notes(run: &Run, what: NoteKind) -> impl Iterator<Item = &Value> {
    run.notes.iter().rev().filter(move |note| note.what == what).map(|note| note.body.as_ref())
}

/// The bodies of telemetry notes of one kind, newest first.
pub(super) fn telemetry<'a>(run: &'a Run, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    notes(run, NoteKind::Telemetry).filter(move |body| str_field(body, "kind") == Some(kind))
}

pub(super) fn str_field<'a>(body: &'a Value, key: &str) -> Option<&'a str> {
    body.get(key).and_then(Value::as_str)
}

/// A field of a body, if it has the required type.
pub(super) fn field<T: for<'de> Deserialize<'de>>(body: &Value, key: &str) -> Option<T> {
    T::deserialize(body.get(key)?).ok()
}

/// The sandbox in its newest entry; `None` if there is none or it is not valid.
pub(super) fn sandbox(run: &Run) -> Option<RecordedSandbox> {
    let body = notes(run, NoteKind::Sandbox).next()?;
    Some(RecordedSandbox {
        sandbox: field(body, "sandbox")?,
        context: field(body, "context").unwrap_or_default(),
        intent: field(body, "intent").unwrap_or_default(),
    })
}

/// Whether this task has recorded this event of the sandbox.
pub(super) fn has_event(run: &Run, event: SandboxEvent) -> bool {
    notes(run, NoteKind::Sandbox).any(|body| field(body, "event") == Some(event))
}

/// Whether the newest entry of the sandbox says that the task has ended.
pub(super) fn has_ended(run: &Run) -> bool {
    notes(run, NoteKind::Sandbox).next().and_then(|body| str_field(body, "why")) == Some(TASK_ENDS)
}

/// The recorded reason of the sandbox note at the end of a task. Never change it: journals contain it.
pub(super) const TASK_ENDS: &str = "the task ends";

/// The answer of the phase that one of the driver's builtins performed.
pub(super) fn answer_of<'a>(run: &'a Run, builtin: &str) -> Option<&'a Value> {
    run.all_phases().find_map(|(phase, state)| match &phase.doer {
        Doer::Builtin { name, .. } if name.strip_prefix(PREFIX) == Some(builtin) => {
            state.done.as_ref().map(|done| &done.answer)
        }
        Doer::Builtin { .. }
        | Doer::Agent { .. }
        | Doer::Command { .. }
        | Doer::Consensus { .. }
        | Doer::Person { .. } => None,
    })
}

/// The intent that phase 1 determined.
pub(super) fn intent(run: &Run) -> Option<IntentId> {
    field(answer_of(run, "classify")?, "intent")
}

/// What a person answered when phase 1 asked for the intent.
pub(super) fn intent_answer(run: &Run) -> Option<&str> {
    person_answer(run, crate::Phase::IntentClassification)
}

/// What a person answered when a phase asked.
fn person_answer(run: &Run, stage: crate::Phase) -> Option<&str> {
    let (_, state) = run.all_phases().find(|(phase, _)| {
        matches!(phase.doer, Doer::Person { .. }) && super::stage_of(run, phase) == Some(stage)
    })?;
    str_field(&state.done.as_ref()?.answer, "reason")
}

/// The model that phase 3 selected.
pub(super) fn selection(run: &Run) -> Option<Selection> {
    field(answer_of(run, "select")?, "selection")
}

/// The outcome of phase 6.
pub(super) fn verification(run: &Run) -> Option<Outcome> {
    field(answer_of(run, "verify")?, "verdict")
}

/// The call that phase 4 prepared, for an attempt of phase 5.
pub(super) fn next_call(run: &Run, attempt: u32) -> Option<NextCall> {
    let token_estimate = answer_of(run, "delegate")?.get("token_estimate")?.as_u64()?;
    // Work that goes on after a person's answer repeats nothing that failed.
    let is_answered = person_answer(run, crate::Phase::Execution).is_some();
    let is_retry = attempt > 1 && !is_answered;
    let kind = if is_retry { crate::CallKind::Retry } else { crate::CallKind::First };
    Some(NextCall { kind, token_estimate })
}

/// An admitted invocation.
pub(super) struct Invocation {
    pub number: u64,
    pub model: Option<String>,
    pub call: NextCall,
    pub sandbox: RecordedSandbox,
}

/// The newest invocation.
pub(super) fn invocation(run: &Run) -> Option<Invocation> {
    let body = telemetry(run, "invocation").next()?;
    Some(Invocation {
        number: body.get("invocation")?.as_u64()?,
        model: str_field(body, "model").map(str::to_owned),
        call: field(body, "call")?,
        sandbox: field(body, "sandbox")?,
    })
}

/// The usage of the task; `None` if it is not known.
pub(super) fn usage(run: &Run) -> Option<Usage> {
    if run.spent.unaccounted {
        return None;
    }
    let counted = notes(run, NoteKind::Telemetry).find_map(|body| body.get("usage"));
    match counted {
        Some(usage) => Usage::deserialize(usage).ok(),
        None => Some(Usage::new(super::task_id(run), selection(run)?.profile)),
    }
}

/// The output of the task: the model's answer, or a person's edit of it.
pub(super) fn output(run: &Run) -> Option<&Value> {
    let edited = telemetry(run, "edited").find_map(|body| body.get("output"));
    edited.or_else(|| {
        let mut phases = run.all_phases();
        let (_, state) = phases.find(|(phase, _)| super::is_agent(&phase.doer))?;
        state.done.as_ref().filter(|done| done.failure.is_none()).map(|done| &done.answer)
    })
}

/// Whether a person has intervened.
pub(super) fn intervened(run: &Run) -> bool {
    telemetry(run, "edited").next().is_some()
}
