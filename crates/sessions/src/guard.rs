//! From an event of a client to an answer.

use serde_json::{Value, json};
use windlass_hooks::{Answer, EventKind, HookEvent, MappedCall, Mapping, ToolTable, ToolUse};
use windlass_kernel::{Code, Digest, KEY_CHARS_MAX, PlanId, RiskLevel, State, TraceId};
use windlass_runtime::{CallReport, CallRequest, ClientReport, Gateway};

use crate::error::SessionError;
use crate::sessions::{NewSession, SessionName, Sessions};

/// The server under which tools are recorded that only a client has.
const CLIENT_SERVER: &str = "client";
/// The most characters of a prompt that are recorded.
const PROMPT_CHARS_MAX: usize = 4000;

/// Judges and records the events of a session.
pub struct Guard<'a> {
    /// A gateway of calls that a client makes itself.
    pub gateway: &'a Gateway,
    /// The sessions of the project.
    pub sessions: &'a Sessions,
    /// The project's root.
    pub root: &'a str,
    /// The class of a registered tool.
    pub class: &'a dyn Fn(&str, &str) -> Option<RiskLevel>,
    /// A text without the secrets in it.
    pub redact: &'a dyn Fn(&str) -> String,
}

impl Guard<'_> {
    /// Handles one event. An answer that lets the client go on is given only after everything is on record.
    ///
    /// # Errors
    /// [`SessionError`] if anything could not be judged or recorded: refuse the event.
    pub fn handle(
        &self,
        event: &HookEvent,
        new: impl FnOnce() -> NewSession,
    ) -> Result<Answer, SessionError> {
        let name = SessionName { client: event.client, id: &event.session };
        let run = self.sessions.enter(name, new)?;
        match &event.kind {
            EventKind::BeforeTool(tool_use) => self.before(event, run, tool_use),
            EventKind::AfterTool { tool_use, result, failure, duration_ms, .. } => {
                let report = ClientReport {
                    client: event.client.as_str().to_owned(),
                    result: result.clone(),
                    failure: failure.clone(),
                    duration_ms: duration_ms.unwrap_or_default(),
                };
                self.after(event, run, tool_use, &report)
            }
            EventKind::Prompted { text } => {
                let text: String = (self.redact)(text).chars().take(PROMPT_CHARS_MAX).collect();
                self.note(event, run, &json!({ "prompt": text }))
            }
            EventKind::SessionEnded { reason } => {
                self.sessions.end(run, reason.as_deref().unwrap_or_default())?;
                Ok(Answer::Proceed)
            }
            EventKind::SettingsChanged { source, file } => {
                self.note(event, run, &json!({ "settings": source, "file": file }))
            }
            EventKind::SessionStarted { source } => {
                self.note(event, run, &json!({ "source": source }))
            }
            EventKind::SubagentStarted | EventKind::SubagentStopped | EventKind::Stopped { .. } => {
                self.note(event, run, &json!({}))
            }
            // The client's own prompt is about to appear; what it asks about was judged before.
            EventKind::PermissionRequested(_) | EventKind::Other { .. } => Ok(Answer::Proceed),
        }
    }

    fn note(&self, event: &HookEvent, run: TraceId, more: &Value) -> Result<Answer, SessionError> {
        let subagent = event.subagent.as_ref().map(|one| json!({ "id": one.id, "kind": one.kind }));
        let body = json!({ "event": event.name, "subagent": subagent, "details": more });
        self.sessions.note(run, body)?;
        Ok(Answer::Proceed)
    }

    /// Judges the use of a tool. All calls that it stands for must be permitted.
    fn before(
        &self,
        event: &HookEvent,
        run: TraceId,
        tool_use: &ToolUse,
    ) -> Result<Answer, SessionError> {
        let calls = match self.map(event, tool_use) {
            Mapped::Calls(calls) => calls,
            Mapped::Nothing => return Ok(Answer::Proceed),
            Mapped::Refused { code, reason } => {
                let call = MappedCall {
                    server: CLIENT_SERVER.to_owned(),
                    tool: plain_name(&tool_use.name),
                    args: tool_use.input.clone(),
                };
                let request = self.request(event, run, tool_use, &call, 0);
                let report = self.gateway.refuse(request, code, reason)?;
                return Ok(refusal(&report));
            }
        };
        let mut given: Vec<TraceId> = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let report =
                self.gateway.hand_over(self.request(event, run, tool_use, call, number))?;
            if report.state != State::Executing {
                for trace_id in given {
                    let report = ClientReport {
                        client: event.client.as_str().to_owned(),
                        result: Value::Null,
                        failure: Some("not made: another part of it was refused".to_owned()),
                        duration_ms: 0,
                    };
                    self.gateway.settle_report(trace_id, report)?;
                }
                return Ok(refusal(&report));
            }
            given.push(report.trace_id);
        }
        Ok(Answer::Allow { input: None, skip_prompt: false })
    }

    /// Records what a client reports of a use of a tool.
    fn after(
        &self,
        event: &HookEvent,
        run: TraceId,
        tool_use: &ToolUse,
        report: &ClientReport,
    ) -> Result<Answer, SessionError> {
        let Mapped::Calls(calls) = self.map(event, tool_use) else { return Ok(Answer::Proceed) };
        let mut unknown = false;
        for (number, call) in calls.iter().enumerate() {
            let request = self.request(event, run, tool_use, call, number);
            match self.gateway.handed_over(request)? {
                Some(trace_id) => {
                    self.gateway.settle_report(trace_id, report.clone())?;
                }
                None => unknown = true,
            }
        }
        if unknown {
            let body = json!({ "unguarded": { "tool": tool_use.name, "id": tool_use.id } });
            self.sessions.note(run, body)?;
            let text = format!(
                "Windlass has no record of this use of `{}`: the client made it without asking",
                tool_use.name
            );
            return Ok(Answer::Tell { text });
        }
        Ok(Answer::Proceed)
    }

    fn map(&self, event: &HookEvent, tool_use: &ToolUse) -> Mapped {
        let table = ToolTable::shipped();
        match table.map_within(event.client, tool_use, self.root, &event.cwd) {
            Mapping::Calls(calls) => Mapped::Calls(calls),
            Mapping::Mcp { server, tool, args } => Mapped::Calls(vec![MappedCall {
                server: plain_name(&server),
                tool: plain_name(&tool),
                args,
            }]),
            Mapping::Internal => Mapped::Nothing,
            Mapping::Unknown => Mapped::Refused {
                code: Code::ToolUnclassifiedDenied,
                reason: format!("`{}` is not a known tool of the client", tool_use.name),
            },
            Mapping::Invalid { reason } => Mapped::Refused { code: Code::RequestInvalid, reason },
        }
    }

    fn request(
        &self,
        event: &HookEvent,
        run: TraceId,
        tool_use: &ToolUse,
        call: &MappedCall,
        number: usize,
    ) -> CallRequest {
        let client = event.client.as_str();
        let class = (self.class)(&call.server, &call.tool).unwrap_or(RiskLevel::Read);
        let key = tool_use.id.as_ref().map(|id| key(client, &event.session, id, number));
        CallRequest {
            server: call.server.clone(),
            tool: call.tool.clone(),
            args: call.args.clone(),
            intent: format!("`{}` in a session of {client}", plain_name(&tool_use.name)),
            resources: Vec::new(),
            declared_class: class,
            key,
            plan_id: Some(PlanId(run.0)),
            agent: Some(event.subagent.as_ref().map_or_else(
                || client.to_owned(),
                |one| format!("{client}/{}", plain_name(one.kind.as_deref().unwrap_or("agent"))),
            )),
            phase: None,
            run: Some(run),
        }
    }
}

/// What a use of a tool stands for.
enum Mapped {
    Calls(Vec<MappedCall>),
    /// Nothing outside the client.
    Nothing,
    Refused {
        code: Code,
        reason: String,
    },
}

/// The key of one call of a use of a tool: the client's own id of it.
fn key(client: &str, session: &str, id: &str, number: usize) -> String {
    let key = format!("{client}/{session}/{id}/{number}");
    if key.chars().count() <= KEY_CHARS_MAX { key } else { Digest::of(key.as_bytes()).to_string() }
}

/// A name of a client as one of ours: letters, digits, `_` and `-`, at most 64.
fn plain_name(name: &str) -> String {
    let plain = name.chars().map(|one| match one.to_ascii_lowercase() {
        one @ ('a'..='z' | '0'..='9' | '_' | '-') => one,
        _ => '-',
    });
    let plain: String = plain.take(64).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// The answer to a call that may not be made, or not yet.
fn refusal(report: &CallReport) -> Answer {
    let id = report.trace_id;
    if let Some(hold) = &report.hold {
        let reason = format!(
            "a person must decide on this: {}. It can be approved with `windlass call approve {id} --reason TEXT`; \
             then the same call is let through once",
            hold.reason.trim_end_matches('.')
        );
        return Answer::Deny { reason };
    }
    let reason = report.refusal.as_ref().map_or_else(
        || format!("call {id} may not be made"),
        |refused| format!("{} [{}]", refused.reason, refused.code),
    );
    Answer::Deny { reason }
}
