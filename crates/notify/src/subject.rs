//! One thing to tell.

use windlass_journal::JournalError;
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::notification::{About, Kind, Message, TEXT_BYTES_MAX};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Ended, Hold, RunName};
use windlass_kernel::{Digest, Timestamp, TraceId};
use windlass_redact::Redactor;
use windlass_views::RunSummary;

/// How long a line may be.
const TITLE_CHARS_MAX: usize = 120;
/// How much of a question or task is told.
const PART_CHARS_MAX: usize = 1000;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it is about.
    pub about: About,
    /// What it is, in the order in which a receiver's choice is looked for: a receiver is told once.
    pub kinds: Vec<Kind>,
    /// Whether somebody has named its trace, because it has just happened.
    pub(crate) is_named: bool,
    /// The name of the run.
    run: Option<String>,
    /// Until when the hold can be answered.
    expires_at: Option<Timestamp>,
    /// The digest of what the hold shows.
    shown: Option<Digest>,
    title: String,
    /// The parts of the text, each told with at most [`PART_CHARS_MAX`] characters.
    text: Vec<String>,
}

impl Subject {
    /// A run waits.
    pub(crate) fn hold(summary: &RunSummary, hold: &Hold) -> Self {
        let kinds = match hold.held.trigger {
            // Nobody can decide this one: it waits for the agent's limit to pass.
            Trigger::AgentUnavailable => vec![Kind::LimitReached],
            Trigger::BudgetExhausted => vec![Kind::LimitReached, Kind::HoldOpened],
            Trigger::CallApproval
            | Trigger::ConsensusRequested
            | Trigger::EscalationRequested
            | Trigger::MergeConflict
            | Trigger::PersonRequested
            | Trigger::RestartRequested
            | Trigger::RolledBack
            | Trigger::SetupFailed
            | Trigger::UncertainEffect
            | Trigger::WaiverRequested => vec![Kind::HoldOpened],
        };
        let waits_for_agent = hold.held.trigger == Trigger::AgentUnavailable;
        let says = if waits_for_agent { "waits for its agent" } else { "waits for you" };
        Self::of_hold(summary, hold, kinds, hold.shown.to_string(), says)
    }

    /// A hold that nobody has answered expires soon.
    pub(crate) fn expiring(summary: &RunSummary, hold: &Hold) -> Self {
        let mark = format!("expiring {}", hold.shown);
        Self::of_hold(summary, hold, vec![Kind::HoldExpiring], mark, "still waits for you")
    }

    fn of_hold(
        summary: &RunSummary,
        hold: &Hold,
        kinds: Vec<Kind>,
        mark: String,
        says: &str,
    ) -> Self {
        let mut lines = vec![hold.held.question.clone(), format!("Task: {}", task_of(summary))];
        if let Some(expires_at) = hold.held.expires_at {
            lines.push(format!("It expires at {expires_at}."));
        }
        Self {
            about: About { at: hold.since, mark, trace: Some(summary.head.trace_id) },
            kinds,
            is_named: false,
            run: Some(summary.run_id.clone()),
            expires_at: hold.held.expires_at,
            shown: Some(hold.shown),
            title: format!("{} {says}: {}", summary.run_id, hold.held.question),
            text: lines,
        }
    }

    /// A run has ended.
    pub(crate) fn ended(summary: &RunSummary, ended: &Ended) -> Self {
        let outcome = ended.outcome.as_str();
        let mut lines = vec![format!("{}: {outcome}, {}", summary.run_id, ended.reason)];
        lines.push(ended.detail.clone());
        lines.push(format!("Task: {}", task_of(summary)));
        Self {
            about: About {
                at: ended.at,
                mark: format!("ended {}", ended.at),
                trace: Some(summary.head.trace_id),
            },
            kinds: vec![Kind::RunEnded],
            is_named: false,
            run: Some(summary.run_id.clone()),
            expires_at: None,
            shown: None,
            title: format!("{} has ended: {outcome} ({})", summary.run_id, ended.reason),
            text: lines,
        }
    }

    /// A call outside of runs waits.
    pub(crate) fn call(request: &ActionRequest, shown: Digest) -> Self {
        let tool = format!("{}/{}", request.proposal.tool_server, request.proposal.tool_name);
        let call = request.trace_id;
        Self {
            about: About { at: request.ts, mark: "pending".to_owned(), trace: Some(call) },
            kinds: vec![Kind::HoldOpened],
            is_named: false,
            run: None,
            expires_at: None,
            shown: Some(shown),
            title: format!("a call of {tool} waits for you: {}", request.intent),
            text: vec![request.intent.clone(), format!("Call: {call}")],
        }
    }

    /// A trace failed verification.
    pub(crate) fn broken(trace_id: TraceId, began: Timestamp, error: &JournalError) -> Self {
        let code = error.code().as_str();
        Self {
            about: About { at: began, mark: "broken".to_owned(), trace: Some(trace_id) },
            kinds: vec![Kind::ChainBroken],
            is_named: false,
            run: None,
            expires_at: None,
            shown: None,
            title: format!("the journal is damaged: trace {trace_id} [{code}]"),
            text: vec![
                format!("Trace {trace_id} ({}) fails verification: {error}", RunName::of(trace_id)),
                format!("`windlass verify {trace_id}` and `windlass explain {code}` tell more."),
            ],
        }
    }

    /// Somebody tries out a receiver.
    #[must_use]
    pub fn test(by: &str, mark: String, at: Timestamp) -> Self {
        Self {
            about: About { at, mark, trace: None },
            kinds: vec![Kind::Test],
            is_named: false,
            run: None,
            expires_at: None,
            shown: None,
            title: "a test of notifications".to_owned(),
            text: vec![format!("{by} tries out this receiver. Nothing has happened.")],
        }
    }

    /// The message, with secrets taken out.
    pub(crate) fn message(&self, kind: Kind, redactor: &Redactor) -> Message {
        // A text may become a header or a variable of the environment.
        let line: String =
            self.title.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = cut(&redactor.redacted(&line), TITLE_CHARS_MAX);
        let plain = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
        let part = |part: &String| {
            let plain = part.chars().filter(plain).collect::<String>();
            cut(&redactor.redacted(&plain), PART_CHARS_MAX)
        };
        let parts = self.text.iter().filter(|part| !part.trim().is_empty());
        let mut text = parts.map(part).collect::<Vec<_>>().join("\n");
        if text.len() > TEXT_BYTES_MAX {
            // A character has at most four bytes.
            text = cut(&text, TEXT_BYTES_MAX / 4 - 1);
        }
        let (run, shown, expires_at) = (self.run.clone(), self.shown, self.expires_at);
        Message { expires_at, kind, run, shown, text, title }
    }
}

fn task_of(summary: &RunSummary) -> String {
    let task = summary.task.get("task").and_then(serde_json::Value::as_str);
    task.unwrap_or(&summary.loop_id).to_owned()
}

/// A text of at most so many characters.
fn cut(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut cut: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(title: &str, text: &str) -> Subject {
        let mut subject = Subject::test("ada", "mark".to_owned(), Timestamp::EPOCH);
        (subject.title, subject.text) = (title.to_owned(), vec![text.to_owned()]);
        subject
    }

    #[test]
    fn a_message_is_short_and_has_no_secret() {
        let redactor = Redactor::new([("KEY".to_owned(), "hunter22".to_owned())]);
        let long = "é".repeat(5000);
        let message = subject("two\n\0lines\u{1b} hunter22", &format!("hunt\0er22 {long}"))
            .message(Kind::Test, &redactor);
        assert_eq!(message.title, "two lines [redacted:KEY]");
        assert!(message.text.starts_with("[redacted:KEY] é"), "{}", message.text);
        assert!(message.text.len() <= TEXT_BYTES_MAX && message.text.ends_with('…'));
        let message = subject(&long, "short").message(Kind::Test, &redactor);
        assert_eq!(message.title.chars().count(), TITLE_CHARS_MAX);
        assert_eq!(message.text, "short");
    }

    #[test]
    fn a_message_has_no_part_of_a_secret_wherever_it_is_cut() {
        let secret = "hunter22-0123456789";
        let redactor = Redactor::new([("KEY".to_owned(), secret.to_owned())]);
        for at in 0..1300 {
            let text = ["x".repeat(at), secret.to_owned(), "y".repeat(1300 - at)].concat();
            let message = subject(&text, &text).message(Kind::Test, &redactor);
            for part in [&secret[..4], &secret[6..12], &secret[secret.len() - 4..]] {
                assert!(!message.title.contains(part) && !message.text.contains(part), "{at}");
            }
        }
    }
}
