//! A project with the shipped loop, policy and tables, and engines over it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_connect::{Confinement as Sandbox, Connect, Connectors};
use windlass_driver::DriverConfig;
use windlass_driver::executor::{
    DRIVER_BUILTINS, Driver, DriverSettings, InMemoryConfinement, TaskConfinement,
};
use windlass_engine::executors::{ANSWERS_OPTION, Agent, Executors, RunnerChoice};
use windlass_engine::{
    Engine, EngineError, GatewayProvider, GitRepository, NewRun, Parts, Repository, Settings,
    StopSwitch,
};
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Event, NoteKind, Run, VoteDecision};
use windlass_kernel::{Digest, HolderId, RiskLevel, TraceId};
use windlass_loops::{AgentFile, KnownNames, LoopFile};
use windlass_policy::{Judgement, PolicySet, Question};
use windlass_runtime::{Clock, FileWorkspace, Gateway, PolicySupervisor, Settings as Speed};
use windlass_store::{MemoryStore, Shared, Store};
use windlass_testkit::engine::{NoPackets, Votes as _};
use windlass_testkit::gateway::{Meddled, TestClock};
use windlass_testkit::recorded_events;

use crate::executor::faults::{Fault, Faults, Shared as SharedFaults};

const LOOP: &[u8] = include_bytes!("../../../../../loops/driver.md");
const EXECUTOR: &[u8] = include_bytes!("../../../../../loops/agents/executor.md");

struct Tools {
    set: PolicySet,
    gateway: Arc<Gateway>,
}

impl GatewayProvider for Tools {
    fn gateway(&self, _: &Path) -> Result<Arc<Gateway>, EngineError> {
        Ok(Arc::clone(&self.gateway))
    }
    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel> {
        self.set.registry().find(server, tool).map(|(_, tool)| tool.class)
    }
    fn confinement(&self, _: &Path, _: windlass_kernel::TraceId) -> Option<Sandbox> {
        None
    }
    fn judgement(&self, workspace: &Path, question: &Question) -> Option<Judgement> {
        Some(self.set.judge(question, &FileWorkspace::new(workspace).unwrap()))
    }
    fn definitions(&self, _: &std::path::Path) -> Vec<windlass_engine::ToolDefinition> {
        Vec::new()
    }

    fn sizes(&self) -> (usize, usize) {
        (self.set.rules().len(), 2)
    }
}

/// What survives a process.
pub struct World {
    pub folder: TempDir,
    pub shared: Shared,
    pub clock: Arc<TestClock>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub available: Option<BTreeSet<String>>,
    pub confinement: Mutex<Option<Arc<dyn TaskConfinement>>>,
    pub plan: Plan,
    locks: PathBuf,
}

/// One process.
pub struct Process {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub faults: Arc<Faults>,
}

pub fn config_files() -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../loops/driver");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = format!("driver/{}", entry.file_name().to_str().unwrap());
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn policy() -> PolicySet {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let files = BTreeMap::from([
        ("tools.toml".to_owned(), read("tools.toml")),
        ("policy/default.toml".to_owned(), read("default.toml")),
    ]);
    PolicySet::load(&files).unwrap()
}

impl World {
    /// An empty project: no context file, no task yet.
    pub fn empty() -> Self {
        let builtins: BTreeSet<String> =
            DRIVER_BUILTINS.iter().map(|name| (*name).to_owned()).collect();
        let agents = BTreeSet::from(["executor".to_owned()]);
        let known = KnownNames { agents: &agents, builtins: &builtins };
        let mut plan = LoopFile::parse("driver.md", LOOP, &known).unwrap().plan;
        // Checkpoints have tests of their own, in folders that can be kept.
        plan.checkpoints = false;
        let folder = tempfile::tempdir().unwrap();
        let locks = folder.path().join(".windlass/locks");
        Self {
            folder,
            shared: Shared::default(),
            clock: Arc::default(),
            files: config_files(),
            available: None,
            confinement: Mutex::default(),
            plan,
            locks,
        }
    }

    /// A project with a context file in which a task has ended before.
    pub fn settled() -> Self {
        let world = Self::empty();
        world.write("ai.project.json", r#"{"project":"demo"}"#);
        world.write("src/a.rs", "fn first() {}\n");
        let run = world.run("summarize the readme", one(answer("summarize"), &[]));
        assert_eq!(outcome(&run), "PASS pass");
        world
    }

    /// Answers a task that waits for a person, and lets it go on.
    pub fn answer(&self, run: &Run, decision: VoteDecision, text: &str) -> Run {
        let process = self.process(Fault::None);
        let trace_id = run.head.trace_id;
        process.engine.vote(trace_id, decision, "ada", text, None, &[]).unwrap();
        process.engine.resume(trace_id).unwrap()
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(path)).ok()
    }

    pub fn stop(&self) -> StopSwitch {
        StopSwitch::new(self.root().join(".windlass/stop"))
    }

    pub fn process(&self, fault: Fault) -> Process {
        self.process_locked(fault, &self.locks.clone())
    }

    /// A process that has its locks elsewhere, so that it does not see others'.
    pub fn process_locked(&self, fault: Fault, locks: &Path) -> Process {
        let me = HolderId(self.clock.new_id());
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::open(&self.shared, me));
        let faults = Arc::new(Faults::new(fault));
        let store: Arc<dyn Store> =
            Arc::new(Meddled::new(memory, SharedFaults(Arc::clone(&faults))));
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let connect: Arc<dyn Connect> = Arc::new(Connectors::new());
        let root = self.root().canonicalize().unwrap();
        let set = policy();
        let files = FileWorkspace::new(&root).unwrap();
        let path = std::env::var("PATH").unwrap();
        let supervisor =
            PolicySupervisor::new(set.clone(), files, [("PATH".to_owned(), path)]).unconfined();
        let gateway = Arc::new(Gateway::new(
            Arc::clone(&store),
            Arc::new(supervisor),
            Arc::clone(&connect),
            Arc::clone(&clock),
            Speed::default(),
            ".",
        ));
        let config = DriverConfig::load(&self.files).unwrap();
        let all = config.models().values().map(|model| model.primary.clone()).collect();
        let settings = DriverSettings {
            available: self.available.clone().unwrap_or(all),
            config,
            project_id: "demo".to_owned(),
            session_id: "session-1".to_owned(),
            memory: root.join(".windlass/memory"),
            edits: root.join(".windlass/edits"),
            // All worlds have the same names of runs.
            processes: None,
            store: Arc::clone(&store),
        };
        let confinement = self.confinement.lock().unwrap().clone();
        let confinement = confinement.unwrap_or_else(|| Arc::new(InMemoryConfinement::default()));
        let driver = Arc::new(Driver::with_confinement(settings, confinement));
        let file = AgentFile::parse("executor.md", EXECUTOR).unwrap();
        let agent = Agent {
            name: file.name.clone(),
            description: file.description,
            model: file.model,
            tools: file.tools,
            prompt: file.prompt,
            subagents: file.subagents,
            digest: file.digest,
        };
        let gateways: Arc<dyn GatewayProvider> = Arc::new(Tools { set, gateway });
        let repository: Arc<dyn Repository> = Arc::new(GitRepository::new(root.clone()));
        let executor = Executors::new(
            Arc::clone(&gateways),
            Arc::clone(&repository),
            connect,
            Arc::clone(&clock),
            self.stop(),
            BTreeMap::from([(file.name, agent)]),
            RunnerChoice::default(),
        )
        .with(Driver::builtins(&driver))
        .with_guard(Arc::clone(&driver) as _);
        let parts = Parts {
            store: Arc::clone(&store),
            clock,
            executor: Arc::new(executor),
            observers: Vec::new(),
            packets: Arc::new(NoPackets),
            repository,
            gateways,
            people: Arc::new(windlass_testkit::people::Everybody),
            stop: self.stop(),
        };
        let settings = Settings {
            root,
            policy_hash: Digest::of(b"policy"),
            by: "ada".to_owned(),
            locks: locks.to_owned(),
            state: self.folder.path().join(".windlass"),
        };
        Process { engine: Engine::new(parts, settings).with_expander(driver), store, faults }
    }

    /// Runs a task in a process of its own.
    pub fn run(&self, task: &str, answers: Value) -> Run {
        self.try_run(task, answers).unwrap()
    }

    pub fn try_run(&self, task: &str, answers: Value) -> Result<Run, EngineError> {
        self.process(Fault::None).start(self, json!({ "task": task }), answers)
    }

    /// The events of a run, in order.
    pub fn events(&self, trace_id: TraceId) -> Vec<Event> {
        recorded_events(&self.shared, trace_id, 0)
    }

    pub fn notes(&self, trace_id: TraceId, what: NoteKind) -> Vec<Value> {
        let events = self.events(trace_id).into_iter();
        events
            .filter_map(|event| match event {
                Event::Noted { what: kind, body } if kind == what => Some(body),
                _ => None,
            })
            .collect()
    }

    /// The newest run.
    pub fn last(&self) -> Run {
        let process = self.process(Fault::None);
        let filter = windlass_journal::RunFilter { open_only: false, state: None, limit: 1 };
        let found = process.engine.list(&filter).unwrap();
        process.engine.read(found[0].trace.head.trace_id).unwrap()
    }
}

impl Process {
    pub fn start(&self, world: &World, task: Value, answers: Value) -> Result<Run, EngineError> {
        let mut options = json!({});
        options[ANSWERS_OPTION] = answers;
        self.engine
            .start(NewRun { options, ..NewRun::new(world.plan.clone(), Digest::of(LOOP), task) })
    }
}

/// An answer of the executor in which everything is as it should be.
pub fn answer(intent: &str) -> Value {
    json!({
        "verdict": "PASS",
        "intent": intent,
        "summary": "it is done",
        "questions": [],
        "claims": { "paths": [], "symbols": [], "citations": [] },
        "memory": {},
    })
}

/// An answer with one field set otherwise; `null` takes it out.
pub fn but(intent: &str, pointer: &str, value: Value) -> Value {
    let mut answer = answer(intent);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = answer.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value);
    }
    answer
}

/// Answers with one try of p5, which runs these shell lines first.
pub fn one(answer: Value, lines: &[&str]) -> Value {
    let call = |line: &&str| json!({ "tool": "shell/run", "args": { "line": line } });
    let calls: Vec<Value> = lines.iter().map(call).collect();
    let usage = json!({ "input_tokens": 100, "output_tokens": 20 });
    json!({ "phases": { "p5": [{ "calls": calls, "answer": answer, "usage": usage }] } })
}

/// How a run ended: its outcome and the reason's word.
pub fn outcome(run: &Run) -> String {
    let ended = run.ended.as_ref().expect("the run has ended");
    format!("{} {}", ended.outcome.as_str(), ended.reason)
}

pub fn detail(run: &Run) -> &str {
    &run.ended.as_ref().expect("the run has ended").detail
}

/// What a task of each intent could be asked for.
pub const REQUESTS: [(&str, &str); 12] = [
    ("generate_context", "please initialize project"),
    ("refactor", "refactor the parser"),
    ("architecture", "design architecture of the store"),
    ("domain", "define domain model of orders"),
    ("code_generation", "implement the cache"),
    ("code_review", "review this code"),
    ("debugging", "why is this failing"),
    ("planning", "a roadmap for spring"),
    ("research", "compare the two"),
    ("summarize", "summarize the notes"),
    ("classify", "classify the tickets"),
    ("chat", "greetings"),
];

/// The phases that were done, in order.
pub fn phases(events: &[Event]) -> Vec<String> {
    let started = |event: &Event| match event {
        Event::PhaseStarted { phase, attempt } => Some(format!("{phase}/{attempt}")),
        _ => None,
    };
    events.iter().filter_map(started).collect()
}
