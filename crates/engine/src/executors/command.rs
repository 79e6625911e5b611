//! Programs as executors: JSON on standard input, one JSON object on standard output.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_connect::{Certainty, Job, Limits, Reply, Target};
use windlass_kernel::run::plan::{BudgetedResource, Check, Effect};
use windlass_kernel::run::{Failure, Run, Usage, WaitsFor};
use windlass_kernel::{Code, RiskLevel, ToolCallId, canon};
use windlass_workspace::{PinnedPath, TreeId, require_pinned_unchanged};

use super::input::phase_input;
use super::{ANSWER_BYTES_MAX, Executors};
use crate::error::EngineError;
use crate::phase_executor::{Answer, Assignment, PhaseRecorder, Subject, WorkResult};
use crate::redaction::redact_reply;
use crate::repository::PinRequest;
use crate::setup::{SetupOutput, SetupRunner};

/// The maximum length of a program's output in a reason.
const REASON_CHARS_MAX: usize = 1500;

impl Executors {
    /// Runs a program; records the start before it and the end after it.
    pub(super) fn run_command(
        &self,
        argv: &[String],
        timeout: Duration,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult, EngineError> {
        let program = argv.first().cloned().unwrap_or_default();
        let invocation = recorder.invocation_started(assignment, &program, "command", None)?;
        let began = Instant::now();
        let left = assignment.time_left.filter(|left| *left < timeout);
        let timeout = left.unwrap_or(timeout);
        let stdin = Some(format!("{}\n", phase_input(assignment)));
        let limits = Limits { timeout, output_bytes_max: ANSWER_BYTES_MAX };
        let written = match &assignment.subject {
            // The work of a phase is not measured by its own program.
            Subject::Work => Some(&[][..]),
            Subject::Check(check) => check.pinned.as_deref(),
        };
        let reply = match self.pinned(argv, written, assignment) {
            Ok(pinned) => {
                let measures = matches!(assignment.subject, Subject::Check(_));
                let job = Program { stdin, pinned, measures, ..Program::new(argv, limits) };
                self.run_program(job, assignment)?
            }
            Err(reply) => reply,
        };
        let ran_out = matches!(&reply, Reply::Failure { code: Code::ToolTimeout, .. });
        let result = match (&assignment.subject, reply) {
            _ if ran_out && left.is_some() => out_of_time(&program),
            (Subject::Work, reply) => phase_result(reply),
            (Subject::Check(check), reply) => {
                let whole = self.cut_output(&reply);
                check_result(reply, check, &whole)
            }
        };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (ended, usage, note) = result.invocation();
        recorder.invocation_ended(invocation, ended, usage, duration_ms, &note);
        // The usage is recorded with the invocation; the phase must not count it again.
        Ok(result.with_usage(Usage::default()))
    }

    /// Finds the files that a program gets as they were at the start of the run.
    pub(super) fn pinned(
        &self,
        argv: &[String],
        written: Option<&[String]>,
        assignment: &Assignment,
    ) -> Result<Vec<PinnedPath>, Reply> {
        let started = assignment.run.started.as_ref();
        let base = started.and_then(|started| started.base.as_ref());
        let workspace = &assignment.workspace;
        let request = PinRequest { workspace, base, argv, written };
        self.repository.pinned(&request).map_err(|error| not_run(error.code(), error.to_string()))
    }

    /// Runs a program confined to the workspace, since it may run code that an agent wrote.
    pub(super) fn run_program(
        &self,
        program: Program,
        assignment: &Assignment,
    ) -> Result<Reply, EngineError> {
        self.run_in(program, &assignment.run, &assignment.workspace)
    }

    /// The whole standard output of a program, of which a part may be recorded.
    fn cut_output(&self, reply: &Reply) -> Whole {
        let (Reply::Success { result } | Reply::Failure { result: Some(result), .. }) = reply
        else {
            return Whole::Recorded;
        };
        let Some(cut) = result.pointer("/cut/stdout") else { return Whole::Recorded };
        let unknown = |why: &str| {
            let bytes = cut.get("bytes").and_then(Value::as_u64).unwrap_or_default();
            Whole::Unknown(format!(
                "the program printed {bytes} bytes, so whether it printed a verdict is not known: {why}; let it print less"
            ))
        };
        if cut.get("kept_bytes").is_some() {
            return unknown("that is too much to be kept");
        }
        let text = |name: &str| cut.get(name).and_then(Value::as_str);
        let (Some(outputs), Some(digest)) = (&self.outputs, text("kept")) else {
            return unknown(text("not_kept").unwrap_or("it was not kept"));
        };
        let read = || -> Result<String, String> {
            let digest = digest.parse().map_err(|_| "its digest cannot be read".to_owned())?;
            let mut bytes = Vec::new();
            outputs.stored()?.copy_to(&digest, &mut bytes).map_err(|error| error.to_string())?;
            String::from_utf8(bytes).map_err(|error| error.to_string())
        };
        read().map_or_else(|why| unknown(&why), Whole::Kept)
    }

    /// Runs a program of a run, confined to a workspace.
    fn run_in(&self, program: Program, run: &Run, workspace: &Path) -> Result<Reply, EngineError> {
        let Program { argv, stdin, cwd, limits, pinned, staged, measures, prepares } = program;
        let mut confinement = self.gateways.confinement(workspace, run.head.trace_id);
        match &mut confinement {
            Some(confinement) => {
                confinement.pinned = pinned;
                confinement.staged = staged;
                confinement.measures = measures;
                confinement.drops_git_changes = prepares;
            }
            None if staged.is_some() => {
                let why = "a hook of the repository is run in a cell only".to_owned();
                return Ok(not_run(Code::SandboxUnavailable, why));
            }
            None => {
                let parent = std::env::temp_dir();
                if let Err(why) = require_pinned_unchanged(workspace, &pinned, &parent) {
                    return Ok(not_run(Code::PinnedUnavailable, why));
                }
            }
        }
        let cwd = cwd.unwrap_or_else(|| workspace.to_owned());
        let env = run.started.as_ref().map(|started| started.variables()).unwrap_or_default();
        let reply = self.connect.perform(&Job {
            confinement: confinement.as_ref(),
            foreseen: None,
            target: &Target::Command { argv, stdin, env, cwd },
            tool: "",
            args: &Value::Null,
            class: RiskLevel::Write,
            tool_call_id: ToolCallId(self.clock.new_id()),
            idempotency_key: None,
            limits,
        });
        if matches!(&reply, Reply::Failure { code: Code::Interrupted, .. }) {
            // It says nothing about the work, which is done again when the run is resumed.
            return Err(EngineError::interrupted(run));
        }
        Ok(redact_reply(&self.redactor, reply, object))
    }
}

impl SetupRunner for Executors {
    fn run_setup(
        &self,
        run: &Run,
        workspace: &Path,
        argv: &[String],
        timeout: Duration,
    ) -> Result<SetupOutput, EngineError> {
        let limits = Limits { timeout, output_bytes_max: ANSWER_BYTES_MAX };
        // A setup does no work, so what it does to git is dropped.
        let program = Program { prepares: true, ..Program::new(argv, limits) };
        Ok(match self.run_in(program, run, workspace)? {
            Reply::Success { result } => SetupOutput { output: tail(&result), failure: None },
            Reply::Failure { code, message, result, .. } => {
                let output = result.as_ref().map(tail).unwrap_or_default();
                let class = if code == Code::ToolTimeout { "timeout" } else { "critical_failure" };
                let reason = format!("{message}: {output}");
                let failure = Some(Failure { class: class.to_owned(), reason });
                SetupOutput { output, failure }
            }
        })
    }
}

/// A program that a run starts by itself.
pub(super) struct Program {
    pub argv: Vec<String>,
    pub stdin: Option<String>,
    /// Its working directory, if it is not the workspace.
    pub cwd: Option<PathBuf>,
    pub limits: Limits,
    /// The files that it gets as they were at the start of the run.
    pub pinned: Vec<PinnedPath>,
    /// The tree that git shows it as staged.
    pub staged: Option<TreeId>,
    /// Whether it only measures work, so that what it does to git, caches and `/tmp` is dropped.
    pub measures: bool,
    /// Whether it prepares work, so that what it does to git is dropped.
    pub prepares: bool,
}

impl Program {
    /// A program that gets everything as it is.
    pub fn new(argv: &[String], limits: Limits) -> Self {
        let (argv, pinned) = (argv.to_vec(), Vec::new());
        let (measures, prepares) = (false, false);
        Self { argv, stdin: None, cwd: None, limits, pinned, staged: None, measures, prepares }
    }
}

/// The whole standard output of a program.
enum Whole {
    /// It is in the result.
    Recorded,
    /// It was kept.
    Kept(String),
    /// Nobody has it, for this reason.
    Unknown(String),
}

/// The result of a program that was interrupted because the run's budget of time was used up.
fn out_of_time(program: &str) -> WorkResult {
    let note = format!("`{program}` was interrupted, may have taken effect, and is run again then");
    WorkResult::Waiting {
        waits_for: WaitsFor::Budget { resource: BudgetedResource::WallMs },
        evidence: json!({ "note": note }),
        question: "the working time is used up".to_owned(),
        usage: Usage::default(),
    }
}

fn not_run(code: Code, message: String) -> Reply {
    Reply::Failure { code, message, result: None, certainty: Certainty::DidNotRun }
}

fn stdout(result: &Value) -> &str {
    result.get("stdout").and_then(Value::as_str).unwrap_or_default()
}

/// The JSON object that a program printed, if it printed exactly one.
fn object(text: &str) -> Option<Value> {
    let value = canon::parse(text.trim().as_bytes(), ANSWER_BYTES_MAX).ok()?;
    value.is_object().then_some(value)
}

/// Converts the reply of a phase's program.
fn phase_result(reply: Reply) -> WorkResult {
    match reply {
        Reply::Success { result } => match object(stdout(&result)) {
            Some(answer) => match usage(&answer) {
                Ok(usage) => WorkResult::answer(answer).with_usage(usage),
                Err(reason) => WorkResult::failed("validation_error", reason),
            },
            None => {
                let printed = match result.pointer("/cut/stdout/bytes") {
                    Some(bytes) => format!("{bytes} bytes, which are too many for an answer"),
                    None => "no JSON object".to_owned(),
                };
                let reason = format!("the program printed {printed}: {}", tail(&result));
                WorkResult::failed("validation_error", reason)
            }
        },
        Reply::Failure { code, message, result, .. } => {
            let class = if code == Code::ToolTimeout { "timeout" } else { "critical_failure" };
            let words = result.as_ref().map(tail).unwrap_or_default();
            let answer = result.as_ref().and_then(|result| object(stdout(result)));
            let reason = format!("{message}: {words}");
            WorkResult::Finished(Answer {
                answer: answer.unwrap_or_else(|| json!({})),
                failure: Some(Failure { class: class.to_owned(), reason }),
                ..Answer::default()
            })
        }
    }
}

/// Converts the reply of a check's program: the printed verdict, or else the exit status.
fn check_result(reply: Reply, check: &Check, whole: &Whole) -> WorkResult {
    let plain = |verdict: &str, result: &Value| {
        let reason = tail(result);
        let findings = if verdict == "pass" { json!([]) } else { json!([reason]) };
        let mut answer = json!({"verdict": verdict, "reason": reason, "findings": findings});
        if let (Some(cut), Value::Object(answer)) = (result.get("cut"), &mut answer) {
            answer.insert("cut".to_owned(), cut.clone());
        }
        answer
    };
    match reply {
        Reply::Success { result } => match printed_verdict(&result, whole) {
            Ok(Some(answer)) => WorkResult::answer(answer),
            Ok(None) if let Whole::Unknown(why) = whole => {
                let cut = result.get("cut");
                WorkResult::answer(
                    json!({"verdict": "fail", "reason": why, "findings": [why], "cut": cut}),
                )
            }
            Ok(None) => WorkResult::answer(plain("pass", &result)),
            Err(reason) => WorkResult::failed("validation_error", reason),
        },
        Reply::Failure { code: Code::ToolFailed, result: Some(result), .. } => {
            let answer = match printed_verdict(&result, whole) {
                Ok(answer) => answer.unwrap_or_else(|| plain("fail", &result)),
                Err(reason) => return WorkResult::failed("validation_error", reason),
            };
            // A program that failed has not passed, whatever it printed.
            let verdict = answer.get("verdict").and_then(Value::as_str).unwrap_or_default();
            if verdict == "pass" || check.verdicts.get(verdict) == Some(&Effect::Continue) {
                let reason = format!("the program printed `{verdict}` but failed");
                return WorkResult::failed("validation_error", reason);
            }
            WorkResult::answer(answer)
        }
        // Whoever changed what measures can undo that, as with any other finding.
        Reply::Failure { code: Code::PinnedUnavailable, message, .. } => {
            let reason = format!("[{}] {message}", Code::PinnedUnavailable);
            WorkResult::answer(json!({"verdict": "fail", "reason": reason, "findings": [reason]}))
        }
        Reply::Failure { code, message, .. } => {
            let class = if code == Code::ToolTimeout { "test_timeout" } else { "critical_failure" };
            WorkResult::failed(class, message)
        }
    }
}

/// The answer with a verdict that a check's program printed, if it printed one.
fn printed_verdict(result: &Value, whole: &Whole) -> Result<Option<Value>, String> {
    let text = match whole {
        Whole::Recorded => stdout(result),
        Whole::Kept(text) => text,
        Whole::Unknown(_) => return Ok(None),
    };
    match object(text) {
        Some(answer) => Ok(answer.get("verdict").is_some().then_some(answer)),
        // A malformed verdict must not fall back to the exit status.
        None if text.contains("\"verdict\"") => {
            Err("the program printed a verdict, but not as one JSON object".to_owned())
        }
        None => Ok(None),
    }
}

/// The usage in an answer.
fn usage(answer: &Value) -> Result<Usage, String> {
    match answer.get("usage") {
        None => Ok(Usage::default()),
        Some(stated) => {
            let number = |key: &str| match stated.get(key) {
                None => Ok(0),
                Some(value) => value.as_u64().ok_or(format!("`usage.{key}` is not a whole number")),
            };
            Ok(Usage {
                cost_micros: number("cost_micros")?,
                input_tokens: number("input_tokens")?,
                output_tokens: number("output_tokens")?,
                unaccounted: stated.get("unaccounted") == Some(&Value::Bool(true)),
            })
        }
    }
}

/// The end of a program's output.
pub(super) fn tail(result: &Value) -> String {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let output = if text("stderr").is_empty() { text("stdout") } else { text("stderr") };
    let skip = output.chars().count().saturating_sub(REASON_CHARS_MAX);
    output.chars().skip(skip).collect()
}
