//! The events of a session in the core loop.

use serde_json::json;
use windlass_hooks::{Answer, EventKind, HookEvent};
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, RiskLevel};
use windlass_runtime::{CallRequest, ClientReport};

use super::answered::skill_of;
use super::cached::CoreProgress;
use super::gate::Missing;
use super::judge::Judge;
use super::note::CoreNote;
use super::prompt::is_skipped;
use super::settings::CoreSettings;
use super::surroundings::{CoreSurroundings, SessionFacts};
use crate::error::SessionError;
use crate::guard::{Guard, note};
use crate::sessions::{Session, SessionHold};
use crate::tool_use::{Mapped, MappedUse};

/// The most characters of a prompt that are recorded.
const PROMPT_CHARS_MAX: usize = 32_000;
/// The most files that were changed before a session.
const DIRTY_MAX: usize = 2000;
/// So many uses before an audit the agent is told of it.
const COUNTDOWN: u32 = 2;

/// What keeps a session open that has a call which a person must decide on.
pub const WAITING_CALL: &str = "a call waits for a person's decision";

/// The core loop of a session.
#[derive(Clone, Copy)]
pub struct Core<'a> {
    /// How strict it is.
    pub settings: &'a CoreSettings,
    /// The world around.
    pub surroundings: &'a dyn CoreSurroundings,
}

/// What the core loop says to a use of a tool.
pub(crate) enum Gate {
    /// It may be used, as far as the loop is concerned.
    Open {
        /// Whether a line of shell may only read.
        reading: bool,
    },
    /// It may not.
    Closed(String),
    /// A person decides: it was refused often enough.
    Person(String),
}

impl Core<'_> {
    /// What is said while a session is blocked.
    pub(super) fn blocked(progress: &CoreProgress) -> Option<String> {
        let block = progress.state.blocked.as_ref()?;
        Some(format!(
            "BLOCKED: {} Reason: {}. Correction: {}. Stop, and tell the user what was done and what is wrong; only the user \
             can clear this, with `windlass session clear-block`",
            block.issue, block.reason, block.correction
        ))
    }
}

impl Guard<'_> {
    /// Refuses an event of a blocked session. Ends are never refused: there a refusal means "go on".
    pub(crate) fn refuse_blocked(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<Option<Answer>, SessionError> {
        match event.kind {
            EventKind::Stopped { .. }
            | EventKind::SubagentStopped { .. }
            | EventKind::SessionEnded { .. } => return Ok(None),
            EventKind::SessionStarted { .. }
            | EventKind::Prompted { .. }
            | EventKind::BeforeTool(_)
            | EventKind::AfterTool { .. }
            | EventKind::PermissionRequested(_)
            | EventKind::SubagentStarted
            | EventKind::SettingsChanged { .. }
            | EventKind::Other { .. } => {}
        }
        let Some(reason) =
            session.core(core.settings, |progress| Ok((Vec::new(), Core::blocked(progress))))?
        else {
            return Ok(None);
        };
        let mut details = json!({ "blocked": true });
        match &event.kind {
            // The refusal of a call is on record like any other.
            EventKind::BeforeTool(tool_use) => {
                if let Mapped::Calls(calls) = self.map(event, tool_use).calls
                    && let Some(call) = calls.first()
                {
                    let request = self.request(event, session.run, tool_use, call, 0);
                    self.gateway.refuse(request, Code::PolicyDenied, reason.clone())?;
                    return Ok(Some(Answer::Deny { reason }));
                }
                details = json!({ "blocked": true, "tool": tool_use.name });
            }
            // What was done is on record all the same.
            EventKind::AfterTool { tool_use, result, failure, duration_ms, .. } => {
                let report = ClientReport {
                    client: event.client.as_str().to_owned(),
                    result: result.clone(),
                    failure: failure.clone(),
                    duration_ms: duration_ms.unwrap_or_default(),
                };
                self.after(event, session, tool_use, &report)?;
                details = json!({ "blocked": true, "tool": tool_use.name });
            }
            EventKind::SessionStarted { .. }
            | EventKind::Prompted { .. }
            | EventKind::PermissionRequested(_)
            | EventKind::SubagentStarted
            | EventKind::SubagentStopped { .. }
            | EventKind::Stopped { .. }
            | EventKind::SessionEnded { .. }
            | EventKind::SettingsChanged { .. }
            | EventKind::Other { .. } => {}
        }
        note(event, session, details);
        Ok(Some(Answer::Deny { reason }))
    }

    /// What the core loop says to a use of a tool.
    pub(crate) fn gate(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        mapped: &MappedUse,
        requests: &[CallRequest],
    ) -> Result<Gate, SessionError> {
        let by_judge = event.subagent.as_ref().and_then(|one| Judge::named(one.kind.as_deref()?));
        let writes = match &mapped.line {
            Some(line) => !core.surroundings.only_reads(line),
            None => requests.iter().any(|request| request.declared_class != RiskLevel::Read),
        };
        if let Some(judge) = by_judge {
            // What agents may tell Windlass is for those who work.
            let tells = mapped.line.as_deref().is_some_and(|line| {
                windlass_hooks::is_own_line(line) && !windlass_hooks::is_own_question(line)
            });
            let writes = writes || tells;
            let reason = format!("{} judges and changes nothing", judge.as_str());
            return Ok(if writes { Gate::Closed(reason) } else { Gate::Open { reading: true } });
        }
        session.core(core.settings, |progress| {
            if let Some(reason) = Core::blocked(progress) {
                return Ok((Vec::new(), Gate::Closed(reason)));
            }
            let missing = progress.refuses_writing();
            let gate = match (&missing, writes) {
                (None, _) => Gate::Open { reading: false },
                (Some(_), false) => Gate::Open { reading: true },
                (Some(Missing { gate, text, .. }), true) => {
                    let times = progress.count_refusal(gate);
                    if times > core.settings.refusals_max {
                        Gate::Person(format!("the core loop refused this {times} times: {text}"))
                    } else {
                        Gate::Closed(text.clone())
                    }
                }
            };
            if let Gate::Open { reading } = gate {
                progress.counters.uses = progress.counters.uses.saturating_add(1);
                progress.count_use(core.settings, session.run);
                if writes && !reading {
                    progress.count_write();
                    progress.counters.refusals = Default::default();
                }
            }
            Ok((Vec::new(), gate))
        })
    }

    /// Records the skill or command that the client was given. It is recorded after its call: one that dies in between
    /// has opened no gate.
    pub(crate) fn note_skill(
        &self,
        core: Core<'_>,
        session: &Session<'_>,
        mapped: &MappedUse,
    ) -> Result<(), SessionError> {
        match skill_of(mapped) {
            Some(name) => {
                session.core(core.settings, |_| Ok((vec![CoreNote::SkillUsed { name }], ())))
            }
            None => Ok(()),
        }
    }

    pub(super) fn now(
        &self,
        core: Core<'_>,
        session: &Session<'_>,
    ) -> Result<CoreProgress, SessionError> {
        session.core(core.settings, |progress| Ok((Vec::new(), progress.clone())))
    }

    /// Says how many uses are left before an audit.
    pub(crate) fn countdown(
        &self,
        core: Core<'_>,
        session: &Session<'_>,
    ) -> Result<Option<String>, SessionError> {
        let now = self.now(core, session)?;
        let every = core.settings.audit_every;
        if now.counters.audit_due {
            return Ok(now.refuses_writing().map(|missing| missing.text));
        }
        let left = every.saturating_sub(now.counters.uses_since_audit);
        Ok((every > 0 && left <= COUNTDOWN).then(|| {
            format!("An audit by the agent custodiet is due after {left} more uses of tools.")
        }))
    }

    /// Gives a session what it starts with.
    pub(crate) fn started(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<String, SessionError> {
        let facts = SessionFacts { event, run: session.run };
        self.deliver_all(core, facts, session)?;
        let now = self.now(core, session)?;
        let text = core
            .surroundings
            .start(facts, &now)
            .map_err(|reason| SessionError::New { code: Code::FileUnreadable, reason })?;
        core.surroundings.project(facts, &now, false);
        Ok(text)
    }

    /// Takes a prompt into the loop; returns what the agent must do first.
    pub(crate) fn take_prompt(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        number: u32,
        text: &str,
    ) -> Result<Option<String>, SessionError> {
        let facts = SessionFacts { event, run: session.run };
        self.deliver_all(core, facts, session)?;
        let whole = self.surroundings.redacted(text);
        let mut shown: String = whole.chars().take(PROMPT_CHARS_MAX).collect();
        if shown.len() < whole.len() {
            let left = whole.chars().count().saturating_sub(PROMPT_CHARS_MAX);
            shown.push_str(&format!("\n[{left} more characters are left out]"));
        }
        let skipped = is_skipped(text).map(str::to_owned);
        let skipped =
            skipped.or_else(|| event.subagent.is_some().then(|| "it is a subagent's".to_owned()));
        let now = self.now(core, session)?;
        let context = match &skipped {
            Some(_) => None,
            None => {
                let written = core.surroundings.write_context(facts, &shown, number, &now.state);
                Some(written.map_err(|reason| SessionError::New {
                    code: Code::FileUnwritable,
                    reason: format!("what the hydrator needs could not be written: {reason}"),
                })?)
            }
        };
        let file = context.as_ref().map(|one| one.file.clone());
        let mut notes = Vec::new();
        if now.state.began.is_none() {
            let (head, mut dirty) = core.surroundings.repository();
            dirty.truncate(DIRTY_MAX);
            notes.push(CoreNote::Began { head, dirty });
        }
        notes.push(CoreNote::PromptTaken {
            number,
            text: shown,
            context: file.clone(),
            skipped: skipped.clone(),
        });
        session.core(core.settings, |_| Ok((notes, ())))?;
        if let Some(before) = &now.state.context {
            core.surroundings.forget_context(before);
        }
        let now = self.now(core, session)?;
        core.surroundings.project(facts, &now, false);
        let told = context.and_then(|one| one.told);
        Ok(file.map(|file| {
            let first = format!(
                "Before anything else, use the Agent tool with subagent_type \"prompt-hydrator\": it turns this prompt into \
                 a plan from the context in {file} (Windlass gives it to it). Then let \"critic\" review the plan the same \
                 way. Until both have answered you may read but not write. Say how far you are with `windlass session step \
                 STEP in_progress` and `windlass session step STEP completed`."
            );
            told.map_or(first.clone(), |told| format!("{first}\n{told}"))
        }))
    }

    /// Writes to the tracker what waits to be written, of this session and of others.
    fn deliver_all(
        &self,
        core: Core<'_>,
        facts: SessionFacts<'_>,
        session: &Session<'_>,
    ) -> Result<(), SessionError> {
        session.deliver(core, facts)?;
        // A tracker that did not take ours does not take theirs.
        if self.now(core, session)?.state.undelivered.is_empty() {
            core.surroundings.deliver_others(facts);
        }
        Ok(())
    }

    /// Records if the files are others than those that were verified: then they must be verified again.
    fn note_changed_work(&self, core: Core<'_>, session: &Session<'_>) -> Result<(), SessionError> {
        let now = self.now(core, session)?;
        let Some((verified, _)) = &now.state.verified_tree else { return Ok(()) };
        if !now.counters.unclosed || now.counters.wrote {
            return Ok(());
        }
        match core.surroundings.tree() {
            Some(tree) if tree != *verified => {
                session.core(core.settings, |_| Ok((vec![CoreNote::WorkChanged { tree }], ())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the agent may stop; closes the work if it may.
    pub(crate) fn stopping(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<Answer, SessionError> {
        let facts = SessionFacts { event, run: session.run };
        self.note_changed_work(core, session)?;
        let now = self.now(core, session)?;
        // The client goes on by itself when a judge in the background has answered.
        if now.state.awaits(None) {
            return Ok(Answer::Proceed);
        }
        if let Some(missing) = now.refuses_stopping()
            && now.state.stops_refused < core.settings.stops_max
        {
            let note = CoreNote::StopRefused { missing: missing.gate.to_owned() };
            session.core(core.settings, |_| Ok((vec![note], ())))?;
            return Ok(Answer::Deny { reason: missing.text });
        }
        let may_close = core.settings.close
            && now.state.blocked.is_none()
            && now.counters.unclosed
            && now.refuses_stopping().is_none();
        // What follows acts outside of the journal.
        session.flush()?;
        let mut told = Vec::new();
        if may_close {
            told.extend(self.close(core, facts, session, &now)?);
        }
        let now = self.now(core, session)?;
        let mut written = Vec::new();
        match core.surroundings.write_insights(facts, &now, "end_turn") {
            Ok(path) => written.push(CoreNote::InsightsWritten { path }),
            Err(reason) => told.push(format!("The insights could not be written: {reason}")),
        }
        match core.surroundings.write_transcript(facts) {
            Ok(path) => written.extend(path.map(|path| CoreNote::TranscriptWritten { path })),
            Err(reason) => told.push(format!("The transcript could not be written: {reason}")),
        }
        session.core(core.settings, |_| Ok((written, ())))?;
        core.surroundings.project(facts, &self.now(core, session)?, false);
        let text = told.join("\n");
        Ok(if text.is_empty() { Answer::Proceed } else { Answer::Tell { text } })
    }

    /// Closes the work; returns what the agent is told if it is not closed.
    fn close(
        &self,
        core: Core<'_>,
        facts: SessionFacts<'_>,
        session: &Session<'_>,
        now: &CoreProgress,
    ) -> Result<Option<String>, SessionError> {
        let waits = |question: &str| {
            let run = RunName::of(session.run);
            format!("The session is not closed: {question}. `windlass queue show {run}` shows it.")
        };
        if now.state.close_failure.is_some()
            && let SessionHold::Waits { question } =
                session.leave_hold(facts.event.client.as_str())?
        {
            return Ok(Some(waits(&question)));
        }
        // The close synchronises the tracker, so that what is known by now must be in it.
        session.deliver(core, facts)?;
        let report = core.surroundings.close(facts, &now.state);
        session.record_close(core.settings, &report)?;
        if report.succeeded() {
            session.deliver(core, facts)?;
        }
        let failed = report.steps.iter().find(|step| !step.ok);
        Ok(failed.map(|failed| match report.conflict.is_empty() {
            true => format!(
                "The session is not closed: {} failed: {}. `windlass session close` tries again.",
                failed.step, failed.detail
            ),
            false => waits(&failed.detail),
        }))
    }

    /// What is missing when the client ends the session; recorded if anything is.
    pub(crate) fn ending(
        &self,
        core: Core<'_>,
        event: &HookEvent,
        session: &Session<'_>,
        waits: bool,
    ) -> Result<Vec<String>, SessionError> {
        let facts = SessionFacts { event, run: session.run };
        let mut missing = self.now(core, session)?.open_ends();
        missing.extend(waits.then(|| WAITING_CALL.to_owned()));
        if !missing.is_empty() {
            let note = CoreNote::Unclosed { missing: missing.clone() };
            session.core(core.settings, |_| Ok((vec![note], ())))?;
        }
        let now = self.now(core, session)?;
        if let Some(file) = &now.state.context {
            core.surroundings.forget_context(file);
        }
        core.surroundings.project(facts, &now, missing.is_empty());
        Ok(missing)
    }
}
