//! The executors with real tools, programs and repositories.

mod command;
mod files;
mod git;
mod governance;
mod runners;
mod script;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_connect::{Connect, Connectors};
use windlass_engine::executors::{Agent, Executors, RunnerChoice};
use windlass_engine::{Engine, KeptOutputs, NewRun, Repository};
use windlass_kernel::Digest;
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::{Doer, Phase, Plan};
use windlass_store::Store;

use crate::crash::{Life, MortalConnect};
use crate::plans::phase;
use crate::world::{World, new_run};

pub fn agents() -> BTreeMap<String, Agent> {
    let agent = Agent {
        name: "someone".to_owned(),
        description: "does it".to_owned(),
        model: None,
        tools: None,
        prompt: "do it".to_owned(),
        subagents: Vec::new(),
        digest: Digest::of(b"someone"),
    };
    BTreeMap::from([(agent.name.clone(), agent)])
}

/// An engine with the real executors over the testkit's tools.
pub fn engine(world: &World, life: &Arc<Life>, repository: Arc<dyn Repository>) -> Engine {
    engine_with(world, life, repository, RunnerChoice::default(), |executors, _| executors)
}

/// An engine whose agents have runners.
pub fn engine_with(
    world: &World,
    life: &Arc<Life>,
    repository: Arc<dyn Repository>,
    runners: RunnerChoice,
    change: impl FnOnce(Executors, &Arc<dyn Store>) -> Executors,
) -> Engine {
    let process = world.process(life);
    let programs = MortalConnect { tools: Connectors::new(), life: Arc::clone(life) };
    let outputs = Arc::new(KeptOutputs::new(world.root().join("outputs"), Arc::default()));
    programs.tools.keep_outputs(Arc::clone(&outputs) as Arc<_>);
    let executors = Executors::new(
        Arc::clone(&process.gateways),
        Arc::clone(&repository),
        Arc::new(programs) as Arc<dyn Connect>,
        Arc::clone(&process.clock),
        world.stop(),
        agents(),
        runners,
    );
    let executors = change(executors.with_outputs(outputs), &process.store);
    world.engine_of(&process, Arc::new(executors), repository)
}

/// One that lives on, in a world without a real repository.
pub fn calm(world: &World) -> Engine {
    engine(world, &Life::until(None), Arc::clone(&world.repository) as Arc<_>)
}

pub fn sh(script: &str) -> Doer {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Doer::Command { argv, repeatable: false, timeout_ms: 10_000 }
}

pub fn named(id: &str, needs: &[&str], name: &str, with: Value) -> Phase {
    let with = with.as_object().cloned().unwrap_or_default().into_iter().collect();
    phase(id, needs, Doer::Builtin { name: name.to_owned(), with })
}

/// Starts a plan with answers for its agents.
pub fn with_answers(plan: Plan, answers: Value) -> NewRun {
    NewRun { options: json!({ "answers": answers }), ..new_run(plan) }
}

/// Starts a plan with a task.
pub fn with_task(plan: Plan, task: Value) -> NewRun {
    NewRun { task, ..new_run(plan) }
}

/// Why a run was blocked, for a person.
pub fn detail(run: &Run) -> &str {
    assert_eq!(run.ended.as_ref().unwrap().outcome.as_str(), "BLOCKED", "{:?}", run.ended);
    &run.ended.as_ref().unwrap().detail
}

pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
