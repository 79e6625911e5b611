//! `policy`: checks the agents and the constraints of a run before any work.

use serde_json::{Value, json};
use windlass_kernel::run::plan::Doer;

use super::scope::constraints;
use super::{Builtin, BuiltinJob};
use crate::error::EngineError;
use crate::phase_executor::WorkResult;

/// Checks agents and constraints against the tool registry, and returns the policy of the run.
pub(super) struct Policy;

impl Builtin for Policy {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let run = &job.assignment.run;
        let Some(started) = &run.started else {
            return Ok(WorkResult::failed("validation_error", "the run has not started"));
        };
        let executors = started.plan.phases.iter().flat_map(|phase| {
            let checks = phase.checks.iter().map(|check| &check.doer);
            checks.chain([&phase.doer]).map(move |doer| (phase, doer))
        });
        for (phase, doer) in executors {
            let Doer::Agent { agent, .. } = doer else { continue };
            let Some(agent) = job.agents.get(agent) else {
                let reason =
                    format!("phase `{}` needs the agent `{agent}`, which does not exist", phase.id);
                return Ok(WorkResult::failed("validation_error", reason));
            };
            for tool in agent.tools.iter().flatten() {
                // Names without a server are the coding agent's own tools.
                let Some((server, name)) = tool.split_once('/') else { continue };
                if job.gateways.class_of(server, name).is_none() {
                    let reason = format!(
                        "the agent `{}` uses `{tool}`, which is not registered",
                        agent.name
                    );
                    return Ok(WorkResult::failed("validation_error", reason));
                }
            }
        }
        let (allowed, denied) = match constraints(job.task()) {
            Ok(constraints) => constraints,
            Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
        };
        if let Some(both) = allowed.iter().find(|path| denied.contains(path)) {
            let reason = format!("the task both allows and denies `{both}`");
            return Ok(WorkResult::failed("validation_error", reason));
        }
        let (rules, tools) = job.gateways.sizes();
        let budget = serde_json::to_value(started.plan.budget).unwrap_or(Value::Null);
        Ok(WorkResult::answer(json!({
            "summary": format!("judged by {rules} rules over {tools} tools"),
            "policy_hash": started.policy_hash,
            "allowed_paths": allowed,
            "denied_paths": denied,
            "budget": budget,
        })))
    }
}
