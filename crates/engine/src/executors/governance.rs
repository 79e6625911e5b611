//! Evaluates the governance rules of a plan for a phase.

mod files;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_connect::{Limits, Reply};
use windlass_governance::{
    FileValidator, Observation, RuleError, governed, judge_compliance, judge_gate,
};
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Evidence, Rule};
use windlass_kernel::run::{
    Change, Failure, GateStatus, GovernanceResult, InvocationResult, Run, Usage,
};
use windlass_workspace::PinnedPath;

use super::Executors;
use super::command::Program;
use crate::error::EngineError;
use crate::phase_executor::{Assignment, PhaseRecorder};
use crate::repository::FILES_MAX;

/// The failure class of a phase that a rule blocks.
const BLOCKED: &str = "governance_blocked";
/// The maximum size of a program's output.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// The maximum length of a program's output in a finding.
const WORDS_CHARS_MAX: usize = 500;
/// The maximum length of the reason of a failure.
const REASON_CHARS_MAX: usize = 1800;

/// The evidence for each rule that applies to a phase.
#[derive(Default)]
pub(super) struct GatheredEvidence {
    compliance: Vec<(Rule, Option<Observation>)>,
    gates: Vec<(Rule, Option<Observation>)>,
    /// Whether a program was started, which may have changed files.
    pub ran: bool,
}

impl GatheredEvidence {
    fn all(&mut self) -> impl Iterator<Item = &mut (Rule, Option<Observation>)> {
        self.gates.iter_mut().chain(&mut self.compliance)
    }
}

fn applying(rules: &[Rule], phase: &str) -> Vec<(Rule, Option<Observation>)> {
    let applies =
        |rule: &&Rule| rule.phases.is_empty() || rule.phases.iter().any(|one| one == phase);
    rules.iter().filter(applies).map(|rule| (rule.clone(), None)).collect()
}

impl Executors {
    /// Runs the programs of every rule that applies, even if one is not met.
    pub(super) fn gather_evidence(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
        spent: Duration,
    ) -> Result<GatheredEvidence, EngineError> {
        let began = Instant::now();
        let Some(started) = assignment.run.started.as_ref() else {
            return Ok(GatheredEvidence::default());
        };
        let governance = &started.plan.governance;
        let mut evidence = GatheredEvidence {
            compliance: applying(&governance.compliance, &assignment.phase.id),
            gates: applying(&governance.gates, &assignment.phase.id),
            ran: false,
        };
        let mut ran = false;
        for (rule, found) in evidence.all() {
            let (argv, timeout_ms) = match &rule.evidence {
                Evidence::Metric { argv, timeout_ms, .. }
                | Evidence::Tool { argv, timeout_ms, .. } => (argv, *timeout_ms),
                Evidence::Validator { .. } => continue,
            };
            let spent = spent.saturating_add(began.elapsed());
            let left = assignment.time_left.map(|left| left.saturating_sub(spent));
            if left.is_some_and(|left| left.is_zero()) {
                *found =
                    Some(Observation::Unavailable("the run's working time is used up".to_owned()));
                continue;
            }
            let timeout = Duration::from_millis(timeout_ms);
            let timeout = left.map_or(timeout, |left| timeout.min(left));
            ran = true;
            let pinned = self.pinned(argv, rule.evidence.pinned(), assignment);
            *found = Some(self.run_rule_program(argv, pinned, timeout, assignment, recorder)?);
        }
        evidence.ran = ran;
        Ok(evidence)
    }

    /// Runs the program of a rule; records the start before it and the end after it.
    fn run_rule_program(
        &self,
        argv: &[String],
        pinned: Result<Vec<PinnedPath>, Reply>,
        timeout: Duration,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<Observation, EngineError> {
        let program = argv.first().cloned().unwrap_or_default();
        let invocation = recorder.invocation_started(assignment, &program, "governance", None)?;
        let began = Instant::now();
        let limits = Limits { timeout, output_bytes_max: OUTPUT_BYTES_MAX };
        let reply = match pinned {
            Ok(pinned) => {
                let measured = Program { pinned, measures: true, ..Program::new(argv, limits) };
                self.run_program(measured, assignment)?
            }
            Err(reply) => reply,
        };
        let found = program_result(reply);
        let (result, note) = match &found {
            Observation::Exited { exit_code: Some(0), .. } => {
                (InvocationResult::Success, String::new())
            }
            Observation::Exited { output_tail, .. } => {
                (InvocationResult::Failure, output_tail.clone())
            }
            Observation::Unavailable(why) => (InvocationResult::Failure, why.clone()),
            Observation::Files(_) => (InvocationResult::Failure, String::new()),
        };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        recorder.invocation_ended(invocation, result, Usage::default(), duration_ms, &note);
        Ok(found)
    }
}

/// A cache of unused validators by their evidence: creating one takes longer than most phases that use
/// it.
#[derive(Default)]
pub(crate) struct Validators(Mutex<Vec<(Evidence, FileValidator)>>);

impl Validators {
    /// The maximum number of cached validators; a project has a handful.
    const CACHED_MAX: usize = 256;

    fn get(&self, evidence: &Evidence) -> Result<Option<FileValidator>, RuleError> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, validator)) = cached.iter().find(|(of, _)| of == evidence) {
            return Ok(Some(validator.clone()));
        }
        let created = FileValidator::new(evidence)?;
        if let Some(validator) = created.as_ref().filter(|_| cached.len() < Self::CACHED_MAX) {
            cached.push((evidence.clone(), validator.clone()));
        }
        Ok(created)
    }
}

/// Inspects files and evaluates all rules; `None` if no rule applies.
pub(super) fn judge(
    validators: &Validators,
    mut evidence: GatheredEvidence,
    assignment: &Assignment,
    change: Option<&Change>,
) -> Option<GovernanceResult> {
    if evidence.gates.is_empty() && evidence.compliance.is_empty() {
        return None;
    }
    for (rule, found) in evidence.all() {
        match validators.get(&rule.evidence) {
            Ok(None) => {}
            Ok(Some(validator)) => {
                let changed = changed(&assignment.run, change).filter(|_| validator.only_forbids());
                *found = Some(files::inspect(&assignment.workspace, validator, changed));
            }
            Err(flaw) => *found = Some(Observation::Unavailable(flaw.message)),
        }
    }
    let missing = || Observation::Unavailable("it was not inspected".to_owned());
    let gates = evidence.gates.into_iter();
    let checks = evidence.compliance.into_iter();
    Some(governed(
        gates.map(|(rule, found)| judge_gate(&rule, &found.unwrap_or_else(missing))).collect(),
        checks
            .map(|(rule, found)| judge_compliance(&rule, &found.unwrap_or_else(missing)))
            .collect(),
    ))
}

/// The files that the run has changed; `None` if they are not known.
fn changed<'a>(run: &'a Run, change: Option<&'a Change>) -> Option<&'a [String]> {
    run.started.as_ref()?.base.as_ref()?;
    match change.or(run.change.as_ref()) {
        // The list may be incomplete.
        Some(change) if change.files.len() >= FILES_MAX => None,
        Some(change) => Some(&change.files),
        None => Some(&[]),
    }
}

/// The failure of a phase that a rule blocks.
pub(super) fn failure(governed: &GovernanceResult, run: &Run) -> Option<Failure> {
    if governed.passed {
        return None;
    }
    let blocked = |status: GateStatus| status == GateStatus::Blocked;
    let gates =
        governed.quality_gates.iter().filter(|gate| blocked(gate.status)).map(|gate| {
            format!("gate `{}`: {} ({})", gate.gate_id, gate.message, gate.remediation)
        });
    let checks = governed.compliance_checks.iter().filter(|check| blocked(check.status));
    let checks = checks.map(|check| {
        let rules = run.started.as_ref().map(|started| &started.plan.governance.compliance);
        let mut rules = rules.into_iter().flatten();
        let rule = rules.find(|rule| rule.id == check.compliance_type);
        let advice = rule.map(|rule| rule.remediation.as_str()).unwrap_or_default();
        format!(
            "compliance `{}`: {} ({advice})",
            check.compliance_type,
            check.violations.join(", ")
        )
    });
    let all: Vec<String> = gates.chain(checks).collect();
    let reason: String = all.join("; ").chars().take(REASON_CHARS_MAX).collect();
    Some(Failure { class: BLOCKED.to_owned(), reason })
}

/// Converts the reply of a rule's program.
fn program_result(reply: Reply) -> Observation {
    let ended = |result: &Value| {
        let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
        let output = if text("stderr").trim().is_empty() { text("stdout") } else { text("stderr") };
        let output = output.trim();
        let skip = output.chars().count().saturating_sub(WORDS_CHARS_MAX);
        Observation::Exited {
            exit_code: result.get("exit_code").and_then(Value::as_i64),
            stdout: text("stdout").to_owned(),
            output_tail: output.chars().skip(skip).collect(),
        }
    };
    match reply {
        Reply::Success { result } => ended(&result),
        Reply::Failure { code: Code::ToolFailed, result: Some(result), .. } => {
            match ended(&result) {
                // The connector reports a failure although the program exited with 0.
                Observation::Exited { exit_code: Some(0), output_tail, .. } => {
                    Observation::Unavailable(output_tail)
                }
                other @ (Observation::Exited { .. }
                | Observation::Files(_)
                | Observation::Unavailable(_)) => other,
            }
        }
        Reply::Failure { message, .. } => Observation::Unavailable(message),
    }
}
