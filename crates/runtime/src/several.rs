//! The calls that one use of a client's tool stands for: it is let through whole or not at all, and a person decides once about
//! all parts of it that are asked about.

use serde_json::{Value, json};
use windlass_connect::Limits;
use windlass_kernel::artifact::{ActionRequest, Proposal};
use windlass_kernel::{Code, RiskLevel, State};
use windlass_policy::Verdict;

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::hand_over::{Asking, ClientReport, digest_of, own_key, unprepared};
use crate::report::CallReport;
use crate::request::{self, CallRequest};
use crate::supervisor::{Examination, Preparation, Refusal, Ruling};

/// The server and the tool of a call that stands for several. No client can ask for it: the server is our own.
const SERVER: &str = "client";
const TOOL: &str = "several";
/// Both, as reports name them.
pub(crate) const NAME: &str = "client/several";
const PARTS: &str = "parts";

/// What became of a client's use of a tool.
#[derive(Debug)]
pub enum HandedOver {
    /// The client may make all of its calls. What a person decided on as one is one call.
    All(Vec<CallReport>),
    /// It may make none: this call of it was refused or waits.
    Refused(Box<CallReport>),
}

/// How a part of a use stands before any is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Free,
    Waits,
    Refused,
}

impl Gateway {
    /// Judges all calls of one use of a client's tool, and hands them over if all of them may be made. If several wait for a
    /// person, they wait as one call. With a reason in `asks` a person is asked about each that the policy permits, too.
    ///
    /// # Errors
    /// As [`Gateway::hand_over`]: the client may make none of them.
    pub fn hand_over_all(
        &self,
        requests: Vec<CallRequest>,
        client: &str,
        asking: Asking<'_>,
        asks: Option<&str>,
    ) -> Result<HandedOver, GatewayError> {
        let standings = requests
            .iter()
            .map(|request| self.standing(request, asking, asks.is_some()))
            .collect::<Result<Vec<_>, _>>()?;
        let of = |wanted: Standing| {
            let all = requests.iter().zip(&standings);
            all.filter(move |(_, standing)| **standing == wanted)
                .map(|(request, _)| request.clone())
        };
        // What may not be made is recorded first, and alone.
        let mut parts: Vec<CallRequest> = of(Standing::Refused).collect();
        let waiting: Vec<CallRequest> = of(Standing::Waits).collect();
        let mut given = Vec::new();
        match together(&waiting) {
            Some(several) if parts.is_empty() => {
                match self.hand_over_several(several, asking, asks)? {
                    report if report.state == State::Executing => given.push(report),
                    report => return Ok(HandedOver::Refused(Box::new(report))),
                }
            }
            Some(_) | None => parts.extend(waiting),
        }
        parts.extend(of(Standing::Free));
        for request in parts {
            let report = self.hand_over_as(request, asking, asks.map(str::to_owned))?;
            if report.state != State::Executing {
                for one in given {
                    let failure = "not made: another part of it was refused".to_owned();
                    let (client, failure) = (client.to_owned(), Some(failure));
                    let report =
                        ClientReport { client, result: Value::Null, failure, duration_ms: 0 };
                    self.settle_report(one.trace_id, report)?;
                }
                return Ok(HandedOver::Refused(Box::new(report)));
            }
            given.push(report);
        }
        Ok(HandedOver::All(given))
    }

    /// The call that stands for several of one use, if the client has been given it and not reported it.
    ///
    /// # Errors
    /// As [`Gateway::handed_over`].
    pub fn handed_over_together(
        &self,
        requests: &[CallRequest],
    ) -> Result<Option<windlass_kernel::TraceId>, GatewayError> {
        together(requests).map_or(Ok(None), |several| self.handed_over(several))
    }

    fn standing(
        &self,
        request: &CallRequest,
        asking: Asking<'_>,
        asks: bool,
    ) -> Result<Standing, GatewayError> {
        let mut request = request.clone().compose(&*self.clock, &self.workspace)?;
        request.idempotency_key.get_or_insert_with(|| own_key(request.trace_id));
        let judged = self.supervisor.judge(&request).verdict;
        let verdict = if asks && judged == Verdict::Allow { Verdict::Ask } else { judged };
        if self.is_everything_granted(request.plan_id)? {
            return Ok(Standing::Free);
        }
        let prepared = self.supervisor.prepare(&request);
        let Some(preparation) = prepared.ok().filter(|_| verdict != Verdict::Deny) else {
            return Ok(Standing::Refused);
        };
        let is_prompted =
            matches!(asking, Asking::Prompt { .. }) && preparation.class != RiskLevel::HighRisk;
        if verdict == Verdict::Allow || is_prompted || self.is_granted(&request)? {
            return Ok(Standing::Free);
        }
        request::redact(&mut request, |value| self.supervisor.redact(value));
        let digest = digest_of(&request.proposal, request.trace_id)?;
        let approved = self.open_calls_of(request.plan_id, State::Authorized, digest)?;
        Ok(if approved.is_empty() { Standing::Waits } else { Standing::Free })
    }

    /// Asks a person about several calls as one, or hands them over if they were approved.
    fn hand_over_several(
        &self,
        several: CallRequest,
        asking: Asking<'_>,
        asks: Option<&str>,
    ) -> Result<CallReport, GatewayError> {
        let mut request = several.compose(&*self.clock, &self.workspace)?;
        let mut ruling = self.judge(&request);
        if let (Verdict::Allow, Some(reason)) = (ruling.verdict, asks) {
            (ruling.verdict, ruling.reason) = (Verdict::Ask, reason.to_owned());
        }
        request.idempotency_key = Some(own_key(request.trace_id));
        request::redact(&mut request, |value| self.supervisor.redact(value));
        match ruling.verdict {
            Verdict::Deny => self.deny(request, ruling),
            Verdict::Ask | Verdict::Allow => {
                self.ask_for_client(request, ruling, &unprepared(), asking)
            }
        }
    }

    /// Judges a recorded request; one that stands for several as the strictest of them.
    pub(crate) fn judge(&self, request: &ActionRequest) -> Ruling {
        let Some(parts) = self.parts_of(request) else { return self.supervisor.judge(request) };
        let rulings: Vec<Ruling> = parts.iter().map(|part| self.supervisor.judge(part)).collect();
        let strictest = |wanted: Verdict| rulings.iter().find(|one| one.verdict == wanted).cloned();
        if let Some(denied) = strictest(Verdict::Deny) {
            return denied;
        }
        let Some(mut ruling) = strictest(Verdict::Ask).or_else(|| rulings.first().cloned()) else {
            let reason = "it has no parts".to_owned();
            let code = Some(Code::RequestInvalid);
            return Ruling { verdict: Verdict::Deny, code, reason, rules: Vec::new() };
        };
        let mut reasons: Vec<&str> = rulings.iter().map(|one| one.reason.as_str()).collect();
        reasons.dedup();
        ruling.reason = format!("{} (one decision for {} calls)", reasons.join("; "), parts.len());
        ruling.rules = rulings.iter().flat_map(|one| one.rules.iter().cloned()).collect();
        ruling.rules.dedup();
        ruling
    }

    /// Examines a recorded request; one that stands for several with all that they show.
    pub(crate) fn examine(&self, request: &ActionRequest) -> Examination {
        let Some(parts) = self.parts_of(request) else { return self.supervisor.examine(request) };
        let mut whole = Examination::default();
        for part in &parts {
            let one = self.supervisor.examine(part);
            whole.commands.extend(one.commands);
            for file in one.files {
                if !whole.files.contains(&file) {
                    whole.files.push(file);
                }
            }
            whole.findings.extend(one.findings);
            whole.rules.extend(one.rules);
            whole.folder = one.folder;
        }
        whole
    }

    /// Prepares a recorded request. One that stands for several is never dispatched here.
    pub(crate) fn prepare_any(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        let Some(parts) = self.parts_of(request) else { return self.supervisor.prepare(request) };
        let mut limits = Limits { timeout: std::time::Duration::ZERO, output_bytes_max: 0 };
        for part in &parts {
            limits = self.supervisor.prepare(part)?.limits;
        }
        Ok(Preparation { limits, ..unprepared() })
    }

    /// The calls that a request stands for, if it stands for several.
    fn parts_of(&self, request: &ActionRequest) -> Option<Vec<ActionRequest>> {
        let Proposal { tool_server, tool_name, args, workspace } = &request.proposal;
        if !self.hands_over() || tool_server != SERVER || tool_name != TOOL {
            return None;
        }
        let text = |part: &Value, name: &str| Some(part.get(name)?.as_str()?.to_owned());
        let part = |part: &Value| {
            let proposal = Proposal {
                args: part.get("args")?.clone(),
                tool_name: text(part, "tool")?,
                tool_server: text(part, "server")?,
                workspace: workspace.clone(),
            };
            Some(ActionRequest { proposal, ..request.clone() })
        };
        args.get(PARTS)?.as_array()?.iter().map(part).collect()
    }
}

/// The calls that a recorded one stands for: server, tool and arguments of each.
#[must_use]
pub fn parts(proposal: &Proposal) -> Vec<(&str, &str, &Value)> {
    let whole = (proposal.tool_server.as_str(), proposal.tool_name.as_str(), &proposal.args);
    if (whole.0, whole.1) != (SERVER, TOOL) {
        return vec![whole];
    }
    let all = proposal.args.get(PARTS).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|part| {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        Some((text("server")?, text("tool")?, part.get("args")?))
    })
    .collect()
}

/// One request for several; `None` if there are not several.
fn together(requests: &[CallRequest]) -> Option<CallRequest> {
    let [first, _, ..] = requests else { return None };
    let part =
        |one: &CallRequest| json!({ "args": one.args, "server": one.server, "tool": one.tool });
    let parts: Vec<Value> = requests.iter().map(part).collect();
    Some(CallRequest {
        server: SERVER.to_owned(),
        tool: TOOL.to_owned(),
        args: json!({ PARTS: parts }),
        declared_class: RiskLevel::HighRisk,
        key: None,
        ..first.clone()
    })
}
