//! From an event of a client to an answer.

use serde_json::{Value, json};
use windlass_hooks::{Answer, EventKind, HookEvent, ToolUse};
use windlass_kernel::run::RunName;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::{Digest, PlanId, RiskLevel, TraceId};
use windlass_runtime::{CallLimits, ClientReport, Gateway};

use crate::core::{Core, is_notice, judge_of};
use crate::error::SessionError;
use crate::note::{SessionNote, Unguarded, notes};
use crate::sessions::{NewSession, Session, SessionName, Sessions};
use crate::tool_use::Mapped;

/// The most characters of a prompt that are recorded.
const PROMPT_CHARS_MAX: usize = 4000;
/// What a client is answered about a call that waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldAnswer {
    /// It is refused, with how to approve it.
    Refuse,
    /// The client asks the person with its own prompt.
    Prompt,
    /// The client pauses and can be resumed.
    Defer,
}

/// What happens when a client used a tool without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnguarded {
    /// It is recorded and told.
    #[default]
    Tell,
    /// The session may use no more tools, too.
    Block,
}

/// What a guard asks of the world around it.
pub trait Surroundings {
    /// The class of a registered tool.
    fn class(&self, server: &str, tool: &str) -> Option<RiskLevel>;

    /// Whether a server of this name in the registry has tools of Windlass itself, so that no MCP server can be meant.
    fn is_own_server(&self, server: &str) -> bool;

    /// A text without the secrets in it.
    fn redacted(&self, text: &str) -> String;

    /// Why a run must stop, if somebody has said so.
    fn stopped(&self, run: &str) -> Option<String>;

    /// Keeps the files of the workspace under a name; returns their tree.
    ///
    /// # Errors
    /// Why they could not be kept.
    fn keep_files(&self, name: &str) -> Result<String, String>;

    /// The uses of tools that the client's own records show and the journal does not.
    ///
    /// # Errors
    /// [`SessionError`] if the journal cannot be read. Records of the client that cannot be read show nothing.
    fn unguarded(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<Vec<Unguarded>, SessionError>;

    /// What is wrong with our hooks in the client's settings; `file` is one that has just changed.
    fn hooks_problem(&self, event: &HookEvent, file: Option<&str>) -> Option<String>;
}

/// Judges and records the events of a session.
pub struct Guard<'a> {
    /// A gateway of calls that a client makes itself.
    pub gateway: &'a Gateway,
    /// The sessions of the project.
    pub sessions: &'a Sessions,
    /// The root of the project.
    pub project: &'a str,
    /// The folder that is worked in.
    pub root: &'a str,
    /// The digest of the policy.
    pub policy_hash: Digest,
    /// The path of our program, if it runs lines of shell in cells.
    pub cell: Option<&'a str>,
    /// When calls are broken off.
    pub limits: CallLimits,
    /// What a client is answered about a call that waits for a person.
    pub on_hold: HoldAnswer,
    /// What happens when a client used a tool without asking.
    pub on_unguarded: OnUnguarded,
    /// The core loop, if the session goes through it.
    pub core: Option<Core<'a>>,
    /// The world around.
    pub surroundings: &'a dyn Surroundings,
}

impl Guard<'_> {
    /// Handles one event. An answer that lets the client go on is given only after everything is on record.
    ///
    /// # Errors
    /// [`SessionError`] if anything could not be judged or recorded: refuse the event.
    pub fn handle(
        &self,
        event: &HookEvent,
        new: impl FnOnce() -> Result<NewSession, SessionError>,
    ) -> Result<Answer, SessionError> {
        let name = SessionName { client: event.client, id: &event.session };
        // A client that sends the end twice has not begun anew.
        if matches!(event.kind, EventKind::SessionEnded { .. }) && self.sessions.has_ended(name)? {
            return Ok(Answer::Proceed);
        }
        let session = self.sessions.enter(name, new)?;
        session.judged_by(self.policy_hash);
        let answer = self.handle_in(event, &session);
        // An event that fails is on record, too.
        let recorded = session.flush();
        answer.and_then(|answer| recorded.map(|()| answer))
    }

    /// Handles an event of a session. What it notes is recorded in one commit, at the latest when it is handled.
    fn handle_in(&self, event: &HookEvent, session: &Session<'_>) -> Result<Answer, SessionError> {
        if let Some(core) = self.core
            && let Some(answer) = self.refuse_blocked(core, event, session)?
        {
            return Ok(answer);
        }
        match &event.kind {
            EventKind::BeforeTool(tool_use) => self.before(event, session, tool_use),
            EventKind::AfterTool { tool_use, result, failure, duration_ms, .. } => {
                let report = ClientReport {
                    client: event.client.as_str().to_owned(),
                    result: result.clone(),
                    failure: failure.clone(),
                    duration_ms: duration_ms.unwrap_or_default(),
                };
                if let (Some(core), Some(_)) = (self.core, judge_of(tool_use)) {
                    let failure = failure.as_deref();
                    return self.judged(core, event, session, tool_use, result, failure);
                }
                let answer = self.after(event, session, tool_use, &report)?;
                if !matches!(self.map(event, tool_use).calls, Mapped::Calls(_)) {
                    self.note_in_core(event, session, || json!({ "tool": tool_use.name }));
                }
                let is_judge = event.subagent.is_some();
                match (answer, self.core) {
                    (Answer::Proceed, Some(core)) if !is_judge => {
                        Ok(told(self.countdown(core, session)?))
                    }
                    (answer, _) => Ok(answer),
                }
            }
            EventKind::Prompted { text, source } => {
                self.prompted(event, session, text, source.as_deref())
            }
            EventKind::SessionEnded { reason } => {
                self.reconcile(event, session)?;
                let reason = reason.as_deref().unwrap_or_default();
                let waits = self.gateway.has_waiting_calls(PlanId(session.run.0))?;
                if waits {
                    // It can be resumed when the person has decided.
                    note(event, session, json!({ "reason": reason, "waits": true }));
                }
                let missing = match self.core {
                    Some(core) => self.ending(core, event, session, waits)?,
                    None => Vec::new(),
                };
                if !waits && missing.is_empty() {
                    session.end(RunOutcome::Pass, reason)?;
                }
                // What was not closed stays open, for the next session to see.
                Ok(Answer::Proceed)
            }
            EventKind::SettingsChanged { source, file } => {
                let problem = self.surroundings.hooks_problem(event, file.as_deref());
                let details = json!({ "file": file, "problem": problem, "settings": source });
                note(event, session, details);
                Ok(problem.map_or(Answer::Proceed, |reason| Answer::Deny { reason }))
            }
            EventKind::SessionStarted { source } => {
                note(event, session, json!({ "source": source }));
                let problem = self.surroundings.hooks_problem(event, None);
                let found = self.reconcile(event, session)?;
                let context = match self.core {
                    Some(core) => Some(self.started(core, event, session)?),
                    None => None,
                };
                Ok(told(problem.into_iter().chain(found).chain(context)))
            }
            EventKind::SubagentStarted => {
                note(event, session, json!({}));
                Ok(Answer::Proceed)
            }
            EventKind::SubagentStopped { .. } | EventKind::Stopped { .. } => {
                note(event, session, json!({}));
                // There is nobody to tell now: the next prompt does.
                if let Some(found) = self.reconcile(event, session)? {
                    session.progress(|progress| progress.tell.push(found))?;
                }
                match (self.core, &event.kind) {
                    (Some(core), EventKind::SubagentStopped { last_message }) => {
                        self.judge_ended(core, event, session, last_message.as_deref())?;
                        Ok(Answer::Proceed)
                    }
                    (Some(core), EventKind::Stopped { .. }) => self.stopping(core, event, session),
                    (_, _) => Ok(Answer::Proceed),
                }
            }
            // The client's own prompt is about to appear; what it asks about was judged before.
            EventKind::PermissionRequested(tool_use) => {
                self.note_in_core(event, session, || json!({ "tool": tool_use.name }));
                Ok(Answer::Proceed)
            }
            EventKind::Other { .. } => {
                self.note_in_core(event, session, || json!({}));
                Ok(Answer::Proceed)
            }
        }
    }

    /// Records an event that nothing else is recorded of. In the core loop none goes unrecorded.
    pub(crate) fn note_in_core(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        details: impl FnOnce() -> Value,
    ) {
        if self.core.is_some() {
            note(event, session, details());
        }
    }

    fn prompted(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        text_given: &str,
        source: Option<&str>,
    ) -> Result<Answer, SessionError> {
        if let Some(reason) = self.stopped(session) {
            self.note_in_core(event, session, || json!({ "stopped": true }));
            return Ok(Answer::Halt { reason });
        }
        let number = session.progress(|progress| {
            progress.prompts = progress.prompts.saturating_add(1);
            progress.streak = windlass_runtime::CallStreak::default();
            progress.prompts
        })?;
        let kept = self.surroundings.keep_files(&kept_name(session.run, number));
        let text = self.surroundings.redacted(text_given).chars().take(PROMPT_CHARS_MAX).collect();
        let not_kept = kept.as_ref().err().cloned();
        let problem = not_kept
            .as_ref()
            .map(|reason| format!("The files could not be kept for a rewind: {reason}"));
        session.note_with_next(SessionNote::Prompt { number, text, tree: kept.ok(), not_kept });
        let hooks = self.surroundings.hooks_problem(event, None);
        let found = self.reconcile(event, session)?;
        let first = match self.core {
            // What no person entered changes no gate.
            Some(_) if is_notice(text_given, source) => None,
            Some(core) => self.take_prompt(core, event, session, number, text_given)?,
            None => None,
        };
        // It is taken last: whoever dies before has told nobody.
        let tell = session.progress(|progress| std::mem::take(&mut progress.tell))?;
        Ok(told(tell.into_iter().chain(problem).chain(hooks).chain(found).chain(first)))
    }

    /// Records what the client did without asking, as far as its own records show it, and says it.
    fn reconcile(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<Option<String>, SessionError> {
        let found = self.surroundings.unguarded(event, session)?;
        let new = session.record(|progress| {
            let is_new = |one: &Unguarded| progress.unguarded.insert(one.clone());
            let new: Vec<Unguarded> = found.into_iter().filter(is_new).collect();
            (new.iter().cloned().map(SessionNote::Unguarded).collect(), new)
        })?;
        Ok((!new.is_empty()).then(|| {
            let tools: Vec<&str> = new.iter().map(|one| one.tool.as_str()).take(5).collect();
            format!(
                "UNGUARDED: the client used {} without asking Windlass; `windlass session check` lists it",
                tools.join(", ")
            )
        }))
    }

    pub(crate) fn stopped(&self, session: &Session<'_>) -> Option<String> {
        self.surroundings.stopped(&RunName::of(session.run).to_string())
    }

    /// Records what a client reports of a use of a tool.
    pub(crate) fn after(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        tool_use: &ToolUse,
        report: &ClientReport,
    ) -> Result<Answer, SessionError> {
        let Mapped::Calls(calls) = self.map(event, tool_use).calls else {
            return Ok(Answer::Proceed);
        };
        let mut unknown = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let request = self.request(event, session.run, tool_use, call, number);
            match self.gateway.handed_over(request.clone())? {
                Some(trace_id) => {
                    self.gateway.settle_report(trace_id, report.clone())?;
                }
                None => unknown.push(request),
            }
        }
        if let Some(trace_id) = self.gateway.handed_over_together(&unknown)? {
            self.gateway.settle_report(trace_id, report.clone())?;
            return Ok(Answer::Proceed);
        }
        let unknown = unknown.len();
        // Calls that a person approved are no longer found once they are reported.
        if unknown == 0 || unknown <= let_through(session, tool_use)? {
            return Ok(Answer::Proceed);
        }
        let unguarded = Unguarded {
            session: event.session.clone(),
            tool: tool_use.name.clone(),
            id: tool_use.id.clone(),
        };
        session.record(|progress| {
            let is_new = progress.unguarded.insert(unguarded.clone());
            (is_new.then_some(SessionNote::Unguarded(unguarded)).into_iter().collect(), ())
        })?;
        let text = format!(
            "UNGUARDED: Windlass has no record of this use of `{}`: the client made it without asking",
            tool_use.name
        );
        Ok(Answer::Tell { text })
    }
}

/// How many approved calls were let through for a use of a tool.
fn let_through(session: &Session<'_>, tool_use: &ToolUse) -> Result<usize, SessionError> {
    let Some(id) = &tool_use.id else { return Ok(0) };
    let is_it =
        |note: &SessionNote| matches!(note, SessionNote::LetThrough { id: own, .. } if own == id);
    let notes = notes(session.store(), session.run)?;
    Ok(notes.iter().filter(|(_, note)| is_it(note)).count())
}

/// Records an event of the client together with what follows from it.
pub(crate) fn note(event: &HookEvent, session: &Session<'_>, details: Value) {
    session.note_with_next(SessionNote::Event {
        event: event.name.clone(),
        subagent: event.subagent.as_ref().map(|one| one.id.clone()),
        details,
    });
}

/// What the client shows, if there is anything to show.
fn told(texts: impl IntoIterator<Item = String>) -> Answer {
    let text = texts.into_iter().collect::<Vec<_>>().join("\n");
    if text.is_empty() { Answer::Proceed } else { Answer::Tell { text } }
}

/// The name under which the files of a prompt are kept.
fn kept_name(run: TraceId, number: u32) -> String {
    format!("{}/prompt-{number}", RunName::of(run))
}
