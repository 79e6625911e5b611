//! Has the work of a phase done by a person: the brief is a question, and the answer to it is the answer of the phase.

use serde_json::{Value, json};
use windlass_engine::executors::{
    Agent, AgentJob, Runner, ToolCaller, ToolRequest, failure_reason,
};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::State;
use windlass_kernel::run::NoteKind;
use windlass_runtime::CallReport;

use crate::answer::{check_finish, finish_schema};
use crate::invocation::CORRECTIONS_MAX;

/// The tool by which a person is asked.
const ASK: &str = "ask/person";
/// How the ids of the questions begin.
const ID: &str = "person:";
/// The most characters of the input that a question shows.
const INPUT_CHARS_MAX: usize = 20_000;

/// Has phases done by a person.
#[derive(Clone, Debug)]
pub struct PersonRunner {
    name: String,
}

impl PersonRunner {
    /// Creates the runner.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { name }
    }
}

impl Runner for PersonRunner {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self, _: &Agent) -> Option<String> {
        None
    }

    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        // A question that was answered is not asked again, and one that is open is waited for.
        let earlier = match tools.earlier_calls()?.finished() {
            Ok(earlier) => earlier,
            Err(unfinished) => return Ok(unfinished),
        };
        job.recorder.note(
            NoteKind::Agent,
            json!({ "invocation": job.invocation, "client": "person", "phase": job.phase }),
        )?;
        let mut asked = 0;
        let mut refused = None;
        for call in earlier.iter().filter(|call| call.id.starts_with(ID)) {
            asked += 1;
            match judge(&call.report, &job.verdicts) {
                Judged::Answer(answer) => return Ok(WorkResult::answer(answer)),
                Judged::Refused(reason) => refused = Some(reason),
                Judged::Rejected(reason) => return Ok(WorkResult::failed("refusal", reason)),
            }
        }
        loop {
            if asked > CORRECTIONS_MAX {
                let reason = refused.unwrap_or_default();
                let reason = format!("the person's answer was not accepted: {reason}");
                return Ok(WorkResult::failed("validation_error", reason));
            }
            asked += 1;
            let question = question(job, refused.as_deref());
            let result = tools.call(ToolRequest {
                tool: ASK.to_owned(),
                args: json!({ "question": question }),
                intent: format!("a person does the phase {} as {}", job.phase, job.agent.name),
                agent: Some(job.agent.name.clone()),
                id: Some(format!("{ID}{asked}")),
            })?;
            match result.finished() {
                Ok(Ok(report)) => match judge(&report, &job.verdicts) {
                    Judged::Answer(answer) => return Ok(WorkResult::answer(answer)),
                    Judged::Refused(reason) => refused = Some(reason),
                    Judged::Rejected(reason) => return Ok(WorkResult::failed("refusal", reason)),
                },
                Ok(Err(reason)) => return Ok(WorkResult::failed("validation_error", reason)),
                Err(unfinished) => return Ok(unfinished),
            }
        }
    }
}

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Answer(Value),
    /// The answer is not accepted: why, for the person.
    Refused(String),
    /// The person does not do it.
    Rejected(String),
}

fn judge(report: &CallReport, verdicts: &[String]) -> Judged {
    if report.state != State::Completed {
        let reason = failure_reason(report).unwrap_or_default();
        return Judged::Rejected(format!("the person did not answer: {reason}"));
    }
    let answer = report.result.get("answer").and_then(Value::as_str);
    read(answer.unwrap_or_default(), verdicts)
}

/// Reads the text of an answer.
fn read(text: &str, verdicts: &[String]) -> Judged {
    match serde_json::from_str::<Value>(text.trim()) {
        Err(error) => Judged::Refused(format!("the answer is not JSON: {error}")),
        Ok(answer) => match check_finish(&answer, verdicts) {
            Ok(()) => Judged::Answer(answer),
            Err(reason) => Judged::Refused(reason),
        },
    }
}

/// The question to the person.
fn question(job: &AgentJob<'_>, refused: Option<&str>) -> String {
    let input = serde_json::to_string_pretty(&job.input).unwrap_or_default();
    let input: String = input.chars().take(INPUT_CHARS_MAX).collect();
    let schema = finish_schema(&job.verdicts);
    let refused = refused.map(|reason| format!("Your answer was not accepted: {reason}.\n\n"));
    format!(
        "{}You do attempt {} of the phase `{}` as `{}`: {}\n\n{}\n\nYou may work in {}. When you are done, answer \
         with `windlass queue answer`, as a JSON object of this schema, with all fields that the text above \
         names:\n{schema}\n\nYour input:\n{input}\n",
        refused.unwrap_or_default(),
        job.attempt,
        job.phase,
        job.agent.name,
        job.agent.description,
        job.agent.prompt.trim(),
        job.workspace.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_be_json_with_what_the_phase_needs() {
        let verdicts = ["approved".to_owned()];
        let refused = |text: &str, verdicts: &[String]| {
            assert!(matches!(read(text, verdicts), Judged::Refused(_)), "{text}");
        };
        refused("done", &[]);
        refused("", &[]);
        refused("[]", &[]);
        refused("{}", &[]);
        refused("{\"summary\": \"x\"}", &verdicts);
        refused("{\"verdict\": \"fine\"}", &verdicts);
        assert_eq!(read(" {\"summary\": \"x\"}\n", &[]), Judged::Answer(json!({ "summary": "x" })));
        let approved = json!({ "verdict": "approved", "reason": "r" });
        assert_eq!(read(&approved.to_string(), &verdicts), Judged::Answer(approved));
    }
}
