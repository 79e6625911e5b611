//! Subagents: agents that an agent starts within its attempt, by a call that is judged and recorded like any other.
//!
//! The call is the permission to start. What the subagent answers is recorded in the run, in one transaction with the
//! end of its invocation and under the key of the call: an attempt that is repeated after a crash gets the recorded
//! answer. A subagent that was interrupted goes on; its own calls have keys of their own, so none is made twice.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use windlass_kernel::artifact::EffectError;
use windlass_kernel::run::{NoteKind, SUBAGENT_DEPTH_MAX, Usage};
use windlass_kernel::{Code, Digest, State};
use windlass_runtime::CallReport;

use super::agent::{Agent, JobBudget};
use super::tool_caller::{CallResult, ToolCaller};
use super::{Executors, check_answer};
use crate::error::EngineError;
use crate::gateway_provider::{GatewayProvider, ToolDefinition};
use crate::phase_executor::{Answer, PhaseRecorder, WorkResult};

/// The tool by which an agent starts another one.
pub const SUBAGENT_TOOL: &str = "agent/run";

/// The longest task, in characters, and the largest context, in bytes of JSON.
const TASK_CHARS_MAX: usize = 20_000;
const CONTEXT_BYTES_MAX: usize = 256 << 10;

/// What a subagent is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Subtask {
    /// The agent.
    pub agent: String,
    /// The agent that asks.
    pub asked_by: String,
    /// What it may need to know.
    pub context: Value,
    /// The key of the call.
    pub key: String,
    /// The invocation that asks.
    pub parent: u64,
    /// The task.
    pub task: String,
}

impl Subtask {
    /// What tells it from all others of its run.
    pub(super) fn label(&self) -> String {
        let hex = Digest::of(self.key.as_bytes()).hex();
        hex.as_str().chars().take(32).collect()
    }

    /// What is recorded of its end.
    pub(super) fn record(&self, invocation: u64, answer: &Answer) -> Value {
        let mut subagent = json!({
            "agent": self.agent, "key": self.key, "parent": self.parent, "task": self.task,
        });
        if let Some(object) = subagent.as_object_mut() {
            let (name, value) = match &answer.failure {
                Some(failure) => {
                    ("failure", json!({ "class": failure.class, "reason": failure.reason }))
                }
                None => ("answer", answer.answer.clone()),
            };
            object.insert(name.to_owned(), value);
        }
        json!({ "invocation": invocation, "subagent": subagent })
    }
}

/// What the agent of an attempt needs to start subagents.
pub(super) struct Subagents<'a> {
    executors: &'a Executors,
    recorder: &'a PhaseRecorder<'a>,
    /// 0 for the agent of the phase, 1 for its subagents.
    depth: usize,
    /// The agent at work.
    caller: Mutex<Option<Caller>>,
    /// What its subagents have used.
    used: Mutex<Usage>,
}

#[derive(Clone)]
struct Caller {
    invocation: u64,
    agent: Agent,
}

impl<'a> Subagents<'a> {
    pub(super) fn new(
        executors: &'a Executors,
        recorder: &'a PhaseRecorder<'a>,
        depth: usize,
    ) -> Self {
        Self { executors, recorder, depth, caller: Mutex::default(), used: Mutex::default() }
    }

    fn caller(&self) -> MutexGuard<'_, Option<Caller>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_usage(&self, usage: Usage) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.plus(usage);
    }

    /// What a call asks for, or the code and reason of its refusal.
    fn subtask(&self, args: &Value, key: &str) -> Result<Subtask, (Code, String)> {
        let denied = |reason: String| (Code::PolicyDenied, reason);
        let invalid = |reason: String| (Code::RequestInvalid, reason);
        let Some(Caller { invocation, agent: caller }) = self.caller().clone() else {
            return Err(denied("only an agent at work can start another one".to_owned()));
        };
        if self.depth >= SUBAGENT_DEPTH_MAX {
            return Err(denied(format!("subagents are at most {SUBAGENT_DEPTH_MAX} deep")));
        }
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let (agent, task) = (text("agent"), text("task"));
        let declared = caller.subagents.iter().any(|name| name == agent);
        if !declared || !self.executors.agents.contains_key(agent) {
            let reason = match caller.subagents.is_empty() {
                true => format!("the file of `{}` declares no subagents", caller.name),
                false => format!(
                    "`{}` may start {} alone, not `{agent}`",
                    caller.name,
                    caller.subagents.join(", ")
                ),
            };
            return Err(denied(reason));
        }
        if task.trim().is_empty() || task.chars().count() > TASK_CHARS_MAX {
            return Err(invalid(format!(
                "`task` must be a text of at most {TASK_CHARS_MAX} characters"
            )));
        }
        let context = args.get("context").cloned().unwrap_or(Value::Null);
        if context.to_string().len() > CONTEXT_BYTES_MAX {
            return Err(invalid(format!(
                "`context` must have at most {CONTEXT_BYTES_MAX} bytes of JSON"
            )));
        }
        let known = ["agent", "task", "context"];
        let mut names = args.as_object().into_iter().flat_map(|object| object.keys());
        if let Some(name) = names.find(|name| !known.contains(&name.as_str())) {
            return Err(invalid(format!("there is no argument `{name}`")));
        }
        Ok(Subtask {
            agent: agent.to_owned(),
            asked_by: caller.name,
            context,
            key: key.to_owned(),
            parent: invocation,
            task: task.to_owned(),
        })
    }

    /// What was recorded of the subagent that was started under this key.
    fn recorded(&self, key: &str) -> Option<Value> {
        let run = self.recorder.run();
        let mut notes = run.notes.iter().rev().filter(|note| note.what == NoteKind::Agent);
        notes.find_map(|note| {
            let subagent = note.body.get("subagent")?;
            (subagent.get("key")?.as_str()? == key).then(|| subagent.clone())
        })
    }
}

impl<'a> ToolCaller<'a> {
    /// Lets the agent of the attempt start subagents.
    pub(crate) fn with_subagents(
        mut self,
        executors: &'a Executors,
        recorder: &'a PhaseRecorder<'a>,
    ) -> Self {
        self.subagents = Some(Subagents::new(executors, recorder, 0));
        self
    }

    /// Says which agent is at work, and in which invocation.
    pub(super) fn set_caller(&self, invocation: u64, agent: &Agent) {
        if let Some(subagents) = &self.subagents {
            *subagents.caller() = Some(Caller { invocation, agent: agent.clone() });
        }
    }

    /// What the subagents of the agent at work have used so far.
    #[must_use]
    pub fn used_by_subagents(&self) -> Usage {
        let used = self.subagents.as_ref().map(|subagents| &subagents.used);
        used.map(|used| *used.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }

    /// Adds what an invocation of this subagent has used.
    pub(super) fn add_usage(&self, usage: Usage) {
        if let Some(subagents) = &self.subagents {
            subagents.add_usage(usage);
        }
    }

    /// The tool that starts subagents, if the agent at work may use it.
    pub(super) fn subagent_tool(&self, gateways: &dyn GatewayProvider) -> Option<ToolDefinition> {
        let subagents = self.subagents.as_ref().filter(|one| one.depth < SUBAGENT_DEPTH_MAX)?;
        let caller = subagents.caller();
        let names = &caller.as_ref()?.agent.subagents;
        let (server, tool) = SUBAGENT_TOOL.split_once('/')?;
        let class = gateways.class_of(server, tool).filter(|_| !names.is_empty())?;
        let described = names.iter().filter_map(|name| {
            Some(format!("- {name}: {}", subagents.executors.agents.get(name)?.description.trim()))
        });
        let described: Vec<String> = described.collect();
        Some(ToolDefinition {
            tool: SUBAGENT_TOOL.to_owned(),
            class,
            description: format!(
                "Start another agent on a part of your work, and wait for its answer. It works in the same \
                 repository and knows only what you tell it. The agents:\n{}",
                described.join("\n")
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "agent": { "type": "string", "enum": names, "description": "The agent." },
                    "task": { "type": "string", "description": "What it is to do, and what to answer." },
                    "context": { "type": "object", "description": "What else it needs to know." },
                },
                "required": ["agent", "task"],
                "additionalProperties": false,
            }),
        })
    }

    /// Why a call that starts a subagent is refused, if it is.
    pub(super) fn subagent_refusal(&self, args: &Value, key: &str) -> Option<(Code, String)> {
        let Some(subagents) = &self.subagents else {
            let reason = "only the agent of a phase can start another one".to_owned();
            return Some((Code::PolicyDenied, reason));
        };
        if let Err(refusal) = subagents.subtask(args, key) {
            return Some(refusal);
        }
        let budget = JobBudget::of(&subagents.recorder.run());
        let is_used_up = budget.is_used_up() && subagents.recorded(key).is_none();
        is_used_up.then(|| {
            let reason = "the budget of the run is used up, so no agent is started".to_owned();
            (Code::PolicyDenied, reason)
        })
    }

    /// Starts the subagent that a permitted call asks for, unless its answer is on record, and returns the answer as the
    /// result of the call.
    pub(super) fn run_subagent(
        &self,
        mut report: CallReport,
        args: &Value,
        key: &str,
    ) -> Result<CallResult, EngineError> {
        let Some(subagents) = &self.subagents else {
            return Ok(WorkResult::Finished(Err("no agent can be started here".to_owned())));
        };
        // A person may have changed the arguments.
        let args = report.edited_args.clone().unwrap_or_else(|| args.clone());
        let ended = match subagents.recorded(key) {
            Some(ended) => ended,
            None => {
                let subtask = match subagents.subtask(&args, key) {
                    Ok(subtask) => subtask,
                    Err((_, reason)) => return Ok(WorkResult::Finished(Err(reason))),
                };
                match self.finish_subagent(subagents, &subtask)?.finished() {
                    Ok(ended) => ended,
                    Err(unfinished) => return Ok(unfinished),
                }
            }
        };
        let part = |name: &str| ended.get(name).cloned().unwrap_or_default();
        match ended.get("failure") {
            Some(failure) => {
                let text =
                    |name: &str| failure.get(name).and_then(Value::as_str).unwrap_or_default();
                let message = format!("{}: {}", text("class"), text("reason"));
                report.state = State::Failed;
                report.error =
                    Some(EffectError { code: Code::ToolFailed, message, may_have_run: true });
                report.result = Value::Null;
            }
            None => report.result = json!({ "agent": part("agent"), "answer": part("answer") }),
        }
        Ok(WorkResult::Finished(Ok(Box::new(report))))
    }

    /// Runs a subagent to its end; returns what is recorded of it.
    fn finish_subagent(
        &self,
        subagents: &Subagents<'a>,
        subtask: &Subtask,
    ) -> Result<WorkResult<Value>, EngineError> {
        let Subagents { executors, recorder, depth, .. } = subagents;
        let child = ToolCaller {
            gateway: Arc::clone(&self.gateway),
            gateways: self.gateways,
            stop: self.stop,
            assignment: self.assignment,
            guard: self.guard,
            prefix: format!("{}/sub:{}", self.run_id, subtask.label()),
            run_id: self.run_id.clone(),
            requested: AtomicUsize::new(0),
            calls: Mutex::default(),
            limits: self.limits,
            streak: Mutex::default(),
            began: self.began,
            audit: self.audit.clone(),
            subagents: Some(Subagents::new(executors, recorder, depth + 1)),
        };
        let result = executors.run_agent_for(
            &subtask.agent,
            None,
            Some(subtask),
            self.assignment,
            &child,
            recorder,
        );
        subagents.add_usage(child.used_by_subagents());
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.extend(child.calls());
        drop(calls);
        match result?.finished() {
            Ok(Answer { failure: Some(failure), .. }) => Ok(WorkResult::Finished(json!({
                "agent": subtask.agent,
                "failure": { "class": failure.class, "reason": failure.reason },
            }))),
            Ok(Answer { answer, .. }) => {
                Ok(WorkResult::Finished(json!({ "agent": subtask.agent, "answer": answer })))
            }
            Err(unfinished) => Ok(unfinished),
        }
    }
}

/// An answer of a subagent that can be recorded, or its failure.
pub(super) fn checked(result: WorkResult) -> WorkResult {
    match result {
        WorkResult::Finished(Answer { answer, failure: None, usage, .. }) => {
            match check_answer(&answer) {
                Ok(_) => WorkResult::answer(answer).with_usage(usage),
                Err(reason) => WorkResult::failed("validation_error", reason).with_usage(usage),
            }
        }
        WorkResult::Finished(_) | WorkResult::Waiting { .. } | WorkResult::Stopped { .. } => result,
    }
}
