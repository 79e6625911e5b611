//! Whether a client may use a tool.

use serde_json::json;
use windlass_hooks::{Answer, HookEvent, MappedCall, ToolUse};
use windlass_kernel::{Code, State};
use windlass_runtime::{Asking, CallReport, CallRequest, HandedOver};

use crate::core::{Gate, judge_of};
use crate::error::SessionError;
use crate::guard::{Guard, HoldAnswer, OnUnguarded};
use crate::note::{SessionNote, Unguarded};
use crate::sessions::Session;
use crate::tool_use::{CLIENT_SERVER, Mapped, MappedUse, key, plain_name};

impl Guard<'_> {
    /// Judges the use of a tool. All calls that it stands for must be permitted.
    pub(crate) fn before(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        tool_use: &ToolUse,
    ) -> Result<Answer, SessionError> {
        let run = session.run;
        if let Some(reason) = self.stopped(session) {
            self.note_in_core(event, session, || json!({ "stopped": true, "tool": tool_use.name }));
            return Ok(Answer::Halt { reason });
        }
        if let (Some(core), Some(judge)) = (self.core, judge_of(tool_use)) {
            return self.start_judge(core, event, session, tool_use, judge);
        }
        let mapped = self.map(event, tool_use);
        let calls = match &mapped.calls {
            Mapped::Calls(calls) => calls,
            Mapped::Nothing => {
                self.note_in_core(event, session, || json!({ "tool": tool_use.name }));
                return Ok(Answer::Proceed);
            }
            Mapped::Refused { code, reason } => {
                session.flush()?;
                let call = MappedCall {
                    server: CLIENT_SERVER.to_owned(),
                    tool: plain_name(&tool_use.name),
                    args: tool_use.input.clone(),
                };
                let request = self.request(event, run, tool_use, &call, 0);
                let report = self.gateway.refuse_unless_granted(request, *code, reason.clone())?;
                return self.refused(event, session, &report);
            }
        };
        let requests: Vec<CallRequest> = calls
            .iter()
            .enumerate()
            .map(|(number, call)| self.request(event, run, tool_use, call, number))
            .collect();
        let parts = requests.len();
        let reading = match self.core {
            None => false,
            Some(core) => match self.gate(core, event, session, &mapped, &requests)? {
                Gate::Open { reading } => reading,
                Gate::Closed(reason) => {
                    session.flush()?;
                    let Some(first) = requests.first() else { return Ok(Answer::Deny { reason }) };
                    self.gateway.refuse(first.clone(), Code::PolicyDenied, reason.clone())?;
                    return Ok(Answer::Deny { reason });
                }
                Gate::Person(reason) => {
                    session.flush()?;
                    let (client, asking) = (event.client.as_str(), self.asking(event));
                    let asks = Some(reason.as_str());
                    return match self.gateway.hand_over_all(requests, client, asking, asks)? {
                        HandedOver::Refused(report) => self.refused(event, session, &report),
                        HandedOver::All(given) => {
                            self.note_let_through(event, session, tool_use, parts, &given);
                            Ok(self.let_through(event, session, &mapped, tool_use, &given, false))
                        }
                    };
                }
            },
        };
        let was_denied = match self.broken_off(event, session, &requests)? {
            Counted::BrokenOff(report) => return self.refused(event, session, &report),
            Counted::GoesOn { was_denied } => was_denied,
        };
        let (client, asking) = (event.client.as_str(), self.asking(event));
        let given = match self.gateway.hand_over_all(requests, client, asking, None)? {
            HandedOver::All(given) => given,
            HandedOver::Refused(report) => return self.refused(event, session, &report),
        };
        if was_denied {
            session.progress(|progress| progress.streak.ended(State::Executing))?;
        }
        self.note_let_through(event, session, tool_use, parts, &given);
        if let Some(core) = self.core {
            self.note_skill(core, session, &mapped)?;
        }
        Ok(self.let_through(event, session, &mapped, tool_use, &given, reading))
    }

    /// The answer to a use of a tool whose calls were all handed over.
    fn let_through(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        mapped: &MappedUse,
        tool_use: &ToolUse,
        given: &[CallReport],
        reading: bool,
    ) -> Answer {
        let line = mapped.line.as_deref();
        let input = line.and_then(|line| self.in_cell(event, session.run, tool_use, line, reading));
        match given.iter().find_map(|report| report.asks_person.clone()) {
            Some(reason) => Answer::Ask { reason, input },
            None => Answer::Allow { input, skip_prompt: false },
        }
    }

    /// Counts a use of a tool; refuses calls that lead nowhere, and records that.
    fn broken_off(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        requests: &[CallRequest],
    ) -> Result<Counted, SessionError> {
        let (broken, was_denied) = session.record_all(|progress| {
            let was_denied = progress.streak.was_denied();
            // What other sessions did is told, and is not for this one to pay.
            let is_own = |one: &Unguarded| one.session == event.session;
            if self.on_unguarded == OnUnguarded::Block && progress.unguarded.iter().any(is_own) {
                let reason = "the client used tools without asking, so this session may use no more: see `windlass \
                              session check`, then begin a new one";
                let broken = Some((Code::PolicyDenied, reason.to_owned()));
                return (Vec::new(), (broken, was_denied));
            }
            let broken =
                requests.first().and_then(|first| progress.streak.request(self.limits, first));
            (Vec::new(), (broken, was_denied))
        })?;
        Ok(match (broken, requests.first()) {
            (Some((code, reason)), Some(first)) => {
                Counted::BrokenOff(Box::new(self.gateway.refuse(first.clone(), code, reason)?))
            }
            (_, _) => Counted::GoesOn { was_denied },
        })
    }

    /// Records for which use of a tool an approved call was let through: its key is not the client's.
    fn note_let_through(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        tool_use: &ToolUse,
        parts: usize,
        given: &[CallReport],
    ) {
        let Some(id) = &tool_use.id else { return };
        let client = event.client.as_str();
        let own: Vec<String> =
            (0..parts).map(|number| key(client, &event.session, id, number)).collect();
        let others = given
            .iter()
            .filter(|one| one.idempotency_key.as_ref().is_none_or(|key| !own.contains(key)));
        // One for each part, also of a call that stands for several.
        let of_one = parts.saturating_sub(given.len()).saturating_add(1);
        for report in others {
            let count = if report.stands_for_several() { of_one } else { 1 };
            for _ in 0..count {
                let (call, id) = (report.trace_id, id.clone());
                session.note_with_next(SessionNote::LetThrough { call, id });
            }
        }
    }

    pub(crate) const fn asking<'a>(&self, event: &'a HookEvent) -> Asking<'a> {
        match self.on_hold {
            HoldAnswer::Prompt => Asking::Prompt { client: event.client.as_str() },
            HoldAnswer::Refuse | HoldAnswer::Defer => Asking::Hold,
        }
    }

    /// The answer to a use of a tool that may not happen, or not yet.
    fn refused(
        &self,
        event: &HookEvent,
        session: &Session<'_>,
        report: &CallReport,
    ) -> Result<Answer, SessionError> {
        // A person may have granted everything.
        if report.state == State::Executing {
            return Ok(Answer::Allow { input: None, skip_prompt: false });
        }
        session.progress(|progress| progress.streak.ended(report.state))?;
        let reason = refusal(report);
        let waits = report.hold.is_some();
        Ok(match self.on_hold {
            HoldAnswer::Defer if waits && event.subagent.is_none() => Answer::Defer { reason },
            HoldAnswer::Defer | HoldAnswer::Refuse | HoldAnswer::Prompt => Answer::Deny { reason },
        })
    }
}

/// What counting a use of a tool has shown.
enum Counted {
    /// It leads nowhere and was refused.
    BrokenOff(Box<CallReport>),
    /// It goes on.
    GoesOn {
        /// Whether the call before was denied.
        was_denied: bool,
    },
}

/// Why a call may not be made, or not yet.
fn refusal(report: &CallReport) -> String {
    let id = report.trace_id;
    if let Some(hold) = &report.hold {
        return format!(
            "a person must decide on this: {}. It can be approved with `windlass call approve {id} --reason TEXT`; \
             then the same call is let through once",
            hold.reason.trim_end_matches('.')
        );
    }
    report.refusal.as_ref().map_or_else(
        || format!("call {id} may not be made"),
        |refused| format!("{} [{}]", refused.reason, refused.code),
    )
}
