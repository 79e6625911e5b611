//! Takes secrets out of what a run records.
//!
//! Only text that people read is changed. Names, paths, verdicts, digests and whatever else is compared or
//! executed stays; a run whose task or plan contains a secret is refused instead.

use serde_json::Value;
use windlass_connect::{Reply, one_line, shortened};
use windlass_kernel::run::{Event, Failure, GovernanceResult, HoldRequest, PhaseResult, SetupStep};
use windlass_redact::Redactor;

use crate::phase_executor::{Answer, WorkResult};

/// The longest reason of a failed attempt.
const REASON_BYTES_MAX: usize = 8 << 10;

/// Redacts an event before it is recorded.
pub(crate) fn redact_event(redactor: &Redactor, event: &mut Event) {
    match event {
        Event::Started(started) => {
            started.inherited.values_mut().for_each(|result| redact_result(redactor, result));
        }
        Event::PhaseSkipped { reason, .. } => redactor.redact_text(reason),
        Event::Checked { reason, findings, .. } => {
            redactor.redact_text(reason);
            redactor.redact(findings);
        }
        Event::InvocationEnded { note, .. } => redactor.redact_text(note),
        Event::PhaseDone { done, .. } => redact_result(redactor, done),
        Event::Reviewed { conditions, reason, findings, .. } => {
            conditions.iter_mut().for_each(|condition| redactor.redact_text(condition));
            redactor.redact_text(reason);
            redactor.redact(findings);
        }
        Event::Checkpointed(checkpoint) => redactor.redact(&mut checkpoint.metadata),
        Event::Conflicted { messages, .. } => {
            messages.iter_mut().for_each(|message| redactor.redact_text(message));
        }
        Event::RollbackBegun(rollback) => redactor.redact_text(&mut rollback.reason),
        Event::Waiting { evidence, question, .. } => {
            redactor.redact(evidence);
            redactor.redact_text(question);
        }
        Event::Held(held) => {
            let HoldRequest { checklist, evidence, question, .. } = held.as_mut();
            checklist.iter_mut().for_each(|point| redactor.redact_text(point));
            redactor.redact(evidence);
            redactor.redact_text(question);
        }
        Event::Setup(step) => redact_setup(redactor, step),
        Event::Noted { body, .. } => redactor.redact(body),
        Event::Ended { detail, .. } => redactor.redact_text(detail),
        // What people sign is redacted before they sign it.
        Event::Voted(_) | Event::Revoked(_) => {}
        Event::Begun {}
        | Event::Integration(_)
        | Event::PhaseStarted { .. }
        | Event::InvocationStarted { .. }
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::RolledBack { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. } => {}
    }
}

fn redact_setup(redactor: &Redactor, step: &mut SetupStep) {
    let failure = match step {
        SetupStep::Started { .. } | SetupStep::CommandStarted { .. } => None,
        SetupStep::CommandEnded { output, failure, .. } => {
            redactor.redact_text(output);
            failure.as_mut()
        }
        SetupStep::Ended { failure } => failure.as_mut(),
    };
    if let Some(failure) = failure {
        redactor.redact_text(&mut failure.reason);
    }
}

fn redact_result(redactor: &Redactor, result: &mut PhaseResult) {
    let PhaseResult { answer, facts, failure, governance, summary, .. } = result;
    redactor.redact(answer);
    facts.values_mut().for_each(|fact| redactor.redact_text(fact));
    if let Some(failure) = failure {
        redactor.redact_text(&mut failure.reason);
    }
    if let Some(GovernanceResult { compliance_checks, quality_gates, .. }) = governance {
        let violations = compliance_checks.iter_mut().flat_map(|check| &mut check.violations);
        violations.for_each(|violation| redactor.redact_text(violation));
        for gate in quality_gates {
            redactor.redact(&mut gate.actual);
            redactor.redact_text(&mut gate.message);
        }
    }
    redactor.redact_text(summary);
}

/// Redacts the result of an agent, a program or a builtin, before anything of it is cut off.
pub(crate) fn redact_work(redactor: &Redactor, mut result: WorkResult) -> WorkResult {
    match &mut result {
        WorkResult::Finished(Answer { answer, failure, .. }) => {
            redactor.redact(answer);
            if let Some(Failure { reason, .. }) = failure {
                redactor.redact_text(reason);
                *reason = shortened(reason, REASON_BYTES_MAX);
            }
        }
        WorkResult::Waiting { question, .. } => redactor.redact_text(question),
        WorkResult::Stopped { .. } => {}
    }
    result
}

/// Redacts the output of a program. An object that it printed stays one.
pub(crate) fn redact_reply(
    redactor: &Redactor,
    mut reply: Reply,
    object: impl Fn(&str) -> Option<Value>,
) -> Reply {
    let result = match &mut reply {
        Reply::Success { result } => Some(result),
        Reply::Failure { message, result, .. } => {
            redactor.redact_text(message);
            *message = one_line(message);
            result.as_mut()
        }
    };
    if let Some(result) = result {
        if let Some(Value::String(stdout)) = result.get_mut("stdout")
            && let Some(mut printed) = object(stdout)
            && redactor.find(&printed).is_some()
        {
            redactor.redact(&mut printed);
            *stdout = printed.to_string();
        }
        redactor.redact(result);
    }
    reply
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use windlass_connect::Certainty;
    use windlass_kernel::Code;

    use super::*;
    use crate::drive::failed;

    #[test]
    fn every_text_of_a_result_is_redacted() {
        let redactor = Redactor::new([("token".to_owned(), "s3cr3t-value".to_owned())]);
        let result = |text: &str| {
            let mut result = failed("class", text);
            result.answer = json!({ "said": [text] });
            result.facts.insert("fact".to_owned(), text.to_owned());
            result
        };
        let mut redacted = result("it is s3cr3t-value");
        redact_result(&redactor, &mut redacted);
        assert_eq!(redacted, result("it is [redacted:token]"));
    }

    #[test]
    fn what_is_shortened_has_no_part_of_a_secret_wherever_it_is_cut() {
        let secret = "s3cr3t-v4lu3-0123456789";
        let redactor = Redactor::new([("token".to_owned(), secret.to_owned())]);
        let parts = |text: &str| {
            let part = |at: usize| text.contains(&secret[at..at + 4]);
            (0..=secret.len() - 4).any(part)
        };
        for at in 0..9000 {
            let text = ["x".repeat(at), secret.to_owned(), "y".repeat(9000 - at)].concat();
            let (code, certainty) = (Code::ToolFailed, Certainty::Ran);
            let reply = Reply::Failure { code, message: text.clone(), result: None, certainty };
            let Reply::Failure { message, .. } = redact_reply(&redactor, reply, |_| None) else {
                panic!("it stays a failure");
            };
            assert!(!parts(&message), "{at}: {message}");
            let WorkResult::Finished(Answer { failure, .. }) =
                redact_work(&redactor, WorkResult::failed("crash", text))
            else {
                panic!("it stays an answer");
            };
            assert!(!parts(&failure.unwrap().reason), "{at}");
        }
    }
}
