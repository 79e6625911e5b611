//! From a call that an agent asks for to a call of the run.

use serde_json::{Value, json};
use windlass_engine::executors::{AgentJob, EarlierCall, ToolRequest};
use windlass_kernel::Digest;
use windlass_runtime::CallReport;

use crate::answer::text_of;
use crate::host::Offer;
use crate::replay::Replay;

/// A call that an agent asks for.
pub(crate) struct AskedCall<'a> {
    /// The tool, by the name under which it is offered.
    pub name: &'a str,
    /// The arguments.
    pub args: Value,
    /// What tells the call from all others of the attempt.
    pub id: String,
}

/// What becomes of a call that an agent asks for.
pub(crate) enum Prepared {
    /// It is to be made.
    Call(ToolRequest),
    /// It was made before an interruption.
    Recorded(EarlierCall),
    /// There is no such tool: the reason, for the agent.
    Unknown(String),
}

/// Decides whether a call is made or answered from the record.
pub(crate) fn prepare(
    job: &AgentJob<'_>,
    offer: &Offer,
    replay: &mut Replay,
    asked: AskedCall<'_>,
) -> Prepared {
    job.transcript.add("call", json!({ "tool": asked.name, "args": asked.args }));
    let Some(definition) = offer.tool(asked.name) else {
        return Prepared::Unknown(format!("there is no tool `{}`", asked.name));
    };
    if let Some(call) = replay.take(definition, &asked.args) {
        return Prepared::Recorded(call);
    }
    Prepared::Call(ToolRequest {
        tool: definition.tool.clone(),
        args: asked.args,
        intent: format!("{} asks for it in phase {}", job.agent.name, job.phase),
        agent: Some(job.agent.name.clone()),
        id: Some(asked.id),
    })
}

/// Writes the result of a call into the transcript.
pub(crate) fn note_result(job: &AgentJob<'_>, report: &CallReport) {
    job.transcript.add(
        "result",
        json!({
            "tool": report.tool,
            "call": report.trace_id,
            "state": report.state,
            "text": text_of(report),
        }),
    );
}

/// The id of a new session: the same for the same invocation.
pub(crate) fn session_id(job: &AgentJob<'_>) -> String {
    let text = json!([job.run_id, job.phase, job.attempt, job.agent.name, job.invocation]);
    let digest = Digest::of(text.to_string().as_bytes());
    let hex = digest.hex();
    let part = |range: std::ops::Range<usize>| hex.as_str().get(range).unwrap_or_default();
    // The version and variant of a UUID made of other data (RFC 9562, version 8).
    format!("{}-{}-8{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}
