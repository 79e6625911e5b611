//! Audits: checks that an agent makes while another one works.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use windlass_kernel::Digest;
use windlass_kernel::run::NoteKind;
use windlass_kernel::run::plan::{Check, CheckTiming, Doer, Effect};

use super::Executors;
use super::tool_caller::{ToolCaller, ToolRequest};
use crate::error::EngineError;
use crate::phase_executor::{Answer, Assignment, PhaseRecorder, Subject, WorkResult};

/// How many of the last calls an audit is shown.
const CALLS_SHOWN: usize = 40;
/// The longest arguments that it is shown.
const ARGS_CHARS_MAX: usize = 400;

/// Audits the calls of one attempt.
pub(crate) struct Audit<'a> {
    executors: &'a Executors,
    assignment: &'a Assignment,
    recorder: &'a PhaseRecorder<'a>,
    check: &'a Check,
    every: u32,
    chance_percent: u32,
    seed: Option<Digest>,
    counted: Mutex<Counted>,
}

/// What is counted of an attempt.
#[derive(Default)]
struct Counted {
    /// All calls.
    calls: u64,
    /// Those since the last audit.
    since: u32,
    /// The last ones, as they are shown.
    shown: Vec<String>,
    /// Why no more calls are made.
    blocked: Option<String>,
}

impl<'a> Audit<'a> {
    /// The audit of an attempt, if its phase has one.
    pub fn of(
        executors: &'a Executors,
        assignment: &'a Assignment,
        recorder: &'a PhaseRecorder<'a>,
    ) -> Option<Self> {
        if !matches!(assignment.subject, Subject::Work) {
            return None;
        }
        assignment.phase.checks.iter().find_map(|check| match check.at {
            CheckTiming::During { chance_percent, every, seed } => Some(Self {
                executors,
                assignment,
                recorder,
                check,
                every,
                chance_percent,
                seed,
                counted: Mutex::default(),
            }),
            CheckTiming::After | CheckTiming::Before => None,
        })
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no more calls are made, if that is so.
    pub fn blocked(&self) -> Option<String> {
        self.counted().blocked.clone()
    }

    /// Counts a call, and audits those so far if that is due. Calls at the same time wait for each other.
    ///
    /// # Errors
    /// [`EngineError`] if the audit cannot be recorded.
    pub fn before(&self, request: &ToolRequest) -> Result<WorkResult<Option<String>>, EngineError> {
        let mut counted = self.counted();
        if counted.blocked.is_some() {
            return Ok(WorkResult::Finished(counted.blocked.clone()));
        }
        let args: String = request.args.to_string().chars().take(ARGS_CHARS_MAX).collect();
        counted.shown.push(format!("{} {args}", request.tool));
        let excess = counted.shown.len().saturating_sub(CALLS_SHOWN);
        counted.shown.drain(..excess);
        counted.calls = counted.calls.saturating_add(1);
        counted.since = counted.since.saturating_add(1);
        // The first call has nothing before it to audit.
        let is_due =
            counted.since > self.every || counted.calls > 1 && self.is_drawn(counted.calls);
        if !is_due {
            return Ok(WorkResult::Finished(None));
        }
        counted.since = 1;
        match self.judge(&counted.shown)?.finished() {
            Ok(blocked) => {
                counted.blocked.clone_from(&blocked);
                Ok(WorkResult::Finished(blocked))
            }
            Err(unfinished) => Ok(unfinished),
        }
    }

    /// Whether a call is drawn: always the same for the same seed, run, attempt and number.
    fn is_drawn(&self, number: u64) -> bool {
        let seed = self.seed.map(|seed| format!("{seed}/")).unwrap_or_default();
        let run = self.assignment.run.head.trace_id;
        let text = format!("{seed}{run}/{}/{number}", self.assignment.attempt);
        let digest = Digest::of(text.as_bytes());
        let drawn =
            digest.as_bytes().iter().take(4).fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
        drawn % 100 < self.chance_percent.min(100)
    }

    /// Lets the agent of the check judge; returns why the work is blocked, if it is.
    fn judge(&self, shown: &[String]) -> Result<WorkResult<Option<String>>, EngineError> {
        let Doer::Agent { agent, prompt } = &self.check.doer else {
            return Ok(WorkResult::Finished(Some("the audit is not made by an agent".to_owned())));
        };
        let assignment = Assignment {
            subject: Subject::Check(Box::new(self.check.clone())),
            ..self.assignment.clone()
        };
        let gateway = self.executors.gateways.gateway(&assignment.workspace)?;
        let tools = ToolCaller::new(
            gateway,
            self.executors.gateways.as_ref(),
            &self.executors.stop,
            &assignment,
            None,
            self.executors.call_limits,
        );
        let asked = prompt.as_deref().unwrap_or("Audit the work so far.");
        let prompt = format!("{asked}\n\nThe last calls, oldest first:\n- {}", shown.join("\n- "));
        let result =
            self.executors.run_agent(agent, Some(&prompt), &assignment, &tools, self.recorder)?;
        let mut found = Value::Null;
        let (verdict, reason) = match result {
            WorkResult::Finished(Answer { answer, failure: None, .. }) => {
                let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
                let words = [text("reason"), text("issue"), text("correction")];
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                found = json!({
                    "correction": text("correction"), "issue": text("issue"), "principle": text("principle"),
                });
                (text("verdict").to_owned(), words.join("; "))
            }
            WorkResult::Finished(Answer { failure: Some(failure), .. }) => {
                (String::new(), format!("the audit failed: {}: {}", failure.class, failure.reason))
            }
            WorkResult::Waiting { question, .. } => {
                (String::new(), format!("the audit could not be made: {question}"))
            }
            WorkResult::Stopped { usage } => return Ok(WorkResult::Stopped { usage }),
        };
        let effect = self.check.verdicts.get(&verdict);
        let goes_on = matches!(effect, Some(Effect::Continue));
        self.recorder.note(
            NoteKind::Agent,
            json!({
                "audit": self.check.id, "blocked": !goes_on, "found": found, "reason": reason, "verdict": verdict,
            }),
        )?;
        let blocked = format!("BLOCKED by the audit {}: {reason}", self.check.id);
        Ok(WorkResult::Finished((!goes_on).then_some(blocked)))
    }
}
