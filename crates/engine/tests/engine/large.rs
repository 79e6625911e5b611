//! Runs of many phases, and many runs. `cargo xtask bench runs` measures them.

use std::sync::Arc;

use serde_json::json;
use windlass_engine::{
    Assignment, Completion, EngineError, HoldQueue, PhaseExecutor, PhaseRecorder, WorkResult,
};
use windlass_journal::RunFilter;
use windlass_kernel::run::InvocationResult;
use windlass_kernel::run::plan::{Concurrency, Plan};

use crate::crash::Life;
use crate::phase_executor::done;
use crate::plans::{builtin, person, phase, plan};
use crate::world::{World, end, new_run};

/// An executor that does nothing, with or without an invocation on record.
struct Idle {
    invoke: bool,
}

impl PhaseExecutor for Idle {
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        if self.invoke {
            let number = recorder.invocation_started(assignment, "someone", "idle", None)?;
            let usage = windlass_kernel::run::Usage::default();
            recorder.invocation_ended(number, InvocationResult::Success, usage, 0, "");
        }
        Ok(WorkResult::Finished(Completion::Done(Box::new(done(json!({}))))))
    }
}

fn line(count: usize) -> Plan {
    let phases = (0..count).map(|at| {
        let before = at.checked_sub(1).map(|before| format!("p{before}"));
        let needs: Vec<&str> = before.iter().map(String::as_str).collect();
        phase(&format!("p{at}"), &needs, builtin())
    });
    plan(phases.collect())
}

#[test]
fn runs_of_thousands_of_phases_pass() {
    for (count, invoke) in [(1000, false), (1000, true), (10_000, false)] {
        let world = World::new();
        let process = world.process(&Life::until(None));
        let repository = Arc::clone(&world.repository) as Arc<_>;
        let engine = world.engine_of(&process, Arc::new(Idle { invoke }), repository);
        let run = engine.start(new_run(line(count))).unwrap();
        assert_eq!(end(&run), ("PASS", "pass"));
        engine.read(run.head.trace_id).unwrap();
    }
}

#[test]
fn the_queue_of_many_runs_is_listed() {
    let world = World::new();
    let engine = world.engine(&[]);
    let mut plan = plan(vec![phase("ask", &[], person(1))]);
    plan.concurrency = Concurrency::Serial;
    let count = 10_000;
    for _ in 0..count {
        engine.start(new_run(plan.clone())).unwrap();
    }
    let filter = RunFilter { open_only: true, state: None, limit: usize::MAX };
    assert_eq!(engine.list(&filter).unwrap().len(), count);
    let queue = HoldQueue::read(&engine.runs(), 100).unwrap();
    assert_eq!((queue.waiting.len(), queue.count), (100, count));
}
